"""The first layer as the second one sees it: bounds of its pre-activations, and lines around its activation."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from certgcl.activation import SlopeRule
from certgcl.bounds.gather import Table
from certgcl.encoder import GCNWeights

MAX_WHOLE = 1 << 22  # bounds up to which all that follows from them is computed at once
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
    def _lined(self) -> dict[tuple[SlopeRule, ...], "LinedRows"]:
        return {}

    def lined(self, rules: Sequence[SlopeRule]) -> "LinedRows":
        """The rows with their lines by some rules."""
        if tuple(rules) not in self._lined:
            self._lined[tuple(rules)] = LinedRows(self, rules)
        return self._lined[tuple(rules)]

    def hidden(self, lower: Tensor, upper: Tensor) -> Range:
        """The range of ``h_j = σ(p_j)``."""
        return Range.between(*self.weights.activation1.interval(lower, upper))

    def products(self) -> tuple[Tensor, Tensor]:
        """The range of ``V = H W2`` for ``H`` in its range, ``(F, d2)`` each."""
        parts = [self.hidden(lower, upper).product(self.weights.w2)
                 for lower, upper in zip(self.lower.split(CHUNK), self.upper.split(CHUNK), strict=True)]
        low, high = (torch.cat(part) for part in zip(*parts, strict=True))
        return low, high


class LinedRows:
    """Tables of layer 1 that blocks take rows of: made before the first block, as blocks may be computed again.

    Ranges and lines take several times the memory of the bounds they follow from: of a large graph, they are computed
    where they are used.
    """

    def __init__(self, layer1: Layer1, rules: Sequence[SlopeRule]) -> None:
        self.layer1, self.rules = layer1, rules
        bounds = layer1.lower, layer1.upper
        self.whole = layer1.lower.numel() <= MAX_WHOLE
        self.projected = Table(layer1.projected)
        self.tables = [Table(table) for table in ([torch.cat(self._derived(*bounds), dim=1)] if self.whole else bounds)]

    def targets(self, index: Tensor) -> Tensor:
        """``y_k`` of some targets."""
        return self.projected.take(index)

    def around(self, place: Tensor) -> tuple[Range, list[RowLines]]:
        """At some places, the range of ``h_j = σ(p_j)`` and the lines around it by each rule."""
        taken = [table.take(place) for table in self.tables]
        parts = taken[0].split(self.layer1.lower.shape[1], dim=-1) if self.whole else self._derived(*taken)
        hidden, *lines = (Range(*parts[at : at + 2]) for at in range(0, len(parts), 2))
        return hidden, [RowLines(*lines[at : at + 2]) for at in range(0, len(lines), 2)]

    def _derived(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, ...]:
        """Middle and radius of the range and, by each rule, of slope and constant."""
        found = [*self.layer1.hidden(lower, upper)]
        for rule in self.rules:
            for part in lines_around_layer1(self.layer1.weights, lower, upper, rule):
                found += part
        return tuple(found)


def lines_around_layer1(weights: GCNWeights, lower: Tensor, upper: Tensor, rule: SlopeRule) -> RowLines:
    """Lines ``a Â_j Y + c`` around ``σ1(p_j)`` for ``l <= p_j <= u``."""
    lines, bias = weights.activation1.lines(lower, upper, rule), weights.b1
    return RowLines(Range.between(lines.lower_slope, lines.upper_slope),
                    Range.between(lines.lower_slope * bias + lines.lower_intercept,
                                  lines.upper_slope * bias + lines.upper_intercept))
