"""Branch and bound over edges that are dropped and added: which change, and which stay."""
