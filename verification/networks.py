"""Networks for the audit: every convolution, depth, part and activation, and strategies that combine them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import networkx as nx
import numpy as np
from hypothesis import strategies as st

from verification.network_case import Array, Mixing, NetworkCase, PlainActivation, PlainLayer, PlainTerm
from verification.network_oracle import adjacencies, compactness_directions, embeddings
from verification.strategies import budgets, graphs

CONVOLUTIONS: dict[str, tuple[Mixing, float, bool]] = {
    "GCN": ("symmetric", 1.0, False),
    "GCN, no self-loops": ("symmetric", 0.0, False),
    "GCN, loop weight 2": ("symmetric", 2.0, False),
    "SAGE mean": ("mean", 0.0, True),
    "SAGE sum": ("sum", 0.0, True),
    "mean without root weight": ("mean", 0.0, False),
    "sum without root weight": ("sum", 0.0, False),
}
"""By name: how nodes are mixed, the weight of self-loops, and whether there is a root weight."""


@dataclass
class Builder:
    """Layers, one after the other, with random numbers in them.

    Args:
        random: the random generator.
        activation: after each layer that has one.
        width: of hidden layers.
        scale: of weights, times the inverse root of their inputs.
        shift: of biases.
        ties: small integers instead of Gaussian numbers, many of them zero.
    """

    random: np.random.Generator
    activation: PlainActivation | None
    width: int = 5
    features: int = 4
    scale: float = 1.0
    shift: float = 0.0
    ties: bool = False
    layers: list[PlainLayer] = field(default_factory=list)

    def numbers(self, *shape: int) -> Array:
        return self.random.integers(-2, 3, shape).astype(float) if self.ties else self.random.normal(size=shape)

    def width_of(self, number: int) -> int:
        return self.features if number == 0 else self.layers[number - 1].width

    @property
    def last(self) -> int:
        return len(self.layers)

    def matrix(self, source: int, width: int) -> Array:
        return self.numbers(self.width_of(source), width) * self.scale * self.width_of(source) ** -0.5

    def bias(self, width: int) -> Array:
        return self.scale * (0.3 * self.numbers(width) + self.shift)

    def add(self, *terms: PlainTerm, bias: Array | None = None, active: bool = True) -> int:
        width = terms[0].weight.shape[-1]
        bias = self.bias(width) if bias is None else bias
        self.layers.append(PlainLayer(terms, bias, self.activation if active else None))
        return self.last

    def convolve(self, name: str, *others: PlainTerm, width: int | None = None, active: bool = True) -> int:
        """A layer of a convolution, with other terms added to it."""
        mixing, loop, root = CONVOLUTIONS[name]
        source, width = self.last, width or self.width
        terms = [PlainTerm(source, self.matrix(source, width), mixing, loop)]
        if root:
            terms.append(PlainTerm(source, self.matrix(source, width)))
        return self.add(*terms, *others, active=active)

    def linear(self, width: int | None = None, active: bool = True) -> int:
        return self.add(PlainTerm(self.last, self.matrix(self.last, width or self.width)), active=active)

    def gin(self, eps: float = 0.3) -> int:
        """A GINConv whose MLP has two layers."""
        source, weight = self.last, self.matrix(self.last, self.width)
        self.add(PlainTerm(source, weight, "sum"), PlainTerm(source, (1 + eps) * weight if eps else weight))
        return self.linear()

    def normalize(self, active: bool) -> int:
        """A BatchNorm with scales of both signs."""
        scale = (0.3 + np.abs(self.numbers(self.width_of(self.last)))) * np.where(
            self.random.random(self.width_of(self.last)) < 0.3, -1.0, 1.0
        )
        return self.add(PlainTerm(self.last, scale), active=active)


def _convolutions(name: str) -> Callable[[Builder, int], tuple[int, ...]]:
    def build(builder: Builder, depth: int) -> tuple[int, ...]:
        for _ in range(depth):
            builder.convolve(name)
        return (builder.last,)

    return build


def _gin(eps: float) -> Callable[[Builder, int], tuple[int, ...]]:
    def build(builder: Builder, depth: int) -> tuple[int, ...]:
        for _ in range(depth):
            builder.gin(eps)
        return (builder.last,)

    return build


def _sgc(builder: Builder, depth: int) -> tuple[int, ...]:
    """``Â^K X W + b``, W first."""
    builder.add(PlainTerm(0, builder.matrix(0, builder.width), "symmetric"), bias=np.zeros(builder.width), active=False)
    for _ in range(depth - 1):
        builder.add(
            PlainTerm(builder.last, np.ones(builder.width), "symmetric"), bias=np.zeros(builder.width), active=False
        )
    builder.layers[-1] = replace(builder.layers[-1], bias=builder.bias(builder.width))
    return (builder.last,)


def _appnp(builder: Builder, depth: int) -> tuple[int, ...]:
    alpha, start = 0.2, builder.linear()
    for _ in range(depth):
        builder.add(
            PlainTerm(builder.last, np.full(builder.width, 1 - alpha), "symmetric"),
            PlainTerm(start, np.full(builder.width, alpha)),
            bias=np.zeros(builder.width),
            active=False,
        )
    return (builder.last,)


def _norm_before(builder: Builder, depth: int) -> tuple[int, ...]:
    for _ in range(depth):
        builder.convolve("GCN", active=False)
        builder.normalize(active=True)
    return (builder.last,)


def _norm_after(builder: Builder, depth: int) -> tuple[int, ...]:
    for number in range(depth):
        builder.convolve("GCN")
        if number < depth - 1 or depth == 1:
            builder.normalize(active=False)
    return (builder.last,)


def _residual(builder: Builder, depth: int) -> tuple[int, ...]:
    builder.convolve("GCN")
    for _ in range(depth - 1):
        builder.convolve("GCN", PlainTerm(builder.last, np.ones(builder.width)))
    return (builder.last,)


def _jumping(name: str, cat: bool) -> Callable[[Builder, int], tuple[int, ...]]:
    def build(builder: Builder, depth: int) -> tuple[int, ...]:
        numbers = tuple(builder.convolve(name) for _ in range(depth))
        if cat:
            return numbers
        builder.add(
            *(PlainTerm(number, np.ones(builder.width)) for number in numbers),
            bias=np.zeros(builder.width),
            active=False,
        )
        return (builder.last,)

    return build


def _head(builder: Builder, depth: int) -> tuple[int, ...]:
    for _ in range(depth):
        builder.convolve("GCN")
    activation, builder.activation = builder.activation, PlainActivation("elu")
    builder.linear()
    builder.activation = activation
    return (builder.linear(active=False),)


def _mixed(builder: Builder, depth: int) -> tuple[int, ...]:
    names = list(CONVOLUTIONS)
    for _ in range(depth):
        earlier = int(builder.random.integers(0, builder.last + 1))
        skips = [PlainTerm(earlier, builder.matrix(earlier, builder.width))] if builder.random.random() < 0.5 else []
        builder.convolve(
            names[int(builder.random.integers(len(names)))], *skips, active=bool(builder.random.random() < 0.8)
        )
    return (builder.last,) if builder.random.random() < 0.7 else tuple(sorted({1, builder.last}))


KINDS: dict[str, Callable[[Builder, int], tuple[int, ...]]] = {
    **{name: _convolutions(name) for name in CONVOLUTIONS},
    "GIN": _gin(0.3),
    "GIN, eps = 0": _gin(0.0),
    "SGC": _sgc,
    "APPNP": _appnp,
    "GCN + BatchNorm before activations": _norm_before,
    "GCN + BatchNorm after activations": _norm_after,
    "GCN + residual": _residual,
    "GCN + ELU head": _head,
    "GCN, jumping knowledge (cat)": _jumping("GCN", cat=True),
    "SAGE mean, jumping knowledge (cat)": _jumping("SAGE mean", cat=True),
    "GCN, jumping knowledge (sum)": _jumping("GCN", cat=False),
    "mixed": _mixed,
}
"""A function that adds the layers of a network of some depth to a builder and returns its readout."""

SMOOTH = (
    PlainActivation("elu"),
    PlainActivation("elu", 0.4),
    PlainActivation("elu", 1.8),
    PlainActivation("tanh"),
    PlainActivation("sigmoid"),
    PlainActivation("gelu"),
    PlainActivation("silu"),
    PlainActivation("softplus"),
    PlainActivation("softplus", 2.5),
)
RELU = PlainActivation("two-piece linear", 0.0)


def network_case(graph: nx.Graph, kind: str, depth: int, builder: Builder, compact: bool = False) -> NetworkCase:
    """A case of this kind, without a budget; with the directions of node compactness, or with random ones."""
    readout = KINDS[kind](builder, depth)
    x = builder.numbers(len(graph), builder.features)
    case = NetworkCase(graph, x, tuple(builder.layers), readout, np.zeros((len(graph), 0)), kind=kind)
    clean = embeddings(case, adjacencies(case.with_budget(0, 0)))[0]
    directions = compactness_directions(clean) if compact else builder.numbers(*clean.shape)
    return replace(case, directions=directions)


@st.composite
def activations(draw: st.DrawFn, width: int) -> PlainActivation | None:
    """None, a two-piece linear one with any slope or one for each channel, or a smooth one."""
    slope = st.sampled_from([0.0, 0.25, 1.0, -0.4, 1.6])
    return draw(
        st.one_of(
            st.just(RELU),
            st.sampled_from(SMOOTH),
            slope.map(lambda one: PlainActivation("two-piece linear", one)),
            st.lists(slope, min_size=width, max_size=width).map(
                lambda each: PlainActivation("two-piece linear", np.array(each))
            ),
            st.none(),
        )
    )


@st.composite
def network_cases(draw: st.DrawFn, kinds: Sequence[str] = tuple(KINDS), max_depth: int = 4) -> NetworkCase:
    """A whole case: Gaussian numbers of several scales, or small integers with many ties."""
    kind = draw(st.sampled_from(kinds))
    graph = draw(graphs().filter(lambda graph: graph.number_of_nodes() >= 4))
    depth = draw(st.integers(1, min(max_depth, 2) if kind.startswith("GIN") else max_depth))
    width = draw(st.integers(2, 6 if depth <= 2 else 3))
    builder = Builder(
        np.random.default_rng(draw(st.integers(0, 2**32 - 1))),
        draw(activations(width)),
        width,
        features=draw(st.integers(1, 4)),
        scale=draw(st.sampled_from([1.0, 0.1, 3.0])),
        shift=draw(st.sampled_from([0.0, 0.15])),
        ties=draw(st.booleans()),
    )
    local, total = draw(budgets(graph))
    return network_case(graph, kind, depth, builder, compact=draw(st.booleans())).with_budget(local, total)
