"""The kernels as functions of tensors, with their gradients."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from certgcl.bounds.compiled.kernels import line_products, pair_minima, row_lemma, slot_products
from certgcl.bounds.compiled.kernels.line_products import Entries, Products
from certgcl.bounds.compiled.kernels.numerics import Array
from certgcl.bounds.compiled.kernels.pair_minima import Neighbours, Values, Visits
from certgcl.bounds.compiled.layout import Lemma
from certgcl.bounds.compiled.threads import share

CHUNK = 1 << 11  # slots whose products are made at a time


def flat(values: Tensor) -> Array:
    """The numbers of a tensor as one list."""
    return values.detach().contiguous().view(-1).numpy()


def shaped(values: Tensor) -> Array:
    return values.detach().contiguous().numpy()


def row_minima(lemma: Lemma, values: Tensor, own: Tensor, squared: Tensor | None = None,
               following: bool = False) -> Tensor:
    """The row lemma, see :func:`certgcl.bounds.rows.case_minima`; ``(1 or 2, cells, cell)``.

    Args:
        values, own, squared: tables of cells, ``(..., cell)``.
    """
    result: Tensor = _RowMinima.apply(lemma, following, values, own, squared)  # type: ignore[no-untyped-call]
    return result


class _RowMinima(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, lemma: Lemma, following: bool, values: Tensor, own: Tensor,
                squared: Tensor | None) -> Tensor:
        cell, wanted = values.shape[-1], any(ctx.needs_input_grad)
        least = values.new_empty(2 if following else 1, lemma.cells * cell)
        where = [torch.empty_like(least) if wanted else least.new_empty(0, 0) for _ in range(2)]
        out = [part.numpy() for part in (least, *where)]
        tables = [np.empty(0, least.numpy().dtype) if table is None else flat(table) for table in (values, own, squared)]
        for terms in lemma.terms:
            share(row_lemma.minima, lemma.size * cell, lemma.rows, terms, cell, *tables, *out)
        ctx.save_for_backward(values, own, squared, *where)
        ctx.lemma = lemma
        return least.unflatten(1, (lemma.cells, cell))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        values, own, squared, *where = ctx.saved_tensors
        lemma, cell = ctx.lemma, values.shape[-1]
        found = [None if table is None else torch.zeros_like(table, memory_format=torch.contiguous_format)
                 for table in (values, own, squared)]
        given = [part.numpy() for part in (*where, gradient.flatten(1).contiguous())]
        out = [np.empty(0, given[0].dtype) if table is None else flat(table) for table in found]
        for terms in lemma.terms:
            share(row_lemma.gradients, lemma.size * cell, lemma.rows, terms, cell, flat(values), *given, *out)
        return None, None, *found


def pair_values(visits: Visits, rows: Neighbours, rules: int, *tables: Tensor) -> Tensor:
    """φ of every visit, ``(V, rules M)``, from the tables of :class:`Values`."""
    result: Tensor = _PairMinima.apply(visits, rows, rules, *tables)  # type: ignore[no-untyped-call]
    return result


class _PairMinima(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, visits: Visits, rows: Neighbours, rules: int, *tables: Tensor) -> Tensor:
        cell = tables[-1].shape[-1]
        phi = tables[0].new_empty(len(visits.row), cell)
        share(pair_minima.minima, phi.numel(), visits, rows, Values(*map(flat, tables)), rules, cell // rules,
              flat(phi))
        ctx.save_for_backward(*tables)
        ctx.given = visits, rows, rules
        return phi

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        tables, (visits, rows, rules) = ctx.saved_tensors, ctx.given
        found = [torch.zeros_like(table, memory_format=torch.contiguous_format) for table in tables]
        share(pair_minima.gradients, gradient.numel(), visits, rows, Values(*map(flat, tables)), rules,
              gradient.shape[-1] // rules, flat(gradient), Values(*map(flat, found)))
        return None, None, None, *found


def products_at_entries(entries: Entries, cells: int, omega: Tensor, lines: Tensor,
                        features: Tensor) -> tuple[Tensor, ...]:
    """``C`` of all slots in so many cells, and of the rows themselves, the constants, and the intervals.

    Args:
        omega: ``(functionals, M, d1)``.
        lines: ``(lines, parts, d1)``.
        features: ``(targets, d1)``.
    """
    found: tuple[Tensor, ...] = _LineProducts.apply(entries, cells, omega, lines, features)  # type: ignore[no-untyped-call]
    return found


class _LineProducts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, entries: Entries, cells: int, omega: Tensor, lines: Tensor,
                features: Tensor) -> tuple[Tensor, ...]:
        number, rules = omega.shape[1], (lines.shape[1] - 2) // 4
        each = len(entries.line)
        out = [omega.new_empty(size, width) for size, width in
               ((cells, rules * number), (each, rules * number), (each, rules * number), (each, number))]
        share(line_products.products, cells * rules * number * omega.shape[2], entries,
              *map(shaped, (omega, lines, features)), Products(*map(flat, out)))
        ctx.save_for_backward(omega, lines, features)
        ctx.entries = entries
        return tuple(out)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        given, entries = ctx.saved_tensors, ctx.entries
        found = [torch.zeros_like(table, memory_format=torch.contiguous_format) for table in given]
        share(line_products.gradients, gradients[0].numel() * given[0].shape[2], entries, *map(shaped, given),
              Products(*map(flat, gradients)), *map(shaped, found))
        return None, None, *found


def channel_products(line: Tensor, target: Tensor, slopes: Tensor, features: Tensor, matrix: Tensor) -> Tensor:
    """``C`` of slots for the columns of a matrix and their negatives, ``(S, 2 m)``.

    Args:
        line, target: whose slopes and features meet in every slot.
        slopes: middles and radii, ``(lines, 2, d1)``.
        matrix: ``(d1, m)``.
    """
    result: Tensor = _ChannelProducts.apply(line, target, slopes, features, matrix)  # type: ignore[no-untyped-call]
    return result


class _ChannelProducts(torch.autograd.Function):
    """``± (a y) M - (r y) |M|``, some slots at a time, which are made again for the gradient."""

    @staticmethod
    def forward(ctx: Any, line: Tensor, target: Tensor, slopes: Tensor, features: Tensor, matrix: Tensor) -> Tensor:
        out = matrix.new_empty(len(line), 2, matrix.shape[1])
        size = matrix.abs()
        for part in range(0, len(line), CHUNK):
            here = slice(part, part + CHUNK)
            middle, radius = _ChannelProducts._at(line[here], target[here], slopes, features).unbind(dim=1)
            middle, radius = middle @ matrix, radius @ size
            torch.sub(middle, radius, out=out[here, 0])
            torch.add(middle, radius, out=out[here, 1]).neg_()
        ctx.save_for_backward(line, target, slopes, features, matrix)
        return out.flatten(1)

    @staticmethod
    def _at(line: Tensor, target: Tensor, slopes: Tensor, features: Tensor) -> Tensor:
        out = features.new_empty(len(line), 2, features.shape[1])
        share(slot_products.products, out.numel(), *map(shaped, (line, target, slopes, features, out)))
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        line, target, slopes, features, matrix = ctx.saved_tensors
        of_slopes, of_features, of_matrix, of_size = (torch.zeros_like(given, memory_format=torch.contiguous_format)
                                                      for given in (slopes, features, matrix, matrix))
        size = matrix.abs()
        for part in range(0, len(line), CHUNK):
            here = slice(part, part + CHUNK)
            plus, minus = gradient[here].unflatten(1, (2, -1)).unbind(dim=1)
            ends = plus - minus, (plus + minus).neg_()
            vectors = _ChannelProducts._at(line[here], target[here], slopes, features)
            of_vectors = torch.empty_like(vectors)
            for end, (of_end, factor, of_factor) in enumerate(zip(ends, (matrix, size), (of_matrix, of_size),
                                                                  strict=True)):
                of_factor.addmm_(vectors[:, end].mT, of_end)
                torch.mm(of_end, factor.mT, out=of_vectors[:, end])
            share(slot_products.gradients, vectors.numel(), *map(shaped, (
                line[here], target[here], slopes, features, of_vectors, of_slopes, of_features)))
        return None, None, of_slopes, of_features, of_matrix.addcmul_(of_size, matrix.sgn())
