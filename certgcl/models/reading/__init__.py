"""Reading a network from a model."""

from certgcl.models.reading.reader import ModelLike, Reading, network_of, read_network, read_scores, traced_network

__all__ = ["ModelLike", "Reading", "network_of", "read_network", "read_scores", "traced_network"]
