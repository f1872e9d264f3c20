"""The row lemma and φ as functions of tensors, with their gradients."""

from typing import Any

import torch
from torch import Tensor

from certgcl.bounds.compiled.kernels import pair_minima, row_lemma
from certgcl.bounds.compiled.kernels.numerics import Array
from certgcl.bounds.compiled.kernels.pair_minima import Neighbours, Values, VisitArrays
from certgcl.bounds.compiled.lemma_arrays import Lemma
from certgcl.bounds.compiled.threads import share
from certgcl.bounds.compiled.workspace import Workspace, fresh


def flat(values: Tensor) -> Array:
    """The numbers of a tensor as a flat list."""
    return values.detach().contiguous().view(-1).numpy()


def shaped(values: Tensor) -> Array:
    return values.detach().contiguous().numpy()


def zeros(like: Tensor) -> Tensor:
    return torch.zeros_like(like, memory_format=torch.contiguous_format)


def _flat_or_empty(values: Tensor | None, like: Tensor) -> Array:
    return flat(like.new_empty(0) if values is None else values)


def row_minima(
    lemma: Lemma, values: Tensor, own: Tensor, squared: Tensor | None = None, following: bool = False
) -> Tensor:
    """The row lemma, see :func:`certgcl.bounds.two_layer.row_lemma.case_minima`; ``(1 or 2, cells, cell)``.

    Args:
        values, own, squared: tables of cells, ``(..., cell)``.
    """
    result: Tensor = _RowMinima.apply(lemma, following, values, own, squared)  # type: ignore[no-untyped-call]
    return result


class _RowMinima(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, lemma: Lemma, following: bool, values: Tensor, own: Tensor, squared: Tensor | None) -> Tensor:
        cell, wanted = values.shape[-1], any(ctx.needs_input_grad)
        least = fresh(values, 2 if following else 1, lemma.cells * cell)
        where = [torch.empty_like(least) if wanted else least.new_empty(0, 0) for _ in range(2)]
        out = [part.numpy() for part in (least, *where)]
        tables = [_flat_or_empty(table, values) for table in (values, own, squared)]
        for terms in lemma.terms:
            share(row_lemma.minima, lemma.size * cell, lemma.rows, terms, cell, *tables, *out)
        ctx.save_for_backward(values, own, squared, *where)
        ctx.lemma = lemma
        return least.unflatten(1, (lemma.cells, cell))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        values, own, squared, *where = ctx.saved_tensors
        lemma, cell = ctx.lemma, values.shape[-1]
        found = [None if table is None else zeros(table) for table in (values, own, squared)]
        given = [part.numpy() for part in (*where, gradient.flatten(1).contiguous())]
        out = [_flat_or_empty(table, values) for table in found]
        for terms in lemma.terms:
            share(row_lemma.gradients, lemma.size * cell, lemma.rows, terms, cell, flat(values), *given, *out)
        return None, None, *found


def pair_values(visits: VisitArrays, rows: Neighbours, rules: int, *tables: Tensor, workspace: Workspace) -> Tensor:
    """φ of every visit, ``(V, rules M)``, from the tables of :class:`Values`."""
    phi = workspace("phi", tables[0], len(visits.row), tables[-1].shape[-1])
    result: Tensor = _PairMinima.apply(visits, rows, rules, [phi], *tables)  # type: ignore[no-untyped-call]
    return result


class _PairMinima(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, visits: VisitArrays, rows: Neighbours, rules: int, out: list[Tensor], *tables: Tensor
    ) -> Tensor:
        (phi,) = out
        share(
            pair_minima.minima,
            phi.numel(),
            visits,
            rows,
            Values(*map(flat, tables)),
            rules,
            phi.shape[1] // rules,
            flat(phi),
        )
        ctx.save_for_backward(*tables)
        # If two tables are the same object, their gradients are added up in one place.
        ctx.first = [next(place for place, other in enumerate(tables) if other is table) for table in tables]
        ctx.given = visits, rows, rules
        return phi

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        tables, (visits, rows, rules) = ctx.saved_tensors, ctx.given
        found = [zeros(table) if ctx.first[place] == place else None for place, table in enumerate(tables)]
        out = Values(*(flat(found[place]) for place in ctx.first))
        share(
            pair_minima.gradients,
            gradient.numel(),
            visits,
            rows,
            Values(*map(flat, tables)),
            rules,
            gradient.shape[-1] // rules,
            flat(gradient),
            out,
        )
        return None, None, None, None, *found
