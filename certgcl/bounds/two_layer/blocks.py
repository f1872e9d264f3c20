"""Rows of a hop side by side: blocks of rows with similar numbers of neighbours, cut to fit into the processor's
cache."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from certgcl.bounds.propagation.drop_counts import DropCases, Scale
from certgcl.bounds.two_layer.neighbourhood import Hop, Neighbourhood, inverse_sqrt_degree

MAX_ELEMENTS = 1 << 20  # of one intermediate tensor; larger ones leave the cache, and cost fresh memory at every use
SMALL_BLOCK = 1 << 18  # elements whose processing takes about as long as the calls around it
TOLERANCE = 4  # blocks that are too large or too small by up to this factor are reused

Width = Callable[[int, int], int]
"""Elements needed for each slot, given the padded degree and the number of cases of a row."""


def infinite_unless(condition: Tensor, dtype: torch.dtype) -> Tensor:
    """Zero where the condition holds, elsewhere infinity: a mask that is added to values."""
    return torch.zeros(condition.shape, dtype=dtype, device=condition.device).masked_fill(~condition, torch.inf)


class Count(NamedTuple):
    """A number t of edges that rows lose, or several consecutive ones."""

    start: int  # the first
    number: int | slice
    scale: Tensor  # s(t), (R, 1, 1), or (R, counts, 1, 1)
    square: Tensor  # s(t)²
    outside: Tensor | None  # infinite where t is not in the case, else zero; None if it is in all


class Counts:
    """The numbers of edges that the rows of a block lose in one of their cases. Rows without that case have arbitrary
    values."""

    def __init__(self, cases: DropCases, case: int, dtype: torch.dtype) -> None:
        has = cases.number > case
        first, last = cases.first[:, case, None], cases.last[:, case, None]
        self.numbers = range(int(first[has].min()), int(last[has].max()) + 1)
        number = torch.arange(self.numbers.start, self.numbers.stop, device=first.device)
        scale = inverse_sqrt_degree(cases.degree[:, None], last.minimum(number), dtype)
        inside = (first <= number) & (number <= last) | ~has[:, None]
        outside = None if bool(inside.all()) else infinite_unless(inside, dtype)[..., None, None]
        self.together = Count(
            self.numbers.start,
            slice(self.numbers.start, self.numbers.stop),
            scale[..., None, None],
            scale.square()[..., None, None],
            outside,
        )
        self.everywhere = inside.all(dim=0).tolist()

    @cached_property
    def one_by_one(self) -> list[Count]:
        _, _, scale, square, outside = self.together
        return [
            Count(
                number,
                number,
                scale[:, place],
                square[:, place],
                None if everywhere or outside is None else outside[:, place],
            )
            for place, (number, everywhere) in enumerate(zip(self.numbers, self.everywhere, strict=True))
        ]


class Block:
    """Some rows of a hop in the T cases of how many edges they lose, padded to ``K`` neighbours.

    Attributes:
        rows: positions in the hop's nodes, ``(R,)``.
        slots: positions in the hop's slots, ``(R, K)``; 0 where padded.
        valid, droppable: ``(R, K)``.
        target: positions in the hop's targets, ``(R, K)``; 0 where padded.
        neighbours: the scales of the neighbours, ``(R, K)``; 0 where padded.
        cases, scale: the cases of the rows, and the scales in them, ``(R, T)``.
        counts: those of each case.
        most: the largest count.
        units: with t edges lost by the row, how many others all its neighbours together can lose, ``(R, most + 1)``;
            None if that is not a limit.
    """

    hub = False  # whether these rows have so many neighbours that they get only the cheapest bound

    def __init__(self, hop: Hop, cases: DropCases, rows: Tensor, size: int) -> None:
        place = torch.arange(size, device=rows.device)
        self.rows = rows
        self.valid = place < hop.degree[rows, None]
        self.slots = torch.where(self.valid, hop.rowptr[rows, None] + place, 0)
        if hop.col.numel():
            self.droppable = self.valid & hop.droppable[self.slots]
            self.target = torch.where(self.valid, hop.col[self.slots], 0)
            self.neighbours = Scale(hop.low[self.slots] * self.valid, hop.high[self.slots] * self.valid)
        else:
            self.droppable, self.target = self.valid, self.slots
            self.neighbours = Scale(hop.low.new_zeros(self.slots.shape), None)
        self.own = hop.own[rows]
        self.cases = cases.of(rows)
        self.scale = self.cases.scale(hop.low.dtype)
        self.counts = [Counts(self.cases, case, hop.low.dtype) for case in range(self.cases.most)]
        self.most = max(counts.numbers[-1] for counts in self.counts)
        self.droppable_terms = self.droppable.sum(dim=1)
        self.least_droppable = int(self.droppable_terms.min())
        self.all_droppable = self.least_droppable == size
        self.hop = hop
        self.units = self._units()

    @property
    def never_dropped(self) -> Tensor:
        """Minus infinity where a neighbour cannot be dropped, else zero, ``(R, K)``."""
        return infinite_unless(self.droppable, self.hop.low.dtype).neg()

    @property
    def capacity(self) -> Tensor:
        """How many edges each neighbour can lose while it remains a neighbour, ``(R, K)``."""
        return self.hop.most_drops[self.slots] * self.valid

    def _units(self) -> Tensor | None:
        """Of the Q edges that may be dropped in all, t are the row's own; another one is lost by one neighbour, or by
        two if it lies between them."""
        hop = self.hop
        if hop.total is None or hop.between is None:
            return None
        left = (hop.total[self.rows, None] - torch.arange(self.most + 1, device=self.rows.device)).clamp(min=0)
        units = left + left.minimum(hop.between[self.rows, None])
        return None if bool((units >= self.capacity.sum(dim=1, keepdim=True)).all()) else units

    @property
    def size(self) -> int:
        """K."""
        return self.slots.shape[1]

    def has_case(self) -> Tensor:
        """Which of the T cases every row has, ``(R, T)``."""
        return torch.arange(self.cases.most, device=self.rows.device) < self.cases.number[:, None]


def blocks(hop: Hop, cases: DropCases, width: Width, rows: Tensor, similar: Tensor | None = None) -> Iterator[Block]:
    """Some rows, in blocks whose tensors stay below ``MAX_ELEMENTS`` (or hold one row).

    Args:
        similar: rows with the same value here are put together, ``(R,)``.
    """
    padded = _round_up(hop.degree)
    kind = padded * (cases.most + 1) + cases.number
    order = rows if similar is None else rows[_descending(similar[rows])]
    order = order[_descending(kind[order])]
    kinds, counts = torch.unique_consecutive(kind[order], return_counts=True)
    classes = [
        (code // (cases.most + 1), code % (cases.most + 1), count)
        for code, count in zip(kinds.tolist(), counts.tolist(), strict=True)
    ]
    start = 0
    while classes:
        size, most, number = classes.pop(0)
        # Smaller rows are added as long as that costs less than a separate block.
        while classes:
            joint = max(most, classes[0][1])
            if (number + classes[0][2]) * size * width(size, joint) > min(SMALL_BLOCK, MAX_ELEMENTS):
                break
            most, number = joint, number + classes.pop(0)[2]
        for part in order[start : start + number].split(max(1, MAX_ELEMENTS // (size * width(size, most)))):
            yield Block(hop, cases, part, size)
        start += number


@dataclass(frozen=True, eq=False)
class Pairs:
    """The anchors i among the neighbours of a block's rows j: the first ``I`` positions of every row."""

    pair: Tensor  # (R, I); 0 where there is none
    anchor: Tensor  # (R, I) the row of i in the outer hop
    valid: Tensor  # (R, I)
    never_dropped: Tensor | None  # (R, I) minus infinity where (i, j) cannot be dropped, else zero; None if all can
    out_of_reach: Tensor | None  # (R, I, T) infinity in cases that j cannot be in while (i, j) is kept, else zero
    columns: list[int]  # per case g of the anchors: how many positions have it, from the first
    tau: list[Scale]  # per case g: the scale of i, (R, columns)
    left: list[
        Tensor | None
    ]  # per case g: how many edges j can lose in addition to those of i, (R, columns); None: any number


def pairs_of(block: Block, hood: Neighbourhood, anchor_cases: DropCases) -> Pairs:
    count = hood.anchors_around[block.rows]
    place = torch.arange(int(count.max()), device=count.device)
    valid = place < count[:, None]
    outer = hood.outer
    if not place.numel():
        empty = torch.zeros_like(valid, dtype=torch.long)
        return Pairs(empty, empty, valid, None, None, [], [], [])
    pair = torch.where(valid, hood.pair[block.slots[:, : place.numel()]], 0)
    anchor = outer.row[pair]
    reach = (block.cases.first[:, None] <= outer.most_drops[pair][..., None]) & block.has_case()[:, None]
    number = torch.where(valid, anchor_cases.number[anchor], 0)
    columns = [int((number > case).sum(dim=1).max()) for case in range(int(number.max()))]
    scale = anchor_cases.of(anchor.flatten()).scale(outer.low.dtype)
    low = scale.low.unflatten(0, anchor.shape)
    high = None if scale.high is None else scale.high.unflatten(0, anchor.shape)
    tau = []
    for case, width in enumerate(columns):
        at = low[:, :width, case]
        top = None if high is None or torch.equal(high[:, :width, case], at) else high[:, :width, case]
        tau.append(Scale(at, top))
    left = [
        None if outer.total is None else (outer.total[anchor] - anchor_cases.first[anchor, case])[:, :width]
        for case, width in enumerate(columns)
    ]
    droppable = outer.droppable[pair]
    never = None if bool(droppable.all()) else infinite_unless(droppable, outer.low.dtype).neg()
    out_of_reach = None if bool(reach.all()) else infinite_unless(reach, outer.low.dtype)
    return Pairs(pair, anchor, valid, never, out_of_reach, columns, tau, left)


def _descending(values: Tensor) -> Tensor:
    return torch.argsort(values, descending=True, stable=True)


def _round_up(degree: Tensor) -> Tensor:
    """Degrees rounded up to three significant bits (1 … 8, 10, 12, 14, 16, 20, …): few sizes and little padding."""
    exponent = torch.floor(torch.log2(degree.clamp(min=1).double())).long()
    step = torch.bitwise_left_shift(torch.ones_like(degree), (exponent - 2).clamp(min=0))
    return ((degree.clamp(min=1) + step - 1) // step) * step
