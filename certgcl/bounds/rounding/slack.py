"""How far floating-point rounding can move a bound, and the model itself as it runs in its own precision.

Every slack here is a number of roundings times the *size* of what is summed
(:mod:`certgcl.bounds.rounding.forward_error`). ``docs/theory.md``, section 10, has the theorem and its proof; the
equations named here, (R1) to (R10), are numbered there.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from certgcl.bounds.prepared import ChangeProblem
from certgcl.bounds.rounding.forward_error import ForwardError, room_for
from certgcl.bounds.rounding.overflow import most_direction
from certgcl.bounds.two_layer.rowwise import rowwise
from certgcl.models.network import GraphNetwork

LINE_FACTOR = 3  # errors in a layer bounded by lines are multiplied by: the functional's own, and twice its range's
STEP_ROUNDINGS = 6  # roundings of a step of a bound, as a multiple of those of a forward pass
MOST_ROUNDING = 1 / 64  # of a number: all roundings together, up to which (R5) holds


def bound_factor(network: GraphNetwork) -> int:
    """``C(L) = 6 · 3^L`` of (R5): the error of a bound as a multiple of that of a forward pass, for L layers that are
    bounded by lines."""
    return STEP_ROUNDINGS * LINE_FACTOR ** sum(not layer.linear for layer in network.layers)


@dataclass(frozen=True, eq=False)
class Sizes:
    """The slack for everything that is summed up to the embeddings of some anchors, on any admissible view.

    Args:
        output: at least ``|z_ic|`` and every partial sum on the way to it, ``(A, d)``.
        bound: at least what rounding can raise a bound above the truth by, for each unit of ``|w_c|``, ``(A, d)``.
        run: at least ``|ẑ_ic - z_ic|``, where ``ẑ`` is the output of the model as it runs; infinite where it may
            overflow, or sums are too long for its precision, ``(A, d)``.
        lost: the same for underflow, whatever w is.
        most: the largest ``|w_c|`` for which no number in a bound can overflow; beyond, the slack is infinite.
    """

    output: Tensor
    bound: Tensor
    run: Tensor
    lost: float
    most: float

    @classmethod
    @torch.no_grad()
    def of(cls, network: GraphNetwork, problem: ChangeProblem, dtype: torch.dtype, branches: bool = False) -> "Sizes":
        """For a model with the precision of ``network``, and bounds that are computed in ``dtype``.

        Args:
            branches: whether a method also bounds branches of the problem, in which some edges are decided.
        """
        precision, eps = network.precision or network.dtype, torch.finfo(dtype).eps
        # E(u) / u grows with u, so that the error in a longer format is no more than its share of the one in a shorter
        # format; but half precision may be too short for any, and a jump is not in proportion to roundings.
        proportional = (
            precision not in (torch.float16, torch.bfloat16)
            and eps <= torch.finfo(precision).eps
            and not any(layer.activation is not None and layer.activation.jump for layer in network.layers)
        )
        forward = ForwardError.of(network, problem, precision, bounds=proportional)
        size, run = (table.to(dtype) for table in forward.embeddings())
        error = run * (eps / torch.finfo(precision).eps)
        if not proportional:
            forward = ForwardError.of(network, problem, dtype, bounds=True)
            size, error = forward.embeddings()
        width = size.shape[1]
        factor = bound_factor(network) * forward.field.spread(network, branches)
        if (forward.terms + width + 8) * eps / 2 > MOST_ROUNDING:
            factor = torch.inf
        most = most_direction(network, forward, factor, dtype)
        lost = factor * eps * forward.terms * forward.smallest * (1 + forward.everything)
        return cls(size, error.add_(size, alpha=eps * (width + 8)).mul_(factor), run, lost, most)

    def bound_slack(self, directions: Tensor) -> Tensor:
        """How far above the minimum of ``w · z_i`` a computed bound of it can lie, (R5), ``(A, C)`` for directions
        ``(A, C, d)``."""
        found = _products(directions, self.bound) + self.lost
        return torch.where(directions.abs().amax(dim=2) <= self.most, found, torch.inf)

    def direction_slack(self, own: Tensor, shared: Tensor) -> Tensor:
        """How far ``w · z_i`` can move with w by at most ``own_i + shared_c`` in every channel c, ``(A, 1)``."""
        return _moved(own, shared, self.output)

    def run_error(self, directions: Tensor, own: Tensor | None = None, shared: Tensor | None = None) -> Tensor:
        """How far ``w · ẑ_i`` of the model as it runs can be from ``w · z_i``, for w within ``own_i + shared_c`` of
        the given directions, ``(A, C)``."""
        error = _products(directions, self.run)
        moved = 0.0 if own is None or shared is None else _moved(own, shared, self.run)
        return torch.nan_to_num(error + moved, nan=torch.inf, posinf=torch.inf)  # 0 · inf


def _products(directions: Tensor, values: Tensor) -> Tensor:
    """At least ``|w| · values`` for values that are not negative, ``(A, C)``."""
    (found,) = rowwise(lambda w, v: ((w.abs() @ v[..., None])[..., 0],), [directions, values], [], values.shape[1])
    return found * _room(values)


def _moved(own: Tensor, shared: Tensor, values: Tensor) -> Tensor:
    """At least ``Σ_c (own + shared_c) values_c``, ``(A, 1)``."""
    return (own * values.sum(dim=1) + values @ shared.to(values))[:, None] * _room(values)


def _room(values: Tensor) -> float:
    """For a sum over all channels, and for the numbers that are added to it."""
    return room_for(values.shape[1] + 8, values.dtype)
