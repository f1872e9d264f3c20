"""The paper's two formulas by kernels; :mod:`certgcl.bounds.printed` has them in torch."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from certgcl.bounds.compiled.kernels import paper_box
from certgcl.bounds.compiled.kernels.line_products import Entries
from certgcl.bounds.compiled.kernels.paper_box import Box
from certgcl.bounds.compiled.layout import Span, array
from certgcl.bounds.compiled.lines import products_at_entries, row_slices
from certgcl.bounds.compiled.minima import shaped
from certgcl.bounds.compiled.threads import share
from certgcl.bounds.layer1 import Layer1

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


def own_products(omega: Tensor, layer1: Layer1) -> tuple[Tensor, Tensor]:
    """``Λ1 · y`` and ``b̃1`` of every node with parallel lines of its own, ``(N, C)`` each.

    Args:
        omega: ``(N, C, d1)``.
    """
    count = len(omega)
    node, nothing = torch.arange(count), torch.zeros(count, dtype=torch.long)
    entries = Entries(*map(array, (torch.arange(count + 1), node, node, torch.zeros(count + 1, dtype=torch.long),
                                   nothing[:0], node, nothing, torch.ones(count, dtype=torch.bool))))
    spans = [Span(range(here.start, here.stop), here) for here in row_slices(count, omega.shape[2])]
    (_, products, constants, _), = products_at_entries(spans, [(entries, 0)], ("parallel",), omega, layer1)
    return products, constants
