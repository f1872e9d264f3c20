"""The row lemma: the least value of one row of the GCN matrix, exact in the row's own degree."""

from collections.abc import Callable

import torch
from torch import Tensor

from certgcl.bounds.counts import DropCases
from certgcl.bounds.neighbourhood import Block, Hop, inverse_sqrt_degree


def least_scaled(low: Tensor, high: Tensor, value: Tensor) -> Tensor:
    """The least ``s value`` for ``0 <= low <= s <= high``."""
    return torch.minimum(low * value, high * value)


def least_terms(block: Block, hop: Hop, lower: Tensor) -> Tensor:
    """``g_k``, the least value of ``s_k v_k`` for ``v_k >= lower``; ``(R, K, ...)``, zero where padded."""
    shape = block.slots.shape + (1,) * (lower.dim() - 2)
    low, high = block.gather(hop.low) * block.valid, block.gather(hop.high) * block.valid
    return least_scaled(low.view(shape), high.view(shape), lower)


def top_sums(values: Tensor, droppable: Tensor, most: int) -> Tensor:
    """``top_t``, the sum of the t largest droppable values of each row, for t = 0 … most.

    Args:
        values: ``(R, K, ...)``.
        droppable: ``(R, K)``.

    Returns:
        ``(R, most + 1, ...)``; constant beyond the number of droppable values.
    """
    mask = droppable.view(droppable.shape + (1,) * (values.dim() - 2))
    kept = min(most, values.shape[1])
    largest = values.masked_fill(~mask, -torch.inf).topk(kept, dim=1).values
    largest = largest.masked_fill(largest == -torch.inf, 0.0)
    padding = values.new_zeros((values.shape[0], 1 + most - kept, *values.shape[2:]))
    return torch.cat([padding[:, :1], largest, padding[:, 1:]], dim=1).cumsum(dim=1)


class RowCase:
    """One case of some rows: they lose between ``first`` and ``last`` edges each, ``(R,)``."""

    def __init__(self, hop: Hop, rows: Tensor, first: Tensor, last: Tensor) -> None:
        self.start, self.end = int(first.min()), int(last.max())
        dropped = torch.arange(self.start, self.end + 1, device=rows.device).expand(len(rows), -1)
        self._outside = (dropped < first[:, None]) | (dropped > last[:, None])
        dropped = torch.where(self._outside, first[:, None], dropped)
        self._scale = inverse_sqrt_degree(hop.degree[rows, None], dropped, hop.low.dtype)

    def scale(self, dimensions: int) -> Tensor:
        """``s(t)`` for the counts ``start … end``, ``(R, counts, 1, ...)``."""
        return self._scale.view(*self._scale.shape, *(1,) * (dimensions - 2))

    def minimum(self, own: Tensor, total: Tensor, top: Tensor) -> Tensor:
        """``min_t s(t) ( own_t + total - top_t )`` over the counts t of the case.

        Args:
            own: the part of the row itself for the counts ``start … end``, ``(R, counts, ...)``.
            total: the sum of all neighbours' terms, ``(R, ...)``.
            top: sums of the largest droppable ones, ``(R, counts, ...)``.
        """
        value = self.scale(top.dim()) * (own + (total[:, None] - top))
        outside = self._outside.view(*self._outside.shape, *(1,) * (top.dim() - 2))
        return value.masked_fill(outside, torch.inf).amin(dim=1)


def row_minimum(hop: Hop, cases: DropCases, terms: Callable[[Block], Tensor],
                own: Callable[[Tensor, Tensor, Tensor], Tensor], width: int) -> Tensor:
    """The row lemma: a lower bound of ``s_j (own_j(s_j) + Σ_{kept k} s_k v_k)`` in every case of every row j.

        min_{t in the case}  s_j(t) ( own_j(s_j(t)) + Σ_k g_k - top_t ),      g_k <= s_k v_k

    Sound because with ``r_j = t`` exactly t droppable neighbours are gone, ``s_j`` is ``s_j(t)``, each kept term is at
    least ``g_k``, and removing t of them lowers the sum by at most ``top_t``. Cost ``O(|slots| M log K)``.

    Args:
        terms: ``g_k`` for a block, ``(R, K, M)``, zero where padded.
        own: the row's own part, given rows, flat cases and the scale ``(R, counts, 1)``; ``(R, counts, M)``.
        width: M.

    Returns:
        One row for each flat case, ``(cases, M)``.
    """
    parts, order = [], []
    for block in hop.blocks(lambda size: width):
        g = terms(block)
        total, top = g.sum(dim=1), top_sums(g, block.droppable, block.max_budget)
        here = cases.of(block.rows)
        for number in range(here.most):
            has = here.number > number
            rows, flat = block.rows[has], here.offset[has] + number
            case = RowCase(hop, rows, here.first[has, number], here.last[has, number])
            window = top[has, case.start : case.end + 1]
            parts.append(case.minimum(own(rows, flat, case.scale(3)), total[has], window))
            order.append(flat)
    return restore_order(parts, order)


def restore_order(parts: list[Tensor], order: list[Tensor]) -> Tensor:
    """The rows of all parts, sorted by their numbers in ``order``."""
    return torch.cat(parts)[torch.argsort(torch.cat(order))]
