"""Rows laid side by side in blocks, and the anchors among their neighbours."""

from collections.abc import Callable
from itertools import product

import networkx as nx
import pytest
import torch

from certgcl.bounds.propagation.drop_counts import DropCases, drop_cases
from certgcl.bounds.two_layer import blocks
from certgcl.bounds.two_layer.blocks import Block, pairs_of
from certgcl.bounds.two_layer.neighbourhood import Hop, Neighbourhood, inverse_sqrt_degree
from certgcl.bounds.two_layer.row_tables import take
from certgcl.changes.edge_drops import EdgeDropBudget
from tests.toys import hood_of, hubs_and_others, random_tensor, toy_graph

Width = Callable[[int, int], int]

every_limit = pytest.mark.parametrize("limit", [1, 60, 400, 1 << 20])
every_resolution = pytest.mark.parametrize("resolution", [1, 3, 9])
every_width = pytest.mark.parametrize(
    "width", [lambda size, cases: 2, lambda size, cases: 3 * cases, lambda size, cases: size]
)


def hood(every: int = 1) -> Neighbourhood:
    graph, budget = hubs_and_others()
    return hood_of(graph, budget, list(range(0, graph.num_nodes, every)))


def made(hop: Hop, resolution: int, width: Width = lambda size, cases: 1) -> tuple[DropCases, list[Block]]:
    cases = drop_cases(hop, resolution)
    return cases, list(blocks.blocks(hop, cases, width, torch.arange(len(hop.nodes))))


def test_take_is_indexing_of_the_first_dimension() -> None:
    for table in (random_tensor(5, seed=0), random_tensor(5, 2, seed=0), random_tensor(5, 2, 3, seed=0)):
        for index in (torch.tensor([4, 0, 4]), torch.tensor([[1], [3]]), torch.zeros(2, 0, dtype=torch.long)):
            assert torch.equal(take(table, index), table[index])


# -- blocks ----------------------------------------------------------------------------------------


@every_limit
@every_resolution
def test_blocks_hold_every_row_once(monkeypatch: pytest.MonkeyPatch, limit: int, resolution: int) -> None:
    monkeypatch.setattr(blocks, "MAX_ELEMENTS", limit)
    hop = hood().inner
    _, found = made(hop, resolution)
    assert sorted(torch.cat([block.rows for block in found]).tolist()) == list(range(len(hop.nodes)))


@pytest.mark.parametrize("rows", [[], [3], [7, 0, 21, 36]])
@pytest.mark.parametrize("sorted_by", [None, torch.arange(43)])
def test_blocks_of_some_rows_hold_these(rows: list[int], sorted_by: torch.Tensor | None) -> None:
    hop = hood().inner
    found = list(
        blocks.blocks(hop, drop_cases(hop, 3), lambda size, cases: 1, torch.tensor(rows, dtype=torch.long), sorted_by)
    )
    assert sorted(row for block in found for row in block.rows.tolist()) == sorted(rows)


@every_limit
def test_a_block_knows_the_slots_of_its_rows(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(blocks, "MAX_ELEMENTS", limit)
    hop = hood().inner
    for block in made(hop, 9)[1]:
        assert torch.equal(block.own, hop.own[block.rows])
        for place, row in enumerate(block.rows.tolist()):
            valid = block.valid[place]
            slots = block.slots[place, valid]
            assert slots.tolist() == (hop.row == row).nonzero()[:, 0].tolist()
            assert torch.equal(block.droppable[place, valid], hop.droppable[slots])
            assert torch.equal(block.target[place, valid], hop.col[slots])
            assert torch.equal(block.neighbours.low[place, valid], hop.low[slots])
            assert torch.equal(block.neighbours.high[place, valid], hop.high[slots])
        for values in (block.slots, block.droppable, block.target, block.neighbours.low, block.neighbours.high):
            assert not values[~block.valid].any()
        droppable = torch.stack([hop.droppable[hop.row == row].sum() for row in block.rows])
        assert torch.equal(block.droppable_terms, droppable)
        assert block.least_droppable == droppable.min()
        assert torch.equal(block.never_dropped, torch.where(block.droppable, 0.0, -torch.inf).double())
        assert block.all_droppable == block.droppable.all()


@every_limit
@every_resolution
def test_a_block_knows_the_cases_of_its_rows(monkeypatch: pytest.MonkeyPatch, limit: int, resolution: int) -> None:
    monkeypatch.setattr(blocks, "MAX_ELEMENTS", limit)
    hop = hood().inner
    cases, found = made(hop, resolution)
    for block in found:
        number = cases.number[block.rows]
        assert block.cases.most == number.max()
        assert torch.equal(block.cases.first, cases.first[block.rows, : block.cases.most])
        assert torch.equal(block.has_case().sum(dim=1), number)
        assert block.most == hop.budget[block.rows].max()
        assert (block.scale.high is None) == bool((hop.budget[block.rows] < resolution).all())
        degree = hop.degree[block.rows, None]
        assert torch.equal(block.scale.low, inverse_sqrt_degree(degree, block.cases.first, torch.float64))


@every_limit
@every_resolution
def test_a_case_has_the_counts_of_all_rows_that_have_it(
    monkeypatch: pytest.MonkeyPatch, limit: int, resolution: int
) -> None:
    monkeypatch.setattr(blocks, "MAX_ELEMENTS", limit)
    for block in made(hood().inner, resolution)[1]:
        for case, counts in enumerate(block.counts):
            seen = set()
            for count, (row, has) in product(counts.one_by_one, enumerate(block.has_case()[:, case].tolist())):
                inside = block.cases.first[row, case] <= count.number <= block.cases.last[row, case]
                if has and inside:
                    seen.add(count.number)
                    scale = float(block.cases.degree[row] + 1 - count.number) ** -0.5
                    assert float(count.scale[row]) == pytest.approx(scale, rel=1e-14)
                    assert float(count.square[row]) == pytest.approx(scale**2, rel=1e-14)
                masked = count.outside is not None and bool(torch.isinf(count.outside[row]))
                assert masked == (has and not inside)
            assert (min(seen), max(seen)) == (counts.numbers[0], counts.numbers[-1])
            together = torch.cat([count.scale for count in counts.one_by_one], dim=1)[..., None]
            assert torch.equal(counts.together.scale.flatten(1), together.flatten(1))


@every_limit
@every_width
def test_blocks_are_no_larger_than_allowed_or_hold_one_row(
    monkeypatch: pytest.MonkeyPatch, limit: int, width: Width
) -> None:
    monkeypatch.setattr(blocks, "MAX_ELEMENTS", limit)
    _, found = made(hood().inner, 4, width)
    for block in found:
        assert len(block.rows) == 1 or block.slots.numel() * width(block.size, block.cases.most) <= limit


def test_what_fits_is_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    hop = hood().inner
    everything = len(hop.nodes) * 20 * 8  # rows, neighbours, cases
    monkeypatch.setattr(blocks, "MAX_ELEMENTS", everything)
    assert len(made(hop, 9, lambda size, cases: cases)[1]) == 1
    monkeypatch.setattr(blocks, "MAX_ELEMENTS", everything - 1)
    assert len(made(hop, 9, lambda size, cases: cases)[1]) == 2


@every_limit
@pytest.mark.parametrize("small", [0, 1 << 18])
def test_rows_are_padded_to_about_the_largest_of_their_block(
    monkeypatch: pytest.MonkeyPatch, limit: int, small: int
) -> None:
    monkeypatch.setattr(blocks, "MAX_ELEMENTS", limit)
    monkeypatch.setattr(blocks, "SMALL_BLOCK", small)
    hop = hood_of(toy_graph(nx.disjoint_union_all([nx.star_graph(d) for d in range(1, 70)])), EdgeDropBudget()).inner
    for block in made(hop, 1)[1]:
        largest = int(hop.degree[block.rows].max())
        assert largest <= block.size < 1.25 * largest


def test_without_small_blocks_only_rows_of_one_kind_come_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "SMALL_BLOCK", 0)
    hop = hood().inner
    cases, found = made(hop, 4)
    assert any(len(block.rows) > 1 for block in found)
    for block in found:
        assert len(cases.number[block.rows].unique()) == 1
        assert hop.degree[block.rows].max() <= max(1, 1.25 * hop.degree[block.rows].min())


def test_similar_rows_come_together() -> None:
    hop = hood_of(toy_graph(nx.cycle_graph(30)), EdgeDropBudget(local=1)).inner
    similar = torch.arange(30) * 7 % 30
    found = list(blocks.blocks(hop, drop_cases(hop, 2), lambda size, cases: 1 << 17, torch.arange(30), similar))
    assert len(found) > 1
    order = torch.cat([similar[block.rows] for block in found]).tolist()
    assert order == sorted(order, reverse=True)


def test_rows_without_neighbours_make_a_block() -> None:
    hop = hood_of(toy_graph(nx.empty_graph(4)), EdgeDropBudget()).inner
    (block,) = made(hop, 6)[1]
    assert block.rows.tolist() == [0, 1, 2, 3]
    for values in (block.valid, block.droppable, block.target, block.neighbours.low):
        assert values.shape == (4, 1)
        assert not values.any()


# -- pairs -----------------------------------------------------------------------------------------


@every_limit
@pytest.mark.parametrize("every", [1, 3])
def test_pairs_of_all_blocks_are_all_pairs(monkeypatch: pytest.MonkeyPatch, limit: int, every: int) -> None:
    monkeypatch.setattr(blocks, "MAX_ELEMENTS", limit)
    around = hood(every)
    outer, inner = around.outer, around.inner
    cases, seen = drop_cases(outer, 3), []
    for block in made(inner, 3)[1]:
        pairs = pairs_of(block, around, cases)
        assert torch.equal(pairs.valid.sum(dim=1), around.anchors_around[block.rows])
        assert torch.equal(outer.col[pairs.pair][pairs.valid], block.rows[:, None].expand_as(pairs.valid)[pairs.valid])
        assert torch.equal(pairs.anchor, outer.row[pairs.pair])
        droppable = outer.droppable[pairs.pair[pairs.valid]]
        if pairs.never_dropped is None:
            assert droppable.all()
        else:
            assert torch.equal(pairs.never_dropped[pairs.valid], torch.where(droppable, 0.0, -torch.inf).double())
        # They stand in the first places of their rows.
        target = block.target[:, : pairs.valid.shape[1]]
        assert torch.equal(inner.targets[target][pairs.valid], outer.nodes[pairs.anchor][pairs.valid])
        seen += pairs.pair[pairs.valid].tolist()
    assert sorted(seen) == list(range(len(outer.col)))


@every_resolution
def test_cases_are_out_of_reach_that_need_the_edge_itself(resolution: int) -> None:
    around, some = hood(), 0
    for block in made(around.inner, resolution)[1]:
        pairs = pairs_of(block, around, drop_cases(around.outer, resolution))
        for place, rank in pairs.valid.nonzero().tolist():
            most = int(around.outer.most_drops[pairs.pair[place, rank]])
            number = int(block.cases.number[place])
            reached = [int(first) <= most for first in block.cases.first[place, :number]]
            assert reached[0]
            some += not all(reached)
            reached += [False] * (block.cases.most - number)
            if pairs.out_of_reach is None:
                assert all(reached)
            else:
                assert pairs.out_of_reach[place, rank].tolist() == [0.0 if case else torch.inf for case in reached]
    assert (some > 0) == (resolution > 1)


@every_limit
@every_resolution
def test_anchors_with_a_case_stand_in_its_columns(monkeypatch: pytest.MonkeyPatch, limit: int, resolution: int) -> None:
    monkeypatch.setattr(blocks, "MAX_ELEMENTS", limit)
    around = hood()
    outer, cases = around.outer, drop_cases(around.outer, resolution)
    for block in made(around.inner, resolution)[1]:
        pairs = pairs_of(block, around, cases)
        assert len(pairs.columns) == len(pairs.tau)
        number = torch.where(pairs.valid, cases.number[pairs.anchor], 0)
        assert len(pairs.columns) == max(number.flatten().tolist(), default=0)
        for case, (columns, tau) in enumerate(zip(pairs.columns, pairs.tau, strict=True)):
            having = number > case
            assert columns == having.sum(dim=1).max()
            assert not having[:, columns:].any()
            having, anchor = having[:, :columns], pairs.anchor[:, :columns]
            ends = (tau.low, tau.low if tau.high is None else tau.high)
            assert tau.high is None or not torch.equal(tau.low, tau.high)
            for end, dropped in zip(ends, (cases.first, cases.last), strict=True):
                expected = inverse_sqrt_degree(outer.degree[anchor], dropped[anchor, case], torch.float64)
                assert torch.equal(end[having], expected[having])


def test_rows_without_anchors_have_no_pairs() -> None:
    around = hood_of(toy_graph(nx.empty_graph(3)), EdgeDropBudget())
    (block,) = made(around.inner, 6)[1]
    pairs = pairs_of(block, around, drop_cases(around.outer, 6))
    assert pairs.pair.shape == pairs.valid.shape == (3, 0)
    assert pairs.columns == pairs.tau == []
