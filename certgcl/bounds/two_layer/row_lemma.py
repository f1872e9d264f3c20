"""The row lemma: the least value of one row of the GCN matrix, exact in the row's own degree."""

from functools import partial, reduce
from typing import Any, NamedTuple

import torch
from torch import Tensor

from certgcl.bounds.two_layer.blocks import Block, Count
from certgcl.bounds.two_layer.sorted_row import Minimum, candidates_of, sorted_row


def least_terms(block: Block, values: Tensor) -> Tensor:
    """``g_k``, the least ``s_k v_k`` for values ``v_k``, ``(R, K, ...)``; zero where padded."""
    return block.neighbours.at(..., *(None,) * (values.dim() - 2)).least(values)


class Terms(NamedTuple):
    """One way to bound the neighbours' terms: ``g_k <= s_k v_k`` one by one; or with a ``gain``, ``Σ_{kept} s_k v_k >=
    Σ_{kept} g_k - gain_t`` for all of them together when the row loses t edges, ``(R, most + 1, ...)``."""

    least: Tensor
    gain: Tensor | None = None


def ways_to_bound(block: Block, values: Tensor) -> list[Terms]:
    """The terms of values ``v_k``, ``(R, K, ...)``: with every scale at its worst; and, if the total budget is a limit,
    with unchanged scales, minus what so few drops can gain.

    ``s(r)`` is convex, so r of at most m drops gain at most ``r/m`` of what m drops gain.
    """
    ways = [Terms(least_terms(block, values))]
    if block.units is not None:
        more = (..., *(None,) * (values.dim() - 2))
        clean = block.neighbours.low[more] * values
        ways.append(Terms(clean, largest_gain(block, (clean - ways[0].least) / block.capacity.clamp(min=1)[more])))
    return ways


def largest_gain(block: Block, density: Tensor) -> Tensor:
    """The most that the remaining drops can gain in all, ``max Σ_k x_k ρ_k`` with ``0 <= x_k <= capacity`` and
    ``Σ_k x_k <= units_t``: a fractional knapsack, filled in order of density; ``(R, most + 1, ...)``."""
    assert block.units is not None
    densest, place = density.topk(min(block.size, max(1, int(block.units.max()))), dim=1)
    more = (..., *(None,) * (density.dim() - 2))
    capacity = block.capacity[more].expand_as(density).gather(1, place)
    before = capacity.cumsum(dim=1) - capacity
    return torch.stack(
        [
            ((units[:, None][more] - before).clamp(min=0).minimum(capacity) * densest).sum(dim=1)
            for units in block.units.unbind(dim=1)
        ],
        dim=1,
    )


def case_minima(
    block: Block,
    terms: Tensor,
    own: Tensor,
    own_squared: Tensor | None = None,
    following: bool = False,
    gain: Tensor | None = None,
) -> list[Tensor]:
    """The row lemma: a lower bound of ``s (s (own + s² own_squared) + Σ_{kept k} s_k v_k)`` in every case of every row.

        min_{t in the case}  s(t) ( s(t) (own + s(t)² own_squared) + Σ_k g_k - top_t - gain_t )

    Sound because with t edges lost exactly t droppable neighbours are gone, s is ``s(t)``, the kept terms are at least
    ``g_k`` (less the gain), and removing t of them lowers the sum by at most ``top_t``. Cost: one partial sort of every
    row.

    Args:
        terms: ``g_k``, ``(R, K, I, T, M)``, zero where padded; or with 1 instead of T for all cases.
        own, own_squared: ``(R, I, T, M)``, or both with 1 instead of T.
        following: also compute the same with ``top_(t+1)`` instead of ``top_t``.
        gain: ``(R, most + 1, I, T or 1, M)``; zero by default.

    Returns:
        ``(R, I, T, M)``, once or twice.
    """
    given = terms, own, own_squared
    if gain is None and torch.is_grad_enabled() and any(value is not None and value.requires_grad for value in given):
        return list(_RowLemma.apply(block, following, *given))  # type: ignore[no-untyped-call]
    return [minimum.value for minimum in _minima(block, following, *given, where=False, gain=gain)]


def _minima(
    block: Block,
    following: bool,
    terms: Tensor,
    own: Tensor,
    own_squared: Tensor | None,
    where: bool,
    gain: Tensor | None = None,
) -> list[Minimum]:
    """The minima with ``top_t`` and, if wanted, with ``top_(t+1)``."""
    shifts = (0, 1) if following else (0,)
    shared = sorted_row(block, terms[..., 0, :], block.most + shifts[-1]) if terms.shape[-2] == 1 else None
    found: list[list[Minimum]] = [[] for _ in shifts]
    for case, counts in enumerate(block.counts):
        row = shared or sorted_row(block, terms[..., case, :], counts.numbers[-1] + shifts[-1])
        value = partial(
            _value,
            _of_case(own, case),
            None if own_squared is None else _of_case(own_squared, case),
            None if gain is None else _of_case(gain, case),
        )
        for minima, shift in zip(found, shifts, strict=True):
            minima.append(row.minimum(counts, shift, value, where))
    return [
        Minimum(
            *(
                parts[0][:, :, None] if len(parts) == 1 else torch.stack(parts, dim=2)
                for parts in zip(*minima, strict=True)
                if parts[0] is not None
            )
        )
        for minima in found
    ]


def _of_case(values: Tensor, case: int) -> Tensor:
    """Values ``(..., T or 1, M)`` in one case."""
    return values.select(-2, min(case, values.shape[-2] - 1))


def _value(own: Tensor, own_squared: Tensor | None, gain: Tensor | None, count: Count, remaining: Tensor) -> Tensor:
    """``s(t) ( s(t) (own + s(t)² own_squared) + Σ_k g_k - top_t - gain_t )``, infinite where t is not in the case."""
    if remaining.dim() > own.dim():  # several counts
        own, own_squared = own[:, None], None if own_squared is None else own_squared[:, None]
    if own_squared is not None:
        own = torch.addcmul(own, own_squared, count.square)
    value = torch.addcmul(
        own * count.square, remaining if gain is None else remaining - gain[:, count.number], count.scale
    )
    return value if count.outside is None else value.add_(count.outside)


class _RowLemma(torch.autograd.Function):
    """The lemma with the gradient of its minimiser: ``s(t)`` at the terms that are kept there.

    Terms that tie with the smallest dropped one share the remaining drops evenly.
    """

    @staticmethod
    def forward(
        ctx: Any, block: Block, following: bool, terms: Tensor, own: Tensor, own_squared: Tensor | None
    ) -> tuple[Tensor, ...]:
        minima = _minima(block, following, terms, own, own_squared, where=True)
        ctx.block, ctx.squared, ctx.own_shape = block, own_squared is not None, own.shape
        ctx.save_for_backward(terms, *(part for minimum in minima for part in minimum[1:]))
        return tuple(minimum.value for minimum in minima)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        block: Block = ctx.block
        terms, *places = ctx.saved_tensors
        of_terms: list[Tensor] = []
        of_own: list[Tensor] = []
        of_squared: list[Tensor] = []
        for shift, gradient in enumerate(gradients):
            count, dropped = places[2 * shift : 2 * shift + 2]
            lost = (count - shift).minimum(block.cases.budget.view(-1, 1, 1, 1))
            scale = (block.cases.degree.view(-1, 1, 1, 1) + 1 - lost).rsqrt_()
            change = gradient * scale
            part = change * scale
            of_own.append(_reduced(part, ctx.own_shape))
            if ctx.squared:
                of_squared.append(_reduced(part * scale.square(), ctx.own_shape))
            for case in range(count.shape[2] if terms.shape[3] == 1 else 1):  # one after the other, or all at once
                cases = slice(case, case + 1) if terms.shape[3] == 1 else slice(None)
                of_terms.append(
                    _of_kept(block, terms, *(values[:, None, :, cases] for values in (change, count, dropped)))
                )
        return None, None, *(reduce(torch.add, parts) if parts else None for parts in (of_terms, of_own, of_squared))


def _of_kept(block: Block, terms: Tensor, change: Tensor, count: Tensor, dropped: Tensor) -> Tensor:
    """``change`` at the terms that are left without the ``count`` largest droppable ones, down to ``dropped``."""
    candidates = candidates_of(block, terms)
    kept = terms.new_empty(torch.broadcast_shapes(candidates.shape, dropped.shape))
    torch.lt(candidates, dropped, out=kept)  # as numbers: a separate mask would cost more than this product
    gone = count.minimum(block.droppable_terms.view(-1, 1, 1, 1, 1))
    missing = block.size - gone - kept.sum(dim=1, keepdim=True)
    if bool(missing.any()):
        tied = torch.eq(candidates, dropped, out=torch.empty_like(kept))
        kept.addcmul_(tied, missing / tied.sum(dim=1, keepdim=True).clamp(min=1))
    return kept.mul_(change)


def _reduced(gradient: Tensor, shape: torch.Size) -> Tensor:
    """The gradient of a tensor ``(R, I, T or 1, M)`` that was spread over all cases."""
    return gradient if gradient.shape == shape else gradient.sum_to_size(shape)
