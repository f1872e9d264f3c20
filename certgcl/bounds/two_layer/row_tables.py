"""Rows of tables: gathered block by block, and joined again."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor


class Table:
    """A table from which many blocks take rows.

    The gradients of all rows that are taken are accumulated in one place. Torch itself would fill a table of zeros for
    every block, and add it to the previous one.
    """

    def __init__(self, values: Tensor) -> None:
        self._gradient: list[Tensor] = []  # while gradients are taken: their sum so far
        tracked = torch.is_grad_enabled() and values.requires_grad
        self.values: Tensor = _Shared.apply(values, self._gradient) if tracked else values  # type: ignore[no-untyped-call]

    def take(self, index: Tensor) -> Tensor:
        """``values[index]`` along the first dimension, in the form that copies whole rows."""
        flat = index.flatten()
        if torch.is_grad_enabled() and self.values.requires_grad:
            taken: Tensor = _Taken.apply(self.values, flat, self._gradient)  # type: ignore[no-untyped-call]
        else:
            taken = self.values.index_select(0, flat)
        return taken.view(index.shape + self.values.shape[1:])


def take(values: Tensor, index: Tensor) -> Tensor:
    """Rows of a table that is used once."""
    return values.index_select(0, index.flatten()).view(index.shape + values.shape[1:])


def joined(parts: Iterable[Tensor], rows: int) -> tuple[Tensor, list[Tensor]]:
    """``torch.cat(parts)``, and the parts. Without gradients, each is written directly to its place, so that nothing is
    held twice.

    Args:
        rows: of all parts together; those that no part fills are zero.
    """
    kept: list[Tensor] = []
    table: Tensor | None = None
    start = 0
    for part in parts:
        end = start + len(part)
        if part.requires_grad:
            kept.append(part)
        else:
            if table is None:
                table = part.new_empty(rows, *part.shape[1:])
            table[start:end] = part
            kept.append(table[start:end])
        start = end
    if table is None:
        empty = kept[0].new_zeros(rows - start, *kept[0].shape[1:])
        return torch.cat([*kept, empty]), kept
    table[start:] = 0
    return table, kept


class _Shared(torch.autograd.Function):
    """A table whose gradient is the sum accumulated by the rows that were taken."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, gradient: list[Tensor]) -> Tensor:
        ctx.gradient = gradient
        ctx.set_materialize_grads(False)
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *nothing: Tensor | None) -> tuple[Tensor | None, None]:
        return ctx.gradient.pop() if ctx.gradient else None, None  # by now all rows taken have added their share


class _Taken(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, index: Tensor, gradient: list[Tensor]) -> Tensor:
        ctx.index, ctx.gradient, ctx.shape = index, gradient, values.shape
        return values.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, None]:
        if not ctx.gradient:
            ctx.gradient.append(gradients[0].new_zeros(ctx.shape))
        ctx.gradient[0].index_add_(0, ctx.index, gradients[0])
        return None, None, None
