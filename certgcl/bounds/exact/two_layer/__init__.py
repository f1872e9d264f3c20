"""Branch and bound for two-layer GCNs: counts, cells and edges around one anchor."""
