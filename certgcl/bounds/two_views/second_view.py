"""Node compactness with both views free: the effect of the second view, as lines in the embedding of the first.

The goal is the least ``W^CL_i(S2) · z_i(S1)`` over all pairs of admissible drops. With ``u_j`` the unit vector along
node j's clean embedding and ``δ_j = z̄_j(S2) - u_j``, its *turn* in the second view, whatever S1 and S2 are,

    W^CL_i(S2) · z_i(S1)  =  (u_i - mean_{j≠i} u_j) · z_i(S1)  +  δ_i · z_i(S1)  -  mean_{j≠i} δ_j · z_i(S1).

Ranges of the turns follow from ranges of the embeddings, and the last two terms are at least ``b · z_i(S1) + c`` for
all turns and all ``z_i`` in range. What is left is the one-view question for the direction ``u_i - mean u_j + b``,
which the method answers. Every choice of ``b`` and ``c`` is sound, and the best of four is taken. The proofs are in
``docs/theory.md``.
"""

from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor

from certgcl.bounds.method import BoundMethod
from certgcl.bounds.prepared import ChangeProblem
from certgcl.bounds.rounding.slack import Sizes
from certgcl.bounds.two_views.embedding_ranges import EmbeddingRanges, Span, rounded_down, unit_span
from certgcl.certify.directions import SMALLEST_NORM, compactness_directions
from certgcl.changes.changes import AdmissibleChanges
from certgcl.graphs.graph import Graph
from certgcl.models.network import GraphNetwork

LINES = 4  # directions that are tried at each anchor
_EPS = torch.finfo(torch.float64).eps


class Line(NamedTuple):
    """``slope · z + constant``, below something for every z in range; ``(A, d)`` and ``(A,)``."""

    slope: Tensor
    constant: Tensor


def line_below(factor: Span, values: Span) -> Line:
    """The best line below ``w · z`` for all w and z in their spans.

    In each channel ``min_w w z`` is ``w_lo z`` for positive z and ``w_hi z`` for negative: concave, so above its chord.
    Whatever the slope s has been rounded to, ``(w - s) z`` is least at ends of both spans, which gives the constant.
    """
    below, above = values.low.clamp(max=0), values.high.clamp(min=0)
    share = torch.where(above > below, -below / (above - below), 0.0)  # of w_hi in the slope of the chord
    slope = factor.low + share * (factor.high - factor.low)
    ends = [(w - slope) * z for w, z in product(factor, values)]
    least = reduce(torch.minimum, ends)
    return Line(slope, rounded_down(least.sum(dim=1), least.abs().sum(dim=1), least.shape[1] + 2))


@dataclass(frozen=True, eq=False)
class TwoViews:
    """How far the second view can turn the embeddings of a graph, whatever it changes.

    Args:
        cosine: at most ``u · z̄`` of every node; below -1 where z may vanish, ``(N,)``.
        sine: at least ``‖p‖ / m``; infinite where z may vanish, ``(N,)``.
        norm: the least ``max(‖z‖, 1e-12)``, ``(N,)``.
        turns: of ``δ``, ``(N, d)``.
        turns_on_axis: of ``v · δ``, ``(N,)``.
    """

    ranges: EmbeddingRanges
    cosine: Tensor
    sine: Tensor
    norm: Tensor
    turns: Span
    turns_on_axis: Span

    @classmethod
    def of(
        cls, bound: BoundMethod, network: GraphNetwork, graph: Graph, changes: AdmissibleChanges, memory_limit: int
    ) -> "TwoViews":
        """With the ranges of all embeddings by the given method."""
        return cls.within(EmbeddingRanges.of(bound, network, graph, changes, memory_limit))

    @classmethod
    def within(cls, ranges: EmbeddingRanges) -> "TwoViews":
        """With ``m = max(‖z‖, 1e-12)``, ``δ = (a/m - 1) u + p/m``, where ``a/m`` lies between the least cosine and
        ``‖u‖ <= 1 + skew``. The alternative is ``z̄ - u`` with ``z̄`` channel by channel from the box.

        ``‖z‖² = (2 - ‖u‖²) a² + ‖p‖²`` lies within ``1 ± skew`` of ``a² + ‖p‖²``, whatever the length of u. If
        ``a > 1e-12``, then ``m <= (1 + skew) ‖z‖``.
        """
        unit, skew, axis, least = ranges.unit, ranges.skew, ranges.axis, ranges.along.low
        width, across = unit.shape[1], ranges.across.largest().norm(dim=1)
        longest, room = least.hypot(across), (width + 16) * _EPS
        known = (least > SMALLEST_NORM) & (skew < 0.5) & longest.isfinite()
        cosine = torch.where(known, (1 - room) * least / longest / (1 + skew).square(), -1 - skew)
        sine = torch.where(known, (1 + room) * across / longest / (1 - skew), torch.inf)
        shortest = ranges.box.least_squares().sum(dim=1).sqrt()
        norm = torch.where(shortest.isfinite(), shortest, 0.0).maximum(least / (1 + skew))
        norm = ((1 - room) * norm).clamp(min=SMALLEST_NORM)
        inverse = (1 + room) / norm

        def turn(across: Span, share: Span, skew: Tensor, cosine: Tensor, inverse: Tensor) -> Span:
            return across.times(inverse).plus(*share.times(rounded_down(cosine - 1, 1 - cosine, 1), skew))

        each = turn(ranges.across, Span(unit, unit), *(part[:, None] for part in (skew, cosine, inverse)))
        turns = each.meet(unit_span(ranges.box, norm).plus(-unit))
        share = unit @ axis
        along_axis = Span(share, share).outward(width, unit.abs() @ axis.abs())
        on_axis = turn(ranges.across_on_axis, along_axis, skew, cosine, inverse).meet(turns.times(axis).sum())
        return cls(ranges, cosine, sine, norm, turns, on_axis)

    def bound(
        self, bound: BoundMethod, encoder: GraphNetwork, problem: ChangeProblem, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Lower bounds at the anchors over both views, computed in ``dtype``; how far above the truth rounding can have
        put them; and how far below it the value can be for the first view's embedding as the encoder is run."""
        anchors, network = problem.anchors, encoder.to(dtype)
        box = self.ranges.box.largest()[anchors].sum(dim=1, keepdim=True)
        pairs = list(product(self._own_turn(anchors), self._turn_of_others(anchors)))
        directions = compactness_directions(self.ranges.clean)[:, None].repeat(1, LINES, 1)
        directions[anchors] += torch.stack([own.slope + others.slope for own, others in pairs], dim=1)
        directions = directions.to(dtype)
        constants = torch.stack([torch.stack([own.constant, others.constant], dim=1) for own, others in pairs], dim=1)
        lower = bound(network, problem, directions).double() + constants.sum(dim=2)
        lower, best = lower.max(dim=1, keepdim=True)
        sizes = Sizes.of(encoder, problem, dtype)
        # In addition to the method's own rounding, (R10): of the direction, of its two constants, and of the result.
        slack = sizes.bound_slack(problem.at_anchors(directions)).gather(1, best) + self._rounding * box
        slack = slack + 4 * _EPS * constants.abs().sum(dim=2).gather(1, best) + torch.finfo(dtype).eps * lower.abs()
        return lower.to(dtype), slack.to(dtype), sizes.run_error(self._largest_directions(anchors).to(dtype)[:, None])

    @property
    def _rounding(self) -> float:
        """The error of a channel of the direction: of a mean of N unit vectors, which takes N + 4 roundings, and of two
        lines."""
        return 4 * (len(self.turns.low) + 16) * _EPS

    def _largest_directions(self, anchors: Tensor) -> Tensor:
        """At least ``|W^CL_ic(S2)|`` for every S2, ``(A, d)``: of the clean graph and of both turns, with room for
        their rounding; never above 2, as it is a difference of vectors no longer than one."""
        turns = self.turns.largest()
        clean = compactness_directions(self.ranges.clean)[anchors].abs()
        others = (turns.sum(dim=0) - turns[anchors]).clamp(min=0) / (len(turns) - 1)
        return (1.001 * (clean + turns[anchors] + others) + 3 * self._rounding).clamp(max=2)

    def _own_turn(self, anchors: Tensor) -> tuple[Line, Line]:
        """Lines below ``δ_i · z_i``: by channels; and, if ``a`` is never negative, by

            δ_i(S2) · z_i(S1)  =  (a/m - 1)(S2) a(S1) + (p/m)(S2) · p(S1)  >=  (cos - 1) u · z_i(S1) + product,

        which is of second order: a unit vector turns at right angles to itself. The product of the two ``p`` is at
        least ``Σ_c p_c^lo p_c^hi / m``, and at least ``-sine ‖p‖``. ``u · p`` is at most ``skew a`` where u is not
        quite of length one, which is added with the roundings of the slope.
        """
        ranges, width = self.ranges, self.turns.low.shape[1]
        by_channel = line_below(self.turns.at(anchors), ranges.box.at(anchors))
        cosine, across, skew = self.cosine[anchors], ranges.across.at(anchors), ranges.skew[anchors]
        by_ends = (across.low * across.high).sum(dim=1) / self.norm[anchors]
        box = ranges.box.largest()[anchors].sum(dim=1)
        by_norms = -self.sine[anchors] * across.largest().norm(dim=1)
        found = by_ends.maximum(by_norms)
        constant = rounded_down(found - 3 * skew * box, found.abs() + box, width + 4)
        return by_channel, Line(
            (cosine[:, None] - 1) * ranges.unit[anchors], torch.where(cosine > 0, constant, -torch.inf)
        )

    def _turn_of_others(self, anchors: Tensor) -> tuple[Line, Line]:
        """Lines below ``-mean_{j≠i} δ_j · z_i``: by channels; and with the clean embedding's part along the axis, which
        most nodes share, treated separately: ``z_i = β v + (z_i - β v)``."""
        axis, box = self.ranges.axis, self.ranges.box.at(anchors)
        turns = _minus_mean_of_others(self.turns, anchors)
        beta = self.ranges.clean[anchors] @ axis
        apart = beta[:, None] * axis
        rest = line_below(turns, box.plus(-apart))
        on_axis = _minus_mean_of_others(self.turns_on_axis, anchors).times(beta).low
        constant = rest.constant - (rest.slope * apart).sum(dim=1) + on_axis
        # βv has been rounded, in both places where it stands.
        size = rest.constant.abs() + ((rest.slope.abs() + turns.largest()) * apart.abs()).sum(dim=1) + on_axis.abs()
        return line_below(turns, box), Line(rest.slope, rounded_down(constant, size, len(axis) + 4))


def _minus_mean_of_others(span: Span, anchors: Tensor) -> Span:
    count, largest = len(span.low), span.largest()
    size = (largest.sum(dim=0) + largest[anchors]) / (count - 1)
    ends = ((end[anchors] - end.sum(dim=0)) / (count - 1) for end in (span.high, span.low))
    return Span(*ends).outward(count + 4, size)
