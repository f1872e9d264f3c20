"""The part of bounds through lines that depends only on graph and budget: cases and blocks, built once and used for all
weights."""

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeVar

import torch
from torch import Tensor

from certgcl.bounds.propagation.drop_counts import DropCases, drop_cases
from certgcl.bounds.two_layer.blocks import SMALL_BLOCK, TOLERANCE, Pairs, Width, blocks, pairs_of
from certgcl.bounds.two_layer.neighbourhood import Hop, Neighbourhood

if TYPE_CHECKING:
    from certgcl.bounds.compiled.flat_tables import FlatTables

LineSharing = Literal["by-count", "mixed", "shared"]
FEW_EDGES = 16  # of a row up to which "mixed" distinguishes counts


class Partition:
    """All rows of a hop in blocks. Results come block by block as tables ``(R, T, ...)``.

    Attributes:
        place: where each case of every row is in the flattened and joined tables, ``(rows, cases)``;
            beyond a row's cases, its last one.
        rows: the length of those tables when joined.

    Args:
        similar: rows with the same value here are put together.
        hubs: rows of more neighbours are in blocks of their own.
    """

    def __init__(
        self, hop: Hop, cases: DropCases, width: Width, similar: Tensor | None = None, hubs: int | None = None
    ) -> None:
        self.slots = hop.col.numel()
        self.cases, self.widths = cases, self._widths(cases, width)
        hub = hop.degree > (torch.inf if hubs is None else hubs)
        parts = [(~hub).nonzero()[:, 0], *([] if hubs is None else [hub.nonzero()[:, 0]])]
        self.blocks = [block for part in parts for block in blocks(hop, cases, width, part, similar)]
        for block in self.blocks:
            block.hub = hubs is not None and bool(hub[block.rows[0]])
        self.place = torch.zeros_like(cases.first)
        start, rank = 0, torch.arange(cases.most, device=cases.first.device)
        for block in self.blocks:
            number, most = block.cases.number[:, None], block.cases.most
            row = torch.arange(len(block.rows), device=rank.device)[:, None]
            self.place[block.rows] = start + row * most + rank.minimum(number - 1)
            start += len(block.rows) * most
        self.rows = start

    def suits(self, cases: DropCases, width: Width) -> bool:
        """Whether the blocks are of about the right size for another width too."""
        if cases is not self.cases:
            return False
        first, *others = self.blocks
        if not others and first.slots.numel() * width(first.size, cases.most) <= SMALL_BLOCK:
            return True
        return all(
            mine // TOLERANCE <= other <= TOLERANCE * mine
            for mine, other in zip(self.widths, self._widths(cases, width), strict=True)
        )

    def elements(self, width: Width) -> int:
        """At all neighbours, in all blocks together."""
        return sum(block.slots.numel() * width(block.size, block.cases.most) for block in self.blocks)

    @staticmethod
    def _widths(cases: DropCases, width: Width) -> tuple[int, int]:
        """For rows of few neighbours and of many."""
        return width(4, cases.most), width(64, cases.most)

    @cached_property
    def one_each(self) -> "JoinedPlaces":
        """The layout of tables with one value at every row and slot."""
        return JoinedPlaces(self, by_case=False)

    @cached_property
    def by_case(self) -> "JoinedPlaces":
        """The layout of tables with a value in every case."""
        return JoinedPlaces(self, by_case=True)


class JoinedPlaces:
    """Where values are once tables ``(R, K, T, ...)`` of slots and ``(R, T, ...)`` of rows are flattened and joined.

    Attributes:
        slot, row: the places of the first case, ``(S,)`` and ``(rows,)``; the other cases follow it.
        slots, rows: the lengths of the joined tables.
        by_case: whether T is the number of cases of a block, else it is one.
    """

    def __init__(self, partition: Partition, by_case: bool) -> None:
        self.by_case = by_case
        self.slot = torch.zeros(partition.slots, dtype=torch.long, device=partition.place.device)
        self.row = torch.zeros(len(partition.place), dtype=torch.long, device=partition.place.device)
        self.slots = self.rows = 0
        for block in partition.blocks:
            cases = block.cases.most if by_case else 1
            here = cases * torch.arange(block.slots.numel(), device=self.slot.device).view(block.slots.shape)
            self.slot[block.slots[block.valid]] = self.slots + here[block.valid]
            self.row[block.rows] = self.rows + cases * torch.arange(len(block.rows), device=self.row.device)
            self.slots += cases * block.slots.numel()
            self.rows += cases * len(block.rows)


class PairedPartition(Partition):
    """The inner rows in blocks, with the anchors around them. Values of pairs come block by block and, within, case by
    case of the anchors, as tables ``(R, columns, ...)``.

    Attributes:
        pair_place: where the value of every pair and case is once those tables are flattened and joined,
            ``(P, G)``; beyond an anchor's cases, its last one.
        total: the number of values.

    Layer 1 does not need pairs: they are built when first requested.
    """

    def __init__(
        self, hood: Neighbourhood, cases: DropCases, anchor_cases: DropCases, width: Width, hubs: int | None
    ) -> None:
        super().__init__(hood.inner, cases, width, hood.anchors_around, hubs)
        self.hood, self.anchor_cases = hood, anchor_cases

    @cached_property
    def pairs(self) -> list[Pairs]:
        """Of every block."""
        return [pairs_of(block, self.hood, self.anchor_cases) for block in self.blocks]

    @property
    def total(self) -> int:
        return self._pair_places[1]

    @property
    def pair_place(self) -> Tensor:
        return self._pair_places[0]

    @cached_property
    def _pair_places(self) -> tuple[Tensor, int]:
        outer, most = self.hood.outer, self.anchor_cases.most
        place = torch.zeros(outer.col.numel(), most, dtype=torch.long, device=outer.col.device)
        total = 0
        for pairs in self.pairs:
            for case, columns in enumerate(pairs.columns):
                valid = pairs.valid[:, :columns]
                here = torch.arange(valid.numel(), device=place.device).view(valid.shape)
                place[pairs.pair[:, :columns][valid], case] = total + here[valid]
                total += valid.numel()
        rank = torch.arange(most, device=place.device)
        last = (self.anchor_cases.number - 1)[outer.row, None]
        return place.gather(1, rank.minimum(last)), total


class FlatCases:
    """The cases of all rows as one flat list, row after row.

    Attributes:
        row, case: of every entry, ``(F,)``.
        start: where every row begins, and the total, ``(R + 1,)``.
        place: where the cases of every row are, ``(R, G)``; beyond its cases, its last one.
    """

    def __init__(self, cases: DropCases) -> None:
        everyone = torch.arange(len(cases.number), device=cases.number.device)
        rank = torch.arange(cases.most, device=everyone.device)
        self.start = starts(cases.number)
        self.row = torch.repeat_interleave(everyone, cases.number)
        self.case = torch.arange(len(self.row), device=everyone.device) - self.start[self.row]
        self.place = self.start[:-1, None] + rank.minimum(cases.number[:, None] - 1)


def starts(counts: Tensor) -> Tensor:
    """Prefix sums of the counts, with the total."""
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


class RowPlan:
    """Cases and blocks for one neighbourhood.

    Args:
        resolution: see :func:`certgcl.bounds.propagation.drop_counts.drop_cases`.
        lines: whether each case of a row has pre-activation bounds and lines of its own, or all share one pair; or
            each in rows of few edges, and one pair in the others.
        hubs: rows of more neighbours are in blocks of their own.
    """

    def __init__(self, hood: Neighbourhood, resolution: int, lines: LineSharing, hubs: int | None = None) -> None:
        self.hood, self.hubs = hood, hubs
        self.anchor_cases = drop_cases(hood.outer, resolution)
        self.row_cases = drop_cases(hood.inner, resolution)
        self.flat = FlatCases(self.anchor_cases)
        self.own_case = self.flat.case  # that of every entry among those of its node as an inner row
        self.by_count = lines != "shared"
        self.line_cases = self.row_cases
        if lines != "by-count" and resolution > 1:
            self.line_cases = drop_cases(hood.inner, 1)
            if lines == "mixed":
                self.line_cases = self.row_cases.where(hood.inner.degree <= FEW_EDGES, self.line_cases)
        self.flat_lines = FlatCases(self.line_cases)
        self._inner: list[PairedPartition] = []
        self._outer: list[Partition] = []

    @cached_property
    def flat_tables(self) -> "FlatTables":
        """The layout of the compiled kernels' tables."""
        from certgcl.bounds.compiled.flat_tables import FlatTables

        return FlatTables(self)

    def only(self, chosen: Tensor) -> "RowPlan":
        """The same for some of the anchors' cases, given by their places in ``flat`` in ascending order. Anchors may be
        left without any."""
        plan = copy(self)
        plan.__dict__.pop("flat_tables", None)
        row, number = self.flat.row[chosen], torch.zeros_like(self.anchor_cases.number)
        number.index_add_(0, row, torch.ones_like(row))
        rank = torch.arange(len(row), device=row.device) - starts(number)[row]
        case, most = self.flat.case[chosen], int(number.max())
        first, last = (
            torch.zeros_like(ends[:, :most]).index_put((row, rank), ends[row, case])
            for ends in (self.anchor_cases.first, self.anchor_cases.last)
        )
        plan.anchor_cases = replace(self.anchor_cases, number=number, first=first, last=last)
        plan.flat, plan.own_case = FlatCases(plan.anchor_cases), self.own_case[chosen]
        plan._inner, plan._outer = [], []
        return plan

    def case_of_pair(self, pair: Tensor, case: int) -> Tensor:
        """The given case of the anchors of some pairs; of those with fewer, the last."""
        return (self.anchor_cases.number[self.hood.outer.row[pair]] - 1).clamp(max=case)

    def layer1(self, channels: int) -> Partition:
        """The inner rows, for that many values at every neighbour, with the cases that have lines of their own."""
        return self._rows(self.line_cases, lambda size, cases: channels)

    def rows(self, width: Width) -> PairedPartition:
        """The inner rows and the pairs around them."""
        return self._rows(self.row_cases, width)

    def _rows(self, cases: DropCases, width: Width) -> PairedPartition:
        return _suited(
            self._inner, cases, width, lambda: PairedPartition(self.hood, cases, self.anchor_cases, width, self.hubs)
        )

    def anchors(self, channels: int) -> Partition:
        """The anchors, for that many values at every neighbour and case."""

        def width(size: int, cases: int) -> int:
            return channels * cases

        return _suited(
            self._outer, self.anchor_cases, width, lambda: Partition(self.hood.outer, self.anchor_cases, width)
        )


P = TypeVar("P", bound=Partition)


def _suited(made: list[P], cases: DropCases, width: Width, make: Callable[[], P]) -> P:
    """One of the partitions made so far, or a new one if none fits."""
    for partition in made:
        if partition.suits(cases, width):
            return partition
    made.append(make())
    return made[-1]
