"""The two products behind every functional of an anchor's own: with ranges, and, through lines, with features."""

from typing import Any

import torch
from torch import Tensor

from certgcl.bounds.two_layer.layer1 import Lined


def range_and_line_products(omega: Tensor, lined: Lined, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The least ``ω · v`` over ranges, ``(R, X, Q)``, and ``λ · y`` for targets under slopes, ``(R, K, X, L)``.

    Args:
        omega: X functionals of every row, ``(R, X, d1)``.
        lined: Q ranges and L slopes of every row.
        targets: K of every row, ``(R, K, d1)``.
    """
    values, terms = _Products.apply(omega, lined.parts, targets)  # type: ignore[no-untyped-call]
    return values, terms


class _Products(torch.autograd.Function):
    """``λ = ω a - |ω| r``. With G the gradients of the second product and ``D = Gᵀ y``, what is left for ω is
    ``D a - sgn(ω) D r``, for y it is ``G λ``, and for a and r they are ``Σ ω D`` and ``-Σ |ω| D``."""

    @staticmethod
    def forward(ctx: Any, omega: Tensor, parts: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        (middle, radius), (slope, spread) = Lined(parts).ranges, Lined(parts).slopes
        size = omega.abs()
        values = omega @ middle.mT - size @ radius.mT
        slopes = torch.addcmul(omega[:, :, None] * slope[:, None], size[:, :, None], spread[:, None], value=-1)
        ctx.save_for_backward(omega, size, slopes, parts, targets)
        return values, (targets @ slopes.flatten(1, 2).mT).unflatten(2, slopes.shape[1:3])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        omega, size, slopes, parts, targets = ctx.saved_tensors
        (middle, radius), (slope, spread) = Lined(parts).ranges, Lined(parts).slopes
        of_values, of_terms = gradients
        flat = of_terms.flatten(2)  # (R, K, X L)
        towards = (flat.mT @ targets).unflatten(1, slopes.shape[1:3])  # D, (R, X, L, d1)
        plain, sized = of_values @ middle, of_values @ radius
        for line, part in enumerate(towards.unbind(dim=2)):
            plain.addcmul_(part, slope[:, line, None])
            sized.addcmul_(part, spread[:, line, None])
        return (
            torch.addcmul(plain, omega.sgn(), sized, value=-1),
            torch.cat(
                [
                    of_values.mT @ omega,
                    (of_values.mT @ size).neg_(),
                    (towards * omega[:, :, None]).sum(dim=1),
                    (towards * size[:, :, None]).sum(dim=1).neg_(),
                ],
                dim=1,
            ).view(parts.shape),
            flat @ slopes.flatten(1, 2),
        )
