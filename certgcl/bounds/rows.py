"""The row lemma: the least value of one row of the GCN matrix, exact in the row's own degree."""

import torch
from torch import Tensor

from certgcl.bounds.blocks import Block


def least_terms(block: Block, values: Tensor) -> Tensor:
    """``g_k``, the least ``s_k v_k`` for values ``v_k``, ``(R, K, ...)``; zero where padded."""
    return block.neighbours.at(..., *(None,) * (values.dim() - 2)).least(values)


def remaining_sums(block: Block, terms: Tensor, most: int) -> Tensor:
    """``Σ_k g_k - top_t``, what remains of each row's sum without its t largest droppable terms, for t = 0 … most.

    Args:
        terms: ``(R, K, ...)``, zero where padded.

    Returns:
        ``(R, most + 1, ...)``; constant beyond the number of droppable terms.
    """
    total = terms.sum(dim=1, keepdim=True)
    kept = min(most, block.size)
    if block.all_droppable:
        largest = terms.topk(kept, dim=1).values
    else:
        fixed = ~block.droppable.view(block.droppable.shape + (1,) * (terms.dim() - 2))
        largest = terms.masked_fill(fixed, -torch.inf).topk(kept, dim=1).values
        largest = largest.masked_fill(largest == -torch.inf, 0.0)
    sums = torch.cat([total, total - largest.cumsum(dim=1)], dim=1)
    return sums if kept == most else torch.cat([sums] + [sums[:, -1:]] * (most - kept), dim=1)


def case_minima(block: Block, terms: Tensor, own: Tensor, own_squared: Tensor | None = None,
                following: bool = False) -> list[Tensor]:
    """The row lemma: a lower bound of ``s (s (own + s² own_squared) + Σ_{kept k} s_k v_k)`` in every case of every row.

        min_{t in the case}  s(t) ( s(t) (own + s(t)² own_squared) + Σ_k g_k - top_t ),      g_k <= s_k v_k

    Sound because with t edges lost exactly t droppable neighbours are gone, s is ``s(t)``, each kept term is at least
    ``g_k``, and removing t of them lowers the sum by at most ``top_t``. Cost: one partial sort of every row.

    Args:
        terms: ``g_k``, ``(R, K, I, T, M)``, zero where padded; or with one in the place of T for all cases.
        own, own_squared: ``(R, I, T, M)``, or likewise with one in the place of T.
        following: compute also the same with ``top_(t+1)`` in the place of ``top_t``.

    Returns:
        ``(R, I, T, M)``, once or twice.
    """
    shifts = (0, 1) if following else (0,)
    if block.single:
        scale = block.scale_of_counts[:, None, :, None]
        part = scale * (own if own_squared is None else own + scale.square() * own_squared)
        remaining = remaining_sums(block, terms, block.most + shifts[-1])
        return [scale * (part + _at_own_case(remaining[:, shift : shift + block.most + 1])) for shift in shifts]
    found: list[list[Tensor]] = [[] for _ in shifts]
    shared = remaining_sums(block, terms[..., 0, :], block.most + shifts[-1]) if terms.shape[-2] == 1 else None
    for case in range(block.cases.most):
        first, last = block.cases.first[:, case, None], block.cases.last[:, case, None]
        start, end = int(first.min()), int(last.max()) + 1
        counts = torch.arange(start, end, device=first.device)
        outside = ((counts < first) | (counts > last))[..., None, None]
        scale = block.scale_of_counts[:, start:end, None, None]
        part = _of_case(own, case)
        if own_squared is not None:
            part = part + scale.square() * _of_case(own_squared, case)
        remaining = shared if shared is not None else remaining_sums(block, terms[..., case, :], end - 1 + shifts[-1])
        for values, shift in zip(found, shifts, strict=True):
            value = scale * (scale * part + remaining[:, start + shift : end + shift])
            values.append(value.masked_fill(outside, torch.inf).amin(dim=1))
    return [torch.stack(values, dim=2) for values in found]


def _at_own_case(remaining: Tensor) -> Tensor:
    """The sums ``(R, T, I, T or 1, M)`` for count t taken in case t; ``(R, I, T, M)``."""
    if remaining.shape[3] == 1:
        return remaining[:, :, :, 0].transpose(1, 2)
    return remaining.diagonal(dim1=1, dim2=3).movedim(-1, 2)


def _of_case(values: Tensor, case: int) -> Tensor:
    """``(R, I, T or 1, M)`` values in one case, ``(R, 1, I, M)``."""
    return values[:, None, :, min(case, values.shape[2] - 1)]
