"""The first layer as the second one sees it: bounds of its pre-activations, and lines around its activation."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from certgcl.activation import SlopeRule
from certgcl.encoder import GCNWeights

CHUNK = 1 << 10  # rows whose lines are computed at a time, so that they stay in the cache


class Range(NamedTuple):
    """Values anywhere in ``[middle - radius, middle + radius]``. The radius may be negative for lines that cross."""

    middle: Tensor
    radius: Tensor

    @classmethod
    def between(cls, lower: Tensor, upper: Tensor) -> "Range":
        return cls((lower + upper) / 2, (upper - lower) / 2)

    def least(self, matrix: Tensor) -> Tensor:
        """``lower @ M+ + upper @ M-``, the least ``v @ M`` over the range, as ``middle @ M - radius @ |M|``."""
        return self.middle @ matrix - self.radius @ matrix.abs()


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
    _lines: dict[SlopeRule, tuple[Range, Range]] = field(default_factory=dict, init=False, repr=False)

    def hidden(self) -> Range:
        """The range of ``h_j = σ(p_j)``."""
        return _joined([Range.between(*self.weights.activation1.interval(lower, upper)) for lower, upper in
                        zip(self.lower.split(CHUNK), self.upper.split(CHUNK), strict=True)])

    def products(self) -> tuple[Tensor, Tensor]:
        """The range of ``V = H W2`` for ``H`` in its range, ``(F, d2)`` each."""
        hidden, w2 = self.hidden(), self.weights.w2
        return hidden.least(w2), -hidden.least(-w2)

    def lines(self, rule: SlopeRule) -> tuple[Range, Range]:
        """Lower and upper ``a`` and ``c`` of the two lines ``a Â_j Y + c`` around ``σ(p_j)``."""
        if rule not in self._lines:
            parts = [lines_around_layer1(self.weights, lower, upper, rule) for lower, upper in
                     zip(self.lower.split(CHUNK), self.upper.split(CHUNK), strict=True)]
            slope, constant = zip(*parts, strict=True)
            self._lines[rule] = _joined(slope), _joined(constant)
        return self._lines[rule]


def lines_around_layer1(weights: GCNWeights, lower: Tensor, upper: Tensor, rule: SlopeRule) -> tuple[Range, Range]:
    """Lower and upper ``a`` and ``c`` of the lines ``a Â_j Y + c`` around ``σ1(p_j)``, the bias in the constants."""
    lines, bias = weights.activation1.lines(lower, upper, rule), weights.b1
    return (Range.between(lines.lower_slope, lines.upper_slope),
            Range.between(lines.lower_slope * bias + lines.lower_intercept,
                          lines.upper_slope * bias + lines.upper_intercept))


def _joined(parts: Sequence[Range]) -> Range:
    return Range(torch.cat([part.middle for part in parts]), torch.cat([part.radius for part in parts]))


def signed_parts(values: Tensor) -> tuple[Tensor, Tensor]:
    """``[v]+`` and ``[v]-``, with gradients that add up to one at zero too."""
    positive = values.clamp(min=0)
    return positive, values - positive
