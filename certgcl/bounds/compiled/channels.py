"""Functionals that all anchors share as functions of tensors, with their gradients."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from certgcl.bounds.compiled.flat_tables import FlatTables
from certgcl.bounds.compiled.kernels import channel_products, slot_products
from certgcl.bounds.compiled.kernels.channel_products import Bounds, ChannelValues
from certgcl.bounds.compiled.lemma_arrays import array
from certgcl.bounds.compiled.lines import LineTable, numbered
from certgcl.bounds.compiled.minima import shaped, zeros
from certgcl.bounds.compiled.threads import share
from certgcl.bounds.compiled.workspace import Workspace
from certgcl.bounds.two_layer.layer1 import Layer1
from certgcl.models.activations import SlopeRule


def channel_values(
    flat: FlatTables, rules: Sequence[SlopeRule], matrix: Tensor, layer1: Layer1, workspace: Workspace
) -> tuple[Tensor, ...]:
    """Functionals of the columns of a matrix ``(d1, m)`` and of their negatives: intervals, ``e_j`` and ``C_jj`` for
    all lines, and ``C_jk`` for all slots; ``(..., 2 m)``, the rules side by side."""
    weights, number = layer1.weights, len(rules)
    lines, places, width = len(layer1.lower), int(flat.leaf_start[-1]), 2 * matrix.shape[1]
    tables = [
        workspace(name, matrix, size, each, width)
        for name, size, each in (
            ("interval", lines, 1),
            ("constant", lines, number),
            ("own", lines, number),
            ("leaves", places, number),
        )
    ]
    found: tuple[Tensor, ...] = _ChannelValues.apply(  # type: ignore[no-untyped-call]
        flat, rules, tables, matrix, layer1.projected, layer1.lower, layer1.upper, weights.b1, weights.slope1
    )
    return found


class _ChannelValues(torch.autograd.Function):
    """``± v M - r |M|`` for vectors v and radii r: for ranges and constants, and for slopes times features. They are
    recomputed for the gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        flat: FlatTables,
        rules: Sequence[SlopeRule],
        tables: Sequence[Tensor],
        matrix: Tensor,
        projected: Tensor,
        *given: Tensor,
    ) -> tuple[Tensor, ...]:
        columns = matrix.T.contiguous()
        lower, upper, bias, gamma = map(shaped, given)
        bounds = Bounds(lower, upper, bias, gamma, numbered(rules))
        share(
            channel_products.products,
            tables[-1].numel() * len(matrix),
            flat.lined_rows,
            bounds,
            *map(shaped, (projected, columns, columns.abs())),
            ChannelValues(*map(shaped, tables)),
        )
        ctx.save_for_backward(matrix, projected, *given)
        ctx.rest = flat, rules
        return tuple(values.flatten(1) for values in tables)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        matrix, projected, *given = ctx.saved_tensors
        flat, rules = ctx.rest
        table, number = LineTable(rules, *given), len(rules)
        interval, constant, own, leaves = (values.unflatten(1, (-1, 2 * matrix.shape[1])) for values in gradients)
        products = _SignedGradient(matrix)
        to_projected = zeros(projected)
        width = len(matrix)
        for span, here in zip(flat.spans(width), flat.channel_slots(width), strict=True):
            parts = torch.from_numpy(table.at(span.lines))
            to_parts = torch.empty_like(parts)
            ranges = parts[:, : 2 + 2 * number].unflatten(1, (2, 1 + number)).transpose(1, 2)
            found = products(ranges, torch.cat([interval[span.lines], constant[span.lines]], dim=1))
            to_parts[:, : 2 + 2 * number] = found.transpose(1, 2).flatten(1, 2)
            for rule in range(number):
                to_own, to_leaves = own[span.lines, rule], leaves[here.leaves, rule]
                # Those with zero gradient do not attain any minimum.
                lines, leaf = (towards.any(dim=1).nonzero()[:, 0] for towards in (to_own, to_leaves))
                rows = torch.cat([lines, len(to_own) + leaf])
                slots = [array(part[rows]) for part in (here.line, here.target)]
                slopes = shaped(parts[:, 2 + 2 * number + rule :: number])  # middles and radii, (lines, 2, d1)
                vectors = parts.new_empty(len(slots[0]), 2, parts.shape[2])
                share(slot_products.products, vectors.numel(), *slots, slopes, *map(shaped, (projected, vectors)))
                to_vectors = products(vectors, torch.cat([to_own[lines], to_leaves[leaf]]))
                to_slopes = parts.new_zeros(len(parts), 2, parts.shape[2])
                share(
                    slot_products.gradients,
                    vectors.numel(),
                    *slots,
                    slopes,
                    *map(shaped, (projected, to_vectors, to_slopes, to_projected)),
                )
                to_parts[:, 2 + 2 * number + rule :: number] = to_slopes
            table.add_gradient(span.lines, shaped(to_parts))
        return None, None, None, products.of_matrix(), to_projected, *table.gradients


class _SignedGradient:
    """The gradients of ``v M - r |M|`` and ``-v M - r |M|`` side by side with respect to ``(..., 2, d1)``; that of the
    matrix is accumulated."""

    def __init__(self, matrix: Tensor) -> None:
        self.matrix, self.size = matrix, matrix.abs()
        self.plain, self.sized = torch.zeros_like(matrix), torch.zeros_like(matrix)

    def __call__(self, vectors: Tensor, gradient: Tensor) -> Tensor:
        plus, minus = gradient.chunk(2, dim=-1)
        found = torch.empty(vectors.shape, dtype=vectors.dtype, device=vectors.device)
        for end, (given, factor, total) in enumerate(
            ((plus - minus, self.matrix, self.plain), ((plus + minus).neg_(), self.size, self.sized))
        ):
            total.addmm_(vectors[..., end, :].flatten(0, -2).mT, given.flatten(0, -2))
            found[..., end, :] = given @ factor.mT
        return found

    def of_matrix(self) -> Tensor:
        return torch.addcmul(self.plain, self.sized, self.matrix.sgn())
