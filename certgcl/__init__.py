"""certgcl: certified node compactness for graph contrastive learning."""

from certgcl import bounds, errors
from certgcl._version import __version__
from certgcl.budget import EdgeDropBudget
from certgcl.certificate import Certificate
from certgcl.compactness import compactness_directions, linear_bounds, node_compactness
from certgcl.encoder import GCNEncoder, GCNWeights
from certgcl.graph import Graph

__all__ = [
    "Certificate",
    "EdgeDropBudget",
    "GCNEncoder",
    "GCNWeights",
    "Graph",
    "__version__",
    "bounds",
    "compactness_directions",
    "errors",
    "linear_bounds",
    "node_compactness",
]
