"""How many edges a node loses, as a list of cases: count by count, or for large budgets in groups of counts."""

from dataclasses import dataclass

import torch
from torch import Tensor

from certgcl.bounds.neighbourhood import Hop


@dataclass(frozen=True, eq=False)
class DropCases:
    """The counts ``0 … q`` of every row, cut into cases ``first … last``; in each, the scale's range ``[low, high]``.

    A row has ``number`` cases; in the tables, columns beyond that repeat its last one. Values per case are kept in
    one flat list, row after row: case g of row j is at ``offset[j] + g``.
    """

    number: Tensor  # (R,)
    offset: Tensor  # (R,)
    first: Tensor  # (R, G)
    last: Tensor  # (R, G)
    low: Tensor  # (R, G) s(first)
    high: Tensor  # (R, G) s(last)

    @property
    def total(self) -> int:
        return int(self.number.sum())

    @property
    def most(self) -> int:
        """The largest number of cases of a row."""
        return self.first.shape[1]

    def of(self, rows: Tensor) -> "DropCases":
        """The cases of some rows, without columns that none of them has."""
        most = int(self.number[rows].max())
        return DropCases(self.number[rows], self.offset[rows], self.first[rows, :most], self.last[rows, :most],
                         self.low[rows, :most], self.high[rows, :most])

    def flat(self, rows: Tensor, case: int | Tensor) -> Tensor:
        """Where a case of the given rows is in the flat list; beyond a row's cases, its last one."""
        return self.offset[rows] + (self.number[rows] - 1).clamp(max=case)

    def table(self) -> Tensor:
        """Places of all cases in the flat list, ``(R, G)``."""
        rank = torch.arange(self.most, device=self.number.device)
        return self.offset[:, None] + rank.minimum(self.number[:, None] - 1)


def drop_cases(hop: Hop, resolution: int) -> DropCases:
    """Single counts where the budget is below ``resolution``, else so many groups, in each of which the scale grows by
    about the same factor. The full budget is then a group of its own (unless there is but one group), as it may be out
    of reach while a given edge is kept.
    """
    budget, degree = hop.budget[:, None], hop.degree[:, None]
    number = (hop.budget + 1).clamp(max=resolution)
    groups = int(number.max())
    place = torch.arange(groups + 1, device=budget.device)
    # Group starts c_k with D - c_k falling geometrically, forced to increase strictly from 0 to q.
    whole = (degree + 1).double()
    share = place[:-1] / max(1, groups - 1)
    wanted = torch.floor(whole * (1 - ((whole - budget) / whole) ** share)).long()
    surplus = (wanted - place[:-1]).cummax(dim=1).values.clamp(min=0).minimum((budget - (groups - 1)).clamp(min=0))
    starts = place[:-1] + surplus
    if groups > 1:
        starts[:, -1:] = budget
    grouped = torch.cat([starts, budget + 1], dim=1)
    edges = torch.where(budget < resolution, place.minimum(budget + 1), grouped)
    rank = place[:-1].minimum(number[:, None] - 1)
    first, last = edges.gather(1, rank), edges.gather(1, rank + 1) - 1
    offset = number.cumsum(0) - number
    return DropCases(number, offset, first, last, hop.scale(first), hop.scale(last))
