"""certgcl: certified node compactness for graph contrastive learning."""

from certgcl import bounds, errors, types
from certgcl._version import __version__
from certgcl.attacks.any_model import FoundDrops, search_drops
from certgcl.attacks.edge_changes import FoundChanges, search_changes
from certgcl.certify.accuracy import CertifiedAccuracy, certified_accuracy, certified_accuracy_curve
from certgcl.certify.certificate import Certificate
from certgcl.certify.collective import CollectiveCertificate, collective_certificate
from certgcl.certify.compactness import linear_bounds, node_compactness
from certgcl.certify.directions import compactness_directions
from certgcl.certify.evidence import Evidence
from certgcl.certify.interchange import ExportedProblem, export_problem
from certgcl.certify.pooling import GraphCertificate, graph_bounds, graph_compactness
from certgcl.certify.prepared_graph import PreparedGraph
from certgcl.certify.sharding import certify_shards, merge_shards
from certgcl.certify.transform import AttachCompactness
from certgcl.certify.verify import Verification
from certgcl.changes.changes import Changes
from certgcl.changes.edge_additions import EdgeAddBudget, EdgeFlipBudget
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.changes.feature_changes import FeatureBudget
from certgcl.executors import LocalProcesses, RayCluster
from certgcl.graphs.datasets import load_dataset
from certgcl.graphs.graph import Graph
from certgcl.graphs.storage import load_graph, save_graph, seal_graph
from certgcl.graphs.stored import StoredGraph
from certgcl.learning import presets
from certgcl.learning.evaluation import Evaluation, compare, evaluate
from certgcl.learning.methods import COSTA, GCA, GRACE, ContrastiveMethod, GraphCL, ProGCL
from certgcl.learning.regularizer import CompactnessRegularizer
from certgcl.learning.schedules import Ramp
from certgcl.models import GraphNetwork
from certgcl.models.gcn_encoder import GCNEncoder
from certgcl.models.reading import read_network
from certgcl.models.registry import register_activation

__all__ = [
    "COSTA",
    "GCA",
    "GRACE",
    "AttachCompactness",
    "Certificate",
    "CertifiedAccuracy",
    "Changes",
    "CollectiveCertificate",
    "CompactnessRegularizer",
    "ContrastiveMethod",
    "EdgeAddBudget",
    "EdgeDropBudget",
    "EdgeFlipBudget",
    "Evaluation",
    "Evidence",
    "ExportedProblem",
    "FeatureBudget",
    "FoundChanges",
    "FoundDrops",
    "GCNEncoder",
    "Graph",
    "GraphCL",
    "GraphCertificate",
    "GraphNetwork",
    "LocalProcesses",
    "PreparedGraph",
    "ProGCL",
    "Ramp",
    "RayCluster",
    "StoredGraph",
    "Verification",
    "__version__",
    "bounds",
    "certified_accuracy",
    "certified_accuracy_curve",
    "certify_shards",
    "collective_certificate",
    "compactness_directions",
    "compare",
    "errors",
    "evaluate",
    "export_problem",
    "graph_bounds",
    "graph_compactness",
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
    "search_changes",
    "search_drops",
    "types",
]
