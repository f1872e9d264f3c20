"""certgcl: certified node compactness for graph contrastive learning."""

from certgcl import bounds, errors, presets
from certgcl._version import __version__
from certgcl.accuracy import CertifiedAccuracy, certified_accuracy, certified_accuracy_curve
from certgcl.attacks.any_model import FoundDrops, search_drops
from certgcl.budget import EdgeDropBudget
from certgcl.certificate import Certificate
from certgcl.compactness import linear_bounds, node_compactness
from certgcl.datasets import load_dataset
from certgcl.directions import compactness_directions
from certgcl.encoder import GCNEncoder
from certgcl.evaluation import Evaluation, compare, evaluate
from certgcl.evidence import Evidence
from certgcl.graph import Graph
from certgcl.methods import COSTA, GCA, GRACE, ContrastiveMethod, ProGCL
from certgcl.models import GraphNetwork
from certgcl.models.registry import register_activation
from certgcl.reading import read_network
from certgcl.regularizer import CompactnessRegularizer
from certgcl.schedules import Ramp
from certgcl.sharding import certify_shards, merge_shards
from certgcl.storage import load_graph, save_graph, seal_graph
from certgcl.verify import Verification

__all__ = [
    "COSTA",
    "GCA",
    "GRACE",
    "Certificate",
    "CertifiedAccuracy",
    "CompactnessRegularizer",
    "ContrastiveMethod",
    "EdgeDropBudget",
    "Evaluation",
    "Evidence",
    "FoundDrops",
    "GCNEncoder",
    "Graph",
    "GraphNetwork",
    "ProGCL",
    "Ramp",
    "Verification",
    "__version__",
    "bounds",
    "certified_accuracy",
    "certified_accuracy_curve",
    "certify_shards",
    "compactness_directions",
    "compare",
    "errors",
    "evaluate",
    "linear_bounds",
    "load_dataset",
    "load_graph",
    "merge_shards",
    "node_compactness",
    "presets",
    "read_network",
    "register_activation",
    "save_graph",
    "seal_graph",
    "search_drops",
]
