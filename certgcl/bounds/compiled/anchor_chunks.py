"""The anchors around inner rows, each with its own functionals, in chunks whose tables fit into memory."""

from functools import cached_property

import torch
from torch import Tensor

from certgcl.bounds.compiled.flat_tables import FlatTables, LazyParts, LineSpan, ranges, spans
from certgcl.bounds.compiled.kernels.line_products import RowEntries
from certgcl.bounds.compiled.kernels.pair_minima import Neighbours, VisitArrays
from certgcl.bounds.compiled.kernels.row_lemma import Rows
from certgcl.bounds.compiled.lemma_arrays import Lemma, array, gcn_scales, terms_of
from certgcl.bounds.two_layer.row_plan import starts


def chunks_of(flat: FlatTables, cells: int) -> "LazyParts[RowChunk]":
    """All visits in chunks. A row whose table alone would be larger is cut into several *pieces*, each with some of
    its visits."""
    hubs = torch.inf if flat.plan.hubs is None else flat.plan.hubs
    each = flat.hood.inner.degree * flat.plan.line_cases.number  # cells of one visit
    most = (cells // each.clamp(min=1)).clamp(min=1)
    number = ((flat.around + most - 1) // most).clamp(min=1)
    row = torch.repeat_interleave(torch.arange(len(number)), number)
    rank = torch.arange(len(row)) - starts(number)[row]
    begin = flat.start[row] + rank * most[row]
    end = (begin + most[row]).minimum(flat.start[row + 1])

    def chunk(pieces: range) -> RowChunk:
        here = slice(pieces.start, pieces.stop)
        return RowChunk(flat, row[here], begin[here], end[here], hubs)

    return LazyParts(ranges(starts(each[row] * (end - begin)), cells), chunk, flat.keep)


class RowChunk:
    """Some pieces of rows. For a row in each of its cases, with its own lines or those of all cases, the visits of a
    piece are side by side.

    Args:
        row: the inner row of every piece, in ascending order.
        begin, end: its visits; all of them are a range.
        hubs: rows of more neighbours have no lines.
    """

    def __init__(self, flat: FlatTables, row: Tensor, begin: Tensor, end: Tensor, hubs: float) -> None:
        plan, inner = flat.plan, flat.hood.inner
        self.flat, self.row, self.begin, self.around = flat, row, begin, end - begin
        self.degree, self.lines = inner.degree[row], plan.line_cases.number[row]
        self.lined = self.degree <= hubs
        self.each = self.around * self.lines  # entries of every piece
        self.entry, self.place = starts(self.each), starts(self.each * self.degree * self.lined)
        self.slot = starts(self.degree)
        piece = torch.repeat_interleave(torch.arange(len(row)), self.degree)
        rank = torch.arange(len(piece)) - self.slot[piece]
        self.slots = inner.rowptr[row[piece]] + rank
        # The first cell of every slot, and the distance to that of the next case with its own lines.
        self.leaf, self.step = self.place[piece] + rank * self.each[piece], self.around * flat.by_case[row]
        self.case = starts(plan.row_cases.number[row])
        self.piece_of_case = torch.repeat_interleave(torch.arange(len(row)), plan.row_cases.number[row])
        self.rank_of_case = torch.arange(len(self.piece_of_case)) - self.case[self.piece_of_case]
        self.width = self.around * self.lined
        # For every visit, the slot in the graph's inner row, the pair, and the anchor's case.
        visit = torch.arange(int(begin[0]), int(end[-1]))
        self.visited = torch.searchsorted(flat.visit_start, visit, right=True) - 1
        self.pair = flat.hood.pair[self.visited]
        self.anchor_case = visit - flat.visit_start[self.visited]
        self.out = starts(self.width[self.piece_of_case])
        self.own = self.entry[self.piece_of_case] + self.rank_of_case * self.step[self.piece_of_case]

    def of_few(self, edges: int) -> "RowChunk":
        """The same where rows of more edges have no lines."""
        small = self.degree <= edges
        return (
            RowChunk(self.flat, self.row, self.begin, self.begin + self.around, edges)
            if bool((self.lined & ~small).any())
            else self
        )

    @cached_property
    def entries(self) -> tuple[RowEntries, int]:
        """The functionals of every piece, and the number of cells they take."""
        flat, inner, plan = self.flat, self.flat.hood.inner, self.flat.plan
        piece = torch.repeat_interleave(torch.arange(len(self.row)), self.each)
        rank, width = torch.arange(len(piece)) - self.entry[piece], self.around[piece]
        visit = (self.begin - self.begin[0])[piece] + rank % width
        functional = plan.flat.start[flat.hood.outer.row[self.pair[visit]]] + self.anchor_case[visit]
        line = plan.flat_lines.start[self.row[piece]] + rank // width
        return RowEntries(
            *map(
                array,
                (
                    self.entry,
                    functional,
                    line,
                    self.slot,
                    inner.col[self.slots],
                    inner.own[self.row],
                    self.place[:-1],
                    self.lined,
                ),
            )
        ), int(self.place[-1])

    @cached_property
    def lemma(self) -> Lemma:
        inner, cases = self.flat.hood.inner, self.flat.plan.row_cases
        row = self.row[self.piece_of_case]
        rows = Rows(
            *map(
                array,
                (
                    self.slot,
                    inner.droppable[self.slots],
                    self.degree,
                    self.case,
                    cases.first[row, self.rank_of_case],
                    cases.last[row, self.rank_of_case],
                    self.width,
                    *gcn_scales(inner, self.row),
                ),
            )
        )
        terms = terms_of(self.leaf, self.step, inner.low[self.slots], inner.high[self.slots], self.own, self.out[:-1])
        return Lemma(rows, (terms,), int(self.out[-1]), int(self.place[-1]))

    @cached_property
    def visits(self) -> tuple[VisitArrays, Neighbours]:
        flat, inner = self.flat, self.flat.hood.inner
        piece = torch.repeat_interleave(torch.arange(len(self.row)), self.around)
        column = torch.arange(len(piece)) + self.begin[0] - self.begin[piece]
        leaf = self.leaf[self.visited - inner.rowptr[self.row[piece]] + self.slot[piece]] + column
        visits = flat.visits(
            self.pair, self.anchor_case, self.visited, piece, column, leaf, flat.own_pair(self.pair, self.anchor_case)
        )
        return visits, flat.neighbours(
            self.case, self.row[self.piece_of_case], self.rank_of_case, self.out[:-1], self.own, self.step, self.lined
        )

    def spans(self, width: int) -> list[LineSpan]:
        start = self.flat.plan.flat_lines.start
        return spans(start[self.row], start[self.row + 1], width)
