"""Node compactness with both views free: what the second view can do, as lines in the embedding of the first.

Wanted is the least ``W^CL_i(S2) · z_i(S1)`` over all pairs of admissible drops. With ``u_j`` the unit vector along node
j's clean embedding and ``δ_j = z̄_j(S2) - u_j``, its *turn* in the second view, whatever S1 and S2 are,

    W^CL_i(S2) · z_i(S1)  =  (u_i - mean_{j≠i} u_j) · z_i(S1)  +  δ_i · z_i(S1)  -  mean_{j≠i} δ_j · z_i(S1).

Ranges of the turns follow from ranges of the embeddings, and the last two terms are at least ``b · z_i(S1) + c`` for
all turns and all ``z_i`` in range. What is left is the one-view question for the direction ``u_i - mean u_j + b``,
which the method answers. Every choice of ``b`` and ``c`` is sound, and the best of four is taken. The proofs are in
``docs/theory.md``.
"""

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor

from certgcl.bounds.method import BoundMethod
from certgcl.bounds.prepared import ChangeProblem
from certgcl.bounds.rounding.slack import Sizes
from certgcl.bounds.two_views.embedding_ranges import EmbeddingRanges, Span, unit_span
from certgcl.certify.directions import SMALLEST_NORM, compactness_directions
from certgcl.changes.changes import AdmissibleChanges
from certgcl.graphs.graph import Graph
from certgcl.models.network import GraphNetwork

LINES = 4  # directions that are tried at each anchor


class Line(NamedTuple):
    """``slope · z + constant``, below something for every z in range; ``(A, d)`` and ``(A,)``."""

    slope: Tensor
    constant: Tensor


def line_below(factor: Span, values: Span) -> Line:
    """The best line below ``w · z`` for all w and z in their spans.

    In each channel ``min_w w z`` is ``w_lo z`` for positive z and ``w_hi z`` for negative: concave, so above its chord.
    """
    below, above = values.low.clamp(max=0), values.high.clamp(min=0)
    share = torch.where(above > below, -below / (above - below), 0.0)  # of w_hi in the slope of the chord
    step = share * (factor.high - factor.low)
    return Line(factor.low + step, -(step * above).sum(dim=1))


@dataclass(frozen=True, eq=False)
class TwoViews:
    """How far the second view can turn the embeddings of a graph, whatever it changes.

    Args:
        cosine: the least ``u · z̄`` of every node; -1 where z may vanish, ``(N,)``.
        norm: the least ``max(‖z‖, 1e-12)``, ``(N,)``.
        turns: of ``δ``, ``(N, d)``.
        turns_on_axis: of ``v · δ``, ``(N,)``.
    """

    ranges: EmbeddingRanges
    cosine: Tensor
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
        """With ``m = max(‖z‖, 1e-12)``, ``δ = (a/m - 1) u + p/m``, where ``a/m`` lies between the least cosine and 1.

        Beside it stands ``z̄ - u`` with ``z̄`` channel by channel from the box.
        """
        unit, axis, least = ranges.unit, ranges.axis, ranges.along.low
        # The clean embedding is in range, so u has norm one where a stays above SMALLEST_NORM.
        cosine = torch.where(least > SMALLEST_NORM, least / least.hypot(ranges.across.largest().norm(dim=1)), -1.0)
        norm = ranges.box.least_squares().sum(dim=1).sqrt().maximum(least).clamp(min=SMALLEST_NORM)

        def turn(across: Span, share: Tensor, cosine: Tensor, norm: Tensor) -> Span:
            back = (cosine - 1) * share
            return across.times(1 / norm).plus(back.clamp(max=0), back.clamp(min=0))

        turns = turn(ranges.across, unit, cosine[:, None], norm[:, None]).meet(unit_span(ranges.box, norm).plus(-unit))
        on_axis = turn(ranges.across_on_axis, unit @ axis, cosine, norm).meet(turns.times(axis).sum())
        return cls(ranges, cosine, norm, turns, on_axis)

    def bound(
        self, bound: BoundMethod, encoder: GraphNetwork, problem: ChangeProblem, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Lower bounds at the anchors over both views, computed in ``dtype``; how far above the truth rounding can have
        put them; and how far below it the value can be for the first view's embedding as the encoder is run."""
        ranges, anchors, network = self.ranges, problem.anchors, encoder.to(dtype)
        pairs = list(product(self._own_turn(anchors), self._turn_of_others(anchors)))
        directions = compactness_directions(ranges.clean)[:, None].repeat(1, LINES, 1)
        directions[anchors] += torch.stack([own.slope + others.slope for own, others in pairs], dim=1)
        directions = directions.to(dtype)
        constant = torch.stack([own.constant + others.constant for own, others in pairs], dim=1)
        lower, best = (bound(network, problem, directions).double() + constant).max(dim=1, keepdim=True)
        # Beside the method's own rounding: sums over nodes and channels of turns, at most 2, times z; and the result.
        terms = sum(ranges.unit.shape) + 32
        sizes = Sizes.of(encoder, problem, dtype)
        slack = sizes.bound_slack(problem.at_anchors(directions)).gather(1, best)
        slack = (
            slack
            + torch.finfo(dtype).eps * lower.abs()
            + 32 * terms * torch.finfo(torch.float64).eps * ranges.box.largest()[anchors].sum(dim=1, keepdim=True)
        )
        return lower.to(dtype), slack.to(dtype), sizes.run_error(self._largest_directions(anchors).to(dtype)[:, None])

    def _largest_directions(self, anchors: Tensor) -> Tensor:
        """At least ``|W^CL_ic(S2)|`` for every S2, ``(A, d)``: of the clean graph and of both turns, with room for
        their rounding; never above 2, as it is a difference of vectors no longer than one."""
        turns = self.turns.largest()
        clean = compactness_directions(self.ranges.clean)[anchors].abs()
        others = (turns.sum(dim=0) - turns[anchors]) / (len(turns) - 1)
        return (1.001 * (clean + turns[anchors] + others) + 1e-9).clamp(max=2)

    def _own_turn(self, anchors: Tensor) -> tuple[Line, Line]:
        """Lines below ``δ_i · z_i``: by channels; and, if ``a`` is never negative, by

            δ_i(S2) · z_i(S1)  =  (a/m - 1)(S2) a(S1) + (p/m)(S2) · p(S1)  >=  (cos - 1) u · z_i(S1) + product,

        which is of second order: a unit vector turns at right angles to itself. The product of the two ``p`` is at
        least ``Σ_c p_c^lo p_c^hi / m``, and at least minus the product of their norms.
        """
        by_channel = line_below(self.turns.at(anchors), self.ranges.box.at(anchors))
        cosine, across = self.cosine[anchors], self.ranges.across.at(anchors)
        sine = (1 - cosine.square()).sqrt()
        product = ((across.low * across.high).sum(dim=1) / self.norm[anchors]).maximum(
            -sine * across.largest().norm(dim=1)
        )
        return by_channel, Line(
            (cosine[:, None] - 1) * self.ranges.unit[anchors], torch.where(cosine > 0, product, -torch.inf)
        )

    def _turn_of_others(self, anchors: Tensor) -> tuple[Line, Line]:
        """Lines below ``-mean_{j≠i} δ_j · z_i``: by channels; and with the clean embedding's part along the axis, which
        most nodes share, set apart: ``z_i = β v + (z_i - β v)``."""
        axis, box = self.ranges.axis, self.ranges.box.at(anchors)
        turns = _minus_mean_of_others(self.turns, anchors)
        beta = self.ranges.clean[anchors] @ axis
        apart = beta[:, None] * axis
        rest = line_below(turns, box.plus(-apart))
        on_axis = _minus_mean_of_others(self.turns_on_axis, anchors).times(beta).low
        return line_below(turns, box), Line(rest.slope, rest.constant - (rest.slope * apart).sum(dim=1) + on_axis)


def _minus_mean_of_others(span: Span, anchors: Tensor) -> Span:
    return Span(*((ends[anchors] - ends.sum(dim=0)) / (len(ends) - 1) for ends in (span.high, span.low)))
