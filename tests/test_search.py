from itertools import combinations

import networkx as nx
import pytest
import torch
from toys import admissible_sets, drops_at, random_graph, random_tensor, toy_graph, toy_weights, without

from certgcl import search
from certgcl.budget import AdmissibleDrops, EdgeDropBudget
from certgcl.graph import Graph
from certgcl.search import ReceptiveField, greedy_drop

WEIGHTS = toy_weights()


def field_of(graph: Graph, anchor: int, budget: EdgeDropBudget | int = 2) -> tuple[ReceptiveField, AdmissibleDrops]:
    drops = EdgeDropBudget.of(budget).on(graph)
    field = ReceptiveField.around(graph, drops, WEIGHTS, anchor)
    assert field is not None
    return field, drops


def edges_at(graph: Graph, field: ReceptiveField, positions: torch.Tensor) -> tuple[tuple[int, int], ...]:
    return tuple((i, j) for i, j in graph.edge_index[:, field.slots[positions]].T.tolist())


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("anchor", [3, 7, 9])
def test_a_field_is_all_that_an_embedding_depends_on(anchor: int, sparse: bool) -> None:
    """Every pair of droppable edges in it: the same embedding as the encoder has on the changed graph."""
    graph = random_graph(nodes=12, density=0.25, sparse=sparse)
    field, _ = field_of(graph, anchor)
    pairs = torch.tensor(list(combinations(range(field.edges.shape[1]), 2)))
    expected = torch.stack([WEIGHTS.embed(without(graph, edges_at(graph, field, pair)))[anchor]
                            for pair in pairs])
    torch.testing.assert_close(field.embeddings(pairs), expected)


def test_a_field_has_the_nodes_within_two_hops_and_the_edges_at_them() -> None:
    graph = toy_graph(nx.path_graph(8))
    field, _ = field_of(graph, 2)
    assert field.nodes.tolist() == [2, 1, 3, 0, 4, 5]
    assert field.degree.tolist() == [3, 3, 3, 2, 3, 3]
    assert field.adjacency.shape == (3, 5)
    assert edges_at(graph, field, torch.arange(5)) == ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5))
    assert [{i, j} for i, j in field.nodes[field.edges].T.tolist()] == [{k, k + 1} for k in range(5)]


def test_a_node_alone_has_nothing_to_drop() -> None:
    field, drops = field_of(toy_graph(nx.disjoint_union(nx.empty_graph(1), nx.path_graph(2))), 0)
    assert greedy_drop(field, drops, torch.ones(3, dtype=torch.float64)).numel() == 0


@pytest.mark.parametrize("budget", [EdgeDropBudget(local=1), EdgeDropBudget(local=2), EdgeDropBudget(total=2)])
@pytest.mark.parametrize("anchor", range(6))
def test_the_search_stays_admissible_and_comes_near_the_minimum(budget: EdgeDropBudget, anchor: int) -> None:
    graph = random_graph(nodes=6, density=0.5, seed=anchor)
    field, drops = field_of(graph, anchor, budget)
    direction = random_tensor(3, seed=anchor)
    found = edges_at(graph, field, greedy_drop(field, drops, direction))
    assert bool((drops_at(found, 6) <= drops.local).all())
    assert len(found) <= drops.total
    clean, value = (float(WEIGHTS.embed(view)[anchor] @ direction) for view in (graph, without(graph, found)))
    lowest = min(float(WEIGHTS.embed(without(graph, dropped))[anchor] @ direction)
                 for dropped in admissible_sets(graph, drops.local, drops.total))
    assert lowest - 1e-12 <= value <= clean
    assert clean - value >= 0.3 * (clean - lowest)  # a whole set may be better than its edges one by one


def test_large_fields_are_left_out_and_steps_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph(nodes=12, density=0.4)
    field, drops = field_of(graph, 0)
    direction = random_tensor(3, seed=0)
    monkeypatch.setattr(search, "MOST_DROPPED", 1)
    monkeypatch.setattr(search, "MOST_TRIED", 2)
    assert len(greedy_drop(field, drops, direction)) <= 1
    monkeypatch.setattr(search, "LARGEST_FIELD", field.adjacency.numel() - 1)
    assert ReceptiveField.around(graph, drops, WEIGHTS, 0) is None
