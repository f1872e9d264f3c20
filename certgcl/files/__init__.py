"""Files that are whole or not there, checked before anything in them is believed."""
