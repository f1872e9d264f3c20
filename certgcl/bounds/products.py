"""The two products behind every functional of an anchor's own: with ranges, and through lines with the features."""

from typing import Any

import torch
from torch import Tensor

from certgcl.bounds.layer1 import Range


def range_and_line_products(omega: Tensor, ranges: Range, slope: Range, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The least ``ω · v`` over ranges, ``(R, X, Q)``, and ``λ · y`` for targets under slopes, ``(R, K, X, T)``.

    Args:
        omega: X functionals of every row, ``(R, X, d1)``.
        ranges: Q of every row, ``(R, Q, d1)``.
        slope: T of every row, ``(R, T, d1)``.
        targets: K of every row, ``(R, K, d1)``.
    """
    values, terms = _Products.apply(omega, *ranges, *slope, targets)  # type: ignore[no-untyped-call]
    return values, terms


class _Products(torch.autograd.Function):
    """Gradients without λ, the largest tensor in sight: it is linear in a and r, so with G the gradients of both
    products one above the other, and ``U_a, U_r`` the targets times a and r above the middles and radii,

        dω = Gᵀ U_a - sgn(ω) Gᵀ U_r,   and   G ω, G |ω|   hold what all the others are made of.
    """

    @staticmethod
    def forward(ctx: Any, omega: Tensor, middle: Tensor, radius: Tensor, slope: Tensor, spread: Tensor,
                targets: Tensor) -> tuple[Tensor, Tensor]:
        size = omega.abs()
        ctx.save_for_backward(omega, size, middle, radius, slope, spread, targets)
        values = omega @ middle.mT - size @ radius.mT
        slopes = torch.addcmul(omega[:, :, None] * slope[:, None], size[:, :, None], spread[:, None], value=-1)
        return values, (targets @ slopes.flatten(1, 2).mT).unflatten(2, slopes.shape[1:3])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        omega, size, middle, radius, slope, spread, targets = ctx.saved_tensors
        of_values, of_terms = gradients
        number, lines = targets.shape[1], slope.shape[1]
        stacked = torch.cat([of_terms.movedim(3, 1).flatten(1, 2), of_values.mT], dim=1)  # (R, T K + Q, X)
        scaled, widened = (torch.cat([(part[:, :, None] * targets[:, None]).flatten(1, 2), plain], dim=1)
                           for part, plain in ((slope, middle), (spread, radius)))  # U_a and U_r, (R, T K + Q, d1)
        of_omega = torch.addcmul(stacked.mT @ scaled, omega.sgn(), stacked.mT @ widened, value=-1)
        plain, sized = stacked @ omega, stacked @ size  # (R, T K + Q, d1)
        lined = slice(0, lines * number)
        above, below = (part[:, lined].unflatten(1, (lines, number)) for part in (plain, sized))  # (R, T, K, d1)
        return (of_omega, plain[:, lined.stop:], -sized[:, lined.stop:],
                (above * targets[:, None]).sum(dim=2), (below * targets[:, None]).sum(dim=2).neg_(),
                (above * slope[:, :, None] - below * spread[:, :, None]).sum(dim=1))
