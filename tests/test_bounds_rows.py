"""The parts the bounds are made of: two hops around the anchors, cases of drop counts, and the row lemma."""

from itertools import combinations, product

import networkx as nx
import pytest
import torch
from torch import Tensor
from toys import admissible_sets, drop_problem, drops_at, edges_of, random_graph, random_tensor, toy_graph, without

from certgcl.bounds import neighbourhood
from certgcl.bounds.counts import DropCases, drop_cases
from certgcl.bounds.interval import BoxRows
from certgcl.bounds.neighbourhood import Hop, Neighbourhood
from certgcl.bounds.rows import least_scaled, least_terms, row_minimum, top_sums
from certgcl.budget import EdgeDropBudget
from certgcl.graph import Graph

BUDGETS = [EdgeDropBudget(local=1), EdgeDropBudget(local=2), EdgeDropBudget(), EdgeDropBudget(total=2),
           EdgeDropBudget(local=[0, 2, 1, 2, 1, 3])]


def hood_of(graph: Graph, budget: EdgeDropBudget, anchors: list[int] | None = None) -> Neighbourhood:
    return drop_problem(graph, budget, anchors).neighbourhood(torch.float64)


# -- two hops --------------------------------------------------------------------------------------


@pytest.mark.parametrize("anchors", [[0], [4, 1], [5], [3, 5, 0], list(range(6))])
def test_hops_hold_the_rows_of_the_anchors_and_of_all_they_touch(graph: Graph, anchors: list[int]) -> None:
    hood = hood_of(graph, EdgeDropBudget(local=1), anchors)
    assert hood.outer.nodes.tolist() == anchors
    assert torch.equal(hood.inner.nodes, hood.outer.targets)
    for hop in (hood.outer, hood.inner):
        for row, node in enumerate(hop.nodes.tolist()):
            slots = slice(int(hop.rowptr[row]), int(hop.rowptr[row + 1]))
            assert hop.targets[hop.col[slots]].tolist() == graph.col[graph.row == node].tolist()
            assert (hop.row[slots] == row).all()
            assert hop.targets[hop.own[row]] == node
    source = nx.Graph(edges_of(graph))
    source.add_node(5)
    within = {k for i in anchors for k in nx.single_source_shortest_path_length(source, i, cutoff=2)}
    assert hood.inner.targets.tolist() == sorted(within)


@pytest.mark.parametrize("anchors", [[0, 3], list(range(12))])
def test_return_place_leads_back_to_the_anchor(anchors: list[int]) -> None:
    graph = random_graph(seed=5)
    hood = hood_of(graph, EdgeDropBudget(local=1), anchors)
    row = hood.outer.col  # of the neighbour, among the inner rows
    slot = hood.inner.rowptr[row] + hood.return_place
    assert torch.equal(hood.inner.row[slot], row)
    assert torch.equal(hood.inner.targets[hood.inner.col[slot]], hood.outer.nodes[hood.outer.row])


@pytest.mark.parametrize("rows", [[0], [7, 2, 4], list(range(12))])
def test_pairs_of_lists_the_anchors_of_each_row_once(rows: list[int]) -> None:
    hood = hood_of(random_graph(seed=5), EdgeDropBudget(local=1), list(range(1, 12)))
    given = torch.tensor(rows)
    pair, row, rank = hood.pairs_of(given)
    assert torch.equal(hood.outer.col[pair], given[row])
    assert sorted(pair.tolist()) == torch.isin(hood.outer.col, given).nonzero()[:, 0].tolist()
    for k in range(len(rows)):
        assert sorted(rank[row == k].tolist()) == list(range(int((row == k).sum())))


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("seed", range(3))
def test_most_drops_is_what_a_neighbour_can_lose_while_the_edge_is_kept(seed: int, budget: EdgeDropBudget) -> None:
    graph = random_graph(nodes=6, density=0.5, seed=seed)
    drops = budget.on(graph)
    hop = hood_of(graph, budget).outer
    sets = list(admissible_sets(graph, drops.local, drops.total))
    for slot in range(hop.col.numel()):
        j, k = int(hop.nodes[hop.row[slot]]), int(hop.targets[hop.col[slot]])
        keeping = [dropped for dropped in sets if (min(j, k), max(j, k)) not in dropped]
        assert hop.most_drops[slot] == max(int(drops_at(dropped, 6)[k]) for dropped in keeping)
        assert hop.low[slot] == (graph.degree[k] + 1).double().pow(-0.5)
        assert hop.high[slot] == (graph.degree[k] + 1 - hop.most_drops[slot]).double().pow(-0.5)


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("source", [nx.gnp_random_graph(6, 0.5, seed=1), nx.path_graph(6), nx.star_graph(5)])
def test_box_holds_all_admissible_matrices_and_touches_them(source: nx.Graph, budget: EdgeDropBudget) -> None:
    graph = toy_graph(source)
    drops = budget.on(graph)
    hop = hood_of(graph, budget).outer
    box = BoxRows(hop)
    matrices = torch.stack([without(graph, dropped).gcn_matrix().to_dense()
                            for dropped in admissible_sets(graph, drops.local, drops.total)])
    least, most = matrices.amin(dim=0), matrices.amax(dim=0)
    torch.testing.assert_close(box.own_lower, least.diagonal(), rtol=1e-14, atol=0)
    torch.testing.assert_close(box.own_upper, most.diagonal(), rtol=1e-14, atol=0)
    torch.testing.assert_close(box.lower, least[graph.row, graph.col], rtol=1e-14, atol=0)
    reached = most[graph.row, graph.col]
    assert (box.upper >= reached * (1 - 1e-14)).all()
    # In a tree the ends of an edge share no neighbour, so only a total budget keeps both from their largest scale.
    if nx.is_forest(source) and budget.total is None:
        torch.testing.assert_close(box.upper, reached, rtol=1e-14, atol=0)


@pytest.mark.parametrize("limit", [1, 40, 1 << 22])
def test_blocks_hold_every_row_once(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(neighbourhood, "MAX_ELEMENTS", limit)
    graph = toy_graph(nx.disjoint_union(nx.star_graph(20), nx.gnp_random_graph(15, 0.4, seed=0)))
    hop = hood_of(graph, EdgeDropBudget(local=[k % 3 for k in range(36)])).inner
    blocks = list(hop.blocks(lambda size: 2))
    assert sorted(torch.cat([block.rows for block in blocks]).tolist()) == list(range(36))
    for block in blocks:
        assert len(block.rows) == 1 or 2 * block.slots.numel() <= limit
        assert block.max_budget == hop.budget[block.rows].max()
        assert block.slots.shape[1] <= max(1.25 * hop.degree[block.rows].max() + 1, 1)
        for place, row in enumerate(block.rows.tolist()):
            slots = block.slots[place][block.valid[place]]
            assert slots.tolist() == (hop.row == row).nonzero()[:, 0].tolist()
            assert torch.equal(block.droppable[place][block.valid[place]], hop.droppable[slots])
        assert not block.droppable[~block.valid].any()


# -- cases of drop counts --------------------------------------------------------------------------


def star_hop(leaves: int, budget: int) -> Hop:
    """The rows of a star whose centre may lose ``budget`` edges: row 0 is the centre."""
    return hood_of(toy_graph(nx.star_graph(leaves)), EdgeDropBudget(local=[budget] + [1] * leaves)).inner


def groups(cases: DropCases, row: int) -> list[list[int]]:
    number = int(cases.number[row])
    return [list(range(first, last + 1)) for first, last in
            zip(cases.first[row, :number].tolist(), cases.last[row, :number].tolist(), strict=True)]


@pytest.mark.parametrize(("leaves", "budget"), [(1, 1), (4, 0), (5, 5), (11, 7), (20, 3), (30, 30), (60, 24)])
def test_cases_cut_the_counts_into_consecutive_groups(leaves: int, budget: int) -> None:
    hop = star_hop(leaves, budget)
    for resolution in range(1, budget + 4):
        cases = drop_cases(hop, resolution)
        for row, q in enumerate(hop.budget.tolist()):
            found = groups(cases, row)
            assert len(found) == min(q + 1, resolution)
            assert all(found)
            assert [count for group in found for count in group] == list(range(q + 1))
        assert cases.total == sum(min(q + 1, resolution) for q in hop.budget.tolist())


@pytest.mark.parametrize(("leaves", "budget"), [(5, 5), (9, 2), (11, 7), (58, 31), (60, 24)])
def test_the_full_budget_is_a_group_of_its_own(leaves: int, budget: int) -> None:
    # Whether a neighbour can reach it depends on the pair, so nothing else may share its fate.
    hop = star_hop(leaves, budget)
    for resolution in range(2, budget + 4):
        assert groups(drop_cases(hop, resolution), 0)[-1] == [budget]


def test_groups_have_scales_that_grow_by_about_one_factor() -> None:
    cases = drop_cases(star_hop(100, 90), 6)
    growth = (cases.first[0, 1:] - 101) / (cases.first[0, :-1] - 101)
    assert growth.min() > 0.5
    assert growth.max() < 0.75


@pytest.mark.parametrize("resolution", [1, 2, 3, 9])
def test_a_case_knows_its_scales_and_its_place(resolution: int) -> None:
    hop = star_hop(6, 4)
    cases = drop_cases(hop, resolution)
    assert torch.equal(cases.low, (hop.degree[:, None] + 1 - cases.first).double().pow(-0.5))
    assert torch.equal(cases.high, (hop.degree[:, None] + 1 - cases.last).double().pow(-0.5))
    flat = [cases.table()[row, g].item() for row in range(7) for g in range(int(cases.number[row]))]
    assert flat == list(range(cases.total))
    rows = torch.tensor([2, 0])
    few = cases.of(rows)
    assert torch.equal(few.table(), cases.table()[rows, : few.most])
    for g in range(cases.most):
        assert torch.equal(cases.flat(rows, g), cases.table()[rows, g])


# -- the row lemma ---------------------------------------------------------------------------------


def test_least_scaled_takes_the_scale_that_hurts() -> None:
    value = torch.tensor([2.0, -2.0, 0.0])
    assert least_scaled(torch.tensor(0.5), torch.tensor(3.0), value).tolist() == [1.0, -6.0, 0.0]


@pytest.mark.parametrize("most", [0, 1, 3, 5, 8])
def test_top_sums_are_those_of_the_largest_droppable_values(most: int) -> None:
    values = random_tensor(4, 5, 3, seed=0)
    droppable = torch.tensor([[True] * 5, [False] * 5, [True, False, True, False, True], [False, True] + [False] * 3])
    sums = top_sums(values, droppable, most)
    assert sums.shape == (4, most + 1, 3)
    for row, t, column in product(range(4), range(most + 1), range(3)):
        largest = sorted(values[row, droppable[row], column].tolist(), reverse=True)[:t]
        assert sums[row, t, column].item() == pytest.approx(sum(largest))


def by_lemma(hop: Hop, cases: DropCases, values: Tensor) -> Tensor:
    """The lemma on the columns of ``values``, one for each target: the least ``Σ_k Â_jk v_k``, case by case."""
    return row_minimum(hop, cases, terms=lambda block: least_terms(block, hop, values[block.gather(hop.col)]),
                       own=lambda rows, flat, scale: scale * values[hop.own[rows], None], width=values.shape[1])


STAR_BUDGETS = [[0] * 6, [5] + [1] * 5, [2] + [1] * 5, [4, 1, 0, 1, 0, 1], [1, 1, 1, 0, 0, 0]]


@pytest.mark.parametrize("local", STAR_BUDGETS)
@pytest.mark.parametrize("seed", range(3))
def test_lemma_is_exact_on_a_star(seed: int, local: list[int]) -> None:
    graph = toy_graph(nx.star_graph(5))
    values = random_tensor(6, 4, seed=seed)
    hop = hood_of(graph, EdgeDropBudget(local=local)).inner
    cases = drop_cases(hop, resolution=9)
    found = by_lemma(hop, cases, values)
    least = torch.full_like(found, torch.inf)
    for size in range(6):
        for dropped in combinations(edges_of(graph), size):
            count = drops_at(dropped, 6)
            if bool((count <= torch.tensor(local)).all()):
                product_ = without(graph, dropped).gcn_matrix() @ values
                place = cases.offset + count
                least[place] = least[place].minimum(product_)
    torch.testing.assert_close(found, least, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("resolution", [1, 2, 3, 5])
def test_lemma_of_a_group_is_that_of_its_worst_count(resolution: int) -> None:
    graph = random_graph(nodes=12, density=0.6, seed=4)
    values = random_tensor(12, 3, seed=0)
    hop = hood_of(graph, EdgeDropBudget(local=[k % 7 for k in range(12)])).inner
    single, grouped = drop_cases(hop, 99), drop_cases(hop, resolution)
    by_count, by_group = by_lemma(hop, single, values), by_lemma(hop, grouped, values)
    for row in range(12):
        for g, counts in enumerate(groups(grouped, row)):
            expected = by_count[single.offset[row] + torch.tensor(counts)].amin(dim=0)
            torch.testing.assert_close(by_group[grouped.offset[row] + g], expected, rtol=1e-14, atol=0)


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("seed", range(4))
def test_lemma_bounds_every_admissible_view(seed: int, budget: EdgeDropBudget) -> None:
    graph = random_graph(nodes=6, density=0.5, seed=seed)
    values = random_tensor(6, 4, seed=seed)
    drops = budget.on(graph)
    hop = hood_of(graph, budget).inner
    cases = drop_cases(hop, resolution=9)
    found = by_lemma(hop, cases, values)
    for dropped in admissible_sets(graph, drops.local, drops.total):
        place = cases.offset + drops_at(dropped, 6)
        assert (found[place] <= without(graph, dropped).gcn_matrix() @ values + 1e-13).all()
