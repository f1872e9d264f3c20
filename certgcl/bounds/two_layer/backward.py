"""The steps that ``crown`` and ``degree`` share: from bounds of layer 1 to a bound of ``w · z``, through lines.

The bound may distinguish G cases at every anchor that together cover all admissible drops (``degree``: how many edges
the anchor loses). Everything here is done per case, each with its own pre-activation bounds and lines, and the
smallest case decides.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from certgcl.bounds import compiled
from certgcl.bounds.interval import output_interval
from certgcl.bounds.propagation.extremes import best, least, most
from certgcl.bounds.propagation.sign_patterns import NONE, Patterns
from certgcl.bounds.two_layer.anchor_functionals import AnchorFunctionals
from certgcl.bounds.two_layer.box import signed_parts
from certgcl.bounds.two_layer.channel_functionals import ChannelFunctionals
from certgcl.bounds.two_layer.hidden_functionals import HiddenFunctionals
from certgcl.bounds.two_layer.layer1 import Layer1
from certgcl.bounds.two_layer.patterned_output import OutputLines, improved_by_patterns
from certgcl.bounds.two_layer.row_plan import RowPlan
from certgcl.bounds.two_layer.row_tables import take
from certgcl.bounds.two_layer.weights import GCNWeights
from certgcl.models.activations import SlopeRule

MAX_PAIR_VALUES = 1 << 27  # held at a time; a gigabyte in float64
MIN_CHANNELS = 8
CHANNELS = 32  # columns that kernels process at a time, with their negatives,
GRAIN = 4  # and how many of them are multiplied with a vector together


class AnchorMinimum(Protocol):
    """A lower bound ``(F, M)`` of ``ω · Σ_j Â_ij h_j`` for every anchor i in all its cases and M functionals ω, from
    the best slope rule for each of its parts."""

    def values_of_channel(self) -> int:
        """About how many values are held at a time for a functional that all anchors share, by each rule."""
        ...

    def of_channels(self, matrix: Tensor, layer1: Layer1, rules: Sequence[SlopeRule]) -> Tensor:
        """For the columns of a matrix ``(d1, m)`` and their negatives."""
        ...

    def of_anchors(self, omega: Tensor, layer1: Layer1, rules: Sequence[SlopeRule], patterns: int = 1) -> Tensor:
        """For functionals of each anchor's own in each of its cases, ``(F, M, d1)``; with ``patterns`` sign patterns at
        every neighbour."""
        ...

    @property
    def only(self) -> "Callable[[Tensor], AnchorMinimum] | None":
        """The same in some of the anchors' cases, given by their positions; None if all are processed together."""
        ...


class MinimumOverFunctionals(ABC):
    """A minimum that is computed by blocks of rows."""

    def __init__(self, plan: RowPlan) -> None:
        self.plan = plan

    def values_of_channel(self) -> int:
        plan = self.plan
        return max(
            int((plan.anchor_cases.number * plan.hood.outer.degree).sum()),
            int((plan.line_cases.number * plan.hood.inner.degree).sum()),
        )

    def of_channels(self, matrix: Tensor, layer1: Layer1, rules: Sequence[SlopeRule]) -> Tensor:
        return self(ChannelFunctionals(matrix, self.plan, layer1, rules))

    def of_anchors(self, omega: Tensor, layer1: Layer1, rules: Sequence[SlopeRule], patterns: int = 1) -> Tensor:
        return self(AnchorFunctionals(omega, self.plan, layer1, rules, patterns))

    @property
    def only(self) -> None:
        return None

    @abstractmethod
    def __call__(self, functionals: HiddenFunctionals) -> Tensor: ...


def refine_layer2(
    minimum: AnchorMinimum,
    layer1: Layer1,
    plan: RowPlan,
    rules: Sequence[SlopeRule],
    interval: tuple[Tensor, Tensor],
    room: int = 0,
) -> tuple[Tensor, Tensor]:
    """Bounds of the second pre-activations, from the functionals ``±W2[:, m]`` and never worse than ``interval``.

    Args:
        interval: bounds to improve; if no gradient is needed, they are overwritten, so as not to be held twice.
        room: how many values may be held at a time, if that is more than usual.
    """
    w2, b2 = layer1.weights.w2, layer1.weights.b2
    lower, upper = interval
    # Channels are independent: as many at once as fit.
    each = 2 * max(1, minimum.values_of_channel()) * len(rules)
    at_once = max(MIN_CHANNELS, MAX_PAIR_VALUES // each, min(CHANNELS, room // each))
    at_once -= at_once % (CHANNELS if at_once > CHANNELS else GRAIN)
    parts = zip(w2.split(at_once, dim=1), *(part.split(at_once, dim=-1) for part in (b2, lower, upper)), strict=True)
    refined = []
    for columns, bias, low, high in parts:
        positive, negative = minimum.of_channels(columns, layer1, rules).chunk(2, dim=1)
        better = best([low, bias + positive]), -best([-high, negative - bias])
        if torch.is_grad_enabled():
            refined.append(better)
        else:
            low.copy_(better[0])
            high.copy_(better[1])
    if not refined:
        return interval
    low_parts, high_parts = zip(*refined, strict=True)
    return torch.cat(low_parts, dim=1), torch.cat(high_parts, dim=1)


def bound_output(
    minimum: AnchorMinimum,
    layer1: Layer1,
    plan: RowPlan,
    rules: Sequence[SlopeRule],
    layer2: tuple[Tensor, Tensor],
    directions: Tensor,
    patterns: Patterns = NONE,
) -> Tensor:
    """A lower bound of ``w · z_i``: in each case the best over the slope rules; ``(A, C)``.

    At the output ``w · σ(p) >= Λ · p + const`` by lines again (lower ones where ``w >= 0``), and
    ``Λ · p_i = (W2 Λ) · Σ_j Â_ij h_j + Λ · b2`` is one more functional of the hidden layer. Every choice of slopes is
    sound, so their maximum is; so are the interval value and the least over sign patterns of the output.
    """
    weights, flat = layer1.weights, plan.flat
    directions = directions if len(flat.row) == len(directions) else directions[flat.row]
    interval, constant, slopes = output_lines(weights, directions, *layer2, rules)
    value = minimum.of_anchors(slopes.flatten(1, 2) @ weights.w2.T, layer1, rules).view_as(constant) + constant
    bound = best([interval, most(value, dim=1)])
    if patterns != NONE:  # with the lines of the rule that is best without patterns
        rule = value.detach().argmax(dim=1, keepdim=True)
        constant, slopes = (
            constant.gather(1, rule)[:, 0],
            slopes.gather(1, rule[..., None].expand(-1, -1, -1, slopes.shape[3]))[:, 0],
        )
        lines = OutputLines(directions, *layer2, constant, slopes)
        bound = improved_by_patterns(bound, lines, minimum, layer1, plan, rules, patterns)
    return least(take(bound, flat.place), dim=1)


def output_lines(
    weights: GCNWeights, directions: Tensor, lower: Tensor, upper: Tensor, rules: Sequence[SlopeRule]
) -> tuple[Tensor, Tensor, Tensor]:
    """Bounds of ``w · σ2(p)`` for ``l <= p <= u``: the interval value, ``(F, C)``, and for the lines
    ``Λ (p - b2) + const`` below it by each rule the constants, ``(F, rules, C)``, and the slopes Λ,
    ``(F, rules, C, d2)``."""
    if compiled.usable(directions.device):
        from certgcl.bounds.compiled.lines import output_lines as compiled_lines

        return compiled_lines(rules, directions, lower, upper, weights.b2, weights.slope2)
    positive, negative = signed_parts(directions)
    slopes, constants = [], []
    for rule in rules:
        lines = weights.activation2.lines(lower, upper, rule)
        slope = positive * lines.lower_slope[:, None] + negative * lines.upper_slope[:, None]
        intercept = positive * lines.lower_intercept[:, None] + negative * lines.upper_intercept[:, None]
        slopes.append(slope)
        constants.append((slope * weights.b2 + intercept).sum(dim=2))
    return (
        output_interval(weights.activation2, directions, lower, upper),
        torch.stack(constants, dim=1),
        torch.stack(slopes, dim=1),
    )
