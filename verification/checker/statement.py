"""The subject of a proof: a network and a graph, read from plain files or built from arrays."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from .activations import Activation, activation
from .arithmetic import Array, Boxes, Ints, Scale, arrays_of, down, numbers, product, up, whole


@dataclass(frozen=True)
class Mixing:
    """``own(n_i) v_i + out(n_i) Σ_{kept j} in(n_j) v_j``: three numbers of a node with n neighbours left, never
    negative; zero where they would divide by zero."""

    name: str
    loop: float = 1.0

    @classmethod
    def of(cls, term: dict[str, Any]) -> "Mixing":
        """From the file of a network."""
        found = cls(term["aggregation"], float(term.get("loop", 1.0)))
        if not set(term) <= {"source", "aggregation", "loop"} or not 0 <= found.loop < np.inf:
            raise ValueError(f"a term that is {term}, of which no formula is known")
        return found

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

    @classmethod
    def load(cls, path: Path) -> "Network":
        """A file of the format certgcl-network-1."""
        arrays = arrays_of(path)
        meta = json.loads(str(arrays.pop("meta")))
        if meta["format"] != "certgcl-network-1":
            raise ValueError(f"a network in the format {meta['format']!r}")
        return cls.of(meta, arrays)

    @classmethod
    def of(cls, meta: dict[str, Any], arrays: dict[str, Any]) -> "Network":
        layers: list[Layer] = []
        for number, content in enumerate(meta["structure"], 1):
            here = {
                name.removeprefix(f"layer{number}."): numbers(array)
                for name, array in arrays.items()
                if name.startswith(f"layer{number}.")
            }
            terms = tuple(
                Term(int(whole(term["source"])), here[f"term{place}"], Mixing.of(term))
                for place, term in enumerate(content["terms"])
            )
            if not terms or not all(0 <= term.source < number for term in terms):
                raise ValueError(f"layer {number} takes nothing, or a layer that is not below it")
            layers.append(Layer(terms, here["bias"], activation(content["activation"], here)))
            width = len(here["bias"])
            if here["bias"].ndim != 1 or not all(
                term.weight.shape in ((width,), (len(term.weight), width))
                and (term.source == 0 or len(term.weight) == len(layers[term.source - 1].bias))
                for term in terms
            ):
                raise ValueError(f"layer {number} with weights that do not fit each other")
        readout = tuple(whole(meta["readout"]).tolist())
        if len(set(readout)) < len(readout) or not all(0 < number <= len(layers) for number in readout):
            raise ValueError("a readout with a layer twice, or with one that does not exist")
        return cls(tuple(layers), readout)


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes 0 … N-1 with sorted neighbours; no loops, every edge in both directions."""

    x: Array
    neighbours: tuple[Ints, ...]

    @classmethod
    def of(cls, x: Array, edge_index: Ints) -> "Graph":
        listed, x = list(map(tuple, whole(edge_index).T.tolist())), numbers(x)
        edges = set(listed)
        if len(edges) < len(listed) or any(a == b or (b, a) not in edges or not 0 <= a < len(x) for a, b in edges):
            raise ValueError("a graph with loops, with edges twice or of one direction, or of nodes that do not exist")
        rows: list[list[int]] = [[] for _ in range(len(x))]
        for a, b in sorted(edges):
            rows[a].append(b)
        return cls(x, tuple(np.array(row, dtype=np.int64) for row in rows))

    @classmethod
    def load(cls, path: Path) -> "Graph":
        """A folder with x.npy and edge_index.npy, or one .npz file with these."""
        if path.is_dir():
            return cls.of(*(np.load(path / f"{name}.npy", allow_pickle=False) for name in ("x", "edge_index")))
        arrays = arrays_of(path)
        return cls.of(arrays["x"], arrays["edge_index"])

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
