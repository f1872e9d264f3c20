"""The messages of errors for models that cannot be read."""

from certgcl.errors import EncoderError
from certgcl.models.layers.formula import Operation, Position, Softmax, tensor_name

CONVOLUTIONS = "GCNConv, SAGEConv, GraphConv, GINConv, SGConv and APPNP"
PARTS = (
    f"a model is made of {CONVOLUTIONS}, linear layers, BatchNorm in eval mode, elementwise activations, sums, "
    "scaling by numbers and concatenation of channels"
)
BUILD = "Write the model with those parts, or build a certgcl.models.GraphNetwork of its weights"
PROBED = (
    'For two GCNConv with what measures as a two-piece linear activation, reading="probed" measures instead, '
    "which is not a proof; the certificate then says so"
)
CALLED = "the model must run as model(x, edge_index) on any graph with its number of features"
WRAP = f"Wrap it in a module with that forward. {BUILD}"
READABLE = "forward must be readable line by line, and do nothing that depends on the edges but call its layers"
SCORES = "softmax mixes all channels of a node"
LOGITS = (
    "Certify the model without it: the order of the classes stays the same. Only certified_accuracy takes it, as the "
    "last step"
)
ATTENTION = "its weights depend on the features, not only on numbers of neighbours"
NORMS = "BatchNorm in eval mode is the only normalization that is a linear map, the same for every node and view"


POOLED = (
    "whole graphs are certified of a model(x, edge_index, batch) that pools once, by global_mean_pool, "
    "global_add_pool or global_max_pool with that batch, and has nothing but linear layers after that"
)
POOL = "Write it so, or certify the encoder of the nodes with graph_bounds(..., pool=...)"


def refusal(found: str, place: Position, rule: str = READABLE, remedy: str = f"{BUILD}. {PROBED}") -> EncoderError:
    """An error about something at a place of the source."""
    return EncoderError(f"{found} at {place}", rule, remedy)


def operation_refused(node: Operation) -> EncoderError:
    """The error for an unknown operation whose value is needed."""
    names = [tensor_name(part) for part in node.inputs]
    return refusal(f"{node.name} on {' and '.join(names) if names else 'a tensor'}", node.place, PARTS)


def softmax_refused(node: Softmax) -> EncoderError:
    """The error for a softmax where more than the order of the classes is needed."""
    return refusal(f"{node.name} on {tensor_name(node.source)}", node.place, SCORES, LOGITS)
