"""The positions of rows, cases and visits in the flat tables of the kernels, which depend on graph and budget alone."""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from certgcl.bounds.compiled.kernels.channel_products import LinedRowArrays
from certgcl.bounds.compiled.kernels.line_products import RowEntries
from certgcl.bounds.compiled.kernels.pair_minima import Neighbours, VisitArrays
from certgcl.bounds.compiled.kernels.row_lemma import Rows
from certgcl.bounds.compiled.lemma_arrays import Lemma, array, gcn_scales, terms_of
from certgcl.bounds.propagation.drop_counts import Scale
from certgcl.bounds.two_layer.row_plan import FlatCases, RowPlan, starts

if TYPE_CHECKING:
    from certgcl.bounds.compiled.anchor_chunks import RowChunk

MAX_LINE_VALUES = 1 << 16  # bounds whose lines are computed together
MAX_KEPT = 1 << 20  # slots of a neighbourhood up to which all parts of its tables are kept

T = TypeVar("T")


class LazyParts(Generic[T]):
    """Parts of flat tables, built lazily. Those of small graphs are kept for the next use; those of
    large ones would fill the memory and are built again."""

    def __init__(self, pieces: list[range], make: Callable[[range], T], keep: bool) -> None:
        self._pieces, self._make, self._keep = pieces, make, keep
        self._made: dict[range, T] = {}

    def __len__(self) -> int:
        return len(self._pieces)

    def __iter__(self) -> Iterator[T]:
        for piece in self._pieces:
            made = self._made[piece] if piece in self._made else self._make(piece)
            if self._keep:
                self._made[piece] = made
            yield made


class LineSpan(NamedTuple):
    """Rows whose lines are computed together, so that they stay in the cache."""

    rows: range  # of the entries that are treated
    lines: slice


class ChannelSlots(NamedTuple):
    """The lines of a span, then the slots of its rows in each case that has its own lines."""

    line: Tensor  # counted from the first line of the span
    target: Tensor  # whose features stand there
    leaves: slice  # the slots among those of all rows


class FlatTables:
    """The flat tables of one plan.

    A *visit* is a pair of an anchor and a neighbour in one of the anchor's cases. Visits are in the order of the inner
    rows and their slots, case by case.
    """

    def __init__(self, plan: RowPlan) -> None:
        self.plan, self.hood = plan, plan.hood
        self.flat_rows = FlatCases(plan.row_cases)
        self.keep = plan.hood.inner.col.numel() <= MAX_KEPT
        dtype = plan.hood.inner.low.dtype
        self.anchor_scale = both_ends(plan.anchor_cases.scale(dtype))
        self.row_scale = both_ends(plan.row_cases.scale(dtype))
        self.by_case = plan.line_cases.number > 1  # the inner rows that have lines for each of their cases
        self._spans: dict[int, list[LineSpan]] = {}
        self._channel_slots: dict[int, list[ChannelSlots]] = {}
        self._channels_at_anchors: dict[int, LazyParts[tuple[VisitArrays, Lemma]]] = {}
        self._chunks: dict[int, LazyParts[RowChunk]] = {}

    @cached_property
    def visit_start(self) -> Tensor:
        """The first visit at every inner slot, and the total, ``(S + 1,)``."""
        hood = self.hood
        number = self.plan.anchor_cases.number[hood.outer.row[hood.pair.clamp(min=0)]] if len(hood.outer.row) else 0
        return starts(torch.where(hood.pair >= 0, number, 0))

    @cached_property
    def start(self) -> Tensor:
        """The first visit at every inner row, and the total, ``(R + 1,)``."""
        return self.visit_start[self.hood.inner.rowptr]

    @property
    def around(self) -> Tensor:
        """The number of visits at every inner row."""
        return self.start.diff()

    @cached_property
    def own_line(self) -> Tensor:
        """The line of every anchor in each of its cases, ``(F,)``."""
        return self.line_at(self.hood.outer.own[self.plan.flat.row], self.plan.own_case)

    def line_at(self, row: Tensor, case: Tensor) -> Tensor:
        """The position of a row's case among the lines."""
        return self.plan.flat_lines.start[row] + self.line_rank(row, case)

    def line_rank(self, row: Tensor, case: Tensor) -> Tensor:
        """Which of its lines a row uses in a case."""
        return torch.where(self.by_case[row], case, 0)

    # -- layers 1 and 2 ----------------------------------------------------------------------------

    @cached_property
    def layer1(self) -> Lemma:
        hop, flat = self.hood.inner, self.plan.flat_lines
        return Lemma.of(hop, self.plan.line_cases, flat, hop.col, hop.own[flat.row], both_signs=True)

    @cached_property
    def layer2(self) -> Lemma:
        """Whether all cases of a row share their lines."""
        return self._at_anchors(self.plan.flat_lines.place[self.hood.outer.col, 0], self.own_line, scaled=True)

    def layer2_from(self, cell: Tensor) -> Lemma:
        """The position of the term of every pair in a cell of another table."""
        return self._at_anchors(cell, self.own_line, scaled=False)

    def _at_anchors(self, place: Tensor, own: Tensor, scaled: bool, by_case: Tensor | None = None) -> Lemma:
        return Lemma.of(
            self.hood.outer, self.plan.anchor_cases, self.plan.flat, place, own, scaled=scaled, by_case=by_case
        )

    # -- functionals that all anchors share --------------------------------------------------------

    @cached_property
    def leaf_start(self) -> Tensor:
        """Every slot occurs once for each case of its row that has its own lines: the first position, and the end."""
        return starts(self.plan.line_cases.number[self.hood.inner.row])

    @cached_property
    def lined_rows(self) -> LinedRowArrays:
        inner, flat = self.hood.inner, self.plan.flat_lines
        parts = flat.row, flat.start, inner.rowptr, inner.col, inner.own, self.leaf_start[:-1]
        return LinedRowArrays(*map(array, parts))

    def spans(self, width: int) -> list[LineSpan]:
        """All inner rows, for a hidden layer of this width."""
        if width not in self._spans:
            start = self.plan.flat_lines.start
            self._spans[width] = spans(start[:-1], start[1:], width)
        return self._spans[width]

    def channel_slots(self, width: int) -> list[ChannelSlots]:
        """The slots of every span."""
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
        return Lemma.of(
            self.hood.inner,
            self.plan.row_cases,
            self.flat_rows,
            self.leaf_start[:-1],
            self._row_line,
            by_case=self.by_case,
        )

    @cached_property
    def channel_neighbours(self) -> Neighbours:
        flat = self.flat_rows
        return self.neighbours(
            flat.start,
            flat.row,
            flat.case,
            torch.arange(len(flat.row)),
            self._row_line,
            self.by_case.long(),
            torch.ones_like(self.by_case),
        )

    def channels_at_anchors(self, visits: int) -> LazyParts[tuple[VisitArrays, Lemma]]:
        """The anchors, in ranges with at most about ``visits`` visits: their visits, and the lemma at the anchors."""
        if visits not in self._channels_at_anchors:
            total = starts(self.hood.outer.degree * self.plan.anchor_cases.number)
            self._channels_at_anchors[visits] = LazyParts(ranges(total, visits), self._at_some_anchors, self.keep)
        return self._channels_at_anchors[visits]

    def _at_some_anchors(self, anchors: range) -> "tuple[VisitArrays, Lemma]":
        outer, cases, flat = self.hood.outer, self.plan.anchor_cases, self.plan.flat
        here, slots = slice(anchors.start, anchors.stop), slice(*outer.rowptr[[anchors.start, anchors.stop]].tolist())
        number = cases.number[outer.row[slots]]
        pair = torch.repeat_interleave(torch.arange(slots.start, slots.stop), number)
        start = starts(number)
        case = torch.arange(len(pair)) - start[pair - slots.start]
        slot, line = self.hood.slot_of_pair[pair], self.line_rank(outer.own[outer.row[pair]], case)
        visits = self.visits(
            pair,
            case,
            slot,
            outer.col[pair],
            torch.zeros_like(pair),
            self.leaf_start[slot],
            self.leaf_start[self.hood.leaf_of_pair[pair]] + line,
        )
        entries = slice(*flat.start[[anchors.start, anchors.stop]].tolist())
        row, case = flat.row[entries], flat.case[entries]
        rows = Rows(
            *map(
                array,
                (
                    outer.rowptr[anchors.start : anchors.stop + 1] - slots.start,
                    outer.droppable[slots],
                    outer.degree[here],
                    flat.start[anchors.start : anchors.stop + 1] - entries.start,
                    cases.first[row, case],
                    cases.last[row, case],
                    torch.ones_like(outer.degree[here]),
                    *gcn_scales(outer, torch.arange(anchors.start, anchors.stop)),
                ),
            )
        )
        step, multiplied = torch.ones_like(outer.degree[here]), outer.low[:0]
        terms = terms_of(start[:-1], step, multiplied, multiplied, self.own_line[entries], torch.arange(len(row)))
        return visits, Lemma(rows, (terms,), len(row), len(pair))

    @property
    def _row_line(self) -> Tensor:
        return self.line_at(self.flat_rows.row, self.flat_rows.case)

    def visits(
        self, pair: Tensor, case: Tensor, slot: Tensor, row: Tensor, column: Tensor, leaf: Tensor, own: Tensor
    ) -> VisitArrays:
        """Some visits.

        Args:
            pair, case: the pair (i, j), and the case of i.
            slot: that of i in the inner row of j.
            row, column, leaf, own: see the fields of :class:`VisitArrays`; ``own`` is its ``pair``.
        """
        outer, inner = self.hood.outer, self.hood.inner
        low, high = (end[outer.row[pair], case] for end in self.anchor_scale)
        scales = low, high, inner.low[slot], inner.high[slot], low.square(), high.square()
        parts = map(array, (row, *scales, outer.most_drops[pair], outer.droppable[pair], column))
        place = array(leaf)
        return VisitArrays(*parts, place, place, array(own))  # type: ignore[call-arg]  # mypy counts the starred one as one

    def neighbours(
        self, start: Tensor, row: Tensor, case: Tensor, out: Tensor, own: Tensor, step: Tensor, lined: Tensor
    ) -> Neighbours:
        """Some rows, case by case, with their cells.

        Args:
            start: where the cases of each row begin.
        """
        first = self.plan.row_cases.first[row, case]
        low, high = (array(end[row, case]) for end in self.row_scale)
        steps = array(step)
        return Neighbours(
            array(start), array(first), low, high, low, high, array(out), array(own), steps, steps, array(lined)
        )

    # -- functionals of each anchor's own ----------------------------------------------------------

    @cached_property
    def _own_cases(self) -> Tensor:
        """How many cases every inner row has as an anchor; zero if it is not an anchor."""
        cases = self.plan.anchor_cases.number
        return torch.zeros_like(self.hood.inner.degree).index_copy_(0, self.hood.outer.own, cases)

    @cached_property
    def own_entries(self) -> tuple[RowEntries, int]:
        """The functionals of every anchor in each of its cases, at its own inner row; and the number of cells that they
        take."""
        inner, flat, cases = self.hood.inner, self.plan.flat, self._own_cases
        entries, place = starts(cases), self._own_place
        functional = torch.empty_like(flat.row)
        functional[self.own_entry] = torch.arange(len(flat.row))
        parts = (
            entries,
            functional,
            self.own_line[functional],
            inner.rowptr,
            inner.col,
            inner.own,
            place[:-1],
            torch.ones_like(cases, dtype=torch.bool),
        )
        return RowEntries(*map(array, parts)), int(place[-1])

    @cached_property
    def own_entry(self) -> Tensor:
        """The entry of every anchor in each of its cases, ``(F,)``."""
        return starts(self._own_cases)[self.hood.outer.own[self.plan.flat.row]] + self.plan.flat.case

    @cached_property
    def _own_place(self) -> Tensor:
        """The first cell of every inner row among those of ``own_entries``."""
        return starts(self._own_cases * self.hood.inner.degree)

    def own_pair(self, pair: Tensor, case: Tensor) -> Tensor:
        """The cell of ``C_ij`` of some visits."""
        inner, slot = self.hood.inner, self.hood.leaf_of_pair[pair]
        row = inner.row[slot]
        return self._own_place[row] + (slot - inner.rowptr[row]) * self._own_cases[row] + case

    @cached_property
    def anchors_at_anchors(self) -> Lemma:
        return self._at_anchors(
            self.visit_start[self.hood.slot_of_pair],
            self.own_entry,
            scaled=False,
            by_case=self.plan.anchor_cases.number > 1,
        )

    def chunks(self, cells: int) -> "LazyParts[RowChunk]":
        """All visits, in chunks of rows whose slots have at most about ``cells`` cells."""
        from certgcl.bounds.compiled.anchor_chunks import chunks_of

        cells = min(cells, self._all_cells)  # so that all limits beyond them give the same tables
        if cells not in self._chunks:
            self._chunks[cells] = chunks_of(self, cells)
        return self._chunks[cells]

    @cached_property
    def _all_cells(self) -> int:
        return max(1, int((self.hood.inner.degree * self.plan.line_cases.number * self.around).sum()))


def ranges(total: Tensor, limit: int) -> list[range]:
    """Items in ranges of about equal amounts.

    Args:
        total: the amount before every item, and in all.
    """
    found, first = [], 0
    while first < len(total) - 1:
        after = max(first + 1, int(torch.searchsorted(total, total[first] + limit, right=True)) - 1)
        found.append(range(first, after))
        first = after
    return found


def both_ends(scale: Scale) -> tuple[Tensor, Tensor]:
    return scale.low, scale.low if scale.high is None else scale.high


def spans(first: Tensor, last: Tensor, width: int) -> list[LineSpan]:
    """Rows in spans of about as many lines.

    Args:
        first, last: where the lines of every row begin and end, in ascending order.
        width: of a line.
    """
    found, row, limit = [], 0, max(1, MAX_LINE_VALUES // width)
    while row < len(first):
        after = max(row + 1, int(torch.searchsorted(last, first[row] + limit, right=True)))
        found.append(LineSpan(range(row, after), slice(int(first[row]), int(last[after - 1]))))
        row = after
    return found
