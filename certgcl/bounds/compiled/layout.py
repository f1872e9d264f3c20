"""Where rows, cases and visits stand in the flat tables of the kernels: what depends on graph and budget alone."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from certgcl.bounds.compiled.kernels.line_products import Entries
from certgcl.bounds.compiled.kernels.numerics import Array
from certgcl.bounds.compiled.kernels.pair_minima import Neighbours, Visits
from certgcl.bounds.compiled.kernels.row_lemma import Rows, Terms
from certgcl.bounds.counts import DropCases
from certgcl.bounds.neighbourhood import Hop
from certgcl.bounds.plan import DropPlan, FlatCases, starts

MAX_LINE_VALUES = 1 << 15  # bounds whose lines are computed at a time


def array(values: Tensor) -> Array:
    return values.contiguous().numpy()


@dataclass(frozen=True, eq=False)
class Lemma:
    """One use of the row lemma: rows, and where their values stand and go."""

    rows: Rows
    terms: tuple[Terms, ...]  # one, or for both signs
    cells: int  # of results
    size: int  # cells at all neighbours

    @classmethod
    def of(cls, hop: Hop, cases: DropCases, flat: FlatCases, place: Tensor, own: Tensor, *, scaled: bool = True,
           both_signs: bool = False) -> "Lemma":
        """One cell at every row and slot, results case by case.

        Args:
            place: the cells of the slots, ``(S,)`` or ``(S, cases)``.
            own: those of the rows in each of their cases, ``(F,)``.
            scaled: whether values are yet to be multiplied with the scales of the neighbours.
        """
        middle, radius = scale_parts(hop) if scaled else (torch.ones_like(hop.low), torch.zeros_like(hop.low))
        rows = rows_of(hop, cases, flat, torch.ones_like(hop.degree))
        shared = array(place if place.dim() == 2 else place[:, None]), array(middle), array(radius), array(own)
        out, signs = torch.arange(len(flat.row)), (1, -1) if both_signs else (1,)
        terms = tuple(Terms(*shared, array(len(signs) * out + number), sign) for number, sign in enumerate(signs))
        return cls(rows, terms, len(signs) * len(flat.row), place.numel() * len(signs))


def rows_of(hop: Hop, cases: DropCases, flat: FlatCases, width: Tensor) -> Rows:
    first, last = cases.first[flat.row, flat.case], cases.last[flat.row, flat.case]
    return Rows(*(array(part) for part in (hop.rowptr, hop.droppable, hop.degree, flat.start, first, last, width)))


def scale_parts(hop: Hop) -> tuple[Tensor, Tensor]:
    """The middle and the radius of the neighbours' scales."""
    return (hop.low + hop.high) / 2, (hop.high - hop.low) / 2


class Span(NamedTuple):
    """Rows whose lines are computed at a time, so that they stay in the cache."""

    rows: range  # of the entries that are treated
    lines: slice


class ChannelSlots(NamedTuple):
    """The lines of a span by themselves, and then the slots of its rows in each case that has lines of its own."""

    line: Tensor  # counted from the first line of the span
    target: Tensor  # whose features stand there
    leaves: slice  # the slots among those of all rows


class Layout:
    """Of one plan.

    A *visit* is a pair of an anchor and a neighbour in one of the anchor's cases. Visits stand in the order of the
    inner rows and their slots, case by case.
    """

    def __init__(self, plan: DropPlan) -> None:
        self.plan, self.hood = plan, plan.hood
        self.flat_rows = FlatCases(plan.row_cases)
        outer, inner = plan.hood.outer, plan.hood.inner
        slot = (plan.hood.pair >= 0).nonzero()[:, 0]
        number = plan.anchor_cases.number[outer.row[plan.hood.pair[slot]]]
        self.slot = torch.repeat_interleave(slot, number)
        self.pair = plan.hood.pair[self.slot]
        self.anchor, self.row = outer.row[self.pair], inner.row[self.slot]
        self.case = torch.arange(len(self.slot)) - torch.repeat_interleave(starts(number)[:-1], number)
        self.around = torch.bincount(self.row, minlength=len(inner.nodes))  # visits of every inner row
        self.start = starts(self.around)
        self._chunks: dict[int, list[RowChunk]] = {}
        self._spans: dict[tuple[range, int], list[Span]] = {}
        self._channel_slots: dict[int, tuple[Span, ChannelSlots]] = {}

    @cached_property
    def own_line(self) -> Tensor:
        """The line of every anchor in each of its cases, ``(F,)``."""
        return self.line_at(self.hood.outer.own[self.plan.flat.row], self.plan.flat.case)

    def line_at(self, row: Tensor, case: Tensor) -> Tensor:
        """The place of a row's case among the lines."""
        place = self.plan.flat_lines.place
        return place[row, case.clamp(max=place.shape[1] - 1)]

    # -- layers 1 and 2 ----------------------------------------------------------------------------

    @cached_property
    def layer1(self) -> Lemma:
        hop, flat = self.hood.inner, self.plan.flat_lines
        return Lemma.of(hop, self.plan.line_cases, flat, hop.col, hop.own[flat.row], both_signs=True)

    @cached_property
    def layer2(self) -> Lemma:
        """Where all cases of a row share their lines."""
        return self._at_anchors(self.plan.flat_lines.place[self.hood.outer.col, 0], self.own_line, scaled=True)

    def layer2_from(self, cell: Tensor) -> Lemma:
        """Where the term of every pair stands in a cell of another table."""
        return self._at_anchors(cell, self.own_line, scaled=False)

    def _at_anchors(self, place: Tensor, own: Tensor, scaled: bool) -> Lemma:
        return Lemma.of(self.hood.outer, self.plan.anchor_cases, self.plan.flat, place, own, scaled=scaled)

    @cached_property
    def visit_of_pair(self) -> Tensor:
        """``(P, G)``; zero beyond the anchor's cases."""
        place = torch.zeros(len(self.hood.outer.col), self.plan.anchor_cases.most, dtype=torch.long)
        place[self.pair, self.case] = torch.arange(len(self.pair))
        return place

    # -- functionals that all anchors share --------------------------------------------------------

    @cached_property
    def leaf_start(self) -> Tensor:
        """Every slot stands once for each case of its row that has lines of its own: the first place, and the end."""
        return starts(self.plan.line_cases.number[self.hood.inner.row])

    def spans(self, rows: range, width: int) -> list[Span]:
        """Inner rows in spans; entries count from the first of them.

        Args:
            width: of the hidden layer.
        """
        if (rows, width) not in self._spans:
            start, spans, first = self.plan.flat_lines.start, [], rows.start
            while first < rows.stop:
                after = int(torch.searchsorted(start, start[first] + max(1, MAX_LINE_VALUES // width), right=True)) - 1
                after = min(max(after, first + 1), rows.stop)
                spans.append(Span(range(first - rows.start, after - rows.start),
                                  slice(int(start[first]), int(start[after]))))
                first = after
            self._spans[rows, width] = spans
        return self._spans[rows, width]

    def channel_slots(self, span: Span) -> ChannelSlots:
        """Of a span of all rows."""
        if span.lines.start not in self._channel_slots or self._channel_slots[span.lines.start][0] != span:
            inner, flat = self.hood.inner, self.plan.flat_lines
            ends = [int(inner.rowptr[row]) for row in (span.rows.start, span.rows.stop)]
            leaves = slice(*(int(self.leaf_start[end]) for end in ends))
            number = self.plan.line_cases.number[inner.row[ends[0] : ends[1]]]
            slot = torch.repeat_interleave(torch.arange(*ends), number)
            rank = torch.arange(leaves.start, leaves.stop) - self.leaf_start[slot]
            line = torch.cat([torch.arange(span.lines.start, span.lines.stop), flat.start[inner.row[slot]] + rank])
            target = torch.cat([inner.own[flat.row[span.lines]], inner.col[slot]])
            self._channel_slots[span.lines.start] = span, ChannelSlots(line - span.lines.start, target, leaves)
        return self._channel_slots[span.lines.start][1]

    @cached_property
    def channels_at_rows(self) -> Lemma:
        return Lemma.of(self.hood.inner, self.plan.row_cases, self.flat_rows, self._channel_place, self._row_line)

    @cached_property
    def channels_at_anchors(self) -> Lemma:
        return self._at_anchors(self.visit_of_pair, self.own_line, scaled=False)

    @cached_property
    def channel_visits(self) -> tuple[Visits, Neighbours]:
        pair = self.leaf_start[self.hood.leaf_of_pair[self.pair]] + (self.case if self.plan.by_count else 0)
        rows = self._neighbours(range(len(self.around)), torch.arange(len(self.flat_rows.row)), self._row_line,
                                self._channel_place, torch.ones_like(self.around, dtype=torch.bool))
        return self._visits(slice(None), self.row, self.slot, torch.zeros_like(self.row), pair), rows

    @property
    def _channel_place(self) -> Tensor:
        return self.leaf_start[:-1, None] + torch.arange(self.plan.line_cases.most)

    @property
    def _row_line(self) -> Tensor:
        return self.line_at(self.flat_rows.row, self.flat_rows.case)

    def _visits(self, which: slice, row: Tensor, slot: Tensor, column: Tensor, pair: Tensor) -> Visits:
        outer, cases = self.hood.outer, self.plan.anchor_cases
        anchor, case, edge = self.anchor[which], self.case[which], self.pair[which]
        scale = cases.scale(outer.low.dtype)
        low = scale.low[anchor, case]
        high = low if scale.high is None else scale.high[anchor, case]
        return Visits(*(array(part) for part in (row, slot, low, high, outer.most_drops[edge], outer.droppable[edge],
                                                 column, pair)))

    def _neighbours(self, rows: range, out: Tensor, own: Tensor, place: Tensor, lined: Tensor) -> Neighbours:
        """The inner rows of a range, with the cells of their cases and slots."""
        inner, cases, row, case = self.hood.inner, self.plan.row_cases, *self._cases(rows)
        scale = cases.scale(inner.low.dtype)
        low = scale.low[row, case]
        high = low if scale.high is None else scale.high[row, case]
        slots = slice(inner.rowptr[rows.start], inner.rowptr[rows.stop])
        middle, radius = (part[slots] for part in scale_parts(inner))
        return Neighbours(*(array(part) for part in (
            self._from_zero(self.flat_rows.start, rows), cases.first[row, case], low, high, out, own, place, middle,
            radius, lined)))

    def _cases(self, rows: range) -> tuple[Tensor, Tensor]:
        flat = self.flat_rows
        here = slice(flat.start[rows.start], flat.start[rows.stop])
        return flat.row[here], flat.case[here]

    @staticmethod
    def _from_zero(start: Tensor, rows: range) -> Tensor:
        return start[rows.start : rows.stop + 1] - start[rows.start]

    # -- functionals of each anchor's own ----------------------------------------------------------

    @cached_property
    def _own_cases(self) -> Tensor:
        """How many cases every inner row has as an anchor; zero if it is none."""
        return torch.zeros_like(self.around).index_copy_(0, self.hood.outer.own, self.plan.anchor_cases.number)

    @cached_property
    def own_entries(self) -> tuple[Entries, int]:
        """The functionals of every anchor in each of its cases, at its own inner row; and how many cells they take."""
        inner, flat, cases = self.hood.inner, self.plan.flat, self._own_cases
        entries, place = starts(cases), starts(cases * inner.degree)
        functional = torch.empty_like(flat.row)
        functional[self.own_entry] = torch.arange(len(flat.row))
        parts = (entries, functional, self.own_line[functional], inner.rowptr, inner.col, inner.own, place[:-1],
                 torch.ones_like(cases, dtype=torch.bool))
        return Entries(*map(array, parts)), int(place[-1])

    @cached_property
    def own_entry(self) -> Tensor:
        """The entry of every anchor in each of its cases, ``(F,)``."""
        return starts(self._own_cases)[self.hood.outer.own[self.plan.flat.row]] + self.plan.flat.case

    @cached_property
    def own_pair(self) -> Tensor:
        """The cell of ``C_ij`` of every visit."""
        inner, cases = self.hood.inner, self._own_cases
        slot = self.hood.leaf_of_pair[self.pair]
        row = inner.row[slot]
        return starts(cases * inner.degree)[row] + (slot - inner.rowptr[row]) * cases[row] + self.case

    @cached_property
    def anchors_at_anchors(self) -> Lemma:
        return self._at_anchors(self.visit_of_pair, self.own_entry, scaled=False)

    def chunks(self, cells: int) -> "list[RowChunk]":
        """The inner rows in ranges whose slots have about so many cells at the most."""
        if cells not in self._chunks:
            inner, lines = self.hood.inner, self.plan.line_cases.number
            total = starts(inner.degree * self.around * lines)
            chunks, first, number = [], 0, len(self.around)
            while first < number:
                after = int(torch.searchsorted(total, total[first] + cells, right=True)) - 1
                after = min(max(after, first + 1), number)
                chunks.append(RowChunk(self, range(first, after)))
                first = after
            self._chunks[cells] = chunks
        return self._chunks[cells]


class RowChunk:
    """A range of inner rows with the anchors around them, each with functionals of its own.

    At row j in its case t', with lines of its own or those of all cases, stand the visits of j side by side.

    Attributes:
        rows: the range.
    """

    def __init__(self, layout: Layout, rows: range) -> None:
        plan, inner = layout.plan, layout.hood.inner
        here = slice(rows.start, rows.stop)
        slots = slice(inner.rowptr[rows.start], inner.rowptr[rows.stop])
        around, degree, number = layout.around[here], inner.degree[here], plan.line_cases.number[here]
        lined = degree <= (torch.inf if plan.hubs is None else plan.hubs)
        entries, place = starts(around * number), starts(around * number * degree * lined)
        self.rows = rows

        local = torch.repeat_interleave(torch.arange(len(rows)), around * number)  # the row of every entry
        rank = torch.arange(len(local)) - entries[local]
        width = around[local].clamp(min=1)
        visit = layout.start[rows.start + local] + rank % width
        line = plan.flat_lines.start[rows.start + local] + rank // width
        functional = plan.flat.place[layout.anchor[visit], layout.case[visit]]
        start = inner.rowptr[rows.start : rows.stop + 1] - inner.rowptr[rows.start]
        self.entries = Entries(*map(array, (entries, functional, line, start, inner.col[slots], inner.own[here],
                                            place[:-1], lined))), int(place[-1])

        row, case = layout._cases(rows)
        local = row - rows.start
        rank = case.clamp(max=plan.line_cases.most - 1) if plan.by_count else torch.zeros_like(case)
        own = entries[local] + rank * around[local]
        width = around * lined
        out = starts(width[local])
        slot_row = inner.row[slots] - rows.start
        slot_rank = torch.arange(len(slot_row)) - start[slot_row]
        ranks = torch.arange(plan.line_cases.most)
        leaf = (place[slot_row] + slot_rank * (around * number)[slot_row])[:, None] + ranks * around[slot_row, None]
        middle, radius = (array(part[slots]) for part in scale_parts(inner))
        first, last = plan.row_cases.first[row, case], plan.row_cases.last[row, case]
        cases = layout._from_zero(layout.flat_rows.start, rows)
        self.lemma = Lemma(
            Rows(*(array(part) for part in (start, inner.droppable[slots], degree, cases, first, last, width))),
            (Terms(array(leaf), middle, radius, array(own), array(out[:-1]), 1),), int(out[-1]), int(place[-1]))

        visits = slice(int(layout.start[rows.start]), int(layout.start[rows.stop]))
        row = layout.row[visits]
        column = torch.arange(visits.start, visits.stop) - layout.start[row]
        self.visits = layout._visits(visits, row - rows.start, layout.slot[visits] - slots.start, column,
                                     layout.own_pair[visits])
        self.neighbours = layout._neighbours(rows, out[:-1], own, leaf, lined)
