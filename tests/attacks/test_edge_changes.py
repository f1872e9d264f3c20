"""The search for dropped and added edges: its values are reached, and by exhaustion it is exact."""

import networkx as nx
import pytest
import torch

import certgcl
from certgcl import Changes, EdgeAddBudget, EdgeFlipBudget
from certgcl.attacks import edge_search
from tests.toys import random_graph, toy_graph, toy_network

CHANGES = [
    Changes(additions=1),
    Changes(drops=1, additions=EdgeAddBudget(2, 3)),
    Changes(flips=EdgeFlipBudget(1, 2)),
    Changes(drops=2),
    Changes(additions=EdgeAddBudget(candidates=[(0, 5), (1, 6), (2, 7)])),
]


@pytest.mark.parametrize("changes", CHANGES, ids=repr)
def test_what_is_found_is_admissible_and_reached(changes: Changes) -> None:
    graph, network = random_graph(), toy_network()
    found = certgcl.search_changes(network, graph, changes, nodes=[0, 3, 7])
    assert bool(found.searched.all())
    allowed = changes.on(graph)
    bound = certgcl.node_compactness(network, graph, changes, nodes=[0, 3, 7])
    directions = certgcl.compactness_directions(network.embed(graph))
    for place, node in enumerate(found.nodes.tolist()):
        dropped, added = found.witness(node)
        lost, gained = (torch.bincount(edges.flatten(), minlength=graph.num_nodes) for edges in (dropped, added))
        assert bool((lost <= allowed.drops.local).all())
        assert allowed.additions is None or bool((gained <= allowed.additions.local).all())
        edges = {tuple(sorted(edge)) for edge in graph.edge_index.T.tolist()}
        gone, new = ({tuple(sorted(edge)) for edge in each.T.tolist()} for each in (dropped, added))
        assert gone <= edges
        assert not new & edges
        value = float(network.embed(_with(graph, edges - gone | new))[node] @ directions[node])
        assert value == pytest.approx(float(found.values[place]), abs=1e-12)
        assert found.values[place] <= found.clean[place]
        assert bound.lower[place] <= found.values[place] + 1e-9


def _with(graph: certgcl.Graph, edges: set[tuple[int, ...]]) -> certgcl.Graph:
    index = torch.tensor(sorted(edges)).T
    return certgcl.Graph.from_edges(graph.x, torch.cat([index, index.flip(0)], dim=1))


def test_few_changes_are_all_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, network = toy_graph(nx.path_graph(5)), toy_network()
    changes = Changes(drops=1, additions=EdgeAddBudget(1, 1))
    whole = certgcl.search_changes(network, graph, changes)
    assert bool(whole.exact.all())
    monkeypatch.setattr(edge_search, "FEW_CHANGES", 0)
    greedy = certgcl.search_changes(network, graph, changes)
    assert not bool(greedy.exact.any())
    assert bool((greedy.values >= whole.values - 1e-12).all())
    assert bool((certgcl.node_compactness(network, graph, changes).lower <= whole.values + 1e-9).all())


def test_without_time_nothing_is_searched() -> None:
    found = certgcl.search_changes(toy_network(), random_graph(), Changes(additions=1), seconds=0)
    assert not bool(found.searched.any())
    assert torch.equal(found.values, found.clean)
    assert "no time" in str(found)


def test_features_are_found_together_with_edges() -> None:
    graph, network, budget = random_graph(), toy_network(), certgcl.FeatureBudget(masked=1)
    edges = certgcl.search_changes(network, graph, Changes(additions=1))
    found = certgcl.search_changes(network, graph, Changes(additions=1, features=budget))
    assert not bool(found.exact.any())
    assert bool((found.values <= edges.values).all())
    assert bool((found.values < edges.values).any())
    directions = certgcl.compactness_directions(network.embed(graph))
    for place, node in enumerate(found.nodes.tolist()):
        dropped, added = found.witness(node)
        entries = found.changed_features(node)
        assert entries.fault(graph, budget.on(graph)) is None
        there = {tuple(sorted(edge)) for edge in graph.edge_index.T.tolist()}
        gone, new = ({tuple(sorted(edge)) for edge in each.T.tolist()} for each in (dropped, added))
        view = _with(graph.with_features(entries.applied(graph)), there - gone | new)
        assert float(network.embed(view)[node] @ directions[node]) == pytest.approx(
            float(found.values[place]), abs=1e-9
        )


@pytest.mark.parametrize("changes", CHANGES, ids=repr)
def test_room_is_left_where_one_more_change_is_allowed(changes: Changes) -> None:
    graph = random_graph()
    search = edge_search.EdgeSearch(toy_network(), graph, changes.on(graph))
    droppable, pairs = sorted(search.droppable), search.candidates(torch.arange(graph.num_nodes))
    for lost, gained in (([], []), (droppable[:1], []), ([], pairs[:1]), (droppable[:1], pairs[:1])):
        loses, gains = search._room(lost, gained)
        if not search.allowed(lost, gained):
            continue
        assert all(search.allowed([*lost, (u, v)], gained) == bool(loses[u] & loses[v]) for u, v in droppable[1:])
        assert all(search.allowed(lost, [*gained, (u, v)]) == bool(gains[u] & gains[v]) for u, v in pairs[1:])
