"""Small random graphs and encoders, and every drop set a budget allows, written without the library's bounds."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import networkx as nx
import torch
from torch import Tensor

from certgcl.bounds.prepared import ChangeProblem
from certgcl.bounds.two_layer.neighbourhood import Hop, Neighbourhood
from certgcl.bounds.two_layer.weights import GCNWeights
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.graphs.graph import Graph
from certgcl.models import GraphNetwork, gcn_network

Edge = tuple[int, int]

PARTS = "w1", "b1", "slope1", "w2", "b2", "slope2"

SIX_NODE_BUDGETS = [
    EdgeDropBudget(local=1),
    EdgeDropBudget(local=2),
    EdgeDropBudget(),
    EdgeDropBudget(total=2),
    EdgeDropBudget(local=[0, 2, 1, 2, 1, 3]),
]


def random_tensor(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def toy_graph(source: nx.Graph, features: int = 3, seed: int = 0, sparse: bool = False) -> Graph:
    x = random_tensor(len(source), features, seed=seed)
    return Graph.from_networkx(
        nx.convert_node_labels_to_integers(source), x=x.clamp(min=0).to_sparse() if sparse else x
    )


def random_graph(nodes: int = 12, density: float = 0.3, seed: int = 0, **features: int | bool) -> Graph:
    return toy_graph(nx.gnp_random_graph(nodes, density, seed=seed), seed=seed, **features)


def toy_network(features: int = 3, hidden: int = 4, outputs: int = 3, seed: int = 0) -> GraphNetwork:
    """Channels of every kind: slopes of zero, between 0 and 1, above 1 and below 0."""
    slopes = torch.tensor([0.0, 0.3, 1.5, -0.4], dtype=torch.float64)
    return gcn_network(
        (
            random_tensor(features, hidden, seed=seed),
            random_tensor(hidden, seed=seed + 1) / 2,
            slopes[torch.arange(hidden) % 4],
        ),
        (
            random_tensor(hidden, outputs, seed=seed + 2),
            random_tensor(outputs, seed=seed + 3) / 2,
            slopes[torch.arange(outputs) % 4],
        ),
    )


def gcn_weights(network: GraphNetwork) -> GCNWeights:
    """As the engine for two layers sees it."""
    weights = GCNWeights.of(network)
    assert weights is not None
    return weights


def like(network: GraphNetwork, *tensors: Tensor) -> GraphNetwork:
    """The same with other tensors, in the order of its own."""
    given = iter(tensors)
    return network.mapped(lambda _: next(given))


def run_in(network: GraphNetwork, dtype: torch.dtype) -> GraphNetwork:
    """The network of a model that is in this precision."""
    return replace(network.to(dtype), precision=dtype)


def scaled(network: GraphNetwork, factor: float) -> GraphNetwork:
    """With all weights times a factor, not biases and slopes."""
    return like(network, *(tensor * factor if "term" in name else tensor for name, tensor in network.named_tensors()))


def changed(network: GraphNetwork, **parts: Tensor) -> GraphNetwork:
    """A two-layer GCN with some of w1, b1, slope1, w2, b2 and slope2 changed."""
    return like(network, *(dict(zip(PARTS, tensors_of(network), strict=True)) | parts).values())


def tensors_of(network: GraphNetwork) -> list[Tensor]:
    return [tensor for _, tensor in network.named_tensors()]


def drop_problem(graph: Graph, budget: EdgeDropBudget | int, anchors: list[int] | None = None) -> ChangeProblem:
    nodes = torch.arange(graph.num_nodes) if anchors is None else torch.tensor(anchors)
    return ChangeProblem(graph, EdgeDropBudget.of(budget).on(graph), nodes)


def hood_of(graph: Graph, budget: EdgeDropBudget, anchors: list[int] | None = None) -> Neighbourhood:
    return drop_problem(graph, budget, anchors).neighbourhood(torch.float64)


def star_hop(leaves: int, budget: int) -> Hop:
    """The rows of a star whose centre may lose ``budget`` edges: row 0 is the centre."""
    return hood_of(toy_graph(nx.star_graph(leaves)), EdgeDropBudget(local=[budget] + [1] * leaves)).inner


def hubs_and_others() -> tuple[Graph, EdgeDropBudget]:
    """Degrees from 0 to 20, budgets from 0 to 7; a wide star, a dense part and nodes alone."""
    parts = [nx.star_graph(20), nx.gnp_random_graph(15, 0.4, seed=0), nx.cycle_graph(5), nx.empty_graph(2)]
    graph = toy_graph(nx.disjoint_union_all(parts))
    return graph, EdgeDropBudget(local=[7] + [(3 * k) % 5 for k in range(1, graph.num_nodes)])


def edges_of(graph: Graph) -> list[Edge]:
    return [(i, j) for i, j in graph.edge_index.T.tolist() if i < j]


def drops_at(dropped: tuple[Edge, ...], nodes: int) -> Tensor:
    """How many of the edges each node loses."""
    return torch.bincount(torch.tensor(dropped, dtype=torch.long).flatten(), minlength=nodes)


def admissible_sets(
    graph: Graph, local: Tensor | int | None = None, total: int | None = None
) -> Iterator[tuple[Edge, ...]]:
    """Every set of edges with at most ``local`` of them at each node and ``total`` in all."""
    edges, limit = edges_of(graph), graph.degree if local is None else torch.as_tensor(local)
    for size in range(1 + (len(edges) if total is None else min(total, len(edges)))):
        for dropped in combinations(edges, size):
            if bool((drops_at(dropped, graph.num_nodes) <= limit).all()):
                yield dropped


def without(graph: Graph, dropped: tuple[Edge, ...]) -> Graph:
    kept = torch.tensor([edge for edge in edges_of(graph) if edge not in dropped], dtype=torch.long).reshape(-1, 2).T
    return Graph.from_edges(graph.x, torch.cat([kept, kept.flip(0)], dim=1))
