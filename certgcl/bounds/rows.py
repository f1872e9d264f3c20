"""The row lemma: the least value of one row of the GCN matrix, exact in the row's own degree."""

from collections.abc import Iterable
from functools import reduce
from typing import Any, NamedTuple

import torch
from torch import Tensor

from certgcl.bounds.blocks import Block, infinite_unless

INSERTED = 8  # largest values, or counts, that are gone through one by one,
INSERTION_PAYS = 1 << 9  # given so many rows and functionals for each


def least_terms(block: Block, values: Tensor) -> Tensor:
    """``g_k``, the least ``s_k v_k`` for values ``v_k``, ``(R, K, ...)``; zero where padded."""
    return block.neighbours.at(..., *(None,) * (values.dim() - 2)).least(values)


class Terms(NamedTuple):
    """One way to bound the neighbours' terms: ``g_k <= s_k v_k`` one by one; or with a ``gain``, ``Σ_{kept} s_k v_k >=
    Σ_{kept} g_k - gain_t`` for all of them together when the row loses t edges, ``(R, most + 1, ...)``."""

    least: Tensor
    gain: Tensor | None = None


def ways_to_bound(block: Block, values: Tensor) -> list[Terms]:
    """The terms of values ``v_k``, ``(R, K, ...)``: every scale at its worst; and where the total budget is a limit, no
    scale changed but for what so few drops can gain.

    ``s(r)`` is convex, so r of at most m drops gain at most ``r/m`` of what m gain.
    """
    ways = [Terms(least_terms(block, values))]
    if block.units is not None:
        more = (..., *(None,) * (values.dim() - 2))
        clean = block.neighbours.low[more] * values
        ways.append(Terms(clean, largest_gain(block, (clean - ways[0].least) / block.capacity.clamp(min=1)[more])))
    return ways


def largest_gain(block: Block, density: Tensor) -> Tensor:
    """The most that the drops left over can gain in all, ``max Σ_k x_k ρ_k`` with ``0 <= x_k <= capacity`` and
    ``Σ_k x_k <= units_t``: a knapsack that takes fractions, filled from the densest on; ``(R, most + 1, ...)``."""
    assert block.units is not None
    densest, place = density.topk(min(block.size, max(1, int(block.units.max()))), dim=1)
    more = (..., *(None,) * (density.dim() - 2))
    capacity = block.capacity[more].expand_as(density).gather(1, place)
    before = capacity.cumsum(dim=1) - capacity
    return torch.stack([((units[:, None][more] - before).clamp(min=0).minimum(capacity) * densest).sum(dim=1)
                        for units in block.units.unbind(dim=1)], dim=1)


def case_minima(block: Block, terms: Tensor, own: Tensor, own_squared: Tensor | None = None,
                following: bool = False, gain: Tensor | None = None) -> list[Tensor]:
    """The row lemma: a lower bound of ``s (s (own + s² own_squared) + Σ_{kept k} s_k v_k)`` in every case of every row.

        min_{t in the case}  s(t) ( s(t) (own + s(t)² own_squared) + Σ_k g_k - top_t - gain_t )

    Sound because with t edges lost exactly t droppable neighbours are gone, s is ``s(t)``, the kept terms are at least
    ``g_k`` (less the gain), and removing t of them lowers the sum by at most ``top_t``. Cost: one partial sort of every
    row.

    Args:
        terms: ``g_k``, ``(R, K, I, T, M)``, zero where padded; or with one in the place of T for all cases.
        own, own_squared: ``(R, I, T, M)``, or both likewise with one in the place of T.
        following: compute also the same with ``top_(t+1)`` in the place of ``top_t``.
        gain: ``(R, most + 1, I, T or 1, M)``; zero by default.

    Returns:
        ``(R, I, T, M)``, once or twice.
    """
    given = terms, own, own_squared
    if gain is None and torch.is_grad_enabled() and any(value is not None and value.requires_grad for value in given):
        return list(_RowLemma.apply(block, following, *given))  # type: ignore[no-untyped-call]
    return [minimum.value for minimum in _minima(block, following, *given, where=False, gain=gain)]


class _Minimum(NamedTuple):
    """The least values ``(R, I, T, M)``, and if wanted where they are taken: how many terms are dropped, and the
    smallest of them."""

    value: Tensor
    number: Tensor | None = None
    dropped: Tensor | None = None


def _minima(block: Block, following: bool, terms: Tensor, own: Tensor, own_squared: Tensor | None,
            where: bool, gain: Tensor | None = None) -> list[_Minimum]:
    """The minima with ``top_t`` and, if wanted, with ``top_(t+1)``."""
    shifts = (0, 1) if following else (0,)
    if block.single:
        row = _SortedRow(block, terms, block.most + shifts[-1], where)
        counts = torch.arange(block.most + 1, device=terms.device)[:, None]
        scale = block.scale_of_counts[:, None, :, None]
        part = scale * (own if own_squared is None else own + scale.square() * own_squared)
        minima = []
        for shift in shifts:
            here = slice(shift, shift + block.most + 1)
            remaining = row.remaining[:, here] if gain is None else row.remaining[:, here] - gain
            value = scale * (part + _at_own_case(remaining))
            minima.append(_Minimum(value, (counts + shift).to(value).expand_as(value),
                                   _at_own_case(row.smallest[:, here])) if where else _Minimum(value))
        return minima
    found: list[list[_Minimum]] = [[] for _ in shifts]
    shared = _SortedRow(block, terms[..., 0, :], block.most + shifts[-1], where) if terms.shape[-2] == 1 else None
    for case in range(block.cases.most):
        first, last = block.cases.first[:, case, None], block.cases.last[:, case, None]
        start, end = int(first.min()), int(last.max()) + 1
        counts = torch.arange(start, end, device=terms.device)
        outside = infinite_unless((counts >= first) & (counts <= last), terms.dtype)[..., None, None]
        scale = block.scale_of_counts[:, start:end, None, None]
        part = _of_case(own, case)
        if own_squared is not None:
            part = part + scale.square() * _of_case(own_squared, case)
        row = shared or _SortedRow(block, terms[..., case, :], end - 1 + shifts[-1], where)
        for minima, shift in zip(found, shifts, strict=True):
            remaining = row.remaining[:, start + shift : end + shift]
            if gain is not None:
                remaining = remaining - gain[:, start:end, :, min(case, gain.shape[3] - 1)]
            value = scale * (scale * part + remaining) + outside
            minima.append(_least_count(value, row.smallest, start + shift) if where else _Minimum(value.amin(dim=1)))
    return [_Minimum(*(torch.stack(parts, dim=2) for parts in zip(*minima, strict=True) if parts[0] is not None))
            for minima in found]


def _least_count(values: Tensor, smallest: Tensor, start: int) -> _Minimum:
    """The least of the values ``(R, counts, ...)``, the first of which is of the count ``start``; of equal ones the first.

    Of few counts one after the other: ``min(dim=1)`` and ``gather`` are not vectorised, and take ten times as long.
    """
    if values.shape[1] > INSERTED:
        least, place = values.min(dim=1)
        number = place + start
        return _Minimum(least, number.to(values.dtype), smallest.gather(1, number[:, None])[:, 0])
    least, dropped = values[:, 0], smallest[:, start]
    number = torch.full_like(least, start)
    for place in range(1, values.shape[1]):
        value, count = values[:, place], start + place
        better = torch.lt(value, least, out=torch.empty_like(least))
        least = torch.minimum(least, value)
        dropped = torch.addcmul(dropped, dropped, better, value=-1).addcmul_(better, smallest[:, count])
        number = torch.maximum(number, better.mul_(count), out=number)
    return _Minimum(least, number, dropped)


class _SortedRow:
    """The largest droppable terms of every row.

    Attributes:
        remaining: ``Σ_k g_k - top_t`` for t = 0 … most, ``(R, most + 1, ...)``.
        smallest: if wanted, the smallest of the t largest; the largest number there is for t = 0, and its negative where
            there are fewer.
    """

    def __init__(self, block: Block, terms: Tensor, most: int, where: bool) -> None:
        kept = min(most, block.size)
        total = terms.sum(dim=1, keepdim=True)
        candidates = _candidates(block, terms)
        largest = largest_values(candidates, kept)
        dropped = largest if kept <= block.least_droppable else largest.nan_to_num(neginf=0.0)
        beyond = (-1, most - kept, *terms.shape[2:])
        remaining = total - dropped.cumsum(dim=1)
        self.remaining = torch.cat([total, remaining, (remaining if kept else total)[:, -1:].expand(beyond)], dim=1)
        if where:
            limit = torch.finfo(terms.dtype).max  # finite: times zero it is zero
            above, below = torch.full_like(total, limit), torch.full_like(total, -limit)
            finite = largest if kept <= block.least_droppable else largest.clamp(min=-limit)
            self.smallest = torch.cat([above, finite, below.expand(beyond)], dim=1)


def _candidates(block: Block, terms: Tensor) -> Tensor:
    """The terms, minus infinity where they cannot be dropped."""
    if block.all_droppable:
        return terms
    return terms + block.never_dropped.view(block.never_dropped.shape + (1,) * (terms.dim() - 2))


def largest_values(values: Tensor, number: int) -> Tensor:
    """The values that ``topk(number, dim=1)`` gives. As their places are not wanted, there are faster ways to them."""
    if 0 < number <= INSERTED and values[:, :1].numel() >= INSERTION_PAYS * number:
        return largest_by_insertion(values, number)
    if not number or values.device.type != "cpu":
        return values.topk(number, dim=1).values
    rows = values.detach().movedim(1, -1).contiguous()
    rows = rows.clone() if rows.data_ptr() == values.data_ptr() else rows
    rows.numpy().sort(axis=-1)  # vectorised, unlike torch's
    return rows[..., -number:].flip(-1).movedim(-1, 1)


def largest_by_insertion(values: Tensor, number: int) -> Tensor:
    """Each value is let down the list of the largest so far: the fastest way to few of them."""
    largest: list[Tensor] = []
    for value in values.unbind(dim=1):
        for place, other in enumerate(largest):
            largest[place], value = torch.maximum(other, value), torch.minimum(other, value)
        if len(largest) < number:
            largest.append(value)
    return torch.stack(largest, dim=1)


def _at_own_case(values: Tensor) -> Tensor:
    """Values ``(R, T, I, T or 1, M)`` for count t taken in case t; ``(R, I, T, M)``."""
    if values.shape[3] == 1:
        return values[:, :, :, 0].transpose(1, 2)
    return values.diagonal(dim1=1, dim2=3).movedim(-1, 2)


def _of_case(values: Tensor, case: int) -> Tensor:
    """``(R, I, T or 1, M)`` values in one case, ``(R, 1, I, M)``."""
    return values[:, None, :, min(case, values.shape[2] - 1)]


class _RowLemma(torch.autograd.Function):
    """The lemma with the gradient of its minimiser: ``s(t)`` at the terms that are kept there.

    Terms that tie with the smallest dropped one share what is left to drop.
    """

    @staticmethod
    def forward(ctx: Any, block: Block, following: bool, terms: Tensor, own: Tensor,
                own_squared: Tensor | None) -> tuple[Tensor, ...]:
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
                of_terms.append(_of_kept(block, terms, *(values[:, None, :, cases]
                                                         for values in (change, count, dropped))))
        return None, None, *(reduce(torch.add, parts) if parts else None for parts in (of_terms, of_own, of_squared))


def _of_kept(block: Block, terms: Tensor, change: Tensor, count: Tensor, dropped: Tensor) -> Tensor:
    """``change`` at the terms that are left without the ``count`` largest droppable ones, down to ``dropped``."""
    candidates = _candidates(block, terms)
    kept = terms.new_empty(torch.broadcast_shapes(candidates.shape, dropped.shape))
    torch.lt(candidates, dropped, out=kept)  # as numbers: a mask of its own would cost more than the product with it
    gone = count.minimum(block.droppable_terms.view(-1, 1, 1, 1, 1))
    missing = block.size - gone - kept.sum(dim=1, keepdim=True)
    if bool(missing.any()):
        tied = torch.eq(candidates, dropped, out=torch.empty_like(kept))
        kept.addcmul_(tied, missing / tied.sum(dim=1, keepdim=True).clamp(min=1))
    return kept.mul_(change)


def best(bounds: Iterable[Tensor]) -> Tensor:
    """The largest of some bounds, element by element; of equal ones, the first has the gradient."""
    return reduce(_larger, bounds)


def _larger(one: Tensor, other: Tensor) -> Tensor:
    if not torch.is_grad_enabled():
        return torch.maximum(one, other)
    larger: Tensor = _Larger.apply(one, other)  # type: ignore[no-untyped-call]
    return larger


class _Larger(torch.autograd.Function):
    """Torch's own gradient halves it where both are equal, which takes three times as long."""

    @staticmethod
    def forward(ctx: Any, one: Tensor, other: Tensor) -> Tensor:
        larger = torch.maximum(one, other)
        ctx.save_for_backward(torch.ge(one, other, out=torch.empty_like(larger)))
        ctx.shapes = one.shape, other.shape
        return larger

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        share, = ctx.saved_tensors
        first = gradients[0] * share
        return first.sum_to_size(ctx.shapes[0]), (gradients[0] - first).sum_to_size(ctx.shapes[1])


def _reduced(gradient: Tensor, shape: torch.Size) -> Tensor:
    """The gradient of a tensor ``(R, I, T or 1, M)`` that was spread over all cases."""
    return gradient if gradient.shape == shape else gradient.sum_to_size(shape)
