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
from certgcl.bounds.two_layers import two_layers
from certgcl.models.network import GraphNetwork

BOUND = 32  # roundings (in units of eps) per term of a bound: theory.md counts 26 of half that size
MESSAGE = 20  # of a run, for Â_ij (two inverse roots, each good to 4 ulp, and their product), its product, and the bias
ACTIVATION = 3


def smallest_size(dtype: torch.dtype) -> float:
    """The size that one rounding can change by the smallest normal number, which is the most an underflow can lose."""
    return 2 * torch.finfo(dtype).tiny / torch.finfo(dtype).eps


@dataclass(frozen=True, eq=False)
class Sizes:
    """Of all that is summed up to the embeddings of some anchors, on whichever admissible view.

    Args:
        output: at least ``|z_ic|`` and every partial sum that bounds of it meet, ``(A, d2)``.
        hidden: at least ``Σ |Â_ij h_jc|`` over all j and c: what an underflowing factor is multiplied by, ``(A,)``.
        run: at least ``|ẑ_ic - z_ic|``, where ``ẑ`` is the output of the model as it is run; infinite where it may
            overflow, or sums are too long for its precision, ``(A, d2)``.
        smallest: the floor of all sizes.
        terms: of the longest sums of all layers and of ``w · z`` together.
    """

    output: Tensor
    hidden: Tensor
    run: Tensor
    smallest: float
    terms: int

    @classmethod
    @torch.no_grad()
    def of(cls, network: GraphNetwork, problem: DropProblem, dtype: torch.dtype) -> "Sizes":
        """For a model with the precision of ``network``, and bounds that are computed in ``dtype``.

        Sizes of a model in float32 or less are computed in float32, with room for their own rounding: it would
        overflow where they do.
        """
        encoder, precision = two_layers(network, "rounding"), network.precision
        weights = encoder.to(torch.promote_types(precision, torch.float32))
        smallest = max(smallest_size(dtype), smallest_size(precision))
        hood, graph = problem.neighbourhood(dtype), problem.graph
        inner, outer = BoxRows(hood.inner), BoxRows(hood.outer)  # not those that the hops would keep
        most_edges, targets = int(hood.inner.degree.max()), hood.inner.targets
        terms = sum(weights.w1.shape) + weights.w2.shape[1] + 2 * (most_edges + 1)
        room = 1 + 2 * terms * torch.finfo(weights.w1.dtype).eps
        w1, w2 = weights.w1.abs(), weights.w2.abs() + smallest
        gain1, gain2 = (slope.abs().clamp(min=1) for slope in (weights.slope1, weights.slope2))
        lift = smallest * (1 + weights.w2.abs().sum(dim=0))  # of a sum over hidden units, whose weights may be flushed
        growth = Growth(precision, most_edges)

        # Layer 1: subtotals of x W1 are no larger than the sum of its terms of one sign, (|x| |W1| + |x W1|) / 2.
        absolute = graph.project(w1 + smallest, targets, absolute=True).add_(smallest * (1 + w1.sum(dim=0)))
        messages, count = graph.project(weights.w1, targets).abs_(), graph.features.terms(targets)
        sums, all_roundings = growth(count)[:, None], growth(count + 2)[:, None]
        error = (absolute + messages).mul_(sums / 2).addcmul_(absolute, growth.of(2) + 2 * sums * all_roundings)
        messages.add_(error, alpha=2)
        all_terms = _row_sum(inner, absolute).mul_(room)
        size = _row_sum(inner, messages).add_(weights.b1.abs() + smallest).mul_(room)
        error = _row_sum(inner, error).mul_(room).addcmul_(size, growth(hood.inner.degree + MESSAGE)[:, None])
        largest = absolute.amax(dim=1).maximum(messages.amax(dim=1))
        largest = _largest_around(hood.inner, largest).maximum(size.amax(dim=1))
        hidden = size.add_(error).mul_(gain1)
        error = error.mul_(gain1).add_(hidden, alpha=growth.of(ACTIVATION) + growth.of(weights.w2.shape[0]))
        all_hidden = all_terms.add_(weights.b1.abs() + smallest).mul_(gain1)

        # Layer 2.
        messages = (hidden @ w2).add_(lift)
        errors = (error @ w2).add_(lift, alpha=growth.of(weights.w2.shape[0]))
        size = _row_sum(outer, messages).add_(weights.b2.abs() + smallest).mul_(room**2)
        error = _row_sum(outer, errors).mul_(room**2).addcmul_(size, growth(hood.outer.degree + MESSAGE)[:, None])
        largest = _largest_around(hood.outer, largest.maximum(messages.amax(dim=1))).maximum(size.amax(dim=1))
        run = error.add_(size.add_(error), alpha=growth.of(ACTIVATION)).mul_(gain2)
        known = run.isfinite().all(dim=1) & (largest < torch.finfo(precision).max / 2)

        sums = _row_sum(outer, all_hidden.sum(dim=1, keepdim=True))[:, 0] * room
        output = _row_sum(outer, (all_hidden @ w2).add_(lift)).add_(weights.b2.abs() + smallest).mul_(gain2 * room)
        return cls(output.to(dtype), sums.to(dtype), torch.where(known[:, None], run, torch.inf).to(dtype), smallest,
                   terms)

    def magnitude(self, directions: Tensor) -> Tensor:
        """At least the sum of all ``|terms|`` of ``w · z_i``, ``(A, C)`` for directions ``(A, C, d2)``."""
        found = _products(directions, self.output)
        return found + self.smallest * (1 + self.hidden + self.output.sum(dim=1))[:, None]

    def bound_slack(self, directions: Tensor) -> Tensor:
        """How far above the minimum of ``w · z_i`` a computed bound of it can lie, ``(A, C)``.

        A sum of n terms is computed to within ``n ε Σ |terms|``; minima, maxima and selections add nothing. The factor
        covers what linear bounds add: terms that are summed and taken away again, intercepts, scales above the box's,
        and lines around pre-activation bounds that are themselves rounded.
        """
        return BOUND * self.terms * torch.finfo(self.output.dtype).eps * self.magnitude(directions)

    def direction_slack(self, own: Tensor, shared: Tensor) -> Tensor:
        """How far ``w · z_i`` can move with w by at most ``own_i + shared_c`` in every channel c, ``(A, 1)``."""
        return _moved(own, shared, self.output)

    def run_error(self, directions: Tensor, own: Tensor | None = None, shared: Tensor | None = None) -> Tensor:
        """How far ``w · ẑ_i`` of the model as it is run can be from ``w · z_i``, for w within ``own_i + shared_c`` of
        the given directions, ``(A, C)``."""
        error = _products(directions, self.run) * (1 + 2 * self.run.shape[1] * torch.finfo(self.run.dtype).eps)
        moved = 0.0 if own is None or shared is None else _moved(own, shared, self.run)
        return torch.nan_to_num(error + moved, nan=torch.inf, posinf=torch.inf)  # 0 · inf


@dataclass(frozen=True)
class Growth:
    """``γ_n = n u / (1 - n u)``, the most that n roundings of at most u can change a number by, relative to it;
    infinite where that is no longer below one.

    Args:
        most_edges: of a node. A format counts up to 1 / u; beyond, degrees have an error of their own.
    """

    precision: torch.dtype
    most_edges: int

    def of(self, count: int) -> float:
        share = count * torch.finfo(self.precision).eps / 2
        return share / (1 - share) if share < 0.5 else torch.inf

    def __call__(self, counts: Tensor) -> Tensor:
        """Of many counts, in the dtype in which sizes are computed."""
        unit = torch.finfo(self.precision).eps / 2
        uncounted = self.most_edges + 1 if (self.most_edges + 1) * unit > 1 else 0
        share = (counts + uncounted).to(torch.promote_types(self.precision, torch.float32)) * unit
        return torch.where(share < 0.5, share / (1 - share), torch.inf)


def _products(directions: Tensor, values: Tensor) -> Tensor:
    """``|w| · values`` for values that are not negative, ``(A, C)``."""
    found, = rowwise(lambda w, v: ((w.abs() @ v[..., None])[..., 0],), [directions, values], [], values.shape[1])
    return found


def _moved(own: Tensor, shared: Tensor, values: Tensor) -> Tensor:
    return (own * values.sum(dim=1) + values @ shared.to(values))[:, None]


def _row_sum(box: BoxRows, values: Tensor) -> Tensor:
    """``U v`` for ``v >= 0``."""
    upper, own = box.upper.to(values.dtype), box.own_upper.to(values.dtype)[:, None]
    return box.hop.sum_over_neighbours(upper, values).addcmul_(own, values[box.hop.own])


def _largest_around(hop: Hop, values: Tensor) -> Tensor:
    """The largest value at each node of a hop and its neighbours; ``values`` over the targets."""
    return values[hop.own].scatter_reduce(0, hop.row, values[hop.col], "amax")
