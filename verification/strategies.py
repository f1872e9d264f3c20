"""Hypothesis strategies for the audit: small graphs of every shape, weights of every scale, budgets of every kind."""

import networkx as nx
import numpy as np
import torch
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import Tensor

from verification.case import Case
from verification.oracle import compactness_directions

MAX_NODES = 7
MAX_EDGES = 9  # 512 drop sets at most

FAMILIES = ("random", "star", "path", "cycle", "complete", "bipartite", "disconnected")


@st.composite
def graphs(draw: st.DrawFn) -> nx.Graph:
    """A graph on 0 … n-1 with at most ``MAX_EDGES`` edges. Isolated nodes may be added to any family."""
    family = draw(st.sampled_from(FAMILIES))
    size = draw(st.integers(2, 4 if family in ("complete", "bipartite") else MAX_NODES - 1))
    match family:
        case "random":
            pairs = [(u, v) for u in range(size) for v in range(u + 1, size)]
            edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=min(len(pairs), MAX_EDGES)))
            graph = nx.Graph(edges)
        case "star":
            graph = nx.star_graph(size - 1)
        case "path":
            graph = nx.path_graph(size)
        case "cycle":
            graph = nx.cycle_graph(max(size, 3))
        case "complete":
            graph = nx.complete_graph(size)
        case "bipartite":
            graph = nx.convert_node_labels_to_integers(nx.complete_bipartite_graph(size // 2 + 1, 2))
        case _:
            graph = nx.disjoint_union(nx.path_graph(size // 2 + 1), nx.complete_graph(draw(st.integers(1, 3))))
    result = nx.Graph()
    result.add_nodes_from(range(min(MAX_NODES, max([size, *(node + 1 for node in graph)]) + draw(st.integers(0, 1)))))
    result.add_edges_from(graph.edges)
    return result


def _numbers(scale: float) -> st.SearchStrategy[float]:
    """Small integers (which shrink well and make ties) and floats of any kind, times a scale."""
    plain = st.one_of(st.integers(-3, 3).map(float), st.floats(-3, 3, width=32, allow_subnormal=False))
    return plain.map(lambda value: value * scale)


def tensors(*shape: int, scale: float = 1.0) -> st.SearchStrategy[Tensor]:
    return arrays(np.float64, shape, elements=_numbers(scale), fill=st.just(0.0)).map(
        lambda array: torch.from_numpy(np.array(array))
    )


SLOPES = st.one_of(
    st.sampled_from([0.0, 1.0, 0.25]),
    st.floats(-1.5, -0.0625, width=32),
    st.floats(0.0625, 0.9375, width=32),
    st.floats(1.0625, 3.0, width=32),
)


@st.composite
def slopes(draw: st.DrawFn, channels: int) -> Tensor:
    """One slope for all channels, or one each."""
    if draw(st.booleans()):
        return torch.tensor([draw(SLOPES) for _ in range(channels)], dtype=torch.float64)
    return torch.full((channels,), draw(SLOPES), dtype=torch.float64)


@st.composite
def budgets(draw: st.DrawFn, graph: nx.Graph) -> tuple[int | list[int] | None, int | None]:
    """No budget, everything, one number, one per node, a total alone, or a total with any of these."""
    degrees = [graph.degree[i] for i in range(graph.number_of_nodes())]
    local = draw(
        st.one_of(
            st.just(0),
            st.none(),
            st.integers(1, 3),
            st.tuples(*(st.integers(0, degree) for degree in degrees)).map(list),
            st.just([-(-2 * degree // 5) for degree in degrees]),
        )
    )
    total = draw(st.one_of(st.none(), st.integers(0, graph.number_of_edges())))
    return local, total


@st.composite
def cases(draw: st.DrawFn, slope_strategy: st.SearchStrategy[float] | None = None) -> Case:
    """A whole case. ``slope_strategy`` limits the activations to one slope of its choice for both layers."""
    graph = draw(graphs())
    d0, d1, d2 = draw(st.integers(1, 2)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    scale1, scale2 = (draw(st.sampled_from([1.0, 1e-3, 1e3])) for _ in range(2))
    if slope_strategy is None:
        slope1, slope2 = draw(slopes(d1)), draw(st.one_of(slopes(d2), st.just(torch.ones(d2, dtype=torch.float64))))
    else:
        gamma = draw(slope_strategy)
        slope1, slope2 = (torch.full((width,), gamma, dtype=torch.float64) for width in (d1, d2))
    n = graph.number_of_nodes()
    local, total = draw(budgets(graph))
    case = Case(
        graph,
        draw(tensors(n, d0)),
        draw(tensors(d0, d1, scale=scale1)),
        draw(tensors(d1, scale=scale1)),
        slope1,
        draw(tensors(d1, d2, scale=scale2)),
        draw(tensors(d2, scale=scale2)),
        slope2,
        torch.zeros(n, d2),
        local,
        total,
    )
    compact = draw(st.booleans())
    directions = compactness_directions(case) if compact else draw(tensors(n, d2))
    return Case(**{**case.__dict__, "directions": directions.double()})


@st.composite
def smooth_cases(draw: st.DrawFn, gammas: tuple[float, ...] = (0.0, 0.25)) -> Case:
    """Wider cases with Gaussian weights and the directions of node compactness: no ties, realistic tightness."""
    graph = draw(graphs().filter(lambda graph: graph.number_of_edges() > 0))
    local, total = draw(budgets(graph))
    seed = draw(st.integers(0, 2**32 - 1))
    return gaussian_case(graph, seed, draw(st.sampled_from(gammas))).with_budget(local, total)


def gaussian_case(graph: nx.Graph, seed: int, gamma: float = 0.0, widths: tuple[int, int, int] = (5, 8, 6)) -> Case:
    """A case with Gaussian features and weights, and the directions of node compactness on the clean graph."""
    random = np.random.default_rng(seed)
    d0, d1, d2 = widths
    n = graph.number_of_nodes()

    def normal(*shape: int, scale: float = 1.0) -> Tensor:
        return torch.from_numpy(random.normal(scale=scale, size=shape))

    case = Case(
        graph,
        normal(n, d0),
        normal(d0, d1, scale=d0**-0.5),
        normal(d1, scale=0.1),
        torch.full((d1,), gamma, dtype=torch.float64),
        normal(d1, d2, scale=d1**-0.5),
        normal(d2, scale=0.1),
        torch.full((d2,), gamma, dtype=torch.float64),
        torch.zeros(n, d2),
    )
    return Case(**{**case.__dict__, "directions": compactness_directions(case)})
