"""The paper's two formulas by kernels; :mod:`certgcl.bounds.printed` has them in torch."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from certgcl.bounds.compiled.kernels import chords, paper_box
from certgcl.bounds.compiled.kernels.paper_box import Box
from certgcl.bounds.compiled.layout import array
from certgcl.bounds.compiled.minima import shaped
from certgcl.bounds.compiled.threads import share

if TYPE_CHECKING:
    from certgcl.bounds.printed import PaperBox


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
        values, = ctx.saved_tensors
        of_values = torch.empty_like(values)
        share(paper_box.gradients, len(ctx.box.upper) * values.shape[1], ctx.box,
              *map(shaped, (values, *gradients, of_values)))
        return None, of_values, gradients[0].sum(dim=0) + gradients[1].sum(dim=0)


def chord_lines(omega: Tensor, lower: Tensor, upper: Tensor, bias: Tensor, gamma: Tensor) -> tuple[Tensor, Tensor]:
    """As :func:`certgcl.bounds.printed.chord_lines`."""
    slopes, constants = _ChordLines.apply(omega, lower, upper, bias, gamma)  # type: ignore[no-untyped-call]
    return slopes, constants


class _ChordLines(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, omega: Tensor, *given: Tensor) -> tuple[Tensor, Tensor]:
        slopes, constants = omega.new_empty(omega.shape), omega.new_empty(omega.shape[:2])
        share(chords.lines_below, omega.numel(), *map(shaped, (omega, *given, slopes, constants)))
        ctx.save_for_backward(omega, *given)
        return slopes, constants

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        found = [torch.zeros(value.shape, dtype=value.dtype) if value.dim() == 1 else
                 torch.empty(value.shape, dtype=value.dtype) for value in ctx.saved_tensors]
        share(chords.gradients, found[0].numel(), *map(shaped, (*ctx.saved_tensors, *gradients, *found)))
        return tuple(found)
