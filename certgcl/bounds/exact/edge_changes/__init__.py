"""Branch and bound over edges that are dropped and added: which are changed, and which stay."""
