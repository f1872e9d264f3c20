"""The largest droppable terms of every row, and the least value of the row over the number of them that are gone."""

from collections.abc import Callable
from itertools import zip_longest
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from certgcl.bounds.two_layer.blocks import Block, Count, Counts

FEW_COUNTS = 8  # counts that are processed one after the other: processing all at once is not vectorised over rows
MERGING_PAYS = 1 << 9  # rows times functionals per largest term, from which on merging pays off

Value = Callable[[Count, Tensor], Tensor]
"""The value of a row that loses some number of edges, from what remains of the sum of its terms."""


class Minimum(NamedTuple):
    """Least values, and if wanted where they are attained: how many terms are dropped, and the smallest of them. If
    none is dropped, that is the largest number of the format; if there are fewer terms, its negative."""

    value: Tensor
    number: Tensor | None = None
    dropped: Tensor | None = None


class SortedRow(Protocol):
    """The largest of the terms ``(R, K, ...)`` of every row."""

    def minimum(self, counts: Counts, shift: int, value: Value, where: bool) -> Minimum:
        """The least value over some counts t with ``top_(t + shift)`` dropped, ``(R, ...)``; of equals the first."""
        ...


def sorted_row(block: Block, terms: Tensor, most: int) -> SortedRow:
    """For counts up to ``most``."""
    return FewLargest(block, terms, most) if most <= FEW_COUNTS else ManyLargest(block, terms, most)


class FewLargest:
    """``Σ_k g_k - top_t`` count by count. Nothing is stacked, and no index looked up: ``min(dim)`` and ``gather`` would
    take ten times as long."""

    def __init__(self, block: Block, terms: Tensor, most: int) -> None:
        kept = min(most, block.size)
        self.largest = largest_values(candidates_of(block, terms), kept)
        self.limit = terms.new_tensor(torch.finfo(terms.dtype).max)
        self.remaining = [terms.sum(dim=1)]
        for count, value in enumerate(self.largest, 1):
            dropped = value if count <= block.least_droppable else value.nan_to_num(neginf=0.0)
            self.remaining.append(self.remaining[-1] - dropped)
        self.remaining += self.remaining[-1:] * (most - kept)

    def minimum(self, counts: Counts, shift: int, value: Value, where: bool) -> Minimum:
        first, *others = counts.one_by_one
        least = value(first, self.remaining[first.start + shift])
        if not where:
            for count in others:
                least = torch.minimum(least, value(count, self.remaining[count.start + shift]))
            return Minimum(least)
        number = torch.full_like(least, first.start + shift)
        dropped = self._smallest(first.start + shift).expand_as(least)
        for count in others:
            gone = count.start + shift
            other = value(count, self.remaining[gone])
            better = torch.lt(other, least, out=torch.empty_like(least))
            least = torch.minimum(least, other)
            dropped = torch.addcmul(dropped, dropped, better, value=-1).addcmul_(better, self._smallest(gone))
            torch.maximum(number, better.mul_(gone), out=number)
        return Minimum(least, number, dropped)

    def _smallest(self, gone: int) -> Tensor:
        """Finite, so that its product with zero is zero."""
        if not gone:
            return self.limit
        return self.largest[gone - 1].maximum(-self.limit) if gone <= len(self.largest) else -self.limit


class ManyLargest:
    """The same for all counts at once, ``(R, counts, ...)``."""

    def __init__(self, block: Block, terms: Tensor, most: int) -> None:
        kept, limit = min(most, block.size), torch.finfo(terms.dtype).max
        total = terms.sum(dim=1, keepdim=True)
        largest = torch.stack(largest_values(candidates_of(block, terms), kept), dim=1)
        dropped = largest if kept <= block.least_droppable else largest.nan_to_num(neginf=0.0)
        remaining = total - dropped.cumsum(dim=1)
        beyond = (-1, most - kept, *terms.shape[2:])
        self.remaining = torch.cat([total, remaining, remaining[:, -1:].expand(beyond)], dim=1)
        self.smallest = torch.cat(
            [torch.full_like(total, limit), largest.clamp(min=-limit), torch.full_like(total, -limit).expand(beyond)],
            dim=1,
        )

    def minimum(self, counts: Counts, shift: int, value: Value, where: bool) -> Minimum:
        together = counts.together
        start = together.start + shift
        values = value(together, self.remaining[:, start : start + len(counts.numbers)])
        if not where:
            return Minimum(values.amin(dim=1))
        least, place = values.min(dim=1)
        number = place + start
        return Minimum(least, number.to(values.dtype), self.smallest.gather(1, number[:, None])[:, 0])


def candidates_of(block: Block, terms: Tensor) -> Tensor:
    """The terms, minus infinity where they cannot be dropped."""
    if block.all_droppable:
        return terms
    return terms + block.never_dropped[(..., *(None,) * (terms.dim() - 2))]


def largest_values(values: Tensor, number: int) -> list[Tensor]:
    """The values of ``topk(number, dim=1)``. Since their indices are not needed, there are faster ways."""
    if 0 < number <= FEW_COUNTS and values[:, :1].numel() >= MERGING_PAYS * number:
        return largest_by_merging(values, number)
    trained = torch.is_grad_enabled() and values.requires_grad  # NumPy's sort has no gradient
    if not number or trained or values.device.type != "cpu":
        return [*values.topk(number, dim=1).values.unbind(dim=1)]
    rows = values.detach().movedim(1, -1).contiguous()
    rows = rows.clone() if rows.data_ptr() == values.data_ptr() else rows
    rows.numpy().sort(axis=-1)  # vectorised, unlike torch's
    return [*rows[..., -number:].flip(-1).unbind(dim=-1)]


def largest_by_merging(values: Tensor, number: int) -> list[Tensor]:
    """The rows are halved, and halves are sorted and merged, keeping only the largest values: the fastest way if few
    are needed."""
    return _sorted([*values.unbind(dim=1)], number)


def _sorted(values: list[Tensor], number: int) -> list[Tensor]:
    if len(values) == 1:
        return values[:number]
    half = len(values) // 2
    return _merged(_sorted(values[:half], number), _sorted(values[half:], number), number)


def _merged(one: list[Tensor], other: list[Tensor], number: int) -> list[Tensor]:
    """The largest of two sorted lists. After Batcher: the first, third, ... of both are merged, and so are the others;
    from the second on, the two results only need to be compared pair by pair."""
    if not one or not other or not number:
        return (one or other)[:number]
    if len(one) == len(other) == 1:
        larger = [torch.maximum(one[0], other[0])]
        return larger if number == 1 else [*larger, torch.minimum(one[0], other[0])]
    first, *odd = _merged(one[::2], other[::2], number // 2 + 1)
    even = _merged(one[1::2], other[1::2], number // 2)
    merged = [first]
    for pair in zip_longest(odd, even):
        here = [value for value in pair if value is not None]
        if len(here) == 2 and len(merged) < number:
            merged.append(torch.maximum(*here))
            here = [torch.minimum(*here)] if len(merged) < number else []
        merged += here
    return merged[:number]
