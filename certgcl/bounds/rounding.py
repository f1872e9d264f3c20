"""How far floating-point rounding can move a bound: the price of not computing in exact arithmetic."""

import torch
from torch import Tensor

from certgcl.bounds.box import BoxRows
from certgcl.bounds.neighbourhood import Hop
from certgcl.bounds.problem import DropProblem
from certgcl.bounds.rowwise import rowwise
from certgcl.encoder import GCNWeights


@torch.no_grad()
def rounding_slack(weights: GCNWeights, problem: DropProblem, directions: Tensor) -> Tensor:
    """How far above the true minimum a computed bound can lie, to first order in the machine epsilon ε; ``(A, C)``.

    Every value and bound is a chain of sums of products. A sum of n terms is computed to within ``n ε Σ |terms|``, so
    the chain is exact to ``n ε`` times the same chain over absolute values, n the sum of all lengths; each |Â| entry is
    at most its upper bound in the box. Minima, maxima and selections add nothing. The factor 32 covers what the linear
    bounds add: terms that are summed and taken away again, intercepts, scales above the box's, and lines around
    pre-activation bounds that are themselves rounded (``docs/theory.md``, section 10).
    """
    dtype = weights.w1.dtype
    hood = problem.neighbourhood(dtype)
    projected = problem.graph.project(weights.w1.abs(), hood.inner.targets, absolute=True)
    hidden = _absolute_row_sum(hood.inner, projected).add_(weights.b1.abs())
    hidden.mul_(weights.slope1.abs().clamp(min=1))
    output = _absolute_row_sum(hood.outer, hidden @ weights.w2.abs()).add_(weights.b2.abs())
    output.mul_(weights.slope2.abs().clamp(min=1))
    magnitude, = rowwise(_magnitude, [problem.at_anchors(directions), output], [], output.shape[1])
    longest_row = int(hood.inner.degree.max()) + 1
    length = weights.w1.shape[0] + weights.w2.shape[0] + weights.w2.shape[1] + 2 * longest_row
    return 32 * length * torch.finfo(dtype).eps * magnitude


def _magnitude(directions: Tensor, output: Tensor) -> tuple[Tensor]:
    return (directions.abs() @ output[..., None])[..., 0],


def _absolute_row_sum(hop: Hop, values: Tensor) -> Tensor:
    """``U v`` for ``v >= 0``."""
    box = BoxRows(hop)  # not the one that the hop would keep
    return box.hop.sum_over_neighbours(box.upper, values).addcmul_(box.own_upper[:, None], values[box.hop.own])
