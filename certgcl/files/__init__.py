"""Files that are written completely or not at all, and checked before anything in them is trusted."""
