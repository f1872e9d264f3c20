"""One case of the audit of networks: a graph, layers in plain arrays, a budget and a direction for every node."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from verification.case import Droppable

Array = NDArray[np.float64]
Mixing = Literal["local", "symmetric", "mean", "sum"]


@dataclass(frozen=True, eq=False)
class PlainTerm:
    """A matrix (or the diagonal of one) times the output of an earlier layer, 0 for the features; then mixed."""

    source: int
    weight: Array  # (inputs, outputs), or (channels,)
    mixing: Mixing = "local"
    loop: float = 1.0  # the weight of self-loops where the mixing is symmetric

    def matrix(self) -> Array:
        return np.diag(self.weight) if self.weight.ndim == 1 else self.weight


@dataclass(frozen=True, eq=False)
class PlainActivation:
    """By its name, with its parameter: slopes below zero, α of an ELU, β of a softplus."""

    name: str
    parameter: float | Array = 1.0

    def __repr__(self) -> str:
        return f"{self.name}({np.asarray(self.parameter).tolist()})"


@dataclass(frozen=True, eq=False)
class PlainLayer:
    terms: tuple[PlainTerm, ...]
    bias: Array
    activation: PlainActivation | None = None

    @property
    def width(self) -> int:
        return len(self.bias)


@dataclass(frozen=True, eq=False)
class NetworkCase(Droppable):
    """Layers on a graph with nodes 0 … n-1; embeddings are the outputs of the layers of the readout side by side."""

    graph: nx.Graph
    x: Array  # (n, features)
    layers: tuple[PlainLayer, ...]
    readout: tuple[int, ...]
    directions: Array  # (n, width)
    local: int | list[int] | None = None
    total: int | None = None
    kind: str = "network"

    @property
    def width(self) -> int:
        return sum(self.layers[number - 1].width for number in self.readout)

    def with_budget(self, local: int | list[int] | None, total: int | None = None) -> "NetworkCase":
        return replace(self, local=local, total=total)

    def relabelled(self, order: list[int]) -> "NetworkCase":
        """The same case with node ``order[k]`` called k."""
        graph, local = self.relabelled_graph(order)
        return replace(self, graph=graph, x=self.x[order], directions=self.directions[order], local=local)

    def __repr__(self) -> str:
        layers = "; ".join(
            f"{[(t.source, t.mixing, t.loop, t.weight.tolist()) for t in layer.terms]} + "
            f"{layer.bias.tolist()} -> {layer.activation}"
            for layer in self.layers
        )
        return (
            f"NetworkCase({self.kind}, nodes={self.nodes}, edges={self.edges}, local={self.local}, "
            f"total={self.total}, x={self.x.tolist()}, readout={self.readout}, "
            f"directions={self.directions.tolist()}, layers: {layers})"
        )

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # how Hypothesis prints a failing case
        printer.text(repr(self))
