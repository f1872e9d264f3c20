"""Ranges of embeddings over all admissible drops, and of their directions."""

from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from certgcl.bounds.interval import Interval
from certgcl.bounds.memory import parts_that_fit
from certgcl.bounds.method import BoundMethod
from certgcl.bounds.prepared import ChangeProblem
from certgcl.bounds.rounding.slack import Sizes
from certgcl.certify.directions import SMALLEST_NORM
from certgcl.changes.changes import AdmissibleChanges
from certgcl.graphs.graph import Graph
from certgcl.models.network import GraphNetwork
from certgcl.models.two_piece import TwoPieceLinear

_EPS, _TINY = torch.finfo(torch.float64).eps, torch.finfo(torch.float64).tiny


def rounded_down(value: Tensor, size: Tensor, roundings: int) -> Tensor:
    """Below the number that the float64 ``value`` represents, after at most this many roundings of terms whose absolute
    values were added up to ``size``: twice ``γ``, and so with room for the rounding of the sizes and of this
    difference."""
    return value - ((roundings + 2) * _EPS * size + 2 * (roundings + 1) * _TINY)


class Span(NamedTuple):
    """Values anywhere in ``[low, high]``, in float64. Every operation rounds outwards."""

    low: Tensor
    high: Tensor

    def outward(self, roundings: int, size: Tensor | None = None) -> "Span":
        """Wide enough for this many roundings of each end, or of terms whose absolute values were added up to a
        size."""
        low, high = (self.low.abs(), self.high.abs()) if size is None else (size, size)
        return Span(rounded_down(self.low, low, roundings), -rounded_down(-self.high, high, roundings))

    def meet(self, other: "Span") -> "Span":
        """Values that are in both."""
        return Span(self.low.maximum(other.low), self.high.minimum(other.high))

    def plus(self, low: Tensor, high: Tensor | None = None) -> "Span":
        """The range after adding a value, or a value of another span."""
        return Span(self.low + low, self.high + (low if high is None else high)).outward(1)

    def times(self, low: Tensor, high: Tensor | None = None) -> "Span":
        """The range after multiplying by a factor of either sign, or by a value of another span."""
        ends = [end * factor for end in self for factor in ((low,) if high is None else (low, high))]
        return Span(reduce(torch.minimum, ends), reduce(torch.maximum, ends)).outward(1)

    def sum(self) -> "Span":
        """The range of the sum of the values in a row."""
        return Span(self.low.sum(dim=1), self.high.sum(dim=1)).outward(self.low.shape[1], self.largest().sum(dim=1))

    def at(self, rows: Tensor) -> "Span":
        return Span(self.low[rows], self.high[rows])

    def least_squares(self) -> Tensor:
        return self.low.clamp(min=0).square() + self.high.clamp(max=0).square()

    def largest(self) -> Tensor:
        """Upper bounds of the absolute values."""
        return self.high.maximum(-self.low)


@dataclass(frozen=True, eq=False)
class EmbeddingRanges:
    """Ranges of the embeddings in exact arithmetic over all admissible changes, for every node, in float64.

    With u the unit vector along the clean embedding, an embedding is ``z = a u + p``, ``a = u · z``. Scaling changes
    only a, so the range of ``p`` is far smaller than that of z if drops mostly rescale it. u and v are the
    floating-point vectors: nothing requires them to be of length one.

    Args:
        clean: the clean embeddings, ``(N, d)``.
        unit: ``u``; zero where the clean embedding is, ``(N, d)``.
        skew: at least ``|1 - ‖u‖²|``, which is what u leaves of ``u · p = (1 - ‖u‖²) a``, ``(N,)``.
        axis: ``v``, the unit vector along the mean of all u, ``(d,)``.
        along: of a, ``(N,)``.
        across: of ``p``, ``(N, d)``. Holds zero.
        across_on_axis: of ``v · p``, ``(N,)``. Holds zero.
        box: of z, ``(N, d)``.
    """

    clean: Tensor
    unit: Tensor
    skew: Tensor
    axis: Tensor
    along: Span
    across: Span
    across_on_axis: Span
    box: Span

    @classmethod
    def of(
        cls, bound: BoundMethod, network: GraphNetwork, graph: Graph, changes: AdmissibleChanges, memory_limit: int
    ) -> "EmbeddingRanges":
        """From a lower bound of ``2 (d + 2)`` directions at every node, in parts that fit the memory (in bytes)."""
        clean = network.embed(graph).double()
        unit = functional.normalize(clean, dim=1)
        axis = functional.normalize(unit.mean(dim=0), dim=0)
        frame = torch.cat([torch.eye(len(axis), dtype=axis.dtype, device=axis.device), axis[None]])
        everyone = ChangeProblem(graph, changes, torch.arange(graph.num_nodes, device=axis.device))
        parts = parts_that_fit(bound, network, everyone, 2 * len(frame) + 2, memory_limit)
        found = [
            _ranges(bound, network, ChangeProblem(graph, changes, nodes, only_anchors=True), unit[nodes], frame)
            for nodes in parts
        ]
        order = torch.argsort(torch.cat(parts))
        (low, high), box = (
            Span(*(torch.cat(ends)[order] for ends in zip(*spans, strict=True))) for spans in zip(*found, strict=True)
        )
        along, channels = Span(low[:, -1], high[:, -1]), slice(len(axis))
        low, high = low[:, :-1].clamp(max=0), high[:, :-1].clamp(min=0)
        across = Span(low[:, channels], high[:, channels])
        together = Span(along.low[:, None], along.high[:, None]).times(unit).plus(*across)
        skew = (1 - unit.square().sum(dim=1)).abs() + (unit.shape[1] + 8) * _EPS
        return cls(clean, unit, skew, axis, along, across, Span(low[:, -1], high[:, -1]), box.meet(together))


def _ranges(
    bound: BoundMethod, network: GraphNetwork, problem: ChangeProblem, unit: Tensor, frame: Tensor
) -> tuple[Span, Span]:
    """At the anchors: the ranges of ``p`` along every vector of the frame and of a, ``(A, d + 2)``; and of z by
    intervals."""
    dtype = network.dtype
    channels = torch.eye(unit.shape[1], dtype=dtype, device=unit.device).expand(len(unit), -1, -1)
    slack = Sizes.of(network, problem, dtype).bound_slack(channels).double()
    share = (unit @ frame.T)[..., None] * unit[:, None]
    directions = torch.cat([frame - share, unit[:, None]], dim=1)
    values = bound(network, problem, torch.cat([directions, -directions], dim=1).to(dtype)).double()
    problem.release()
    least, negative_most = values.chunk(2, dim=1)
    # Directions are rounded too, hence the sizes of their terms before any of these cancel.
    terms = torch.cat(
        [frame.abs() + (unit.abs() @ frame.abs().T)[..., None] * unit.abs()[:, None], unit[:, None].abs()], dim=1
    )
    room = (terms @ slack[..., None])[..., 0]
    return Span(least - room, room - negative_most).outward(1), _box(network, problem, channels)


def _box(network: GraphNetwork, problem: ChangeProblem, channels: Tensor) -> Span:
    """The range of z by intervals, with room for rounding. The room is added before two-piece linear activations at the
    end, so that a channel that a ReLU keeps at zero stays zero."""
    taken = {term.source for layer in network.layers for term in layer.terms}
    last = {
        number: layer.activation
        for number, layer in enumerate(network.layers, 1)
        if number not in taken and isinstance(layer.activation, TwoPieceLinear)
    }
    before = replace(
        network,
        layers=tuple(
            replace(layer, activation=None) if number in last else layer
            for number, layer in enumerate(network.layers, 1)
        ),
    )
    slack = Sizes.of(before, problem, network.dtype).bound_slack(channels).double()
    values = Interval()(before, problem, torch.cat([channels, -channels], dim=1)).double()
    least, negative_most = values.chunk(2, dim=1)
    widths = [network.width_of(number) for number in network.readout]
    ends = [part.split(widths, dim=1) for part in (least - slack, slack - negative_most)]
    spans = [
        Span(*last[number].interval(*span)).outward(2) if number in last else span.outward(1)
        for number, span in zip(network.readout, map(Span._make, zip(*ends, strict=True)), strict=True)
    ]
    return Span(*(torch.cat(end, dim=1) for end in zip(*spans, strict=True)))


def unit_span(box: Span, norm: Tensor) -> Span:
    """The range of every channel of ``z / max(‖z‖, 1e-12)`` for z in a box and of at least the given norms.

    ``x / max(sqrt(x² + R), n)`` never falls with x. For a positive x it is least where R, the sum of the squares of the
    other channels, is largest; for a negative one where R and n are smallest. Squares that overflow say nothing, and no
    channel of a vector that is no longer than one is below -1.
    """
    # A product with zeros on the diagonal, because in a sum minus one term digits would cancel.
    width = box.low.shape[1]
    others = 1 - torch.eye(width, dtype=box.low.dtype, device=box.low.device)
    most, least = box.largest().square() @ others, box.least_squares() @ others

    def lowest(x: Tensor) -> Tensor:
        longest = (x.square() + most).sqrt().clamp(min=SMALLEST_NORM)
        shortest = (x.square() + least).sqrt().maximum(norm[:, None])
        found = x / torch.where(x >= 0, longest, shortest)
        found = torch.where(longest.isfinite() & shortest.isfinite(), found, -1.0)
        return rounded_down(found, found.abs(), width + 4).clamp(min=-1)

    return Span(lowest(box.low), -lowest(-box.high))
