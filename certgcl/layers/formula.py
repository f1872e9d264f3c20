"""What a model computes, as a small graph of expressions: what the interpreter builds and networks are made of."""

from dataclasses import dataclass, field

from torch import Tensor

from certgcl.models.activations import Activation
from certgcl.models.aggregations import Aggregation, Local

Weight = float | Tensor
"""What values are multiplied by: a number, a tensor of one number, a vector for each channel's own, or a matrix
``(inputs, outputs)``."""


@dataclass(frozen=True)
class Place:
    """Where in the source something is: file, line and the expression itself."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} `{self.text}`"


@dataclass(frozen=True, eq=False)
class Node:
    """A tensor that the model computes."""


@dataclass(frozen=True, eq=False)
class Edges(Node):
    """``edge_index`` as it is given, or with self-loops that were added to it."""

    looped: bool = False


@dataclass(frozen=True, eq=False)
class Operation(Node):
    """Anything that is not known, by its name: ``@``, ``[]``, …"""

    name: str
    inputs: tuple[Node, ...]
    place: Place


@dataclass(frozen=True, eq=False)
class Values(Node):
    """A row of ``width`` channels for each node of the graph."""

    width: int


@dataclass(frozen=True, eq=False)
class Features(Values):
    """``x`` as it is given."""


@dataclass(frozen=True, eq=False)
class Part:
    """``W'`` times values, mixed over the neighbours: one summand."""

    source: Values
    weight: Weight = 1.0
    aggregation: Aggregation = field(default_factory=Local)


@dataclass(frozen=True, eq=False)
class Combination(Values):
    """``Σ_parts mixed(W' h) + b``: a convolution, a linear layer, a batch norm, a residual connection."""

    name: str
    parts: tuple[Part, ...]
    bias: Tensor | None
    place: Place


@dataclass(frozen=True, eq=False)
class Activated(Values):
    """``σ(h)``."""

    source: Values
    activation: Activation
    place: Place


@dataclass(frozen=True, eq=False)
class Concatenation(Values):
    """Channels side by side."""

    sources: tuple[Values, ...]
    place: Place


def words(node: Node) -> str:
    """A tensor as its user knows it."""
    match node:
        case Features():
            return "x"
        case Edges():
            return "edge_index with self-loops" if node.looped else "edge_index"
        case Combination() if node.name:
            return f"the output of {node.name}"
        case Activated():
            return f"the activation of {words(node.source)}"
        case Combination() | Concatenation() | Operation():
            return f"`{node.place.text}`"
    return "a tensor"
