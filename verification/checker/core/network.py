"""The subject of a proof: a network and a graph."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .activations import Activation
from .arithmetic import Array, Boxes, Ints, Scale, down, product, up


@dataclass(frozen=True)
class Mixing:
    """``own(n_i) v_i + out(n_i) Σ_{kept j} in(n_j) v_j``: three numbers of a node with n neighbours left, never
    negative; zero where they would divide by zero."""

    name: str
    loop: float = 1.0

    def scales(self, n: Array) -> tuple[Scale, Scale, Scale]:
        zero, one = np.zeros_like(n), np.ones_like(n)
        nothing, unit = Scale(zero, zero), Scale(one, one)
        match self.name:
            case "local":
                return unit, nothing, nothing
            case "sum":
                return nothing, unit, unit
            case "mean":
                return nothing, _quotient(one, n, n, n > 0), unit
            case "symmetric" | "diffusion":
                total = n + self.loop
                exact = self.loop < 2**40 and self.loop == round(self.loop)
                low, high = (total, total) if exact else (down(total), up(total))
                root = _quotient(one, down(np.sqrt(low)), up(np.sqrt(high)), total > 0)
                own = _quotient(one * self.loop, low, high, total > 0) if self.loop else nothing
                return own, root, root
        raise ValueError(f"mixing {self.name!r}")


def _quotient(value: Array, low: Array, high: Array, there: Any) -> Scale:
    """``value / n`` for n between two numbers above zero, and zero where there is none."""
    least, most = np.where(there, high, 1.0), np.where(there, np.maximum(low, 0), 1.0)
    return Scale(np.where(there, np.maximum(down(value / least), 0), 0.0), np.where(there, up(value / most), 0.0))


@dataclass(frozen=True, eq=False)
class Term:
    source: int
    weight: Array  # (inputs, outputs), or the diagonal
    mixing: Mixing

    @property
    def mixes(self) -> bool:
        return self.mixing.name != "local"

    def back(self, functional: Array) -> Array:
        """About ``W λ``: ``(M, outputs)`` to ``(M, inputs)``."""
        return functional * self.weight if self.weight.ndim == 1 else functional @ self.weight.T

    def units(self) -> Array:
        """``W`` times the unit vectors and their negatives, exactly: ``(2 outputs, inputs)``."""
        rows = np.diag(self.weight) if self.weight.ndim == 1 else self.weight.T
        return np.concatenate([rows, -rows])


@dataclass(frozen=True, eq=False)
class Layer:
    terms: tuple[Term, ...]
    bias: Array
    activation: Activation


@dataclass(frozen=True, eq=False)
class Network:
    layers: tuple[Layer, ...]
    readout: tuple[int, ...]

    def width(self, number: int) -> int:
        return len(self.layers[number - 1].bias)

    def split(self, directions: Array) -> dict[int, Array]:
        """Functionals of the embedding as functionals of the layers that it has side by side."""
        ends = np.cumsum([0, *map(self.width, self.readout)])
        return {
            number: directions[:, first:last]
            for number, first, last in zip(self.readout, ends[:-1], ends[1:], strict=True)
        }

    def fits(self, graph: "Graph") -> None:
        """Raises ValueError for features of another width."""
        taken = {len(term.weight) for layer in self.layers for term in layer.terms if term.source == 0}
        if graph.x.ndim != 2 or not taken <= {graph.x.shape[1]}:
            raise ValueError(f"features of the shape {graph.x.shape} for a network that takes {sorted(taken)}")

    @cached_property
    def hops(self) -> list[int]:
        """How far from an anchor each layer is needed, features first."""
        hops = [0] * (len(self.layers) + 1)
        for number in range(len(self.layers), 0, -1):
            for term in self.layers[number - 1].terms:
                hops[term.source] = max(hops[term.source], hops[number] + term.mixes)
        return hops


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes 0 … N-1 with sorted neighbours; no loops, every edge in both directions."""

    x: Array
    neighbours: tuple[Ints, ...]

    def without(self, edges: set[tuple[int, int]]) -> "Graph":
        gone = edges | {(b, a) for a, b in edges}
        rows = tuple(
            np.array([k for k in row if (i, int(k)) not in gone], dtype=np.int64)
            if any(i in edge for edge in edges)
            else row
            for i, row in enumerate(self.neighbours)
        )
        return Graph(self.x, rows)

    def plus(self, edge: tuple[int, int]) -> "Graph":
        rows = list(self.neighbours)
        for a, b in (edge, edge[::-1]):
            rows[a] = np.sort(np.append(rows[a], b))
        return Graph(self.x, tuple(rows))


def embed(network: Network, graph: Graph, origin: Ints | None = None, degrees: Ints | None = None) -> dict[int, Boxes]:
    """Boxes around the outputs of all layers on a graph as it is, for all nodes.

    Args:
        origin: the rows of the features that are those of the nodes.
        degrees: of the nodes, where not all of their neighbours are in the graph.
    """
    rows = np.array([len(row) for row in graph.neighbours])
    start, degree = np.concatenate([[0], np.cumsum(rows)]), (rows if degrees is None else degrees).astype(float)
    slots = np.concatenate(graph.neighbours) if len(graph.neighbours) else np.zeros(0, dtype=np.int64)
    features, found = Boxes.between(graph.x, graph.x), dict[int, Boxes]()
    for number, layer in enumerate(network.layers, 1):
        width = len(layer.bias)
        low = high = np.broadcast_to(layer.bias, (len(degree), width))
        for term in layer.terms:
            own, out, into = term.mixing.scales(degree)
            both = product(found[term.source] if term.source else features, term.weight).each()
            both = both[origin] if term.source == 0 and origin is not None else both
            total = own.columns.times(both)
            if term.mixes:
                total = down(total + out.columns.times(_row_sums(into.columns.times(both), start, slots)))
            low, high = down(low + total[:, :width]), up(high - total[:, width:])
        found[number] = Boxes.between(*layer.activation.range(low, high))
    return found


def _row_sums(values: Array, start: Ints, slots: Ints) -> Array:
    """Below the sums over the neighbours of every node, some channels at a time."""
    total, number = np.zeros_like(values), np.diff(start)
    filled = number > 0
    slack = 4.0 * (number[filled, None] + 1) * 2.0**-53  # at least γ_n, twice
    for first in range(0, values.shape[1] if len(slots) else 0, 64):
        here = values[slots, first : first + 64]
        sums, sizes = (np.add.reduceat(part, start[:-1][filled]) for part in (here, np.abs(here)))
        total[filled, first : first + 64] = down(sums - up(slack * sizes))
    return total
