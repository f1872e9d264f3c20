"""The part of a graph that decides the embeddings of some anchors: two hops, and what may be dropped in them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from certgcl.budget import AdmissibleDrops
from certgcl.graph import Graph, csr_matrix

MAX_ELEMENTS = 1 << 22  # of one intermediate tensor; a block of rows is cut to stay below
SMALL_BLOCK = 1 << 18  # elements that take about as long as the calls around them


def fits(elements: int) -> bool:
    """Whether an intermediate tensor of that size is small enough."""
    return elements <= MAX_ELEMENTS


def take(table: Tensor, index: Tensor) -> Tensor:
    """``table[index]`` along the first dimension, in the form that copies whole rows."""
    return table.index_select(0, index.flatten()).view(index.shape + table.shape[1:])


def inverse_sqrt_degree(degree: Tensor, dropped: Tensor | int, dtype: torch.dtype) -> Tensor:
    """``s = (d + 1 - dropped)^(-1/2)``, the scale of a node in the GCN matrix."""
    return (degree + 1 - dropped).to(dtype).pow(-0.5)


@dataclass(frozen=True, eq=False)
class Block:
    """Rows of one hop with about as many neighbours, laid side by side and padded to ``K`` neighbours."""

    rows: Tensor  # (R,) positions in the hop's nodes
    slots: Tensor  # (R, K) positions in the hop's slots; 0 where padded
    valid: Tensor  # (R, K)
    droppable: Tensor  # (R, K)
    max_budget: int

    def gather(self, per_slot: Tensor) -> Tensor:
        """``(S, ...)`` values of the hop's slots as ``(R, K, ...)``; arbitrary where padded."""
        if not len(per_slot):
            return per_slot.new_zeros(self.slots.shape + per_slot.shape[1:])
        return take(per_slot, self.slots)


@dataclass(frozen=True, eq=False)
class Hop:
    """The rows of ``nodes`` in the GCN matrix: each with its neighbours among ``targets``, and how they can change.

    All per-slot facts hold *while the slot's edge is kept*: ``most_drops[(j, k)]`` is the largest number of edges that
    k can then lose, so k's scale ``s_k`` lies in ``[low, high]``.
    """

    nodes: Tensor  # (R,) node ids
    targets: Tensor  # (T,) node ids, increasing
    rowptr: Tensor  # (R + 1,)
    col: Tensor  # (S,) positions in targets
    own: Tensor  # (R,) position of every node itself in targets
    graph_slot: Tensor  # (S,)
    degree: Tensor  # (R,)
    budget: Tensor  # (R,) q of every node
    droppable: Tensor  # (S,)
    most_drops: Tensor  # (S,)
    low: Tensor  # (S,) least scale of the neighbour
    high: Tensor  # (S,) largest scale of the neighbour

    @cached_property
    def row(self) -> Tensor:
        """The row of every slot, ``(S,)``."""
        return torch.repeat_interleave(torch.arange(self.nodes.numel(), device=self.col.device), self.degree)

    def scale(self, dropped: Tensor | int) -> Tensor:
        """``s(t)`` of every node, ``(R,)``, or ``(R, T)`` for a ``(R, T)`` table of drop counts."""
        degree = self.degree if isinstance(dropped, int) or dropped.dim() == 1 else self.degree[:, None]
        return inverse_sqrt_degree(degree, dropped, self.low.dtype)

    def sum_over_neighbours(self, weights: Tensor, values: Tensor) -> Tensor:
        """``Σ_k weights_jk values_k`` for every row, ``(R, ...)``; ``values`` are rows over the targets."""
        size = (self.nodes.numel(), self.targets.numel())
        return csr_matrix(self.rowptr, self.col, weights, size) @ values

    def blocks(self, width: Callable[[int], int]) -> Iterator[Block]:
        """All rows, in blocks that stay below ``MAX_ELEMENTS`` (or hold one row) at ``width(K)`` elements a slot."""
        padded = _round_up(self.degree)
        order = torch.argsort(padded, descending=True, stable=True)
        sizes, counts = torch.unique_consecutive(padded[order], return_counts=True)
        classes = list(zip(sizes.tolist(), counts.tolist(), strict=True))
        start = 0
        while classes:
            size, number = classes.pop(0)
            # Smaller rows join while that costs less than a block of their own would.
            while classes and (number + classes[0][1]) * size * width(size) <= min(SMALL_BLOCK, MAX_ELEMENTS):
                number += classes.pop(0)[1]
            for part in order[start : start + number].split(max(1, MAX_ELEMENTS // (size * width(size)))):
                yield self._block(part, size)
            start += number

    def _block(self, rows: Tensor, size: int) -> Block:
        place = torch.arange(size, device=rows.device)
        valid = place < self.degree[rows, None]
        slots = torch.where(valid, self.rowptr[rows, None] + place, 0)
        block = Block(rows, slots, valid, valid, int(self.budget[rows].max()))
        return replace(block, droppable=valid & block.gather(self.droppable))


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """Two hops around the anchors: ``outer`` has their rows, ``inner`` the rows of all nodes that ``outer`` touches.

    A *pair* is a slot of ``outer``: an anchor i and a neighbour j. Nothing else of the graph matters to the anchors.
    """

    outer: Hop
    inner: Hop
    return_place: Tensor  # per pair (i, j): the place of i among the neighbours of j

    @cached_property
    def pairs_by_row(self) -> tuple[Tensor, Tensor]:
        """The pairs of every inner row, as a row pointer and pair numbers."""
        count = torch.bincount(self.outer.col, minlength=self.inner.nodes.numel())
        return torch.cat([count.new_zeros(1), count.cumsum(0)]), torch.argsort(self.outer.col, stable=True)

    def pairs_of(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The pairs (i, j) with j among the given inner rows: the pair, j's place in ``rows``, i's rank at j."""
        pointer, pairs = self.pairs_by_row
        count = pointer.diff()[rows]
        row = torch.repeat_interleave(torch.arange(rows.numel(), device=rows.device), count)
        rank = torch.arange(row.numel(), device=rows.device) - (count.cumsum(0) - count)[row]
        return pairs[pointer[rows][row] + rank], row, rank

    @classmethod
    def around(cls, graph: Graph, drops: AdmissibleDrops, anchors: Tensor, dtype: torch.dtype) -> "Neighbourhood":
        outer = _hop(graph, drops, anchors, dtype)
        inner = _hop(graph, drops, outer.targets, dtype)
        back = graph.reverse[outer.graph_slot]
        return cls(outer, inner, back - graph.rowptr[graph.row[back]])


def _hop(graph: Graph, drops: AdmissibleDrops, nodes: Tensor, dtype: torch.dtype) -> Hop:
    degree = graph.degree[nodes]
    rowptr = torch.cat([degree.new_zeros(1), degree.cumsum(0)])
    slot = torch.arange(int(rowptr[-1]), device=nodes.device)
    slot = slot + torch.repeat_interleave(graph.rowptr[nodes] - rowptr[:-1], degree)
    neighbour = graph.col[slot]
    targets = torch.unique(torch.cat([neighbour, nodes]))
    droppable = drops.droppable[slot]
    droppable_degree = torch.zeros_like(graph.degree).index_add_(0, graph.row, drops.droppable.long())
    most = drops.local[neighbour].minimum(droppable_degree[neighbour] - droppable.long())
    return Hop(
        nodes=nodes,
        targets=targets,
        rowptr=rowptr,
        col=torch.searchsorted(targets, neighbour),
        own=torch.searchsorted(targets, nodes),
        graph_slot=slot,
        degree=degree,
        budget=drops.local[nodes],
        droppable=droppable,
        most_drops=most,
        low=inverse_sqrt_degree(graph.degree[neighbour], 0, dtype),
        high=inverse_sqrt_degree(graph.degree[neighbour], most, dtype),
    )


def _round_up(degree: Tensor) -> Tensor:
    """Degrees rounded up to three significant bits (1 … 8, 10, 12, 14, 16, 20, …): few sizes, little padding."""
    exponent = torch.floor(torch.log2(degree.clamp(min=1).double())).long()
    step = torch.bitwise_left_shift(torch.ones_like(degree), (exponent - 2).clamp(min=0))
    return ((degree.clamp(min=1) + step - 1) // step) * step
