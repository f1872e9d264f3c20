"""What is made once for graph and budget: the blocks, and where each of their results stands."""

from collections.abc import Iterator
from typing import get_args

import networkx as nx
import pytest
import torch
from torch import Tensor

from certgcl.bounds.propagation.drop_counts import drop_cases
from certgcl.bounds.two_layer import blocks
from certgcl.bounds.two_layer import row_plan as plan_module
from certgcl.bounds.two_layer.blocks import SMALL_BLOCK
from certgcl.bounds.two_layer.neighbourhood import Neighbourhood
from certgcl.bounds.two_layer.row_plan import FlatCases, LineSharing, PairedPartition, Partition, RowPlan
from certgcl.changes.edge_drops import EdgeDropBudget
from tests.toys import hood_of, hubs_and_others, toy_graph

every_limit = pytest.mark.parametrize("limit", [1, 60, 400, 1 << 20])
every_resolution = pytest.mark.parametrize("resolution", [1, 3, 9])
every_hub = pytest.mark.parametrize("hubs", [None, 4])


def width(size: int, cases: int) -> int:
    return 2 * cases


@pytest.fixture
def hood() -> Neighbourhood:
    graph, budget = hubs_and_others()
    return hood_of(graph, budget, list(range(0, graph.num_nodes, 2)))


def names(number: Tensor, most: int) -> Tensor:
    """A number for every row and case, ``(rows, most)``; beyond a row's cases, that of its last one."""
    return 100 * torch.arange(len(number))[:, None] + torch.arange(most).minimum(number[:, None] - 1)


@every_limit
@every_resolution
@every_hub
@pytest.mark.parametrize("hop", ["outer", "inner"])
def test_places_lead_back_to_row_and_case(
    monkeypatch: pytest.MonkeyPatch, hood: Neighbourhood, limit: int, resolution: int, hubs: int | None, hop: str
) -> None:
    monkeypatch.setattr(blocks, "MAX_ELEMENTS", limit)
    rows = getattr(hood, hop)
    cases = drop_cases(rows, resolution)
    partition = Partition(rows, cases, width, hubs=hubs)
    tables = [100 * block.rows[:, None] + torch.arange(block.cases.most) for block in partition.blocks]
    found = torch.cat([table.flatten() for table in tables])[partition.place]
    assert torch.equal(found, names(cases.number, cases.most))


@every_limit
@every_resolution
@every_hub
def test_places_lead_back_to_pair_and_case(
    monkeypatch: pytest.MonkeyPatch, hood: Neighbourhood, limit: int, resolution: int, hubs: int | None
) -> None:
    monkeypatch.setattr(blocks, "MAX_ELEMENTS", limit)
    anchor_cases = drop_cases(hood.outer, resolution)
    partition = PairedPartition(hood, drop_cases(hood.inner, resolution), anchor_cases, width, hubs)

    def tables() -> Iterator[Tensor]:
        for pairs in partition.pairs:
            for case, columns in enumerate(pairs.columns):
                yield torch.where(pairs.valid, 100 * pairs.pair + case, -1)[:, :columns].flatten()

    values = torch.cat(list(tables()))
    assert len(values) == partition.total
    assert torch.equal(values[partition.pair_place], names(anchor_cases.number[hood.outer.row], anchor_cases.most))


@pytest.mark.parametrize("hubs", [1, 4, 19, 20, 99, None])
def test_rows_of_many_neighbours_are_in_blocks_of_their_own(hood: Neighbourhood, hubs: int | None) -> None:
    degree = hood.inner.degree
    partition = RowPlan(hood, 3, "by-count", hubs).rows(width)
    for block in partition.blocks:
        assert ((degree[block.rows] > (20 if hubs is None else hubs)) == block.hub).all()
    assert any(block.hub for block in partition.blocks) == (hubs is not None and hubs < 20)


def test_rows_with_as_many_anchors_share_their_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "MAX_ELEMENTS", 40)
    hood = hood_of(toy_graph(nx.random_regular_graph(4, 40, seed=0)), EdgeDropBudget(local=1), list(range(13)))
    partition = PairedPartition(
        hood, drop_cases(hood.inner, 1), drop_cases(hood.outer, 1), lambda size, cases: 1, hubs=None
    )
    number = torch.cat([hood.anchors_around[block.rows] for block in partition.blocks]).tolist()
    assert len(partition.blocks) > 1
    assert number == sorted(number, reverse=True)


def test_without_edges_rows_have_places_and_pairs_have_none() -> None:
    hood = hood_of(toy_graph(nx.empty_graph(3)), EdgeDropBudget())
    partition = PairedPartition(hood, drop_cases(hood.inner, 6), drop_cases(hood.outer, 6), width, hubs=None)
    assert sorted(partition.place.flatten().tolist()) == [0, 1, 2]
    assert partition.pair_place.shape == (0, 1)
    assert partition.total == 0


@every_resolution
def test_the_cases_of_all_anchors_are_one_list(hood: Neighbourhood, resolution: int) -> None:
    cases = drop_cases(hood.outer, resolution)
    flat = FlatCases(cases)
    assert list(zip(flat.row.tolist(), flat.case.tolist(), strict=True)) == [
        (anchor, case) for anchor, number in enumerate(cases.number.tolist()) for case in range(number)
    ]
    assert torch.equal((100 * flat.row + flat.case)[flat.place], names(cases.number, cases.most))


@pytest.mark.parametrize("lines", get_args(LineSharing))
def test_lines_are_made_by_count_or_once(
    hood: Neighbourhood, lines: LineSharing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_module, "FEW_EDGES", 2)
    plan = RowPlan(hood, 3, lines)
    place, by_count = (
        plan.layer1(4).place,
        {"by-count": hood.inner.degree >= 0, "mixed": hood.inner.degree <= 2, "shared": hood.inner.degree < 0}[lines],
    )
    assert place.shape == (len(hood.inner.nodes), 1 if lines == "shared" else 3)
    distinct = torch.tensor([len(row.unique()) for row in place])
    assert torch.equal(distinct, torch.where(by_count, plan.row_cases.number, 1))
    assert len(place.unique()) == int(distinct.sum())
    assert plan.rows(width).place.shape == (len(hood.inner.nodes), 3)
    assert plan.anchors(4).place.shape == (len(hood.outer.nodes), 3)


def test_a_partition_serves_widths_for_which_its_blocks_have_about_the_right_size(
    monkeypatch: pytest.MonkeyPatch, hood: Neighbourhood
) -> None:
    monkeypatch.setattr(plan_module, "SMALL_BLOCK", 0)
    plan = RowPlan(hood, 3, "by-count")
    for kind in (plan.layer1, plan.anchors):
        assert kind(8) is kind(8) is kind(2) is kind(32)
        assert kind(8) is not kind(1)
        assert kind(8) is not kind(33)
    assert plan.layer1(8) is not plan.anchors(8)
    assert plan.rows(lambda size, cases: 8) is plan.layer1(8)
    assert plan.rows(lambda size, cases: 8 * size) is not plan.layer1(8)


def test_a_small_block_of_all_rows_serves_every_width(hood: Neighbourhood) -> None:
    plan = RowPlan(hood, 3, "by-count")
    (whole,) = plan.layer1(8).blocks
    assert plan.layer1(1) is plan.layer1(8) is plan.rows(lambda size, cases: size)
    too_much = 1 + SMALL_BLOCK // whole.slots.numel()
    assert plan.layer1(too_much) is not plan.layer1(8)


def test_partitions_with_cases_of_their_own_are_not_shared(hood: Neighbourhood) -> None:
    plan = RowPlan(hood, 3, "shared")
    assert plan.rows(lambda size, cases: 8) is not plan.layer1(8)


@pytest.mark.parametrize("limit", [300, 2000])
def test_blocks_of_a_plan_are_no_larger_than_allowed(
    monkeypatch: pytest.MonkeyPatch, hood: Neighbourhood, limit: int
) -> None:
    monkeypatch.setattr(blocks, "MAX_ELEMENTS", limit)
    plan, channels = RowPlan(hood, 3, "by-count"), 4
    several = 0
    for block in plan.layer1(channels).blocks:  # terms are the same in all cases
        several += len(block.rows) > 1
        assert len(block.rows) == 1 or block.slots.numel() * channels <= limit
    for block in plan.anchors(channels).blocks:
        several += len(block.rows) > 1
        assert len(block.rows) == 1 or block.slots.numel() * block.cases.most * channels <= limit
    assert several
