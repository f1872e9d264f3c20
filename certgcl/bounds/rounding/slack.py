"""How far floating-point rounding can move a bound, and the model itself where it is run in its own precision.

Every slack here is a number of roundings times the *size* of what is summed
(:mod:`certgcl.bounds.rounding.forward_error`).
Statements and proofs are in ``docs/theory.md``, section 10.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from certgcl.bounds.prepared import DropProblem
from certgcl.bounds.rounding.forward_error import ForwardError, smallest_size
from certgcl.bounds.two_layer.rowwise import rowwise
from certgcl.models.network import GraphNetwork


def bound_factor(network: GraphNetwork) -> int:
    """How many times the error of a forward pass a bound of it can be off: ``(L + 2) 3^(L + 1)`` for L layers that are
    bounded by lines. theory.md counts ``(2 L + 3) 3^L``, to first order."""
    lines = sum(not layer.linear for layer in network.layers)
    return (lines + 2) * 3 ** (lines + 1)


@dataclass(frozen=True, eq=False)
class Sizes:
    """Of all that is summed up to the embeddings of some anchors, on whichever admissible view.

    Args:
        output: at least ``|z_ic|`` and every partial sum on the way to it, ``(A, d)``.
        bound: at least what rounding can put a bound above the truth for each unit of ``|w_c|``, ``(A, d)``.
        run: at least ``|ẑ_ic - z_ic|``, where ``ẑ`` is the output of the model as it is run; infinite where it may
            overflow, or sums are too long for its precision, ``(A, d)``.
        lost: the same for what underflow can cost a bound, whatever w.
    """

    output: Tensor
    bound: Tensor
    run: Tensor
    lost: float

    @classmethod
    @torch.no_grad()
    def of(cls, network: GraphNetwork, problem: DropProblem, dtype: torch.dtype) -> "Sizes":
        """For a model with the precision of ``network``, and bounds that are computed in ``dtype``."""
        precision = network.precision or network.dtype
        smallest = max(smallest_size(dtype), smallest_size(precision))
        forward = ForwardError.of(network, problem, precision, smallest)
        size, run = (table.to(dtype) for table in forward.embeddings())
        error = run * (torch.finfo(dtype).eps / torch.finfo(precision).eps)
        if precision in (torch.float16, torch.bfloat16) or any(
            layer.activation is not None and layer.activation.jump for layer in network.layers
        ):
            # A format may be too short for a run, and a jump is not in proportion to roundings.
            forward = ForwardError.of(network, problem, dtype, smallest)
            size, error = forward.embeddings()
        factor, eps = bound_factor(network), torch.finfo(dtype).eps
        lost = smallest * (1 + forward.everything())
        return cls(
            size,
            error.add_(size, alpha=eps * (size.shape[1] + 8)).mul_(factor),
            run,
            factor * eps * forward.terms * lost,
        )

    def bound_slack(self, directions: Tensor) -> Tensor:
        """How far above the minimum of ``w · z_i`` a computed bound of it can lie, ``(A, C)`` for directions
        ``(A, C, d)``."""
        return _products(directions, self.bound) + self.lost

    def direction_slack(self, own: Tensor, shared: Tensor) -> Tensor:
        """How far ``w · z_i`` can move with w by at most ``own_i + shared_c`` in every channel c, ``(A, 1)``."""
        return _moved(own, shared, self.output)

    def run_error(self, directions: Tensor, own: Tensor | None = None, shared: Tensor | None = None) -> Tensor:
        """How far ``w · ẑ_i`` of the model as it is run can be from ``w · z_i``, for w within ``own_i + shared_c`` of
        the given directions, ``(A, C)``."""
        error = _products(directions, self.run) * (1 + 2 * self.run.shape[1] * torch.finfo(self.run.dtype).eps)
        moved = 0.0 if own is None or shared is None else _moved(own, shared, self.run)
        return torch.nan_to_num(error + moved, nan=torch.inf, posinf=torch.inf)  # 0 · inf


def _products(directions: Tensor, values: Tensor) -> Tensor:
    """``|w| · values`` for values that are not negative, ``(A, C)``."""
    (found,) = rowwise(lambda w, v: ((w.abs() @ v[..., None])[..., 0],), [directions, values], [], values.shape[1])
    return found


def _moved(own: Tensor, shared: Tensor, values: Tensor) -> Tensor:
    return (own * values.sum(dim=1) + values @ shared.to(values))[:, None]
