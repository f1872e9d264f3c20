"""Two hops around the anchors, and what may be dropped in them."""

import networkx as nx
import pytest
import torch

from certgcl.bounds.two_layer import neighbourhood
from certgcl.bounds.two_layer.box import BoxRows
from certgcl.bounds.two_layer.neighbourhood import edges_between_neighbours, reached
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.graphs.graph import Graph
from tests.toys import (
    SIX_NODE_BUDGETS,
    admissible_sets,
    drops_at,
    edges_of,
    hood_of,
    hubs_and_others,
    random_graph,
    toy_graph,
    without,
)

ANCHORS = [[0], [4, 1], [5], [3, 5, 0], list(range(6))]


@pytest.mark.parametrize("anchors", ANCHORS)
def test_hops_hold_the_rows_of_the_anchors_and_of_all_they_touch(graph: Graph, anchors: list[int]) -> None:
    hood = hood_of(graph, EdgeDropBudget(local=1), anchors)
    assert hood.outer.nodes.tolist() == anchors
    assert torch.equal(hood.inner.nodes, hood.outer.targets)
    for hop in (hood.outer, hood.inner):
        assert hop.rowptr[-1] == len(hop.col)
        for row, node in enumerate(hop.nodes.tolist()):
            slots = slice(int(hop.rowptr[row]), int(hop.rowptr[row + 1]))
            assert sorted(hop.targets[hop.col[slots]].tolist()) == graph.col[graph.row == node].tolist()
            assert (hop.row[slots] == row).all()
            assert hop.targets[hop.own[row]] == node
        assert torch.equal(graph.row[hop.graph_slot], hop.nodes[hop.row])
        assert torch.equal(graph.col[hop.graph_slot], hop.targets[hop.col])
    source = nx.Graph(edges_of(graph))
    source.add_node(5)
    within = {k for i in anchors for k in nx.single_source_shortest_path_length(source, i, cutoff=2)}
    assert hood.inner.targets.tolist() == sorted(within)


@pytest.mark.parametrize("anchors", ANCHORS)
def test_what_is_reached_is_known_without_building_it(graph: Graph, anchors: list[int]) -> None:
    inner = hood_of(graph, EdgeDropBudget(local=1), anchors).inner
    nodes, targets = reached(graph, torch.tensor(anchors))
    assert torch.equal(nodes, inner.nodes)
    assert targets == len(inner.targets)


@pytest.mark.parametrize("anchors", [[0, 3], list(range(1, 12)), list(range(12))])
def test_a_pair_is_an_inner_slot_that_leads_to_an_anchor(anchors: list[int]) -> None:
    hood = hood_of(random_graph(seed=5), EdgeDropBudget(local=1), anchors)
    outer, inner = hood.outer, hood.inner
    to_anchor = torch.isin(inner.targets[inner.col], outer.nodes)
    assert torch.equal(hood.pair >= 0, to_anchor)
    pair = hood.pair[to_anchor]
    assert sorted(pair.tolist()) == list(range(len(outer.col)))
    assert torch.equal(outer.col[pair], inner.row[to_anchor])
    assert torch.equal(outer.nodes[outer.row[pair]], inner.targets[inner.col[to_anchor]])


@pytest.mark.parametrize("every", [1, 2, 3])
def test_in_inner_rows_anchors_come_first_and_large_budgets_before_small_ones(every: int) -> None:
    graph, budget = hubs_and_others()
    local = budget.on(graph).local
    hood = hood_of(graph, budget, list(range(0, graph.num_nodes, every)))
    inner, mixed = hood.inner, False
    for row in range(len(inner.nodes)):
        slots = slice(int(inner.rowptr[row]), int(inner.rowptr[row + 1]))
        is_anchor = (hood.pair[slots] >= 0).tolist()
        number = int(hood.anchors_around[row])
        assert is_anchor == [True] * number + [False] * (len(is_anchor) - number)
        budgets = local[inner.targets[inner.col[slots]]][:number].tolist()
        assert budgets == sorted(budgets, reverse=True)
        mixed |= len(set(budgets)) > 1
    assert mixed


def test_without_edges_there_are_no_pairs() -> None:
    hood = hood_of(toy_graph(nx.empty_graph(3)), EdgeDropBudget(), [2, 0])
    assert hood.pair.shape == hood.outer.col.shape == hood.inner.col.shape == (0,)
    assert hood.anchors_around.tolist() == [0, 0]


@pytest.mark.parametrize("budget", SIX_NODE_BUDGETS)
@pytest.mark.parametrize("seed", range(3))
def test_most_drops_is_what_a_neighbour_can_lose_while_the_edge_is_kept(seed: int, budget: EdgeDropBudget) -> None:
    graph = random_graph(nodes=6, density=0.5, seed=seed)
    drops = budget.on(graph)
    hood = hood_of(graph, budget)
    sets = list(admissible_sets(graph, drops.local, drops.total))
    for hop in (hood.outer, hood.inner):
        for slot in range(hop.col.numel()):
            j, k = int(hop.nodes[hop.row[slot]]), int(hop.targets[hop.col[slot]])
            keeping = [dropped for dropped in sets if (min(j, k), max(j, k)) not in dropped]
            assert hop.droppable[slot] == (len(keeping) < len(sets))
            assert hop.most_drops[slot] == max(int(drops_at(dropped, 6)[k]) for dropped in keeping)
            assert hop.low[slot] == (graph.degree[k] + 1).double().pow(-0.5)
            assert hop.high[slot] == (graph.degree[k] + 1 - hop.most_drops[slot]).double().pow(-0.5)


@pytest.mark.parametrize("budget", SIX_NODE_BUDGETS)
@pytest.mark.parametrize("source", [nx.gnp_random_graph(6, 0.5, seed=1), nx.path_graph(6), nx.star_graph(5)])
def test_box_holds_all_admissible_matrices_and_touches_them(source: nx.Graph, budget: EdgeDropBudget) -> None:
    graph = toy_graph(source)
    drops = budget.on(graph)
    hop = hood_of(graph, budget).outer
    box = BoxRows(hop)
    matrices = torch.stack(
        [
            without(graph, dropped).gcn_matrix().to_dense()
            for dropped in admissible_sets(graph, drops.local, drops.total)
        ]
    )
    least, most = matrices.amin(dim=0), matrices.amax(dim=0)
    torch.testing.assert_close(box.own_lower, least.diagonal(), rtol=1e-14, atol=0)
    torch.testing.assert_close(box.own_upper, most.diagonal(), rtol=1e-14, atol=0)
    torch.testing.assert_close(box.lower, least[graph.row, graph.col], rtol=1e-14, atol=0)
    reached = most[graph.row, graph.col]
    assert (box.upper >= reached * (1 - 1e-14)).all()
    # In a tree the ends of an edge share no neighbour, so only a total budget keeps both from their largest scale.
    if nx.is_forest(source) and budget.total is None:
        torch.testing.assert_close(box.upper, reached, rtol=1e-14, atol=0)


def test_edges_between_neighbours_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, nodes = random_graph(density=0.5), torch.arange(11, -1, -1)
    drops = EdgeDropBudget(local=[0, 0, *[1] * 10]).on(graph)
    source = nx.Graph(edges_of(graph))
    expected = [sum(u > 1 and v > 1 for u, v in source.subgraph(source[node]).edges) for node in nodes.tolist()]
    assert edges_between_neighbours(graph, drops, nodes).tolist() == expected
    assert max(expected) > 2
    monkeypatch.setattr(neighbourhood, "MAX_PATHS", 0)
    assert (edges_between_neighbours(graph, drops, nodes) >= torch.tensor(expected)).all()


def test_no_total_is_no_limit_even_around_hubs() -> None:
    graph = toy_graph(nx.complete_graph(6))
    assert not EdgeDropBudget(local=3).on(graph).limited
    assert hood_of(graph, EdgeDropBudget(local=3)).inner.total is None
    assert EdgeDropBudget(local=3, total=14).on(graph).limited
    assert hood_of(graph, EdgeDropBudget(local=3, total=14)).inner.total is not None
