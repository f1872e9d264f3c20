"""A model's computation as a small graph of expressions, built by the interpreter and turned into networks."""

from dataclasses import dataclass, field

from torch import Tensor

from certgcl.models.activations import Activation
from certgcl.models.aggregations import Aggregation, Local
from certgcl.models.pooled_network import Pool

Weight = float | Tensor
"""A factor of values: a number, a tensor of one number, a vector with one entry per channel, or a matrix
``(inputs, outputs)``."""


@dataclass(frozen=True)
class Position:
    """A place in the source: file, line and the expression itself; line 0 is the call of the model."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} `{self.text}`" if self.line else f"`{self.text}`"


@dataclass(frozen=True, eq=False)
class Node:
    """A tensor that the model computes."""


@dataclass(frozen=True, eq=False)
class Edges(Node):
    """``edge_index`` as given, or with added self-loops."""

    looped: bool = False


@dataclass(frozen=True, eq=False)
class BatchVector(Node):
    """``batch`` as given: the graph of each node."""


@dataclass(frozen=True, eq=False)
class Operation(Node):
    """An unknown operation, by its name: ``@``, ``[]``, …"""

    name: str
    inputs: tuple[Node, ...]
    place: Position


@dataclass(frozen=True, eq=False)
class NodeValues(Node):
    """A row of ``width`` channels for each node of the graph."""

    width: int


@dataclass(frozen=True, eq=False)
class InputFeatures(NodeValues):
    """``x`` as given."""


@dataclass(frozen=True, eq=False)
class Summand:
    """``W'`` times values, mixed over the neighbours: one summand."""

    source: NodeValues
    weight: Weight = 1.0
    aggregation: Aggregation = field(default_factory=Local)


@dataclass(frozen=True, eq=False)
class Combination(NodeValues):
    """``Σ_parts mixed(W' h) + b``: a convolution, a linear layer, a batch norm, a residual connection."""

    name: str
    parts: tuple[Summand, ...]
    bias: Tensor | None
    place: Position


@dataclass(frozen=True, eq=False)
class Activated(NodeValues):
    """``σ(h)``."""

    source: NodeValues
    activation: Activation
    place: Position


@dataclass(frozen=True, eq=False)
class Concatenation(NodeValues):
    """Channels side by side."""

    sources: tuple[NodeValues, ...]
    place: Position


@dataclass(frozen=True, eq=False)
class Pooled(NodeValues):
    """The rows of nodes pooled to one row for each graph. Everything after it has rows of graphs, not of nodes."""

    source: NodeValues
    pool: Pool
    place: Position


@dataclass(frozen=True, eq=False)
class Softmax(Node):
    """``softmax(h)`` over the channels of each node, or its logarithm. Not a :class:`NodeValues`, so it comes last."""

    source: NodeValues
    log: bool
    place: Position

    @property
    def name(self) -> str:
        return "log_softmax" if self.log else "softmax"

    def __call__(self, values: Tensor) -> Tensor:
        return values.log_softmax(dim=1) if self.log else values.softmax(dim=1)


def tensor_name(node: Node) -> str:
    """The name of a tensor for the user."""
    match node:
        case InputFeatures():
            return "x"
        case Edges():
            return "edge_index with self-loops" if node.looped else "edge_index"
        case Combination() if node.name:
            return f"the output of {node.name}"
        case Activated():
            return f"the activation of {tensor_name(node.source)}"
        case BatchVector():
            return "batch"
        case Combination() | Concatenation() | Operation() | Pooled() | Softmax():
            return f"`{node.place.text}`"
    return "a tensor"
