"""Where rows, cases and visits stand in the flat tables of the kernels: what depends on graph and budget alone."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from certgcl.bounds.compiled.kernels.channel_products import LinedRows
from certgcl.bounds.compiled.kernels.line_products import Entries
from certgcl.bounds.compiled.kernels.numerics import Array
from certgcl.bounds.compiled.kernels.pair_minima import Neighbours, Visits
from certgcl.bounds.compiled.kernels.row_lemma import Rows, Terms
from certgcl.bounds.counts import DropCases, Scale
from certgcl.bounds.neighbourhood import Hop
from certgcl.bounds.plan import DropPlan, FlatCases, starts

if TYPE_CHECKING:
    from certgcl.bounds.compiled.chunks import RowChunk

MAX_LINE_VALUES = 1 << 16  # bounds whose lines are computed at a time


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
        """One cell at every row and slot, results case by case; those of the other sign follow all of the first.

        Args:
            place: the cells of the slots, ``(S,)`` or ``(S, cases)``.
            own: those of the rows in each of their cases, ``(F,)``.
            scaled: whether values are yet to be multiplied with the scales of the neighbours.
        """
        middle, radius = scale_parts(hop) if scaled else (torch.ones_like(hop.low), torch.zeros_like(hop.low))
        rows = rows_of(hop, cases, flat, torch.ones_like(hop.degree))
        shared = array(place if place.dim() == 2 else place[:, None]), array(middle), array(radius), array(own)
        out, signs = torch.arange(len(flat.row)), (1, -1) if both_signs else (1,)
        terms = tuple(Terms(*shared, array(out + number * len(out)), sign) for number, sign in enumerate(signs))
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
        self._spans: dict[int, list[Span]] = {}
        dtype = inner.low.dtype
        self.anchor_scale = both_ends(plan.anchor_cases.scale(dtype))
        self.row_scale = both_ends(plan.row_cases.scale(dtype))
        self.scale_parts = scale_parts(inner)
        self._channel_slots: dict[int, list[ChannelSlots]] = {}
        self._channels_at_anchors: dict[int, list[tuple[Visits, Lemma]]] = {}
        self._chunks: dict[int, list[RowChunk]] = {}

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

    @cached_property
    def lined_rows(self) -> LinedRows:
        inner, flat = self.hood.inner, self.plan.flat_lines
        return LinedRows(*map(array, (flat.row, flat.start, inner.rowptr, inner.col, inner.own, self.leaf_start[:-1])))

    def spans(self, width: int) -> list[Span]:
        """All inner rows, for so many hidden channels."""
        if width not in self._spans:
            start = self.plan.flat_lines.start
            self._spans[width] = spans(start[:-1], start[1:], width)
        return self._spans[width]

    def channel_slots(self, width: int) -> list[ChannelSlots]:
        """Of every span."""
        if width in self._channel_slots:
            return self._channel_slots[width]
        inner, flat, found = self.hood.inner, self.plan.flat_lines, []
        for span in self.spans(width):
            ends = [int(inner.rowptr[row]) for row in (span.rows.start, span.rows.stop)]
            leaves = slice(*(int(self.leaf_start[end]) for end in ends))
            number = self.plan.line_cases.number[inner.row[ends[0] : ends[1]]]
            slot = torch.repeat_interleave(torch.arange(*ends), number)
            rank = torch.arange(leaves.start, leaves.stop) - self.leaf_start[slot]
            line = torch.cat([torch.arange(span.lines.start, span.lines.stop), flat.start[inner.row[slot]] + rank])
            target = torch.cat([inner.own[flat.row[span.lines]], inner.col[slot]])
            found.append(ChannelSlots(line - span.lines.start, target, leaves))
        self._channel_slots[width] = found
        return found

    @cached_property
    def channels_at_rows(self) -> Lemma:
        return Lemma.of(self.hood.inner, self.plan.row_cases, self.flat_rows, self._channel_place, self._row_line)

    @cached_property
    def channel_neighbours(self) -> Neighbours:
        flat = self.flat_rows
        everything, lined = slice(None), torch.ones_like(self.around, dtype=torch.bool)
        return self.neighbours(flat.start, flat.row, flat.case, everything, torch.arange(len(flat.row)), self._row_line,
                               self._channel_place, lined)

    def channels_at_anchors(self, visits: int) -> "list[tuple[Visits, Lemma]]":
        """The anchors, in ranges with about so many visits at the most: their visits, and the lemma at the anchors."""
        if visits not in self._channels_at_anchors:
            total = starts(self.hood.outer.degree * self.plan.anchor_cases.number)
            self._channels_at_anchors[visits] = [self._at_some_anchors(here) for here in ranges(total, visits)]
        return self._channels_at_anchors[visits]

    def _at_some_anchors(self, anchors: range) -> "tuple[Visits, Lemma]":
        outer, cases, flat = self.hood.outer, self.plan.anchor_cases, self.plan.flat
        here, slots = slice(anchors.start, anchors.stop), slice(*outer.rowptr[[anchors.start, anchors.stop]].tolist())
        number = cases.number[outer.row[slots]]
        pair = torch.repeat_interleave(torch.arange(slots.start, slots.stop), number)
        start = starts(number)
        case = torch.arange(len(pair)) - start[pair - slots.start]
        which = self.visit_of_pair[pair, case]
        leaf = self.leaf_start[self.hood.leaf_of_pair[pair]] + (case if self.plan.by_count else 0)
        visits = self.visits(which, self.row[which], self.slot[which], torch.zeros_like(pair), leaf)
        entries = slice(*flat.start[[anchors.start, anchors.stop]].tolist())
        row, case = flat.row[entries], flat.case[entries]
        rows = Rows(*map(array, (
            outer.rowptr[anchors.start : anchors.stop + 1] - slots.start, outer.droppable[slots], outer.degree[here],
            flat.start[anchors.start : anchors.stop + 1] - entries.start, cases.first[row, case], cases.last[row, case],
            torch.ones_like(outer.degree[here]))))
        ones = torch.ones_like(outer.low[slots])
        place, out = start[:-1, None] + torch.arange(cases.most), torch.arange(len(row))
        terms = Terms(array(place), array(ones), array(0 * ones), array(self.own_line[entries]), array(out), 1)
        return visits, Lemma(rows, (terms,), len(row), len(pair))

    @property
    def _channel_place(self) -> Tensor:
        return self.leaf_start[:-1, None] + torch.arange(self.plan.line_cases.most)

    @property
    def _row_line(self) -> Tensor:
        return self.line_at(self.flat_rows.row, self.flat_rows.case)

    def visits(self, which: Tensor | slice, row: Tensor, slot: Tensor, column: Tensor, pair: Tensor) -> Visits:
        """Some visits: the places of their rows and slots, and their cells."""
        outer, edge = self.hood.outer, self.pair[which]
        scale = (end[self.anchor[which], self.case[which]] for end in self.anchor_scale)
        return Visits(*map(array, (row, slot, *scale, outer.most_drops[edge], outer.droppable[edge], column, pair)))

    def neighbours(self, start: Tensor, row: Tensor, case: Tensor, slots: Tensor | slice, out: Tensor, own: Tensor,
                   place: Tensor, lined: Tensor) -> Neighbours:
        """Some rows, case by case, and their slots, with their cells.

        Args:
            start: where the cases of each begin.
        """
        first, scale = self.plan.row_cases.first[row, case], (end[row, case] for end in self.row_scale)
        middle, radius = (part[slots] for part in self.scale_parts)
        return Neighbours(*map(array, (start, first, *scale, out, own, place, middle, radius, lined)))

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
        """All visits, in chunks of rows whose slots have about so many cells at the most."""
        from certgcl.bounds.compiled.chunks import chunks_of

        if cells not in self._chunks:
            self._chunks[cells] = chunks_of(self, cells)
        return self._chunks[cells]


def ranges(total: Tensor, limit: int) -> list[range]:
    """Items in ranges that have about as much.

    Args:
        total: how much goes before every item, and in all.
    """
    found, first = [], 0
    while first < len(total) - 1:
        after = max(first + 1, int(torch.searchsorted(total, total[first] + limit, right=True)) - 1)
        found.append(range(first, after))
        first = after
    return found


def both_ends(scale: Scale) -> tuple[Tensor, Tensor]:
    return scale.low, scale.low if scale.high is None else scale.high


def spans(first: Tensor, last: Tensor, width: int) -> list[Span]:
    """Rows in spans of about as many lines.

    Args:
        first, last: where the lines of every row begin and end, in ascending order.
        width: of a line.
    """
    found, row, limit = [], 0, max(1, MAX_LINE_VALUES // width)
    while row < len(first):
        after = max(row + 1, int(torch.searchsorted(last, first[row] + limit, right=True)))
        found.append(Span(range(row, after), slice(int(first[row]), int(last[after - 1]))))
        row = after
    return found
