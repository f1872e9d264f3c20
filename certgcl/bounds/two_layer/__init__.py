"""The engine made for two GCN layers with two-piece linear activations."""
