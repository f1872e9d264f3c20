"""The truth in ball arithmetic: every admissible graph evaluated by Arb, with a rigorous error bound of each number.

A ball holds the exact value, so a comparison that comes out true is a theorem: no tolerance is needed, or used. Floats
are converted exactly. No code of certgcl, torch or PyG is used here.
"""

from collections.abc import Callable

import networkx as nx
import numpy as np
from flint import arb, arb_mat, ctx
from torch import Tensor

from verification.case import Case
from verification.network_case import Array, NetworkCase, PlainLayer, PlainTerm
from verification.oracle import admissible_drops

BITS = 300
SMALLEST_NORM = arb(1e-12)  # the float by which normalize divides shorter rows


def exactly(values: Tensor) -> arb_mat:
    """A matrix of floats as exact balls; half precision is contained in float64."""
    rows = values.double().tolist()
    return arb_mat([[arb(value) for value in row] for row in rows])


def gcn_matrix(graph: nx.Graph) -> arb_mat:
    scale = [1 / arb(graph.degree[node] + 1).sqrt() for node in range(len(graph))]
    return arb_mat(
        [
            [scale[i] * scale[j] if i == j or graph.has_edge(i, j) else arb(0) for j in range(len(graph))]
            for i in range(len(graph))
        ]
    )


def _layer(matrix: arb_mat, values: arb_mat, bias: Tensor, slope: Tensor) -> arb_mat:
    passed, biases, slopes = matrix * values, bias.double().tolist(), slope.double().tolist()
    return arb_mat(
        [
            [_two_piece(passed[i, c] + arb(biases[c]), arb(slopes[c])) for c in range(passed.ncols())]
            for i in range(passed.nrows())
        ]
    )


def _two_piece(p: arb, slope: arb) -> arb:
    return p.max(arb(0)) + slope * p.min(arb(0))


class ExactCase:
    """The embeddings of a case on its clean graph and on every admissible one, as balls."""

    def __init__(self, case: Case) -> None:
        ctx.prec = BITS
        self.case = case
        self._projected, self._w2 = exactly(case.x) * exactly(case.w1), exactly(case.w2)
        self.views = [self.embed(drops) for drops in admissible_drops(case)]  # the clean one first

    def embed(self, drops: tuple[tuple[int, int], ...]) -> arb_mat:
        graph, case = self.case.graph.copy(), self.case
        graph.remove_edges_from(drops)
        matrix = gcn_matrix(graph)
        hidden = _layer(matrix, self._projected, case.b1, case.slope1)
        return _layer(matrix, hidden * self._w2, case.b2, case.slope2)

    def minimum(self, node: int, direction: list[arb]) -> arb:
        """``min_S w · z_i(S)``."""
        return _least([dot(direction, row(view, node)) for view in self.views])

    def minimum_over_pairs(self, node: int) -> arb:
        """``min W^CL_i(S2) · z_i(S1)`` over all pairs."""
        return _least([self.minimum(node, compactness_direction(view, node)) for view in self.views])


# -- networks --------------------------------------------------------------------------------------

Edge = tuple[int, int]


def _softplus(p: arb, beta: arb) -> arb:
    bent = (beta * p).exp().log1p() / beta
    return p if beta * p > 20 else bent if beta * p <= 20 else p.union(bent)


ACTIVATIONS: dict[str, Callable[[arb, arb], arb]] = {
    "two-piece linear": _two_piece,
    "elu": lambda p, alpha: p.max(arb(0)) + alpha * p.min(arb(0)).expm1(),
    "tanh": lambda p, _: p.tanh(),
    "sigmoid": lambda p, _: 1 / (1 + (-p).exp()),
    "gelu": lambda p, _: p * (1 + (p / arb(2).sqrt()).erf()) / 2,
    "silu": lambda p, _: p / (1 + (-p).exp()),
    "softplus": _softplus,
}


def exact_matrix(values: Array) -> arb_mat:
    """NumPy numbers, converted exactly."""
    return arb_mat([[arb(value) for value in row] for row in values.tolist()])


def _mixing(term: PlainTerm, graph: nx.Graph) -> arb_mat:
    """The matrix M of ``M h W``; division by zero gives zero."""
    count, degree = len(graph), [arb(graph.degree[node]) for node in range(len(graph))]
    loop = {"local": 1.0, "symmetric": term.loop}.get(term.mixing, 0.0)
    entries = [
        [arb(loop) if i == j else arb(int(graph.has_edge(i, j) and term.mixing != "local")) for j in range(count)]
        for i in range(count)
    ]
    if term.mixing == "mean":
        return arb_mat([[entry / degree[i] if degree[i] > 0 else arb(0) for entry in entries[i]] for i in range(count)])
    if term.mixing == "symmetric":
        scale = [1 / (each + arb(loop)).sqrt() if each + arb(loop) > 0 else arb(0) for each in degree]
        return arb_mat([[scale[i] * entries[i][j] * scale[j] for j in range(count)] for i in range(count)])
    return arb_mat(entries)


def exact_embeddings(case: NetworkCase, graph: nx.Graph, x: arb_mat) -> list[list[arb]]:
    """A row for each node, on any graph and with any features."""
    outputs = [x]
    for layer in case.layers:
        outputs.append(
            _activated(
                layer,
                [_mixing(term, graph) * (outputs[term.source] * exact_matrix(term.matrix())) for term in layer.terms],
            )
        )
    return [[value for number in case.readout for value in row(outputs[number], node)] for node in range(x.nrows())]


class ExactNetwork:
    """The embeddings of a network on its clean graph and on every admissible one, as balls."""

    def __init__(self, case: NetworkCase) -> None:
        ctx.prec = BITS
        self.case, self.drops = case, list(admissible_drops(case))  # none first
        self.views = [self.embed(drops) for drops in self.drops]

    def embed(self, drops: tuple[Edge, ...]) -> list[list[arb]]:
        """A row for each node."""
        graph = self.case.graph.copy()
        graph.remove_edges_from(drops)
        return exact_embeddings(self.case, graph, exact_matrix(self.case.x))

    def minimum(self, node: int, direction: list[arb]) -> arb:
        return _least([dot(direction, view[node]) for view in self.views])


def _activated(layer: PlainLayer, parts: list[arb_mat]) -> arb_mat:
    p = parts[0]
    for other in parts[1:]:
        p = p + other
    kind = layer.activation
    parameters = np.broadcast_to(np.asarray(1.0 if kind is None else kind.parameter), layer.width).tolist()
    act = (lambda value, _: value) if kind is None else ACTIVATIONS[kind.name]
    return arb_mat(
        [
            [act(p[i, c] + arb(float(layer.bias[c])), arb(parameters[c])) for c in range(p.ncols())]
            for i in range(p.nrows())
        ]
    )


def pooled_exactly(z: list[list[arb]], pool: str) -> list[arb]:
    """The mean, sum or maximum of rows, channel by channel."""
    channels = list(zip(*z, strict=True))
    if pool != "max":
        return [sum(channel, arb(0)) / (len(z) if pool == "mean" else 1) for channel in channels]
    found = []
    for channel in channels:
        largest = channel[0]
        for value in channel[1:]:
            largest = largest.max(value)
        found.append(largest)
    return found


def row(matrix: arb_mat, node: int) -> list[arb]:
    return [matrix[node, c] for c in range(matrix.ncols())]


def compactness_direction(embeddings: arb_mat, node: int) -> list[arb]:
    """``z̄_i - mean_{j≠i} z̄_j``."""
    units = [_unit(row(embeddings, i)) for i in range(embeddings.nrows())]
    others = len(units) - 1
    return [
        units[node][c] - sum((unit[c] for i, unit in enumerate(units) if i != node), arb(0)) / others
        for c in range(embeddings.ncols())
    ]


def _unit(vector: list[arb]) -> list[arb]:
    squares = sum((value * value for value in vector), arb(0))
    norm = squares.max(arb(0)).sqrt().max(SMALLEST_NORM)
    return [value / norm for value in vector]


def dot(first: list[arb], second: list[arb]) -> arb:
    return sum((a * b for a, b in zip(first, second, strict=True)), arb(0))


def _least(values: list[arb]) -> arb:
    least = values[0]
    for value in values[1:]:
        least = least.min(value)
    return least


def surely_below(value: arb, limit: float) -> bool:
    """Whether the exact value is below a float, beyond doubt."""
    return bool(value < arb(limit))


def surely_positive(value: arb) -> bool:
    return bool(value > 0)


def dot_with_floats(direction: list[arb], values: Tensor) -> arb:
    """``w · z`` for an embedding in floats, of any precision."""
    return dot(direction, [arb(value) for value in values.double().tolist()])
