"""The frame that ``crown`` and ``degree`` share: from bounds of layer 1 to a bound of ``w · z``, through lines.

The bound may distinguish G cases at every anchor that together cover all admissible drops (``degree``: how many edges
the anchor loses). Everything here is done per case, each with its own pre-activation bounds and lines, and the
smallest case decides.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from certgcl.activation import SlopeRule
from certgcl.bounds.functional import AnchorFunctionals, Functionals, SharedFunctionals
from certgcl.bounds.interval import output_interval
from certgcl.bounds.layer1 import Layer1, signed_parts
from certgcl.bounds.neighbourhood import Neighbourhood

MAX_PAIR_VALUES = 1 << 26  # held at a time; half a gigabyte in float64
MIN_CHANNELS = 8

Minimise = Callable[[Functionals], Tensor]
"""A lower bound ``(A, G, M)`` of ``ω · Σ_j Â_ij h_j`` for every anchor i and functional ω, case by case, from the best
slope rule for each of its parts."""


def refine_layer2(minimise: Minimise, layer1: Layer1, hood: Neighbourhood, rules: Sequence[SlopeRule],
                  interval: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Bounds of the second pre-activations, from the functionals ``±W2[:, m]`` and never worse than ``interval``."""
    w2, b2 = layer1.weights.w2, layer1.weights.b2
    # Channels are independent: as many at once as the values of all pairs, cases and rules leave room for.
    values_per_channel = 2 * max(1, hood.outer.col.numel()) * len(rules) * layer1.cases.most
    at_once = max(MIN_CHANNELS, MAX_PAIR_VALUES // values_per_channel)
    bounds = []
    for columns in w2.split(at_once, dim=1):
        functionals = SharedFunctionals(torch.cat([columns, -columns], dim=1), hood, layer1, rules)
        bounds.append(minimise(functionals).unflatten(2, (2, -1)))
    least, negative_most = torch.cat(bounds, dim=3).unbind(dim=2)
    lower, upper = interval
    return lower.maximum(b2 + least), upper.minimum(b2 - negative_most)


def bound_output(minimise: Minimise, layer1: Layer1, hood: Neighbourhood, rules: Sequence[SlopeRule],
                 layer2: tuple[Tensor, Tensor], directions: Tensor) -> Tensor:
    """A lower bound of ``w · z_i``: in each case the best over the slope rules; ``(A, C)``.

    At the output ``w · σ(p) >= Λ · p + const`` by lines again (lower ones where ``w >= 0``), and
    ``Λ · p_i = (W2 Λ) · Σ_j Â_ij h_j + Λ · b2`` is one more functional of the hidden layer. Every choice of slopes is
    sound, so their maximum is; so is the interval value beside them.
    """
    weights = layer1.weights
    best = output_interval(weights, directions, *layer2)
    positive, negative = signed_parts(directions[:, None])  # (A, 1, C, d2)
    slopes, constants = [], []
    for rule in rules:
        lines = weights.activation2.lines(*layer2, rule)
        slope = positive * lines.lower_slope[:, :, None] + negative * lines.upper_slope[:, :, None]
        intercept = positive * lines.lower_intercept[:, :, None] + negative * lines.upper_intercept[:, :, None]
        slopes.append(slope)
        constants.append(slope @ weights.b2 + intercept.sum(-1))
    omega = torch.cat(slopes, dim=2) @ weights.w2.T  # (A, G, rules C, d1)
    value = minimise(AnchorFunctionals(omega, hood, layer1, rules)) + torch.cat(constants, dim=2)
    return best.maximum(value.unflatten(2, (len(rules), -1)).amax(dim=2)).amin(dim=1)
