"""How many edges a node gains, as a list of levels: count by count, or for large budgets in groups of counts."""

from dataclasses import dataclass

import torch
from torch import Tensor

from certgcl.bounds.two_layer.row_plan import starts


@dataclass(frozen=True, eq=False)
class Levels:
    """Numbers ``first … last`` of edges that rows gain, one list for all rows, row after row."""

    start: Tensor  # (R + 1,)
    row: Tensor  # (levels,)
    first: Tensor
    last: Tensor

    @classmethod
    def of(cls, budget: Tensor, resolution: int) -> "Levels":
        """Single counts for budgets below ``resolution``, otherwise that many groups of about the same size after the
        first, which is zero edges: a node that has gained no edge cannot be at the other end of a new one. One group
        has all counts."""
        number = (budget + 1).clamp(max=resolution)
        start = starts(number)
        row = torch.repeat_interleave(torch.arange(len(budget), device=budget.device), number)
        rank, groups = torch.arange(len(row), device=row.device) - start[row], (number[row] - 1).clamp(min=1)

        def begin(rank: Tensor) -> Tensor:
            share = torch.div((rank - 1) * budget[row], groups, rounding_mode="floor")
            return torch.where(rank <= 0, 0, 1 + share)

        last = torch.where(rank == number[row] - 1, budget[row], begin(rank + 1) - 1)
        return cls(start, row, begin(rank), last)


def consecutive(start: Tensor, number: Tensor) -> Tensor:
    """``start, start + 1, …``, as many as requested, one range after the other."""
    end = starts(number)
    place = torch.arange(int(end[-1]), device=start.device)
    return place + torch.repeat_interleave(start - end[:-1], number)


def in_portions(places: Tensor, size: Tensor, most: int) -> tuple[Tensor, ...]:
    """Places in their order, some at a time, whose sizes, without the first of them, add up to ``most`` at most."""
    group = torch.div(size.cumsum(0), most, rounding_mode="floor")
    return places.split(torch.unique_consecutive(group, return_counts=True)[1].tolist())
