"""Bounds of networks over a box of propagation matrices, computed by auto_LiRPA: a second opinion on certgcl.

Nothing here uses certgcl, so that no mistake of the one can be hidden by the other. Everything is float64.
"""

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import networkx as nx
import torch
from torch import Tensor, nn

from verification import lirpa_compat
from verification.network_case import Array, PlainActivation, PlainLayer, PlainTerm

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
        """Raise an error for an empty box."""
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
    at both ends as possible; it is at least 0 if it can be dropped itself and ``(D_i D_j)^(-1/2)`` if not.

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


def adjacency_box(graph: nx.Graph, q: Sequence[int], total: int) -> Box:
    """The box around the adjacency matrix: an edge lies in [0, 1] if it can be dropped; self-loops are 0."""
    edges = sorted((min(edge), max(edge)) for edge in graph.edges)
    _, droppable = _tighten(edges, q, total)
    loops = torch.zeros(graph.number_of_nodes(), dtype=torch.float64)
    kept = torch.tensor([float(edge not in droppable) for edge in edges], dtype=torch.float64)
    return Box(edges, torch.cat([kept, loops]), torch.cat([torch.ones_like(kept), loops]))


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


class LirpaBounds:
    """A function ``f`` of some variables, with values for all nodes, to be bounded over a box of the variables.

    Building it takes longer than IBP and CROWN together, so build it once and bound often.

    CROWN takes any slope γ. IBP takes slopes in [0, 1] only: outside, the two halves of σ have opposite signs and their
    intervals no longer add up to the interval of σ.

    Args:
        network: f, in operations that auto_LiRPA 0.3 can bound; made while tensors are float64 by default.
        lower, upper: of the variables, shape (variables,).
        slopes: of all activations.
    """

    def __init__(
        self, network: Callable[[], nn.Module], lower: Tensor, upper: Tensor, slopes: Sequence[Tensor]
    ) -> None:
        self._monotone = all(((slope >= 0) & (slope <= 1)).all() for slope in slopes)
        with _float64_and_quiet():
            self._bounded = auto_LiRPA.BoundedModule(network(), lower[None], OPTIONS)
            self._bounded.eval()  # in training mode it would differentiate by the weights as well
            region = auto_LiRPA.PerturbationLpNorm(x_L=lower[None], x_U=upper[None])
            self._input = auto_LiRPA.BoundedTensor(lower[None], region)

    def __call__(self, point: Tensor) -> Tensor:
        """The value of ``f`` at a point of the box, shape (nodes,), as auto_LiRPA's copy of the network computes it."""
        with _float64_and_quiet(), torch.no_grad():
            return self._bounded(point[None])[0]

    def lower(self, method: Method, iterations: int = 20) -> Tensor:
        """Lower bounds of ``f`` over the box, shape (nodes,).

        Args:
            method: intervals, linear bounds, or linear bounds with optimised slopes, those of the inner bounds too.
            iterations: steps of the optimisation, at least 1. The first five give most of the gain.
        """
        if method not in get_args(Method):
            raise ValueError(f"method {method!r}: it must be one of {get_args(Method)}. Spell it like that.")
        if method == "IBP":
            return self._intervals()
        optimise = method == "CROWN-Optimized"
        if optimise:
            self._bounded.set_bound_opts({"optimize_bound_args": _optimiser(iterations)})
        with _float64_and_quiet(), torch.set_grad_enabled(optimise):
            lower, _ = self._bounded.compute_bounds((self._input,), method=method, bound_upper=False)
        return _finite(lower.detach()[0], method)

    def _intervals(self) -> Tensor:
        if not self._monotone:
            raise ValueError("a slope outside [0, 1]: IBP of auto_LiRPA 0.3 is not tight for it. Use CROWN.")
        with _float64_and_quiet(), torch.no_grad():
            lower, _ = self._bounded.compute_bounds((self._input,), method="IBP")
        return _finite(lower[0], "IBP")


class LirpaNetwork(LirpaBounds):
    """``f_i = w_i · z_i`` of a network whose mixing is one matrix M, to be bounded over a box of M.

    Args:
        box: where M lies, which is Â or an adjacency matrix.
        x: node features, shape (nodes, d0).
        layers: with two-piece linear activations. Every term that is not local is mixed by M.
        readout: the numbers, from 1, of the layers whose outputs side by side are z.
        directions: w, shape (nodes, width of z).
    """

    def __init__(
        self, box: Box, x: Tensor, layers: Sequence[PlainLayer], readout: Sequence[int], directions: Tensor
    ) -> None:
        width = sum(layers[number - 1].width for number in readout)
        if x.shape[0] != box.nodes or directions.shape != (box.nodes, width):
            raise ValueError(
                f"features {tuple(x.shape)}, directions {tuple(directions.shape)}: a box of {box.nodes} nodes and "
                f"embeddings of width {width} need one row per node and directions as wide. Check what goes with what."
            )
        self.box, slopes = box, [slope_of(layer) for layer in layers]

        def network() -> nn.Module:
            return _Network(box, x.detach().double(), layers, slopes, readout, directions.detach().double())

        super().__init__(network, box.lower, box.upper, slopes)
        self._linear = {node.inputs[1].ori_name: node for node in _linear_nodes(self._bounded)}


class LirpaGCN(LirpaNetwork):
    """``f_i = w_i · z_i`` with ``z = σ2(Â σ1(Â X W1 + b1) W2 + b2)``, to be bounded over a box of Â.

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
        layers = [
            PlainLayer(
                (PlainTerm(source, _plain(weight), "symmetric"),),
                _plain(bias),
                None if slope is None else PlainActivation("two-piece linear", _plain(slope)),
            )
            for source, (weight, bias, slope) in enumerate(((weight1, bias1, slope1), (weight2, bias2, slope2)))
        ]
        super().__init__(box, x, layers, (2,), directions)

    def layers(self) -> LayerBounds:
        """Interval bounds of both pre-activations and of ``f``."""
        lower = self._intervals()
        p1, p2 = (self._linear[f"layers.{number}.{name}.weight"] for number, name in ((0, "direct"), (1, "sums.0")))
        return LayerBounds(*(p.view(self.box.nodes, -1) for p in (p1.lower, p1.upper, p2.lower, p2.upper)), lower)


class _Network(nn.Module):
    """``a -> (w_i · z_i)_i`` for the vector a of a box's variables, in operations that auto_LiRPA 0.3 can bound."""

    def __init__(
        self,
        box: Box,
        x: Tensor,
        layers: Sequence[PlainLayer],
        slopes: list[Tensor],
        readout: Sequence[int],
        directions: Tensor,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_Layer(box, x, layer, slopes) for layer in layers)
        self.readout = [number - 1 for number in readout]
        self.heads = heads(directions, layers, slopes, readout)

    def forward(self, a: Tensor) -> Tensor:
        found: list[Tensor] = []
        for layer in self.layers:
            found.append(layer(a, found))
        return summed([head(found[number]) for head, number in zip(self.heads, self.readout, strict=True)])


def heads(
    directions: Tensor, layers: Sequence[PlainLayer], slopes: Sequence[Tensor], readout: Sequence[int]
) -> nn.ModuleList:
    """``f_i = Σ w_i · σ(p_i)`` over the layers read out, from the pre-activations of each."""
    n, found = len(directions), nn.ModuleList()
    node = torch.arange(n)
    for number, part in zip(readout, directions.split([layers[k - 1].width for k in readout], dim=1), strict=True):
        to_f = torch.zeros(n, n, part.shape[1])
        to_f[node, node] = part
        found.append(AfterActivation(to_f.view(n, -1), slopes[number - 1].repeat(n)))
    return found


class _Layer(nn.Module):
    """The pre-activations p of a layer, all nodes one after the other, from a and those of earlier layers.

    An entry t = (i, j, k) says ``M_ij = a_k``; an edge gives two entries, a self-loop one.
    """

    def __init__(self, box: Box, x: Tensor, layer: PlainLayer, slopes: list[Tensor]) -> None:
        super().__init__()
        entries = [(i, j, k) for k, (u, v) in enumerate(box.edges) for i, j in ((u, v), (v, u))]
        entries += [(i, i, len(box.edges) + i) for i in range(box.nodes)]
        i, j, k = torch.tensor(entries).T
        t, n, m, d = torch.arange(len(entries)), box.nodes, len(box.lower), layer.width
        constant = torch.from_numpy(layer.bias).repeat(n, 1)
        to_p = torch.zeros(n, d, m)
        self.sources: list[int] = []  # of what is mixed
        self.local_sources: list[int] = []
        self.copies, self.values, self.sums, self.locals = (nn.ModuleList() for _ in range(4))
        for term in layer.terms:
            weight, source = torch.from_numpy(term.matrix().copy()), term.source - 1
            if source < 0:  # of the features, which are known: p_i += Σ_t a_k y_j, y = X W
                y = x @ weight
                if term.mixing == "local":
                    constant = constant + y
                else:
                    to_p[i, :, k] += y[j]
                continue
            slope, width = slopes[source].repeat(n), len(weight)
            if term.mixing == "local":  # p_i += σ(p_i) W
                self.local_sources.append(source)
                self.locals.append(AfterActivation(torch.kron(torch.eye(n), weight.T.contiguous()), slope))
                continue
            # v_t = σ(p_j) W;  a_t = a_k, for each channel;  p_i += Σ_t a_t v_t
            to_v, to_a = torch.zeros(len(entries), d, n, width), torch.zeros(len(entries), d, m)
            to_v[t, :, j, :], to_a[t, :, k] = weight.T, 1.0
            to_sum = torch.zeros(n, d, len(entries), d)
            to_sum[i, :, t, :] = torch.eye(d)
            self.sources.append(source)
            self.values.append(AfterActivation(to_v.view(-1, n * width), slope))
            self.copies.append(linear(to_a.view(-1, m)))
            self.sums.append(linear(to_sum.view(n * d, -1)))
        mixed = any(term.source == 0 and term.mixing != "local" for term in layer.terms)
        self.direct = linear(to_p.view(n * d, m)) if mixed else None
        first, *_ = (*([self.direct] if mixed else []), *self.sums, *(local.first for local in self.locals))
        first.bias.data += constant.reshape(-1)

    def forward(self, a: Tensor, found: list[Tensor]) -> Tensor:
        parts = [] if self.direct is None else [self.direct(a)]
        # The order of the factors matters: 0.3 bounds x y above by y_U x + x_L y - x_L y_U, never by the other plane.
        # With x = a that is v_U a where an edge can be dropped (a_L = 0); with x = v most bounds are clearly looser.
        for source, copy, values, total in zip(self.sources, self.copies, self.values, self.sums, strict=True):
            parts.append(total(copy(a) * values(found[source])))
        parts += [local(found[source]) for source, local in zip(self.local_sources, self.locals, strict=True)]
        return summed(parts)


def summed(parts: list[Tensor]) -> Tensor:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


class AfterActivation(nn.Module):
    """``W σ(p) = W diag(γ) p + W diag(1 - γ) relu(p)``, without the part that is zero.

    The lines around relu become σ's own: the chord on one side, any slope between γ and 1 on the other. 0.3 has a
    LeakyReLU too, but never optimises its slope, is loose even on stable inputs for γ > 1/2, and is unsound for γ < 0
    (IBP) and γ > 1 (CROWN).
    """

    def __init__(self, weight: Tensor, slope: Tensor) -> None:
        super().__init__()
        self.straight = linear(weight * slope) if (slope != 0).any() else None
        self.bent = linear(weight * (1 - slope)) if (slope != 1).any() else None

    @property
    def first(self) -> nn.Linear:
        return self.bent if self.straight is None else self.straight

    def forward(self, p: Tensor) -> Tensor:
        if self.bent is None:
            return self.straight(p)
        if self.straight is None:
            return self.bent(torch.relu(p))
        return self.straight(p) + self.bent(torch.relu(p))


def linear(weight: Tensor, bias: Tensor | None = None) -> nn.Linear:
    """A constant linear map. It always has a bias: without one, the tracer would turn it into a transpose and a
    matmul."""
    linear = nn.Linear(1, 1)
    linear.weight = nn.Parameter(weight, requires_grad=False)
    linear.bias = nn.Parameter(weight.new_zeros(len(weight)) if bias is None else bias, requires_grad=False)
    return linear


def _linear_nodes(bounded: nn.Module) -> list[nn.Module]:
    return [node for node in bounded.modules() if isinstance(node, auto_LiRPA.bound_ops.BoundLinear)]


def slope_of(layer: PlainLayer) -> Tensor:
    """γ of each channel."""
    if layer.activation is not None and layer.activation.name != "two-piece linear":
        raise ValueError(f"activation {layer.activation}: the bridge has two-piece linear ones only. Use another case.")
    slope = 1.0 if layer.activation is None else layer.activation.parameter
    return torch.as_tensor(slope, dtype=torch.float64).expand(layer.width)


def _plain(value: Slope) -> Array:
    return torch.as_tensor(value, dtype=torch.float64).detach().numpy()


def _optimiser(iterations: int) -> dict[str, object]:
    if iterations < 1:
        raise ValueError(f"{iterations} iterations: the optimisation needs at least 1. Use CROWN for none.")

    def no_slope_matters(lower: Tensor) -> Tensor:
        # With no relu in reach, or only inactive ones, the bound has no gradient and the next step would fail.
        return torch.full((len(lower), 1), not lower.requires_grad)  # one for each input, as 0.7 asks

    return {"iteration": iterations, "early_stop_patience": iterations, "stop_criterion_func": no_slope_matters}


def _finite(lower: Tensor, method: Method) -> Tensor:
    if not lower.isfinite().all():
        raise ArithmeticError(f"{method} gave {lower}: a bound must be finite. Scale the weights down.")
    return lower


@contextlib.contextmanager
def _float64_and_quiet() -> Iterator[None]:
    """0.3 creates its own tensors in the default dtype, and prints messages and warnings that do not matter here."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_default_dtype(before)
