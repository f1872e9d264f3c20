"""Node compactness with both views free: from how far the second view turns embeddings to one-view questions.

Wanted is the least ``W^CL_i(S2) · z_i(S1)`` over all pairs of admissible drops. Let ``u_j`` be the unit vector along
node j's clean embedding and ``δ_j = z̄_j(S2) - u_j`` its *turn* in the second view. Whatever S1 and S2,

    W^CL_i(S2) · z_i(S1)  =  (u_i - mean_{j≠i} u_j) · z_i(S1)  +  δ_i · z_i(S1)  -  mean_{j≠i} δ_j · z_i(S1).

Ranges of all turns follow from ranges of all embeddings, and on the range of ``z_i`` the last two terms are at least
linear functions ``a · z_i(S1) + c``. What is left is the one-view question for the direction ``u_i - mean u_j + a``,
which the method answers. Every choice of lines is sound, so the best of four is taken (``docs/theory.md``, section 14).
"""

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from certgcl.bounds.interval import layer1_on_box, layer2_on_box
from certgcl.bounds.memory import parts_that_fit
from certgcl.bounds.problem import BoundMethod, DropProblem
from certgcl.bounds.rounding import rounding_slack
from certgcl.budget import AdmissibleDrops
from certgcl.directions import compactness_directions
from certgcl.encoder import GCNWeights
from certgcl.graph import Graph

LINES = 4  # pairs of lines, and so directions, that are tried at each anchor
SMALLEST_NORM = 1e-12  # what torch.nn.functional.normalize divides shorter rows by


class Span(NamedTuple):
    """Values anywhere in ``[low, high]``."""

    low: Tensor
    high: Tensor

    def meet(self, other: "Span") -> "Span":
        """Values that are in both."""
        return Span(self.low.maximum(other.low), self.high.minimum(other.high))

    def plus(self, value: Tensor) -> "Span":
        return Span(self.low + value, self.high + value)

    def times(self, factor: Tensor) -> "Span":
        """Values times a given factor of either sign."""
        ends = self.low * factor, self.high * factor
        return Span(torch.minimum(*ends), torch.maximum(*ends))

    def at(self, rows: Tensor) -> "Span":
        return Span(self.low[rows], self.high[rows])


class Line(NamedTuple):
    """``slope · z + constant``, a lower bound of something for every z in its range; ``(A, d)`` and ``(A,)``."""

    slope: Tensor
    constant: Tensor


@dataclass(frozen=True, eq=False)
class EmbeddingRanges:
    """Where the embeddings of all nodes can be, whatever is dropped, in float64 and with room for all rounding so far.

    With ``a = u · z`` an embedding is ``z = a u + p``: its part along the clean one, and the rest. Scale moves a alone,
    so the ranges of ``p`` are far narrower than those of z where views mostly scale embeddings.

    Args:
        clean: the clean embeddings, ``(N, d)``.
        unit: ``u``, their rows divided by their norms; zero where they are, ``(N, d)``.
        axis: ``v``, the unit vector along the mean of ``u``, ``(d,)``.
        along: of a, ``(N,)``.
        across: of ``p``, ``(N, d)``, and ``v · p``, the last column; all of them hold zero.
        box: of z, ``(N, d)``.
    """

    clean: Tensor
    unit: Tensor
    axis: Tensor
    along: Span
    across: Span
    box: Span

    @classmethod
    def of(cls, bound: BoundMethod, weights: GCNWeights, graph: Graph, drops: AdmissibleDrops,
           memory_limit: int) -> "EmbeddingRanges":
        """Both ends of ``2 (d + 2)`` directions at every node, bounded in parts that fit the memory."""
        clean = weights.embed(graph).double()
        unit = functional.normalize(clean, dim=1)
        axis = functional.normalize(unit.mean(dim=0), dim=0)
        frame = torch.cat([torch.eye(len(axis)).to(axis), axis[None]])
        everyone = DropProblem(graph, drops, torch.arange(graph.num_nodes, device=axis.device))
        parts = parts_that_fit(bound, weights, everyone, 2 * len(frame) + 2, memory_limit)
        found = [_ranges(bound, weights, DropProblem(graph, drops, nodes), unit[nodes], frame) for nodes in parts]
        order = torch.argsort(torch.cat(parts))
        inner, box = (Span(*(torch.cat(ends)[order] for ends in zip(*spans, strict=True)))
                      for spans in zip(*found, strict=True))
        along = Span(inner.low[:, -1], inner.high[:, -1])
        across = Span(inner.low[:, :-1].clamp(max=0), inner.high[:, :-1].clamp(min=0))
        scaled = Span(along.low[:, None], along.high[:, None]).times(unit)
        from_parts = Span(scaled.low + across.low[:, :-1], scaled.high + across.high[:, :-1])
        return cls(clean, unit, axis, along, across, box.meet(from_parts))


def _ranges(bound: BoundMethod, weights: GCNWeights, problem: DropProblem, unit: Tensor,
            frame: Tensor) -> tuple[Span, Span]:
    """Of ``p`` along every vector of the frame and of a, ``(A, d + 2)``; and of z by intervals alone, ``(A, d)``."""
    dtype, hood = weights.w1.dtype, problem.neighbourhood(weights.w1.dtype)
    # The same anchors, counted from zero: directions are then needed of them alone, not of every node.
    here = DropProblem(problem.graph, problem.drops, torch.arange(len(unit), device=unit.device))
    here.neighbourhoods[dtype] = hood
    eye = torch.eye(unit.shape[1], dtype=dtype, device=unit.device)
    slack = rounding_slack(weights, here, eye.expand(len(unit), -1, -1)).double()  # of each channel of z

    share = (unit @ frame.T)[..., None] * unit[:, None]
    directions = torch.cat([frame - share, unit[:, None]], dim=1)
    least, negative_most = bound(weights, here, torch.cat([directions, -directions], dim=1).to(dtype)).double().chunk(
        2, dim=1)
    # Terms before they cancel: directions are rounded too.
    room = (torch.cat([frame.abs() + share.abs(), unit.abs()[:, None]], dim=1) @ slack[..., None])[..., 0]

    lower, upper = layer2_on_box(layer1_on_box(weights, problem.projected(weights), hood), hood)
    box = weights.activation2.interval(lower.double() - slack, upper.double() + slack)
    return Span(least - room, room - negative_most), Span(*box)


@dataclass(frozen=True, eq=False)
class TwoViews:
    """What the second view can do to the directions of compactness, from ranges of all embeddings.

    Args:
        cosine: the least ``u · z̄`` of every node, or -1 where nothing is known, ``(N,)``.
        norm: the least norm, at least ``SMALLEST_NORM``, ``(N,)``.
        turns: of ``δ``, ``(N, d)``, and ``v · δ``, the last column.
    """

    ranges: EmbeddingRanges
    cosine: Tensor
    norm: Tensor
    turns: Span

    @classmethod
    def of(cls, ranges: EmbeddingRanges) -> "TwoViews":
        """With ``m = max(‖z‖, 1e-12)``, ``δ = (a / m - 1) u + p / m``, and ``a / m`` is between the least cosine and 1;
        and each channel of ``z̄ = z / m`` is bounded by itself too."""
        unit, axis, across, least = ranges.unit, ranges.axis, ranges.across, ranges.along.low
        most_across = across.high.maximum(-across.low)[:, :-1].norm(dim=1)
        # The clean embedding is among all, so u has norm one where a stays above SMALLEST_NORM.
        cosine = torch.where(least > SMALLEST_NORM, least / torch.hypot(least, most_across), -1.0)
        norm = _least_squares(ranges.box).sum(dim=1).sqrt().maximum(least).clamp(min=SMALLEST_NORM)
        back = (cosine - 1)[:, None] * torch.cat([unit, unit @ axis[:, None]], dim=1)
        turns = Span(back.clamp(max=0) + across.low / norm[:, None], back.clamp(min=0) + across.high / norm[:, None])
        channels = unit_span(ranges.box, norm).plus(-unit).meet(Span(turns.low[:, :-1], turns.high[:, :-1]))
        weighed = channels.times(axis)
        along_axis = Span(weighed.low.sum(dim=1), weighed.high.sum(dim=1)).meet(
            Span(turns.low[:, -1], turns.high[:, -1]))
        turns = Span(*(torch.cat([ends, end[:, None]], dim=1) for ends, end in zip(channels, along_axis, strict=True)))
        return cls(ranges, cosine, norm, turns)

    def bound(self, bound: BoundMethod, weights: GCNWeights, problem: DropProblem) -> tuple[Tensor, Tensor]:
        """Lower bounds of compactness over both views at the anchors, and how far rounding can have moved them."""
        ranges, anchors, dtype = self.ranges, problem.anchors, weights.w1.dtype
        pairs = list(product(self._own(anchors), self._others(anchors)))
        directions = compactness_directions(ranges.clean)[:, None].repeat(1, LINES, 1)
        directions[anchors] += torch.stack([own.slope + others.slope for own, others in pairs], dim=1)
        directions = directions.to(dtype)
        constant = torch.stack([own.constant + others.constant for own, others in pairs], dim=1)
        lower, best = (bound(weights, problem, directions).double() + constant).max(dim=1, keepdim=True)
        # Sums over nodes and channels of turns, which are at most 2, times z; and the last step to the dtype.
        size = ranges.box.high.maximum(-ranges.box.low)[anchors].sum(dim=1, keepdim=True)
        own_slack = 32 * (sum(ranges.unit.shape) + 32) * torch.finfo(torch.float64).eps * size
        slack = rounding_slack(weights, problem, directions).gather(1, best) + own_slack
        return lower.to(dtype), (slack + torch.finfo(dtype).eps * lower.abs()).to(dtype)

    def _own(self, anchors: Tensor) -> tuple[Line, Line]:
        """Lines below ``δ_i · z_i``: by channels; and, second order in ``p``, as a turn is nearly square to u,

            δ_i(S2) · z_i(S1) = (cos - 1) a(S1) + p(S2) · p(S1) / m  >=  (cos - 1) u · z_i(S1) - Σ_c |p_c^lo| p_c^hi / m,

        which needs ``a >= 0``.
        """
        by_channel = line_below(self._channels().at(anchors), self.ranges.box.at(anchors))
        cosine, across = self.cosine[anchors, None], self.ranges.across.at(anchors)
        cross = (across.low * across.high)[:, :-1].sum(dim=1) / self.norm[anchors]
        constant = torch.where(cosine[:, 0] > 0, cross, -torch.inf)
        return by_channel, Line((cosine - 1) * self.ranges.unit[anchors], constant)

    def _others(self, anchors: Tensor) -> tuple[Line, Line]:
        """Lines below ``-mean_{j≠i} δ_j · z_i``: by channels; and with ``β v``, the clean part of ``z_i`` that most
        nodes share, set apart, along which turns are bounded as one."""
        turns, axis, box = self.turns, self.ranges.axis, self.ranges.box.at(anchors)
        mean = Span(*(-(ends.sum(dim=0) - ends[anchors]) / (len(ends) - 1) for ends in (turns.high, turns.low)))
        channels = Span(mean.low[:, :-1], mean.high[:, :-1])
        beta = self.ranges.clean[anchors] @ axis
        shared = beta[:, None] * axis
        rest = line_below(channels, box.plus(-shared))
        along_axis = Span(mean.low[:, -1], mean.high[:, -1]).times(beta).low
        apart = Line(rest.slope, rest.constant - (rest.slope * shared).sum(dim=1) + along_axis)
        return line_below(channels, box), apart

    def _channels(self) -> Span:
        return Span(self.turns.low[:, :-1], self.turns.high[:, :-1])


def line_below(factor: Span, values: Span) -> Line:
    """The best line below ``w · z`` for all w and z in their ranges.

    ``min_w w z`` is concave in each channel of z: ``w_lo z`` above zero and ``w_hi z`` below. So it lies above its chord
    where the range of z holds zero, and is linear elsewhere.
    """
    below, above = values.low.clamp(max=0), values.high.clamp(min=0)
    width = above - below
    width = torch.where(width > 0, width, 1.0)
    share = torch.where(above > below, -below / width, 0.0)  # of w_hi in the slope
    slope = factor.low + share * (factor.high - factor.low)
    return Line(slope, -(share * above * (factor.high - factor.low)).sum(dim=-1))


def unit_span(box: Span, norm: Tensor) -> Span:
    """The range of each channel of ``z / max(‖z‖, 1e-12)`` for z in a box and of at least the given norm.

    ``x / max(sqrt(x² + R), n)`` never falls with x. A positive x makes it least where the other channels, R, are
    largest, a negative one where they and n are smallest.
    """
    others = 1 - torch.eye(box.low.shape[1]).to(box.low)
    most = box.low.square().maximum(box.high.square()) @ others
    least = _least_squares(box) @ others

    def lowest(x: Tensor) -> Tensor:
        longest = (x.square() + most).sqrt().clamp(min=SMALLEST_NORM)
        shortest = (x.square() + least).sqrt().maximum(norm[:, None])
        return x / torch.where(x >= 0, longest, shortest)

    return Span(lowest(box.low), -lowest(-box.high))


def _least_squares(box: Span) -> Tensor:
    """The least square of each channel."""
    return box.low.clamp(min=0).square() + box.high.clamp(max=0).square()
