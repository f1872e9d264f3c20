"""Certificates of whole graphs: bounds of pooled embeddings under one shared change for each graph."""

from certgcl.certify.pooling.bounds import graph_bounds, graph_compactness
from certgcl.certify.pooling.certificate import GraphCertificate

__all__ = ["GraphCertificate", "graph_bounds", "graph_compactness"]
