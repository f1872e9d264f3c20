"""How many edges a node loses, as a list of cases: count by count, or for large budgets in groups of counts."""

from dataclasses import dataclass
from functools import cached_property
from types import EllipsisType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from certgcl.bounds.two_layer.neighbourhood import Hop, inverse_sqrt_degree


@dataclass(frozen=True, eq=False)
class Scale:
    """A scale ``s``: anywhere in ``[low, high]``, or exactly ``low`` where ``high`` is None. Never negative."""

    low: Tensor
    high: Tensor | None

    @cached_property
    def _middle(self) -> Tensor:
        return self.low if self.high is None else (self.low + self.high) / 2

    @cached_property
    def _radius(self) -> Tensor | None:
        return None if self.high is None else (self.high - self.low) / 2

    def least(self, value: Tensor) -> Tensor:
        """The least ``s value``, which is ``middle value - radius |value|``."""
        return self._extreme(value, -1)

    def most(self, value: Tensor) -> Tensor:
        """The largest ``s value``."""
        return self._extreme(value, 1)

    def _extreme(self, value: Tensor, sign: int) -> Tensor:
        if self._radius is None:
            return self._middle * value
        if not (torch.is_grad_enabled() and value.requires_grad):
            return torch.addcmul(self._middle * value, self._radius, value.abs(), value=sign)
        result: Tensor = _Extreme.apply(value, self._middle, self._radius, sign)  # type: ignore[no-untyped-call]
        return result

    def times(self, other: "Scale") -> "Scale":
        """The product of two scales that vary independently."""
        if self.high is None and other.high is None:
            return Scale(self.low * other.low, None)
        return Scale(
            self.low * other.low,
            (self.low if self.high is None else self.high) * (other.low if other.high is None else other.high),
        )

    def at(self, *index: slice | EllipsisType | None) -> "Scale":
        """The same scales, indexed."""
        return Scale(self.low[index], None if self.high is None else self.high[index])

    def take(self, places: Tensor) -> "Scale":
        """Those at some places."""
        return Scale(self.low[places], None if self.high is None else self.high[places])

    def rows(self, places: Tensor) -> "Scale":
        """Those at some places, as a column."""
        return Scale(self.low[places, None], None if self.high is None else self.high[places, None])

    @property
    def column(self) -> "Scale":
        return self.at(slice(None), None)


class _Extreme(torch.autograd.Function):
    """``middle v ± radius |v|``, with its gradient in one product instead of torch's five."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, middle: Tensor, radius: Tensor, sign: int) -> Tensor:
        ctx.save_for_backward(value, middle, radius)
        ctx.sign = sign
        return torch.addcmul(middle * value, radius, value.abs(), value=sign)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        value, middle, radius = ctx.saved_tensors
        scale = torch.addcmul(middle, radius, value.sign(), value=ctx.sign)
        return (gradients[0] * scale).sum_to_size(value.shape), None, None, None


class Losses(NamedTuple):
    """Rows by their number of edges and the number of them that they can lose."""

    degree: Tensor
    budget: Tensor


@dataclass(frozen=True, eq=False)
class DropCases:
    """The counts ``0 … q`` of every row, cut into cases ``first … last``.

    A row has ``number`` cases; in the tables, columns beyond that repeat its last one.
    """

    number: Tensor  # (R,)
    first: Tensor  # (R, G)
    last: Tensor  # (R, G)
    degree: Tensor  # (R,)
    budget: Tensor  # (R,)
    single: Tensor  # (R,) whether every case is one count

    @property
    def most(self) -> int:
        """The largest number of cases of a row."""
        return self.first.shape[1]

    def of(self, rows: Tensor) -> "DropCases":
        """The cases of some rows, without columns that none of them has."""
        most = int(self.number[rows].max())
        return DropCases(
            self.number[rows],
            self.first[rows, :most],
            self.last[rows, :most],
            self.degree[rows],
            self.budget[rows],
            self.single[rows],
        )

    def where(self, chosen: Tensor, other: "DropCases") -> "DropCases":
        """These cases at the chosen rows, and at the other rows those of another list, with a single case."""
        return DropCases(
            torch.where(chosen, self.number, other.number),
            torch.where(chosen[:, None], self.first, other.first),
            torch.where(chosen[:, None], self.last, other.last),
            self.degree,
            self.budget,
            torch.where(chosen, self.single, other.single),
        )

    def scale(self, dtype: torch.dtype) -> Scale:
        """The scale of every row in each of its cases, ``(R, G)``."""
        low = inverse_sqrt_degree(self.degree[:, None], self.first, dtype)
        if bool(self.single.all()):
            return Scale(low, None)
        return Scale(low, inverse_sqrt_degree(self.degree[:, None], self.last, dtype))


def drop_cases(hop: Hop | Losses, resolution: int) -> DropCases:
    """Single counts for budgets below ``resolution``, otherwise that many groups, in each of which the scale grows by
    about the same factor. The full budget is then a separate group (unless there is only one), as it may be out of
    reach while a given edge is kept.
    """
    budget, degree = hop.budget[:, None], hop.degree[:, None]
    number = (hop.budget + 1).clamp(max=resolution)
    groups = int(number.max())
    place = torch.arange(groups + 1, device=budget.device)
    # D - t falls by about the same factor from group to group, and each has one count at least. The starts increase
    # strictly, because D (1 - ρ^k) is concave in k.
    whole = (degree + 1).double()
    share = place[:-1].double() / max(1, groups - 1)
    wanted = torch.floor(whole * (1 - ((whole - budget) / whole) ** share)).long()
    starts = wanted.minimum(budget - (groups - 1) + place[:-1])
    if groups > 1:
        starts[:, -1:] = budget  # exactly, independent of rounding
    grouped = torch.cat([starts, budget + 1], dim=1)
    single = hop.budget < resolution
    edges = torch.where(single[:, None], place.minimum(budget + 1), grouped)
    rank = place[:-1].minimum(number[:, None] - 1)
    first, last = edges.gather(1, rank), edges.gather(1, rank + 1) - 1
    return DropCases(number, first, last, hop.degree, hop.budget, single)
