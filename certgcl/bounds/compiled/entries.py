"""Products of functionals at entries as functions of tensors, with their gradients."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from certgcl.bounds.compiled.kernels import entry_products, weight_products
from certgcl.bounds.compiled.kernels.entry_products import Entries, Met
from certgcl.bounds.compiled.kernels.weight_products import Weighted
from certgcl.bounds.compiled.lemma_arrays import array
from certgcl.bounds.compiled.minima import flat, shaped, zeros
from certgcl.bounds.compiled.threads import one_blas_thread, share

if TYPE_CHECKING:
    from certgcl.bounds.propagation.functionals import Slopes


def least_products(functional: Tensor, line: Tensor, omega: Tensor, middle: Tensor, radius: Tensor) -> Tensor:
    """The least ``ω · v`` over ranges, ``(E, rules M)``.

    Args:
        functional, line: of every entry.
        omega: ``(functionals, M, d)``.
        middle, radius: of ranges, by each rule, ``(lines, rules, d)``.
    """
    entries = Entries(array(functional), array(line))
    result: Tensor = _Least.apply(entries, omega, middle, radius)  # type: ignore[no-untyped-call]
    return result


def products_through(
    functional: Tensor,
    line: Tensor,
    start: Tensor,
    target: Tensor,
    omega: Tensor,
    slope: Tensor,
    spread: Tensor,
    values: Tensor,
) -> Tensor:
    """``(ω a - |ω| s) · y`` for the vectors y that entries meet, ``(targets, rules M)``.

    Args:
        start: where the targets of every entry begin, and the total.
        target: rows of ``values``.
    """
    entries, met = Entries(array(functional), array(line)), Met(array(start), array(target))
    result: Tensor = _Through.apply(entries, met, omega, slope, spread, values)  # type: ignore[no-untyped-call]
    return result


def back_through(
    functional: Tensor, line: Tensor, omega: Tensor, slope: Tensor, spread: Tensor, weight: Tensor
) -> Tensor:
    """``W (ω a - |ω| s)`` at every entry, ``(E, rules, M, inputs)``; without gradients.

    Args:
        functional, line, omega, slope, spread: as in :func:`products_through`.
        weight: ``(inputs, d)``.
    """
    entries, cell = Entries(array(functional), array(line)), slope.shape[1] * omega.shape[1]
    out, tables = omega.new_empty(len(line) * cell, len(weight)), (omega, slope, spread, weight.T)
    with one_blas_thread():
        share(entry_products.back, out.numel() * weight.shape[1], entries, *map(shaped, tables), shaped(out))
    return out.view(len(line), slope.shape[1], omega.shape[1], len(weight))


def weight_times(slopes: "Slopes", omega: Tensor, weight: Tensor) -> Tensor:
    """``W λ`` for ``λ = ± ω a - |ω| r`` at every entry, ``(E, rules, 2 m, inputs)``; without gradients.

    Args:
        slopes: a, r and which of them every entry has.
        omega: ``(m, outputs)``.
        weight: ``(inputs, outputs)``.
    """
    given = _weighted(slopes, omega, weight)
    out = omega.new_empty(len(slopes.line), slopes.middle.shape[1], 2 * len(omega), len(weight))
    with one_blas_thread():
        share(weight_products.back, out.numel() * weight.shape[1], given, shaped(out))
    return out


def least_below(
    slopes: "Slopes", omega: Tensor, weight: Tensor, start: Tensor, target: Tensor, middle: Tensor, radius: Tensor
) -> Tensor:
    """The least ``W λ · v`` over the ranges that entries meet, ``(targets, rules 2 m)``; without gradients.

    Args:
        start: where the targets of every entry begin, and the end.
        target: rows of the ranges' ``middle`` and ``radius``.
    """
    given = _weighted(slopes, omega, weight)
    out = omega.new_empty(len(target), slopes.middle.shape[1] * 2 * len(omega))
    work = len(slopes.line) * slopes.middle.shape[1] * weight.numel() * len(omega)
    with one_blas_thread():
        share(
            weight_products.least, work, given, array(start), array(target), shaped(middle), shaped(radius), shaped(out)
        )
    return out


def _weighted(slopes: "Slopes", omega: Tensor, weight: Tensor) -> Weighted:
    columns = omega.T.contiguous()
    tables = slopes.middle, slopes.radius, columns, columns.abs(), weight.T.contiguous()
    return Weighted(array(slopes.line), *map(shaped, tables))


class _Least(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, entries: Entries, omega: Tensor, middle: Tensor, radius: Tensor) -> Tensor:
        out = omega.new_empty(len(entries.line), middle.shape[1] * omega.shape[1])
        tables = omega, middle, radius
        share(entry_products.least, out.numel() * omega.shape[2], entries, *map(shaped, tables), shaped(out))
        ctx.save_for_backward(*tables)
        ctx.entries = entries
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        tables = ctx.saved_tensors
        found = [zeros(table) for table in tables]
        share(
            entry_products.least_gradients,
            gradient.numel() * tables[0].shape[2],
            ctx.entries,
            *map(shaped, (*tables, gradient, *found)),
        )
        return None, *found


class _Through(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, entries: Entries, met: Met, *tables: Tensor) -> Tensor:
        omega, slope, _, _ = tables
        out = omega.new_empty(len(met.target), slope.shape[1] * omega.shape[1])
        with one_blas_thread():
            share(entry_products.through, out.numel() * omega.shape[2], entries, met, *map(shaped, tables), flat(out))
        ctx.save_for_backward(*tables)
        ctx.given = entries, met
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        tables = ctx.saved_tensors
        found = [zeros(table) for table in tables]
        share(
            entry_products.through_gradients,
            gradient.numel() * tables[0].shape[2],
            *ctx.given,
            *map(shaped, tables),
            flat(gradient),
            *map(shaped, found),
        )
        return None, None, *found
