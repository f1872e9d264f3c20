"""What a model computes, as a small graph of expressions: what the interpreter builds and the matcher takes apart."""

from dataclasses import dataclass

from torch import Tensor

from certgcl.layers.activations import Slope


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
class Input(Node):
    """An argument of the model: ``x`` or ``edge_index``."""

    name: str


@dataclass(frozen=True, eq=False)
class SelfLoops(Node):
    """Edges with self-loops among them, which a ``GCNConv`` replaces by its own."""

    edges: Node


@dataclass(frozen=True, eq=False)
class Convolution(Node):
    """``Â X W + b`` by a ``GCNConv``."""

    name: str
    x: Node
    edges: Node
    weight: Tensor
    bias: Tensor
    place: Place


@dataclass(frozen=True, eq=False)
class Activation(Node):
    """``p`` for ``p >= 0`` and ``γ p`` below."""

    x: Node
    slope: Slope
    place: Place


@dataclass(frozen=True, eq=False)
class Operation(Node):
    """Anything else, by its name: ``+``, ``@``, ``[]``, …"""

    name: str
    inputs: tuple[Node, ...]
    place: Place


def words(node: Node) -> str:
    """A tensor as its user knows it."""
    match node:
        case Input():
            return node.name
        case SelfLoops():
            return f"{words(node.edges)} with self-loops"
        case Convolution():
            return f"the output of {node.name}"
        case Activation():
            return f"the activation of {words(node.x)}"
        case Operation():
            return f"`{node.place.text}`"
    return "a tensor"
