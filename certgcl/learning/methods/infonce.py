"""InfoNCE with all negatives, in memory that grows with the number of nodes, not with its square.

With unit rows ``p, q`` of the two views, ``E = exp(s / τ)`` of the similarities ``s`` and weights ``w`` of the
negatives (1 by default), the loss of an anchor and its log-denominators are

    ℓ_i  = (log D_i + log D'_i) / 2 - s_pq(i,i) / τ
    D_i  = E_pq(i,i) + Σ_{j≠i} w_pq(i,j) E_pq(i,j) + Σ_{j≠i} w_pp(i,j) E_pp(i,j)      anchors in p
    D'_i = the same with p and q exchanged                                          anchors in q

Both directions share ``s_pq``, and the similarities within a view are symmetric: three products forward and four
backward instead of the twelve of two separate losses. Large graphs are processed in chunks of rows that are recomputed
for the gradient.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from certgcl.arguments import real

KEPT = 1 << 25  # pairs of nodes up to which the exponentials are kept for the gradient
CHUNK = 1 << 20  # pairs of nodes processed at a time: as many as fit in the cache
LEAST_MEAN = 1e-6  # a row's mean weight counts as at least this much, so that rows of (almost) no weight stay finite

Weighting = Callable[[Tensor], Tensor]
"""Elementwise ``f(s)`` of similarities; a negative's weight is f(s) over its mean in the row. No gradient."""


def info_nce(
    p: Tensor, q: Tensor, temperature: float, *, intra: bool = True, weighting: Weighting | None = None
) -> Tensor:
    """The loss of every node, ``(N,)``, the mean of both directions.

    Args:
        p, q: the embeddings to compare, ``(N, d)``; rows are normalised here.
        temperature: τ.
        intra: whether the other nodes of the anchor's own view are negatives too.
        weighting: of the negatives.
    """
    check_temperature(temperature)
    p, q = functional.normalize(p), functional.normalize(q)
    first, second = log_denominators(p, q, temperature, intra=intra, weighting=weighting)
    return (first + second) / 2 - (p * q).sum(dim=1) / temperature


def log_denominators(
    p: Tensor, q: Tensor, temperature: float, *, intra: bool = True, weighting: Weighting | None = None
) -> tuple[Tensor, Tensor]:
    """``log D`` and ``log D'`` for unit rows."""
    first, second = _LogDenominators.apply(p, q, _Form(temperature, intra, weighting))  # type: ignore[no-untyped-call]
    return first, second


def check_temperature(temperature: float) -> float:
    """Exponentials are taken of ``(s - 1) / τ``, which lies in [-2/τ, 0]: none is zero in float32 from 0.024 on."""
    return real(
        temperature,
        "temperature",
        lambda given: 0.024 <= given < float("inf"),
        "exponentials of similarities must not underflow: a finite number of at least 0.024",
        "The methods use 0.05 to 0.9",
    )


@dataclass(frozen=True)
class _Form:
    temperature: float
    intra: bool
    weighting: Weighting | None


class _LogDenominators(torch.autograd.Function):
    """``∂ log D_i / ∂ s = a_i F / (τ D_i)``, F the weighted exponentials and ``a_i`` one over the row's mean weight."""

    @staticmethod
    def forward(ctx: Any, p: Tensor, q: Tensor, form: _Form) -> tuple[Tensor, Tensor]:
        pairs = [(p, q), (p, p), (q, q)] if form.intra else [(p, q)]
        sums = [_Sums.of(*pair, form, keep=len(p) ** 2 <= KEPT) for pair in pairs]
        positive = _positive(p, q, form)
        first, second = positive + sums[0].row, positive + sums[0].column
        if form.intra:
            first, second = first + sums[1].row, second + sums[2].row
        ctx.save_for_backward(p, q, first, second)
        ctx.form, ctx.sums = form, sums
        return first.log() + 1 / form.temperature, second.log() + 1 / form.temperature

    @staticmethod
    def backward(ctx: Any, to_first: Tensor, to_second: Tensor) -> tuple[Tensor, Tensor, None]:
        p, q, first, second = ctx.saved_tensors
        form: _Form = ctx.form
        sums: list[_Sums] = ctx.sums
        first, second = to_first / (form.temperature * first), to_second / (form.temperature * second)
        positive = (_positive(p, q, form) * (first + second))[:, None]
        gradients = positive * q, positive * p
        by_row, by_column = first * sums[0].row_scale, second * sums[0].column_scale
        for rows, values in sums[0].again(p, q, form):
            reach = (by_row[rows, None] + by_column).mul_(values)
            gradients[0][rows] += reach @ q
            gradients[1].addmm_(reach.T, p[rows])
        for view, weight, gradient, within in zip((p, q), (first, second), gradients, sums[1:], strict=False):
            weight = weight * within.row_scale
            for rows, values in within.again(view, view, form):  # a symmetric matrix, so one product serves both ends
                gradient[rows] += (weight[rows, None] + weight).mul_(values) @ view
        return *gradients, None


def _positive(p: Tensor, q: Tensor, form: _Form) -> Tensor:
    return (((p * q).sum(dim=1) - 1) / form.temperature).exp()


@dataclass(frozen=True)
class _Sums:
    """The sums of the negatives' terms over rows and over columns, and the factors that give their weights mean 1."""

    row: Tensor
    column: Tensor
    row_scale: Tensor
    column_scale: Tensor
    kept: list[tuple[slice, Tensor]] | None

    @classmethod
    def of(cls, p: Tensor, q: Tensor, form: _Form, keep: bool) -> "_Sums":
        n = len(p)
        row, column, row_weight, column_weight = p.new_zeros(4, n)
        kept: list[tuple[slice, Tensor]] = []
        for rows, values, weights in _chunks(p, q, form):
            row[rows] = values.sum(dim=1)
            column += values.sum(dim=0)
            if weights is not None:
                row_weight[rows] = weights.sum(dim=1)
                column_weight += weights.sum(dim=0)
            if keep:
                kept.append((rows, values))
        scales = [
            p.new_ones(n) if form.weighting is None else 1 / (weight / (n - 1)).clamp(min=LEAST_MEAN)
            for weight in (row_weight, column_weight)
        ]
        return cls(row * scales[0], column * scales[1], scales[0], scales[1], kept if keep else None)

    def again(self, p: Tensor, q: Tensor, form: _Form) -> Iterator[tuple[slice, Tensor]]:
        """The terms, from memory or recomputed."""
        if self.kept is not None:
            yield from self.kept
        else:
            for rows, values, _ in _chunks(p, q, form):
                yield rows, values


def _chunks(p: Tensor, q: Tensor, form: _Form) -> Iterator[tuple[slice, Tensor, Tensor | None]]:
    """Some rows, their ``f(s) exp((s - 1) / τ)`` against all, zero on the diagonal, and ``f(s)``, likewise."""
    n = len(p)
    step = max(1, CHUNK // n)
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        values = p[rows] @ q.T
        weights = None if form.weighting is None else form.weighting(values)
        values.sub_(1).mul_(1 / form.temperature).exp_()
        if weights is not None:
            weights.diagonal(start).zero_()
            values.mul_(weights)
        values.diagonal(start).zero_()
        yield rows, values, weights
