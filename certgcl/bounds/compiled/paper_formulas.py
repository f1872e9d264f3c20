"""The paper's two formulas by kernels; :mod:`certgcl.bounds.uncertified.formulas` is the version in torch."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from certgcl.bounds.compiled.kernels import chords, paper_box
from certgcl.bounds.compiled.kernels.paper_box import Box
from certgcl.bounds.compiled.lemma_arrays import array
from certgcl.bounds.compiled.minima import shaped
from certgcl.bounds.compiled.threads import share

if TYPE_CHECKING:
    from certgcl.bounds.uncertified.formulas import PaperBox


def box_range(box: "PaperBox", values: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """``L [v]+ + U [v]- + b`` and its mirror image."""
    graph = box.graph
    parts = Box(*map(array, (graph.rowptr, graph.col, box.entries, box.own_lower[:, 0], box.own_upper[:, 0])))
    lower, upper = _BoxRange.apply(parts, values, bias)  # type: ignore[no-untyped-call]
    return lower, upper


class _BoxRange(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, box: Box, values: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        lower, upper = torch.empty_like(values), torch.empty_like(values)
        share(paper_box.ranges, len(box.upper) * values.shape[1], box, *map(shaped, (values, bias, lower, upper)))
        ctx.save_for_backward(values)
        ctx.box = box
        return lower, upper

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor, Tensor]:
        (values,) = ctx.saved_tensors
        of_values = torch.empty_like(values)
        share(
            paper_box.gradients,
            len(ctx.box.upper) * values.shape[1],
            ctx.box,
            *map(shaped, (values, *gradients, of_values)),
        )
        return None, of_values, gradients[0].sum(dim=0) + gradients[1].sum(dim=0)


def chord_lines(
    omega: Tensor, lower: Tensor, upper: Tensor, bias: Tensor, gamma: Tensor, features: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """As :func:`certgcl.bounds.uncertified.formulas.chord_lines`."""
    features = lower.new_empty(0, 0) if features is None else features
    constants, slopes, products = _ChordLines.apply(  # type: ignore[no-untyped-call]
        omega, lower, upper, bias, gamma, features
    )
    return (products if features.numel() else slopes), constants


class _ChordLines(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, omega: Tensor, *given: Tensor) -> tuple[Tensor, ...]:
        number, wanted = omega.shape[:2], given[-1].numel() > 0
        found = [
            omega.new_empty(shape)
            for shape in (number, (0, 0, 0) if wanted else omega.shape, number if wanted else (0, 0))
        ]
        share(chords.lines_below, omega.numel(), *map(shaped, (omega, *given, *found)))
        ctx.save_for_backward(omega, *given)
        return tuple(found)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        omega, lower, upper, *added = ctx.saved_tensors
        found = [
            *(torch.empty(value.shape, dtype=value.dtype) for value in (omega, lower, upper)),
            *(torch.zeros(value.shape, dtype=value.dtype) for value in added),
        ]
        share(chords.gradients, omega.numel(), *map(shaped, (*ctx.saved_tensors, *gradients, *found)))
        return tuple(found)
