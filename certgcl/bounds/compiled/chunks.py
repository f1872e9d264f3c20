"""The anchors around inner rows, each with functionals of its own: in chunks whose tables fit in memory."""

from functools import cached_property

import torch
from torch import Tensor

from certgcl.bounds.compiled.kernels.line_products import Entries
from certgcl.bounds.compiled.kernels.pair_minima import Neighbours, Visits
from certgcl.bounds.compiled.kernels.row_lemma import Rows, Terms
from certgcl.bounds.compiled.layout import Layout, Lemma, Span, array, ranges, spans
from certgcl.bounds.plan import starts


def chunks_of(layout: Layout, cells: int) -> "list[RowChunk]":
    """All visits in chunks. A row whose table would be larger by itself is cut into several *pieces*, each with some of
    its visits."""
    each = layout.hood.inner.degree * layout.plan.line_cases.number  # cells of one visit
    most = (cells // each.clamp(min=1)).clamp(min=1)
    number = ((layout.around + most - 1) // most).clamp(min=1)
    row = torch.repeat_interleave(torch.arange(len(number)), number)
    rank = torch.arange(len(row)) - starts(number)[row]
    begin = layout.start[row] + rank * most[row]
    end = (begin + most[row]).minimum(layout.start[row + 1])
    pieces = [slice(here.start, here.stop) for here in ranges(starts(each[row] * (end - begin)), cells)]
    return [RowChunk(layout, row[here], begin[here], end[here]) for here in pieces]


class RowChunk:
    """Some pieces of rows. Of a row in each of its cases, with lines of its own or those of all cases, the visits of a
    piece stand side by side.

    Args:
        row: the inner row of every piece, in ascending order.
        begin, end: its visits; all of them are a range.
    """

    def __init__(self, layout: Layout, row: Tensor, begin: Tensor, end: Tensor) -> None:
        plan, inner = layout.plan, layout.hood.inner
        self.layout, self.row, self.begin, self.around = layout, row, begin, end - begin
        self.degree, self.lines = inner.degree[row], plan.line_cases.number[row]
        self.lined = self.degree <= (torch.inf if plan.hubs is None else plan.hubs)
        self.each = self.around * self.lines  # entries of every piece
        self.entry, self.place = starts(self.each), starts(self.each * self.degree * self.lined)
        self.slot = starts(self.degree)
        piece = torch.repeat_interleave(torch.arange(len(row)), self.degree)
        rank = torch.arange(len(piece)) - self.slot[piece]
        self.slots = inner.rowptr[row[piece]] + rank
        # The first cell of every slot in each case with lines of its own.
        self.leaf = ((self.place[piece] + rank * self.each[piece])[:, None]
                     + torch.arange(plan.line_cases.most) * self.around[piece, None])
        self.case = starts(plan.row_cases.number[row])
        self.piece_of_case = torch.repeat_interleave(torch.arange(len(row)), plan.row_cases.number[row])
        self.rank_of_case = torch.arange(len(self.piece_of_case)) - self.case[self.piece_of_case]
        self.width = self.around * self.lined
        self.out = starts(self.width[self.piece_of_case])
        line = self.rank_of_case if plan.by_count else torch.zeros_like(self.rank_of_case)
        self.own = self.entry[self.piece_of_case] + line * self.around[self.piece_of_case]

    @cached_property
    def entries(self) -> tuple[Entries, int]:
        """The functionals that meet at every piece, and how many cells they take."""
        layout, inner, plan = self.layout, self.layout.hood.inner, self.layout.plan
        piece = torch.repeat_interleave(torch.arange(len(self.row)), self.each)
        rank, width = torch.arange(len(piece)) - self.entry[piece], self.around[piece]
        visit = self.begin[piece] + rank % width
        functional = plan.flat.place[layout.anchor[visit], layout.case[visit]]
        line = plan.flat_lines.start[self.row[piece]] + rank // width
        return Entries(*map(array, (self.entry, functional, line, self.slot, inner.col[self.slots], inner.own[self.row],
                                    self.place[:-1], self.lined))), int(self.place[-1])

    @cached_property
    def lemma(self) -> Lemma:
        inner, cases = self.layout.hood.inner, self.layout.plan.row_cases
        row = self.row[self.piece_of_case]
        middle, radius = (array(part[self.slots]) for part in self.layout.scale_parts)
        rows = Rows(*map(array, (self.slot, inner.droppable[self.slots], self.degree, self.case,
                                 cases.first[row, self.rank_of_case], cases.last[row, self.rank_of_case], self.width)))
        terms = Terms(array(self.leaf), middle, radius, array(self.own), array(self.out[:-1]), 1)
        return Lemma(rows, (terms,), int(self.out[-1]), int(self.place[-1]))

    @cached_property
    def visits(self) -> tuple[Visits, Neighbours]:
        layout, inner = self.layout, self.layout.hood.inner
        here = slice(int(self.begin[0]), int(self.begin[-1] + self.around[-1]))
        piece = torch.repeat_interleave(torch.arange(len(self.row)), self.around)
        column = torch.arange(here.start, here.stop) - self.begin[piece]
        slot = layout.slot[here] - inner.rowptr[self.row[piece]] + self.slot[piece]
        return layout.visits(here, piece, slot, column, layout.own_pair[here]), layout.neighbours(
            self.case, self.row[self.piece_of_case], self.rank_of_case, self.slots, self.out[:-1], self.own, self.leaf,
            self.lined)

    def spans(self, width: int) -> list[Span]:
        start = self.layout.plan.flat_lines.start
        return spans(start[self.row], start[self.row + 1], width)
