"""What the second layer uses of the first one: bounds of its pre-activations, and lines around its activation."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor

from certgcl.bounds.two_layer.row_tables import Table
from certgcl.bounds.two_layer.rowwise import Work, rowwise
from certgcl.bounds.two_layer.weights import GCNWeights
from certgcl.models.activations import SlopeRule
from certgcl.models.two_piece import TwoPieceLinear

MAX_WHOLE = 1 << 22  # bounds up to which everything derived from them is computed at once


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


class Lined(NamedTuple):
    """For rows in T cases: the range of ``h_j`` and, by each rule, the two lines ``a Â_j Y + c`` around ``σ1(p_j)``.

    The bias is in c.

    Args:
        parts: the middles of the range and of the constants c by each rule, then their radii; the middles of the slopes
            a by each rule, then their radii; ``(R, parts, T, d1)``.
    """

    parts: Tensor

    @property
    def rules(self) -> int:
        return (self.parts.shape[1] - 2) // 4

    @property
    def ranges(self) -> Range:
        """The range of ``h_j`` in all cases, then those of the constants by each rule; ``(R, (1 + rules) T, d1)``."""
        return self._range(0, 1 + self.rules)

    @property
    def slopes(self) -> Range:
        """``(R, rules T, d1)``."""
        return self._range(2 + 2 * self.rules, self.rules)

    def without_lines(self) -> "Lined":
        return Lined(self.parts[:, : 2 + self.rules : 1 + self.rules])

    def _range(self, start: int, number: int) -> Range:
        return Range(*(self.parts[:, at : at + number].flatten(1, 2) for at in (start, start + number)))


@dataclass(frozen=True, eq=False)
class Layer1:
    """Bounds of ``p_j = Â_j (X W1) + b1`` for the inner rows, in each case of how many edges j loses.

    Args:
        projected: ``Y = X W1`` over the inner hop's targets, ``(T, d1)``.
        lower: ``l <= p``, a flat list of rows and cases ``(F, d1)``.
        upper: ``p <= u``, ``(F, d1)``.
        place: where the cases of every row are in that list, ``(R, cases)``; one column if all cases share bounds.
    """

    weights: GCNWeights
    projected: Tensor
    lower: Tensor
    upper: Tensor
    place: Tensor

    @cached_property
    def _lined(self) -> dict[tuple[SlopeRule, ...], "LinedRows"]:
        return {}

    @property
    def whole(self) -> bool:
        """Whether lines are computed once for all rows. Otherwise they are computed where they are used, because they
        take several times the memory of the bounds that they are derived from."""
        return self.lower.numel() <= MAX_WHOLE

    def lined(self, rules: Sequence[SlopeRule]) -> "LinedRows":
        """The rows with their lines by some rules."""
        if tuple(rules) not in self._lined:
            self._lined[tuple(rules)] = LinedRows(self, rules)
        return self._lined[tuple(rules)]

    def products(self) -> tuple[Tensor, Tensor]:
        """The range of ``V = H W2`` for ``H`` in its range, ``(F, d2)`` each."""
        low, high = self._rowwise(_hidden_products)
        return low, high

    def signed_products(self) -> Tensor:
        """The least ``V`` and the least ``-V`` side by side, ``(F, 2 d2)``."""
        (both,) = self._rowwise(_signed_products)
        return both

    def _rowwise(self, work: Work) -> tuple[Tensor, ...]:
        return rowwise(work, [self.lower, self.upper], [self.weights.slope1, self.weights.w2], self.lower.shape[1])


def _hidden_products(lower: Tensor, upper: Tensor, slope: Tensor, matrix: Tensor) -> tuple[Tensor, Tensor]:
    return Range.between(*TwoPieceLinear(slope).interval(lower, upper)).product(matrix)


def _signed_products(*parts: Tensor) -> tuple[Tensor]:
    low, high = _hidden_products(*parts)
    return (torch.cat([low, -high], dim=1),)


class LinedRows:
    """Tables of layer 1 from which blocks take rows: built before the first block, as blocks may be recomputed."""

    def __init__(self, layer1: Layer1, rules: Sequence[SlopeRule]) -> None:
        self.layer1, self.rules = layer1, rules
        bounds = layer1.lower, layer1.upper
        self.projected = Table(layer1.projected)
        self.tables = [Table(table) for table in ([self._parts(*bounds)] if layer1.whole else bounds)]

    def targets(self, index: Tensor) -> Tensor:
        """``y_k`` of some targets."""
        return self.projected.take(index)

    def around(self, place: Tensor) -> Lined:
        """The ranges and lines at some places, ``(R, T)``."""
        taken = [table.take(place) for table in self.tables]
        return Lined((taken[0] if self.layer1.whole else self._parts(*taken)).transpose(1, 2))

    def _parts(self, lower: Tensor, upper: Tensor) -> Tensor:
        weights = self.layer1.weights
        return line_parts(weights.activation1, weights.b1, lower, upper, self.rules)


def line_parts(
    activation: TwoPieceLinear, bias: Tensor, lower: Tensor, upper: Tensor, rules: Sequence[SlopeRule]
) -> Tensor:
    """The parts of :class:`Lined`, next to last, for ``l <= p_j <= u``."""
    lines = [lines_around(activation, bias, lower, upper, rule) for rule in rules]
    ranges = [Range.between(*activation.interval(lower, upper)), *(constant for _, constant in lines)]
    slopes = [slope for slope, _ in lines]
    ends = chain(zip(*ranges, strict=True), zip(*slopes, strict=True))
    return torch.stack([*chain.from_iterable(ends)], dim=-2)


def lines_around(
    activation: TwoPieceLinear, bias: Tensor, lower: Tensor, upper: Tensor, rule: SlopeRule
) -> tuple[Range, Range]:
    """Slopes and constants of lines ``a Â_j Y + c`` around ``σ1(p_j)`` for ``l <= p_j <= u``."""
    lines = activation.lines(lower, upper, rule)
    return (
        Range.between(lines.lower_slope, lines.upper_slope),
        Range.between(
            lines.lower_slope * bias + lines.lower_intercept, lines.upper_slope * bias + lines.upper_intercept
        ),
    )
