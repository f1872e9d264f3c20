"""The first layer as the second one sees it: bounds of its pre-activations, and lines around its activation."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from certgcl.activation import SlopeRule
from certgcl.bounds.gather import Table
from certgcl.encoder import GCNWeights

CHUNK = 1 << 10  # rows whose ranges are computed at a time, so that they stay in the cache


class Range(NamedTuple):
    """Values anywhere in ``[middle - radius, middle + radius]``. The radius may be negative for lines that cross."""

    middle: Tensor
    radius: Tensor

    @classmethod
    def between(cls, lower: Tensor, upper: Tensor) -> "Range":
        return cls((lower + upper) / 2, (upper - lower) / 2)

    def product(self, matrix: Tensor) -> tuple[Tensor, Tensor]:
        """The least and the largest ``v @ M`` over the range: ``middle @ M`` and ``radius @ |M|`` to either side."""
        middle, radius = self.middle @ matrix, self.radius @ matrix.abs()
        return middle - radius, middle + radius


class RowLines(NamedTuple):
    """The two lines ``a Â_j Y + c`` around ``σ1(p_j)``: their slopes a, and their constants c with the bias in them."""

    slope: Range
    constant: Range


@dataclass(frozen=True, eq=False)
class Layer1:
    """Bounds of ``p_j = Â_j (X W1) + b1`` for the inner rows, in each case of how many edges j loses.

    What follows from them (ranges, lines) is computed where it is used: it would take several times their memory.

    Args:
        projected: ``Y = X W1`` over the inner hop's targets, ``(T, d1)``.
        lower: ``l <= p``, a flat list of rows and cases ``(F, d1)``.
        upper: ``p <= u``, ``(F, d1)``.
        place: where the cases of every row stand in that list, ``(R, cases)``; one column if all cases share bounds.
    """

    weights: GCNWeights
    projected: Tensor
    lower: Tensor
    upper: Tensor
    place: Tensor

    @cached_property
    def _bounds(self) -> tuple[Table, Table]:
        return Table(self.lower), Table(self.upper)

    @cached_property
    def _projected(self) -> Table:
        return Table(self.projected)

    def targets(self, index: Tensor) -> Tensor:
        """``y_k`` of some targets."""
        return self._projected.take(index)

    def at(self, place: Tensor) -> tuple[Tensor, Tensor]:
        """l and u at some places."""
        lower, upper = self._bounds
        return lower.take(place), upper.take(place)

    def hidden(self, bounds: tuple[Tensor, Tensor]) -> Range:
        """The range of ``h_j = σ(p_j)``."""
        return Range.between(*self.weights.activation1.interval(*bounds))

    def lines(self, bounds: tuple[Tensor, Tensor], rule: SlopeRule) -> RowLines:
        return lines_around_layer1(self.weights, *bounds, rule)

    def products(self) -> tuple[Tensor, Tensor]:
        """The range of ``V = H W2`` for ``H`` in its range, ``(F, d2)`` each."""
        parts = [self.hidden(bounds).product(self.weights.w2)
                 for bounds in zip(self.lower.split(CHUNK), self.upper.split(CHUNK), strict=True)]
        low, high = (torch.cat(part) for part in zip(*parts, strict=True))
        return low, high


def lines_around_layer1(weights: GCNWeights, lower: Tensor, upper: Tensor, rule: SlopeRule) -> RowLines:
    """Lines ``a Â_j Y + c`` around ``σ1(p_j)`` for ``l <= p_j <= u``."""
    lines, bias = weights.activation1.lines(lower, upper, rule), weights.b1
    return RowLines(Range.between(lines.lower_slope, lines.upper_slope),
                    Range.between(lines.lower_slope * bias + lines.lower_intercept,
                                  lines.upper_slope * bias + lines.upper_intercept))
