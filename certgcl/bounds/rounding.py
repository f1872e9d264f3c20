"""How far floating-point rounding can move a bound, and the model itself where it is run in its own precision.

Every slack here is a number of roundings times the *size* of what is summed: the forward pass over absolute values,
with each entry of Â at its largest. Sizes are never below ``smallest_size``, so that a relative error of them also
covers what underflow loses. Statements and proofs are in ``docs/theory.md``, section 10.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from certgcl.bounds.box import BoxRows
from certgcl.bounds.neighbourhood import Hop
from certgcl.bounds.problem import DropProblem
from certgcl.bounds.rowwise import rowwise
from certgcl.encoder import GCNWeights

BOUND = 32  # roundings (in units of eps) per term of a bound: theory.md counts 26 of half that size
# Roundings of a run on the way from a feature to an embedding that no sum counts. In each layer: 18 of the entry of Â
# (two inverse roots, each good to 4 ulp, and their product), its product with the message, the bias, 3 of the
# activation; and the conversion of the feature.
RUN = 2 * (18 + 1 + 1 + 3) + 1


def smallest_size(dtype: torch.dtype) -> float:
    """The size that one rounding can change by the smallest normal number, which is the most an underflow can lose."""
    return 2 * torch.finfo(dtype).tiny / torch.finfo(dtype).eps


@dataclass(frozen=True, eq=False)
class Sizes:
    """Of all that is summed up to the embeddings of some anchors, on whichever admissible view.

    Args:
        output: at least ``|z_ic|`` and every partial sum of it, ``(A, d2)``.
        hidden: at least ``Σ |Â_ij h_jc|`` over all j and c: what an underflowing factor is multiplied by, ``(A,)``.
        smallest: the floor of all sizes.
        terms: of the longest sums of all layers and of ``w · z`` together.
        roundings: on the longest way from a feature to the embedding of an anchor, of terms really summed, ``(A,)``.
        largest: at least the largest number on that way, ``(A,)``.
    """

    output: Tensor
    hidden: Tensor
    smallest: float
    terms: int
    roundings: Tensor
    largest: Tensor
    dtype: torch.dtype

    @classmethod
    @torch.no_grad()
    def of(cls, weights: GCNWeights, problem: DropProblem, precision: torch.dtype) -> "Sizes":
        """For bounds in the dtype of ``weights`` and a model that is run in ``precision``."""
        dtype = weights.w1.dtype
        smallest = max(smallest_size(dtype), smallest_size(precision))
        hood = problem.neighbourhood(dtype)
        inner, outer = BoxRows(hood.inner), BoxRows(hood.outer)  # not those that the hops would keep
        w1, w2 = weights.w1.abs(), weights.w2.abs()
        projected = problem.graph.project(w1 + smallest, hood.inner.targets, absolute=True)
        projected.add_(smallest * (1 + w1.sum(dim=0)))
        hidden = _absolute_row_sum(inner, projected).add_(weights.b1.abs() + smallest)
        hidden.mul_(weights.slope1.abs().clamp(min=1))
        messages = (hidden @ (w2 + smallest)).add_(smallest * (1 + w2.sum(dim=0)))
        output = _absolute_row_sum(outer, messages).add_(weights.b2.abs() + smallest)
        output.mul_(weights.slope2.abs().clamp(min=1))
        sums = _absolute_row_sum(outer, hidden.sum(dim=1, keepdim=True))[:, 0]

        most_edges = int(hood.inner.degree.max())
        features = problem.graph.features.terms(hood.inner.targets)
        at_neighbours = _largest_around(hood.inner, features) + hood.inner.degree
        roundings = _largest_around(hood.outer, at_neighbours) + hood.outer.degree + weights.w2.shape[0] + RUN
        if (most_edges + 1) * torch.finfo(precision).eps > 2:  # degrees are no longer counted exactly
            roundings = roundings + 2 * (most_edges + 1)
        peaks = _largest_around(hood.inner, projected.amax(dim=1))
        peaks = peaks.maximum(hidden.amax(dim=1)).maximum(messages.amax(dim=1))
        largest = _largest_around(hood.outer, peaks).maximum(output.amax(dim=1))
        terms = sum(weights.w1.shape) + weights.w2.shape[1] + 2 * (most_edges + 1)
        return cls(output, sums, smallest, terms, roundings, largest, dtype)

    def magnitude(self, directions: Tensor) -> Tensor:
        """At least the sum of all ``|terms|`` of ``w · z_i``, ``(A, C)`` for directions ``(A, C, d2)``."""
        found, = rowwise(_magnitude, [directions, self.output], [], self.output.shape[1])
        return found + self.smallest * (1 + self.hidden + self.output.sum(dim=1))[:, None]

    def bound_slack(self, magnitude: Tensor) -> Tensor:
        """How far above the minimum of ``w · z_i`` a computed bound of it can lie, ``(A, C)``.

        A sum of n terms is computed to within ``n ε Σ |terms|``; minima, maxima and selections add nothing. The factor
        covers what linear bounds add: terms that are summed and taken away again, intercepts, scales above the box's,
        and lines around pre-activation bounds that are themselves rounded.
        """
        return BOUND * self.terms * torch.finfo(self.dtype).eps * magnitude

    def direction_slack(self, own: Tensor, shared: Tensor) -> Tensor:
        """How far ``w · z_i`` can move with w by at most ``own_i + shared_c`` in every channel c, ``(A, 1)``."""
        return (own * self.output.sum(dim=1) + self.output @ shared.to(self.output))[:, None]

    def run_error(self, magnitude: Tensor, precision: torch.dtype) -> Tensor:
        """How far ``w · z_i`` can be from its exact value when the model is run in ``precision``, whatever the order of
        its sums: ``γ_n = n u / (1 - n u)`` times the magnitude, with n roundings of at most u. Infinite where n is too
        large for that, or a number can overflow."""
        share = self.roundings * (torch.finfo(precision).eps / 2)
        known = (share < 0.5) & (self.largest < torch.finfo(precision).max / 2)
        error = (share / (1 - share))[:, None] * magnitude
        return torch.where(known[:, None], error, torch.inf)


def _magnitude(directions: Tensor, output: Tensor) -> tuple[Tensor]:
    return (directions.abs() @ output[..., None])[..., 0],


def _absolute_row_sum(box: BoxRows, values: Tensor) -> Tensor:
    """``U v`` for ``v >= 0``."""
    return box.hop.sum_over_neighbours(box.upper, values).addcmul_(box.own_upper[:, None], values[box.hop.own])


def _largest_around(hop: Hop, values: Tensor) -> Tensor:
    """The largest value at each node of a hop and its neighbours; ``values`` over the targets."""
    return values[hop.own].scatter_reduce(0, hop.row, values[hop.col], "amax")
