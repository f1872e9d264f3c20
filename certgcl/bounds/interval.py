"""Interval bounds on the box: every entry of Â varies independently between its extremes."""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor

from certgcl.bounds.method import BoundMethod
from certgcl.bounds.prepared import ChangeProblem, check_call
from certgcl.bounds.propagation.method import by_ranges_on_the_box
from certgcl.bounds.two_layer.box import signed_parts
from certgcl.bounds.two_layer.layer1 import Layer1
from certgcl.bounds.two_layer.neighbourhood import Neighbourhood
from certgcl.bounds.two_layer.weights import GCNWeights
from certgcl.changes.changes import AdmissibleChanges
from certgcl.models.network import GraphNetwork
from certgcl.models.two_piece import TwoPieceLinear

MAX_WHOLE = 1 << 23  # values of ``X W1``, up to which all hidden channels are processed at once,
CHANNELS = 64  # and beyond which this many are processed at a time


def layer1_on_box(weights: GCNWeights, projected: Tensor, hood: Neighbourhood) -> Layer1:
    """Bounds of the first pre-activations: ``L [Y]+ + U [Y]- + b1`` from below, the mirror image from above."""
    lower, upper = (bound + weights.b1 for bound in hood.inner.box.range(projected, projected))
    place = torch.arange(len(lower), device=lower.device)[:, None]
    return Layer1(weights, projected, lower, upper, place)


def layer2_on_box(weights: GCNWeights, projected: Tensor, hood: Neighbourhood) -> tuple[Tensor, Tensor]:
    """Bounds of the anchors' second pre-activations, ``(A, d2)`` each.

    ``H`` depends on Â, so it enters as an interval: ``V = H W2 ∈ [V_lo, V_up]``, then
    ``P_lo = L [V_lo]+ + U [V_lo]- + b2``. Sound because ``Â >= 0`` makes ``Â V >= Â V_lo``.
    """
    lower, upper = hood.outer.box.range(*_products_on_box(weights, projected, hood))
    return lower + weights.b2, upper + weights.b2


def _products_on_box(weights: GCNWeights, projected: Tensor, hood: Neighbourhood) -> tuple[Tensor, Tensor]:
    """The range of ``V = H W2``. On a large graph it is summed over blocks of hidden channels."""
    if torch.is_grad_enabled() or projected.numel() <= MAX_WHOLE:
        return layer1_on_box(weights, projected, hood).products()
    low = high = torch.zeros((), dtype=projected.dtype, device=projected.device)
    for part in torch.arange(projected.shape[1], device=projected.device).split(CHANNELS):
        some = replace(
            weights, w1=weights.w1[:, part], b1=weights.b1[part], slope1=weights.slope1[part], w2=weights.w2[part]
        )
        lower, upper = layer1_on_box(some, projected[:, part], hood).products()
        low, high = low + lower, high + upper
    return low, high


def output_interval(activation: TwoPieceLinear, directions: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """``w+ · σ_lo + w- · σ_up``, the least ``w · σ(p)`` for ``l <= p <= u``.

    Args:
        directions: ``(A, C, d2)``.
        lower, upper: ``(A, d2)``.

    Returns:
        ``(A, C)``.
    """
    low, high = activation.interval(lower, upper)
    positive, negative = signed_parts(directions)
    return (positive * low[:, None] + negative * high[:, None]).sum(dim=2)


@dataclass(frozen=True)
class Interval(BoundMethod):
    """Theorem 1 of the paper, corrected: interval arithmetic through both layers. Cheap and loose."""

    name: str = field(default="interval", init=False)
    certified: bool = field(default=True, init=False)
    second_view: ClassVar[bool] = True

    def supports(self, network: GraphNetwork, changes: AdmissibleChanges) -> None:
        return None

    def __call__(self, network: GraphNetwork, problem: ChangeProblem, directions: Tensor) -> Tensor:
        check_call(network, problem, directions)
        weights = problem.two_layer(network)
        if weights is None:
            return by_ranges_on_the_box(network, problem, directions)
        hood = problem.neighbourhood(weights.w1.dtype)
        layer2 = layer2_on_box(weights, problem.projected(weights), hood)
        return output_interval(weights.activation2, problem.at_anchors(directions), *layer2)
