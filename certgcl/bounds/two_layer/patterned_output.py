"""Sign patterns of the output channels: each is one more functional of the hidden layer at the anchor."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from certgcl.bounds.propagation.extremes import least
from certgcl.bounds.propagation.sign_patterns import Patterns, dearest, improved
from certgcl.bounds.two_layer.layer1 import Layer1
from certgcl.bounds.two_layer.row_plan import RowPlan
from certgcl.bounds.two_layer.row_tables import take
from certgcl.models.activations import SlopeRule

if TYPE_CHECKING:
    from certgcl.bounds.two_layer.backward import AnchorMinimum

MAX_VALUES = 1 << 24  # of functionals held at a time


class OutputLines(NamedTuple):
    """Lines ``Λ (p - b2) + const`` below ``w · σ2(p)`` for ``l <= p <= u`` in all cases of the anchors."""

    directions: Tensor  # w, (F, C, d2)
    lower: Tensor  # (F, d2)
    upper: Tensor  # (F, d2)
    constant: Tensor  # (F, C)
    slopes: Tensor  # (F, C, d2)


def improved_by_patterns(
    bound: Tensor,
    lines: OutputLines,
    minimum: "AnchorMinimum",
    layer1: Layer1,
    plan: RowPlan,
    rules: Sequence[SlopeRule],
    patterns: Patterns,
) -> Tensor:
    """The least over the sign patterns of the output, where that is above ``bound``, ``(F, C)``."""
    weights = layer1.weights
    number = 1 if bool((weights.slope2 == 1).all()) else patterns.output

    def by_pattern(chosen: Tensor, some: "AnchorMinimum") -> Tensor:
        here = OutputLines(*(take(part, chosen) for part in lines))
        found = dearest(here.directions, here.lower[:, None], here.upper[:, None], weights.slope2, number)
        constant = here.constant[..., None] + found.constant(weights.b2)
        omega = found.slopes(here.slopes).flatten(1, 2) @ weights.w2.T
        value = some.of_anchors(omega, layer1, rules, patterns.rows).view_as(constant)
        return least(value + constant, dim=-1)

    def better(chosen: Tensor) -> Tensor:
        if minimum.only is None or len(chosen) == len(bound):
            return by_pattern(chosen, minimum)
        each = bound.shape[1] * number * sum(weights.w2.shape)
        return torch.cat([by_pattern(part, minimum.only(part)) for part in chosen.split(max(1, MAX_VALUES // each))])

    outer = plan.hood.outer
    around = torch.zeros_like(outer.degree).index_add_(0, outer.row, plan.hood.inner.degree[outer.col])
    return improved(bound, plan.flat.row, around[plan.flat.row], better, together=minimum.only is None)
