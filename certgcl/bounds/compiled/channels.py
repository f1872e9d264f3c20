"""Functionals that all anchors share as functions of tensors, with their gradients."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from certgcl.activation import SlopeRule
from certgcl.bounds.compiled.kernels import channel_products, slot_products
from certgcl.bounds.compiled.kernels.channel_products import Bounds, ChannelValues
from certgcl.bounds.compiled.layout import ChannelSlots, Layout, array
from certgcl.bounds.compiled.lines import LineTable, numbered
from certgcl.bounds.compiled.minima import shaped
from certgcl.bounds.compiled.threads import share
from certgcl.bounds.compiled.workspace import Workspace
from certgcl.bounds.layer1 import Layer1


def channel_values(layout: Layout, rules: Sequence[SlopeRule], matrix: Tensor, layer1: Layer1,
                   workspace: Workspace) -> tuple[Tensor, ...]:
    """Functionals of the columns of a matrix ``(d1, m)`` and of their negatives: of all lines the intervals, ``e_j``
    and ``C_jj``, and ``C_jk`` of all slots; ``(..., 2 m)`` by each rule side by side."""
    weights, number = layer1.weights, len(rules)
    lines, places, width = len(layer1.lower), int(layout.leaf_start[-1]), 2 * matrix.shape[1]
    tables = [workspace(name, matrix, size, each, width) for name, size, each in (
        ("interval", lines, 1), ("constant", lines, number), ("own", lines, number), ("leaves", places, number))]
    found: tuple[Tensor, ...] = _ChannelValues.apply(  # type: ignore[no-untyped-call]
        layout, rules, tables, matrix, layer1.projected, layer1.lower, layer1.upper, weights.b1, weights.slope1)
    return found


class _ChannelValues(torch.autograd.Function):
    """``± v M - r |M|`` for vectors v and radii r: of ranges and constants, and of slopes times features. They are made
    again for the gradient."""

    @staticmethod
    def forward(ctx: Any, layout: Layout, rules: Sequence[SlopeRule], tables: Sequence[Tensor], matrix: Tensor,
                projected: Tensor, *given: Tensor) -> tuple[Tensor, ...]:
        columns = matrix.T.contiguous()
        lower, upper, bias, gamma = map(shaped, given)
        bounds = Bounds(lower, upper, bias, gamma, numbered(rules))
        share(channel_products.products, tables[-1].numel() * len(matrix), layout.lined_rows, bounds,
              *map(shaped, (projected, columns, columns.abs())), ChannelValues(*map(shaped, tables)))
        ctx.save_for_backward(matrix, projected, *given)
        ctx.rest = layout, rules
        return tuple(values.flatten(1) for values in tables)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        matrix, projected, *given = ctx.saved_tensors
        layout, rules = ctx.rest
        table, number = LineTable(rules, *given), len(rules)
        interval, constant, own, leaves = (values.unflatten(1, (-1, 2 * matrix.shape[1])) for values in gradients)
        products = _SignedGradient(matrix)
        to_projected = torch.zeros_like(projected, memory_format=torch.contiguous_format)
        width = len(matrix)
        for span, here in zip(layout.spans(width), layout.channel_slots(width), strict=True):
            parts = torch.from_numpy(table.at(span.lines))
            to_parts = torch.empty_like(parts)
            ranges = parts[:, : 2 + 2 * number].unflatten(1, (2, 1 + number)).transpose(1, 2)
            found = products(ranges, torch.cat([interval[span.lines], constant[span.lines]], dim=1))
            to_parts[:, : 2 + 2 * number] = found.transpose(1, 2).flatten(1, 2)
            for rule in range(number):
                vectors = _slot_vectors(here, parts, rule, number, projected)
                to_vectors = products(vectors, torch.cat([own[span.lines, rule], leaves[here.leaves, rule]]))
                to_slopes = parts.new_zeros(len(parts), 2, parts.shape[2])
                share(slot_products.gradients, vectors.numel(), *map(array, (here.line, here.target)), *map(shaped, (
                    _slopes(parts, rule, number), projected, to_vectors, to_slopes, to_projected)))
                to_parts[:, 2 + 2 * number + rule :: number] = to_slopes
            table.add_gradient(span.lines, shaped(to_parts))
        return None, None, None, products.of_matrix(), to_projected, *table.gradients


def _slopes(parts: Tensor, rule: int, rules: int) -> Tensor:
    """Middles and radii of the slopes by one rule, ``(lines, 2, d1)``."""
    return parts[:, 2 + 2 * rules + rule :: rules]


def _slot_vectors(here: ChannelSlots, parts: Tensor, rule: int, rules: int, projected: Tensor) -> Tensor:
    """Slopes times features, of the rows themselves in all their lines and then of their slots; ``(…, 2, d1)``."""
    out = projected.new_empty(len(here.line), 2, projected.shape[1])
    share(slot_products.products, out.numel(), *map(array, (here.line, here.target)),
          *map(shaped, (_slopes(parts, rule, rules), projected, out)))
    return out


class _SignedGradient:
    """The gradients of ``v M - r |M|`` and ``-v M - r |M|`` side by side for ``(..., 2, d1)``; that of the matrix adds
    up."""

    def __init__(self, matrix: Tensor) -> None:
        self.matrix, self.size = matrix, matrix.abs()
        self.plain, self.sized = torch.zeros_like(matrix), torch.zeros_like(matrix)

    def __call__(self, vectors: Tensor, gradient: Tensor) -> Tensor:
        plus, minus = gradient.chunk(2, dim=-1)
        found = torch.empty(vectors.shape, dtype=vectors.dtype, device=vectors.device)
        for end, (given, factor, total) in enumerate(((plus - minus, self.matrix, self.plain),
                                                      ((plus + minus).neg_(), self.size, self.sized))):
            total.addmm_(vectors[..., end, :].flatten(0, -2).mT, given.flatten(0, -2))
            found[..., end, :] = given @ factor.mT
        return found

    def of_matrix(self) -> Tensor:
        return torch.addcmul(self.plain, self.sized, self.matrix.sgn())
