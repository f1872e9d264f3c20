"""Sign patterns of the output channels: each is one more functional of the hidden layer at the anchor."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from certgcl.bounds.propagation.extremes import best, least
from certgcl.bounds.propagation.sign_patterns import Patterns, dearest
from certgcl.bounds.two_layer.layer1 import Layer1
from certgcl.bounds.two_layer.row_plan import DropPlan
from certgcl.bounds.two_layer.row_tables import take
from certgcl.bounds.two_layer.weights import GCNWeights
from certgcl.models.activations import SlopeRule

if TYPE_CHECKING:
    from certgcl.bounds.two_layer.backward import Minimum

MAX_VALUES = 1 << 25  # of functionals held at a time
FEW_CASES = 1 << 8  # of all anchors, up to which it does not pay to look for those that decide


class OutputLines(NamedTuple):
    """Lines below ``w · σ2(p)`` for ``l <= p <= u`` in all cases of the anchors, each by one rule."""

    directions: Tensor  # (F, C, d2)
    lower: Tensor  # (F, d2)
    upper: Tensor
    constant: Tensor  # (F, C)
    slopes: Tensor  # (F, C, d2)

    def by_pattern(self, weights: GCNWeights, patterns: int) -> tuple[Tensor, Tensor]:
        """Constants ``(F, C, P)`` and slopes ``(F, C, P, d2)``, with the sign patterns of the dearest channels."""
        found = dearest(self.directions, self.lower[:, None], self.upper[:, None], weights.slope2, patterns)
        change = found.by_pattern()
        slopes = self.slopes[:, :, None].expand(*change.shape[:3], -1).scatter_add(
            -1, found.channels[:, :, None].expand(change.shape), change)
        return self.constant[..., None] + found.constant(weights.b2), slopes


def improved_by_patterns(bound: Tensor, lines: OutputLines, minimum: "Minimum", layer1: Layer1, plan: DropPlan,
                         rules: Sequence[SlopeRule], patterns: Patterns) -> Tensor:
    """The least over the sign patterns of the output, where that is above ``bound``, ``(F, C)``.

    The smallest case of an anchor decides. So first the smallest one of each is improved; then those that are below it
    now. Others cannot be the smallest any more, whatever patterns would make of them.
    """
    weights = layer1.weights
    number = 1 if bool((weights.slope2 == 1).all()) else patterns.output
    each = bound.shape[1] * number * sum(weights.w2.shape)

    def improved(minimum: "Minimum", chosen: Tensor, bound: Tensor) -> Tensor:
        constant, slopes = OutputLines(*(take(part, chosen) for part in lines)).by_pattern(weights, number)
        value = minimum.of_anchors(slopes.flatten(1, 2) @ weights.w2.T, layer1, rules, patterns.rows)
        value = least(value.unflatten(1, constant.shape[1:]) + constant, dim=-1)
        return bound.index_copy(0, chosen, best([take(bound, chosen), value]))

    done = torch.zeros(len(bound), dtype=torch.bool, device=bound.device)
    for _ in range(2):
        for chosen in _deciding(bound.detach(), done, plan).split(max(1, MAX_VALUES // each)):
            some = minimum.only(chosen) if len(bound) > FEW_CASES else None
            if some is None:
                return improved(minimum, torch.arange(len(bound), device=bound.device), bound)
            bound = improved(some, chosen, bound)
            done[chosen] = True
    return bound


def _deciding(bound: Tensor, done: Tensor, plan: DropPlan) -> Tensor:
    """The cases that have not been improved yet and are below all that have been, or the smallest of their anchor; for
    any direction."""
    row = plan.flat.row[:, None].expand_as(bound)
    best_known = torch.where(done[:, None], bound, torch.inf)
    limit = bound.new_full((len(plan.anchor_cases.number), bound.shape[1]), torch.inf)
    limit = limit.scatter_reduce(0, row, best_known, "amin")
    smallest = limit.new_full(limit.shape, torch.inf).scatter_reduce(0, row, bound, "amin")
    limit = torch.where(limit.isinf(), smallest, limit).gather(0, row)
    below = torch.where(done[:, None], False, bound <= limit)
    return below.any(dim=1).nonzero()[:, 0]
