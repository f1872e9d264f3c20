"""Bounds of a two-layer GCN over a box of propagation matrices, computed by auto_LiRPA: a second opinion on certgcl.

Nothing here uses certgcl, so that no mistake of the one can hide in the other. Everything is float64.
"""

import contextlib
import io
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import networkx as nx
import torch
from torch import Tensor, nn

from verification import lirpa_compat

auto_LiRPA = lirpa_compat.load()

Method = Literal["IBP", "CROWN", "CROWN-Optimized"]
Edge = tuple[int, int]
Slope = float | Tensor  # γ of an activation, one or one per channel: 0 is ReLU, 1 the identity

OPTIONS = {
    "conv_mode": "matrix",
    "sparse_intermediate_bounds": False,
    # 0.3 creates sparse slopes of one shape and reads them with another when over 90 % of a layer is unstable.
    "sparse_features_alpha": False,
    "sparse_spec_alpha": False,
}


@dataclass(frozen=True, eq=False)
class Box:
    """Intervals for the entries of Â: one variable per undirected edge, Â being symmetric, then one per self-loop."""

    edges: list[Edge]  # (u, v) with u < v
    lower: Tensor  # shape: (edges + nodes,)
    upper: Tensor  # shape: (edges + nodes,)

    def __post_init__(self) -> None:
        """Refuse a box without a point."""
        if not (self.lower <= self.upper).all():
            raise ValueError(f"lower {self.lower}, upper {self.upper}: a box needs lower <= upper. Check the budgets.")

    @property
    def nodes(self) -> int:
        """Number of nodes: there is one self-loop each."""
        return len(self.lower) - len(self.edges)

    def matrix(self, point: Tensor) -> Tensor:
        """The dense Â at a point of the box."""
        matrix = torch.diag(point[len(self.edges) :])
        for value, (u, v) in zip(point[: len(self.edges)], self.edges, strict=True):
            matrix[u, v] = matrix[v, u] = value
        return matrix


def box(graph: nx.Graph, q: Sequence[int], total: int) -> Box:
    """The entry-wise box around Â when at most ``q[i]`` edges at node i, and ``total`` in all, are dropped.

    The diagonal lies in ``[1 / D_i, 1 / (D_i - q_i)]``. An edge is at most ``s_i s_j`` with as many other edges dropped
    at both ends as can be; it is at least 0 if it can be dropped itself and ``(D_i D_j)^(-1/2)`` if not.

    Args:
        graph: simple, without self-loops, nodes 0..n-1.
        q: budget of each node.
        total: budget of the graph.
    """
    edges = sorted((min(edge), max(edge)) for edge in graph.edges)
    q, droppable = _tighten(edges, q, total)
    big_d = [graph.degree[i] + 1 for i in range(graph.number_of_nodes())]

    def highest_s(k: int, kept: Edge) -> float:
        others = sum(k in edge for edge in droppable if edge != kept)
        return (big_d[k] - min(q[k], others)) ** -0.5

    # The same product as in `upper`, so that an edge that cannot change has one value to the last bit.
    lower = [0.0 if (i, j) in droppable else big_d[i] ** -0.5 * big_d[j] ** -0.5 for i, j in edges]
    upper = [highest_s(i, (i, j)) * highest_s(j, (i, j)) for i, j in edges]
    lower += [1 / d for d in big_d]
    upper += [1 / (d - most) for d, most in zip(big_d, q, strict=True)]
    return Box(edges, torch.tensor(lower, dtype=torch.float64), torch.tensor(upper, dtype=torch.float64))


def _tighten(edges: list[Edge], q: Sequence[int], total: int) -> tuple[list[int], set[Edge]]:
    """The budgets that can be used up, and the edges that can be dropped: those with budget left at both ends."""
    q = [min(budget, total) for budget in q]
    while True:
        droppable = {(i, j) for i, j in edges if q[i] >= 1 and q[j] >= 1}
        usable = [min(budget, sum(i in edge for edge in droppable)) for i, budget in enumerate(q)]
        if usable == q:
            return q, droppable
        q = usable


class LayerBounds(NamedTuple):
    """Interval bounds, layer by layer: ``l1 <= p1 <= u1``, ``l2 <= p2 <= u2`` and ``lower_i <= w_i · z_i``."""

    l1: Tensor  # shape: (nodes, d1)
    u1: Tensor  # shape: (nodes, d1)
    l2: Tensor  # shape: (nodes, d2)
    u2: Tensor  # shape: (nodes, d2)
    lower: Tensor  # shape: (nodes,)


class LirpaGCN:
    """``f_i = w_i · z_i`` with ``z = σ2(Â σ1(Â X W1 + b1) W2 + b2)``, to be bounded over a box of Â.

    Building it takes longer than IBP and CROWN together: build once, bound often.

    CROWN takes any slope γ. IBP takes slopes in [0, 1] only: outside, the two halves of σ have opposite signs and their
    intervals no longer add up to the interval of σ.

    Args:
        box: where Â lies.
        x: node features, shape (nodes, d0).
        weight1: W1, shape (d0, d1).
        bias1: b1, shape (d1,).
        slope1: γ of σ1.
        weight2: W2, shape (d1, d2).
        bias2: b2, shape (d2,).
        slope2: γ of σ2; None for no activation.
        directions: w, shape (nodes, d2).
    """

    def __init__(
        self,
        box: Box,
        x: Tensor,
        weight1: Tensor,
        bias1: Tensor,
        slope1: Slope,
        weight2: Tensor,
        bias2: Tensor,
        slope2: Slope | None,
        directions: Tensor,
    ) -> None:
        if x.shape[0] != box.nodes or directions.shape != (box.nodes, weight2.shape[1]):
            raise ValueError(
                f"features {tuple(x.shape)}, directions {tuple(directions.shape)}: a box of {box.nodes} nodes and W2 "
                f"{tuple(weight2.shape)} need one row per node and directions as wide as W2. Check what goes with what."
            )
        self.box = box
        y = x.double() @ weight1.double()
        tensors = (tensor.detach().double() for tensor in (y, bias1, weight2, bias2, directions))
        slopes = (_per_channel(slope1, weight1.shape[1]), _per_channel(slope2, weight2.shape[1]))
        self._monotone = all(((slope >= 0) & (slope <= 1)).all() for slope in slopes)
        with _float64_and_quiet():
            network = _Network(box, *tensors, *slopes)
            self._bounded = auto_LiRPA.BoundedModule(network, box.lower[None], OPTIONS)
            self._bounded.eval()  # in training mode it would differentiate by the weights as well
            region = auto_LiRPA.PerturbationLpNorm(x_L=box.lower[None], x_U=box.upper[None])
            self._input = auto_LiRPA.BoundedTensor(box.lower[None], region)
        self._linear = {node.inputs[1].ori_name: node for node in _linear_nodes(self._bounded)}

    def __call__(self, point: Tensor) -> Tensor:
        """The value of ``f`` at a point of the box, shape (nodes,), as auto_LiRPA's copy of the network computes it."""
        with _float64_and_quiet(), torch.no_grad():
            return self._bounded(point[None])[0]

    def lower(self, method: Method, iterations: int = 20) -> Tensor:
        """Lower bounds of ``f`` over the box, shape (nodes,).

        Args:
            method: intervals, linear bounds, or linear bounds with optimised slopes, those of the inner bounds too.
            iterations: steps of the optimisation, at least 1. The first five gain most of what there is to gain.
        """
        if method not in get_args(Method):
            raise ValueError(f"method {method!r}: it must be one of {get_args(Method)}. Spell it like that.")
        if method == "IBP":
            return self.layers().lower
        optimise = method == "CROWN-Optimized"
        if optimise:
            self._bounded.set_bound_opts({"optimize_bound_args": _optimiser(iterations)})
        with _float64_and_quiet(), torch.set_grad_enabled(optimise):
            lower, _ = self._bounded.compute_bounds((self._input,), method=method, bound_upper=False)
        return _finite(lower.detach()[0], method)

    def layers(self) -> LayerBounds:
        """Interval bounds of both pre-activations and of ``f``."""
        if not self._monotone:
            raise ValueError("a slope outside [0, 1]: IBP of auto_LiRPA 0.3 is not tight for it. Use CROWN.")
        with _float64_and_quiet(), torch.no_grad():
            lower, _ = self._bounded.compute_bounds((self._input,), method="IBP")
        p1, p2 = self._linear["p1.weight"], self._linear["p2.weight"]
        layers = (p.view(self.box.nodes, -1) for p in (p1.lower, p1.upper, p2.lower, p2.upper))
        return LayerBounds(*layers, _finite(lower[0], "IBP"))


class _Network(nn.Module):
    """``a -> (w_i · z_i)_i`` for the vector a of the variables of a box, in operations that auto_LiRPA 0.3 can bound.

    A term t = (i, j, k) says ``Â_ij = a_k``; an edge gives two terms, a self-loop one.
    """

    def __init__(
        self,
        box: Box,
        y: Tensor,
        bias1: Tensor,
        weight2: Tensor,
        bias2: Tensor,
        directions: Tensor,
        slope1: Tensor,
        slope2: Tensor,
    ) -> None:
        super().__init__()
        terms = [(i, j, k) for k, (u, v) in enumerate(box.edges) for i, j in ((u, v), (v, u))]
        terms += [(i, i, len(box.edges) + i) for i in range(box.nodes)]
        i, j, k = torch.tensor(terms).T
        t, node = torch.arange(len(terms)), torch.arange(box.nodes)
        n, m, (d1, d2) = box.nodes, len(box.lower), weight2.shape

        # p1_i = Σ_t a_k y_j + b1,  y = X W1
        to_p1 = torch.zeros(n, d1, m)
        to_p1[i, :, k] = y[j]
        # v_t = σ1(p1_j) W2
        to_v = torch.zeros(len(terms), d2, n, d1)
        to_v[t, :, j, :] = weight2.T
        # a_t = a_k, for each channel
        to_a = torch.zeros(len(terms), d2, m)
        to_a[t, :, k] = 1.0
        # p2_i = Σ_t a_t v_t + b2
        to_p2 = torch.zeros(n, d2, len(terms), d2)
        to_p2[i, :, t, :] = torch.eye(d2)
        # f_i = w_i · σ2(p2_i)
        to_f = torch.zeros(n, n, d2)
        to_f[node, node] = directions

        self.p1 = _linear(to_p1.view(n * d1, m), bias1.repeat(n))
        self.v = _AfterActivation(to_v.view(-1, n * d1), slope1.repeat(n))
        self.a = _linear(to_a.view(-1, m))
        self.p2 = _linear(to_p2.view(n * d2, -1), bias2.repeat(n))
        self.f = _AfterActivation(to_f.view(n, n * d2), slope2.repeat(n))

    def forward(self, a: Tensor) -> Tensor:
        # The order of the factors matters: 0.3 bounds x y above by y_U x + x_L y - x_L y_U, never by the other plane.
        # With x = a that is v_U a where an edge can be dropped (a_L = 0); with x = v most bounds are clearly looser.
        return self.f(self.p2(self.a(a) * self.v(self.p1(a))))


class _AfterActivation(nn.Module):
    """``W σ(p) = W diag(γ) p + W diag(1 - γ) relu(p)``, without the part that is zero.

    The lines around relu become σ's own: the chord on one side, any slope between γ and 1 on the other. 0.3 has a
    LeakyReLU too, but never optimises its slope, is loose even on stable inputs for γ > 1/2, and is unsound for γ < 0
    (IBP) and γ > 1 (CROWN).
    """

    def __init__(self, weight: Tensor, slope: Tensor) -> None:
        super().__init__()
        self.straight = _linear(weight * slope) if (slope != 0).any() else None
        self.bent = _linear(weight * (1 - slope)) if (slope != 1).any() else None

    def forward(self, p: Tensor) -> Tensor:
        if self.bent is None:
            return self.straight(p)
        if self.straight is None:
            return self.bent(torch.relu(p))
        return self.straight(p) + self.bent(torch.relu(p))


def _linear(weight: Tensor, bias: Tensor | None = None) -> nn.Linear:
    """A constant linear map. It always has a bias: without, the tracer would turn it into a transpose and a matmul."""
    linear = nn.Linear(1, 1)
    linear.weight = nn.Parameter(weight, requires_grad=False)
    linear.bias = nn.Parameter(weight.new_zeros(len(weight)) if bias is None else bias, requires_grad=False)
    return linear


def _linear_nodes(bounded: nn.Module) -> list[nn.Module]:
    return [node for node in bounded.modules() if isinstance(node, auto_LiRPA.bound_ops.BoundLinear)]


def _per_channel(slope: Slope | None, channels: int) -> Tensor:
    return torch.as_tensor(1.0 if slope is None else slope, dtype=torch.float64).detach().expand(channels)


def _optimiser(iterations: int) -> dict[str, object]:
    if iterations < 1:
        raise ValueError(f"{iterations} iterations: the optimisation needs at least 1. Use CROWN for none.")

    def no_slope_matters(lower: Tensor) -> Tensor:
        # With no relu in reach, or only inactive ones, the bound has no gradient and the next step would fail.
        return torch.tensor(not lower.requires_grad)

    return {"iteration": iterations, "early_stop_patience": iterations, "stop_criterion_func": no_slope_matters}


def _finite(lower: Tensor, method: Method) -> Tensor:
    if not lower.isfinite().all():
        raise ArithmeticError(f"{method} gave {lower}: a bound must be finite. Scale the weights down.")
    return lower


@contextlib.contextmanager
def _float64_and_quiet() -> Iterator[None]:
    """0.3 makes its own tensors in the default dtype, and prints and warns about matters of no concern here."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_default_dtype(before)
