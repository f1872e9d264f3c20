"""certgcl: certified node compactness for graph contrastive learning."""

from certgcl import bounds, errors
from certgcl._version import __version__
from certgcl.budget import EdgeDropBudget
from certgcl.certificate import Certificate
from certgcl.compactness import linear_bounds, node_compactness
from certgcl.directions import compactness_directions
from certgcl.encoder import GCNEncoder, GCNWeights
from certgcl.graph import Graph
from certgcl.reading import read_encoder
from certgcl.sharding import certify_shards, merge_shards
from certgcl.storage import load_graph, save_graph

__all__ = [
    "Certificate",
    "EdgeDropBudget",
    "GCNEncoder",
    "GCNWeights",
    "Graph",
    "__version__",
    "bounds",
    "certify_shards",
    "compactness_directions",
    "errors",
    "linear_bounds",
    "load_graph",
    "merge_shards",
    "node_compactness",
    "read_encoder",
    "save_graph",
]
