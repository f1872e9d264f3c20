"""Functionals through the lines of layer 1 as functions of tensors, with their gradients."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from certgcl.bounds.compiled.flat_tables import MAX_LINE_VALUES, LineSpan
from certgcl.bounds.compiled.kernels import line_parts, line_products
from certgcl.bounds.compiled.kernels import output_lines as output_lines_kernels
from certgcl.bounds.compiled.kernels.line_products import Products, RowEntries
from certgcl.bounds.compiled.kernels.numerics import Array
from certgcl.bounds.compiled.minima import flat, shaped, zeros
from certgcl.bounds.compiled.threads import share
from certgcl.bounds.two_layer.layer1 import Layer1
from certgcl.models.activations import SlopeRule

RULES: dict[SlopeRule, int] = {
    "parallel": line_parts.PARALLEL,
    "adaptive": line_parts.ADAPTIVE,
    "flat": line_parts.FLAT,
}


def numbered(rules: Sequence[SlopeRule]) -> Array:
    """The numbers by which kernels know the rules."""
    return np.array([RULES[rule] for rule in rules])


class LineTable:
    """The lines of layer 1, computed from bounds, bias and γ where they are used; with their gradients."""

    def __init__(self, rules: Sequence[SlopeRule], *given: Tensor) -> None:
        self.rules, self.given = numbered(rules), [shaped(value) for value in given]
        self.gradients: list[Tensor] = []

    def at(self, lines: slice) -> Array:
        """``(lines, parts, d1)``."""
        lower, upper, bias, slope = self.given
        here = lower[lines]
        out = np.empty((len(here), 2 + 4 * len(self.rules), here.shape[1]), here.dtype)
        line_parts.parts_of(here, upper[lines], bias, slope, self.rules, out)
        return out

    def add_gradient(self, lines: slice, gradient: Array) -> None:
        """Add the gradient of some lines to those of the tensors that they depend on."""
        if not self.gradients:
            self.gradients = [torch.zeros(value.shape, dtype=torch.as_tensor(value).dtype) for value in self.given]
        lower, upper, bias, slope = self.given
        of_lower, of_upper, of_bias, of_slope = map(shaped, self.gradients)
        line_parts.gradients(
            lower[lines],
            upper[lines],
            bias,
            slope,
            self.rules,
            gradient,
            of_lower[lines],
            of_upper[lines],
            of_bias,
            of_slope,
        )


def output_lines(
    rules: Sequence[SlopeRule], directions: Tensor, lower: Tensor, upper: Tensor, bias: Tensor, slope: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Bounds of ``w · σ(p)`` for ``l <= p <= u``: the interval value, ``(F, C)``, and for the lines below it by each
    rule the constants, ``(F, rules, C)``, and the slopes, ``(F, rules, C, d2)``."""
    interval, constant, slopes = _OutputLines.apply(  # type: ignore[no-untyped-call]
        rules, directions, lower, upper, bias, slope
    )
    return interval, constant, slopes


class _OutputLines(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rules: Sequence[SlopeRule], directions: Tensor, *given: Tensor) -> tuple[Tensor, ...]:
        number, count, width = directions.shape
        out = [
            directions.new_empty(number, *shape)
            for shape in ((count,), (len(rules), count), (len(rules), count, width))
        ]
        table, vectors, found = LineTable(rules, *given), shaped(directions), [shaped(part) for part in out]
        for here in row_slices(number, width):
            share(
                output_lines_kernels.lines_below,
                len(rules) * vectors[here].size,
                vectors[here],
                table.at(here),
                *(part[here] for part in found),
            )
        ctx.save_for_backward(directions, *given)
        ctx.rules = rules
        return tuple(out)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        directions, *given = ctx.saved_tensors
        table, found = LineTable(ctx.rules, *given), torch.zeros(directions.shape, dtype=directions.dtype)
        vectors, of_vectors, *parts = map(shaped, (directions, found, *gradients))
        for here in row_slices(len(directions), directions.shape[2]):
            lines = table.at(here)
            of_lines = np.zeros_like(lines)
            share(
                output_lines_kernels.gradients,
                len(ctx.rules) * vectors[here].size,
                vectors[here],
                lines,
                *(part[here] for part in parts),
                of_vectors[here],
                of_lines,
            )
            table.add_gradient(here, of_lines)
        return None, found, *table.gradients


def row_slices(rows: int, width: int) -> list[slice]:
    """Rows whose lines are computed together."""
    step = max(1, MAX_LINE_VALUES // width)
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]


def products_at_entries(
    spans: Sequence[LineSpan],
    entries: Sequence[tuple[RowEntries, int]],
    rules: Sequence[SlopeRule],
    omega: Tensor,
    layer1: Layer1,
) -> list[tuple[Tensor, ...]]:
    """For each set of entries, given with its number of cells: ``C`` at all slots and at the rows themselves, the
    constants, and the intervals.

    Args:
        omega: ``(functionals, M, d1)``.
    """
    weights = layer1.weights
    found = _LineProducts.apply(
        spans,
        entries,
        rules,
        omega,
        layer1.projected,
        layer1.lower,  # type: ignore[no-untyped-call]
        layer1.upper,
        weights.b1,
        weights.slope1,
    )
    return [found[start : start + 4] for start in range(0, len(found), 4)]


class _LineProducts(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        spans: Sequence[LineSpan],
        entries: Sequence[tuple[RowEntries, int]],
        rules: Sequence[SlopeRule],
        omega: Tensor,
        projected: Tensor,
        *given: Tensor,
    ) -> tuple[Tensor, ...]:
        table, number = LineTable(rules, *given), omega.shape[1]
        cell, out = len(rules) * number, []
        for some, cells in entries:
            each = len(some.line)
            out.append(
                [
                    omega.new_empty(size, width)
                    for size, width in ((cells, cell), (each, cell), (each, cell), (each, number))
                ]
            )
        vectors, features, found = shaped(omega), shaped(projected), [Products(*map(flat, part)) for part in out]
        for span in spans:
            lines = table.at(span.lines)
            for results, (some, _) in zip(found, entries, strict=True):
                share(
                    line_products.products,
                    _work(some, span, omega),
                    span.rows.start,
                    span.rows.stop,
                    some,
                    vectors,
                    span.lines.start,
                    lines,
                    features,
                    results,
                )
        ctx.save_for_backward(omega, projected, *given)
        ctx.rest = spans, entries, rules
        return tuple(part for results in out for part in results)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        omega, projected, *given = ctx.saved_tensors
        spans, entries, rules = ctx.rest
        table = LineTable(rules, *given)
        to_omega, to_projected = zeros(omega), zeros(projected)
        parts = [Products(*map(flat, gradients[start : start + 4])) for start in range(0, len(gradients), 4)]
        vectors, features, of_vectors, of_features = map(shaped, (omega, projected, to_omega, to_projected))
        for span in spans:
            lines = table.at(span.lines)
            to_lines = np.zeros_like(lines)
            for part, (some, _) in zip(parts, entries, strict=True):
                share(
                    line_products.gradients,
                    _work(some, span, omega),
                    span.rows.start,
                    span.rows.stop,
                    some,
                    vectors,
                    span.lines.start,
                    lines,
                    features,
                    part,
                    of_vectors,
                    to_lines,
                    of_features,
                )
            table.add_gradient(span.lines, to_lines)
        return None, None, None, to_omega, to_projected, *table.gradients


def _work(entries: RowEntries, span: LineSpan, omega: Tensor) -> int:
    """About the number of products."""
    slots = entries.slot[span.rows.stop] - entries.slot[span.rows.start]
    return int(slots) * omega[0].numel()
