"""The part of a graph that determines the embeddings of some anchors: two hops, and what may be dropped in them."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from certgcl.bounds.two_layer.box import BoxRows
from certgcl.changes.edge_drops import AdmissibleDrops
from certgcl.graphs.graph import Graph
from certgcl.graphs.sparse import ConstantMatrix, csr_matrix

MAX_PATHS = 1 << 26  # paths of two edges, up to which those that close a triangle are counted


def inverse_sqrt_degree(degree: Tensor, dropped: Tensor | int, dtype: torch.dtype) -> Tensor:
    """``s = (d + 1 - dropped)^(-1/2)``, the scale of a node in the GCN matrix."""
    return (degree + 1 - dropped).to(dtype).pow(-0.5)


@dataclass(frozen=True, eq=False)
class Hop:
    """The rows of ``nodes`` in the GCN matrix: each with its neighbours among ``targets``, and how they can change.

    All per-slot facts hold *while the slot's edge is kept*: ``most_drops[(j, k)]`` is the largest number of edges that
    k can then lose, so k's scale ``s_k`` lies in ``[low, high]``.
    """

    nodes: Tensor  # (R,) node ids
    targets: Tensor  # (T,) node ids
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
    total: Tensor | None = None  # (R,) edges that may be dropped in all; None if only the local budgets matter
    between: Tensor | None = None  # (R,) how many of them can join two neighbours

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
        return self.matrix(weights) @ values

    def matrix(self, weights: Tensor) -> ConstantMatrix:
        """The rows as a matrix over the targets, with these entries in the slots."""
        size = (self.nodes.numel(), self.targets.numel())
        return ConstantMatrix(csr_matrix(self.rowptr, self.col, weights, size))

    @cached_property
    def box(self) -> BoxRows:
        return BoxRows(self)


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """Two hops around the anchors: ``outer`` has their rows, ``inner`` the rows of all nodes that ``outer`` touches.

    A *pair* is a slot of ``outer``: an anchor i and a neighbour j. In the inner row of j, the anchors come first,
    those with larger budgets before the others. Nothing else in the graph matters to the anchors.
    """

    outer: Hop
    inner: Hop
    pair: Tensor  # per inner slot (j, k): the pair (k, j) if k is an anchor, else -1

    @cached_property
    def anchors_around(self) -> Tensor:
        """The number of anchors among the neighbours of every inner row."""
        return torch.bincount(self.outer.col, minlength=self.inner.nodes.numel())

    @cached_property
    def leaf_of_pair(self) -> Tensor:
        """The inner slot (i, j) of every pair: anchors have inner rows of their own."""
        by_slot, place = torch.sort(self.inner.graph_slot)
        return place[torch.searchsorted(by_slot, self.outer.graph_slot)]

    @cached_property
    def slot_of_pair(self) -> Tensor:
        """The inner slot (j, i) of every pair (i, j)."""
        slot = (self.pair >= 0).nonzero()[:, 0]
        return torch.empty_like(self.outer.col).index_copy_(0, self.pair[slot], slot)

    @classmethod
    def around(cls, graph: Graph, drops: AdmissibleDrops, anchors: Tensor, dtype: torch.dtype) -> "Neighbourhood":
        outer = _hop(graph, drops, anchors, row_slots(graph, anchors), dtype)
        nodes = outer.targets
        slots = row_slots(graph, nodes)
        # The pair (k, j) of a slot (j, k) is the position of the reverse slot in the outer hop, if it is there.
        by_slot, pair_at = torch.sort(outer.graph_slot)
        place = torch.searchsorted(by_slot, graph.reverse[slots]).clamp(max=max(0, by_slot.numel() - 1))
        if by_slot.numel():
            pair = torch.where(by_slot[place] == graph.reverse[slots], pair_at[place], -1)
        else:
            pair = torch.full_like(slots, -1)
        # Within every row, anchors with large budgets come first.
        key = torch.where(pair >= 0, -1 - drops.local[graph.col[slots]], 0)
        order = torch.argsort(key, stable=True)
        order = order[torch.argsort(graph.row[slots[order]], stable=True)]
        return cls(outer, _hop(graph, drops, nodes, slots[order], dtype), pair[order])


def row_slots(graph: Graph, nodes: Tensor) -> Tensor:
    """The graph's slots of some rows, one row after the other."""
    degree = graph.degree[nodes]
    start = torch.cumsum(degree, 0) - degree
    slot = torch.arange(int(degree.sum()), device=nodes.device)
    return slot + torch.repeat_interleave(graph.rowptr[nodes] - start, degree)


def reached(graph: Graph, anchors: Tensor) -> tuple[Tensor, int]:
    """The nodes of the inner hop around some anchors, and how many targets it has, without building it."""
    touched = torch.zeros(graph.num_nodes, dtype=torch.bool, device=anchors.device)
    touched[anchors] = True
    touched[graph.col[row_slots(graph, anchors)]] = True
    nodes = touched.nonzero()[:, 0]
    touched[graph.col[row_slots(graph, nodes)]] = True
    return nodes, int(touched.sum())


def _hop(graph: Graph, drops: AdmissibleDrops, nodes: Tensor, slots: Tensor, dtype: torch.dtype) -> Hop:
    degree = graph.degree[nodes]
    neighbour = graph.col[slots]
    targets = torch.unique(torch.cat([neighbour, nodes]))
    droppable = drops.droppable[slots]
    most = drops.local[neighbour].minimum(drops.droppable_degree[neighbour] - droppable.long())
    row = torch.repeat_interleave(torch.arange(nodes.numel(), device=nodes.device), degree)
    limited = drops.limited and bool((drops.local[nodes].index_add(0, row, most) > drops.total).any())
    return Hop(
        nodes=nodes,
        targets=targets,
        rowptr=torch.cat([degree.new_zeros(1), degree.cumsum(0)]),
        col=torch.searchsorted(targets, neighbour),
        own=torch.searchsorted(targets, nodes),
        graph_slot=slots,
        degree=degree,
        budget=drops.local[nodes],
        droppable=droppable,
        most_drops=most,
        low=inverse_sqrt_degree(graph.degree[neighbour], 0, dtype),
        high=inverse_sqrt_degree(graph.degree[neighbour], most, dtype),
        total=torch.full_like(nodes, drops.total) if limited else None,
        between=edges_between_neighbours(graph, drops, nodes) if limited else None,
    )


def edges_between_neighbours(graph: Graph, drops: AdmissibleDrops, nodes: Tensor) -> Tensor:
    """How many droppable edges join two neighbours of each node; the number of all pairs, if counting would cost too
    much."""
    degree, first = graph.degree[nodes], row_slots(graph, nodes)
    middle = graph.col[first]
    if int(graph.degree[middle].sum()) > MAX_PATHS:
        return degree * (degree - 1) // 2
    place = torch.repeat_interleave(torch.arange(len(nodes), device=nodes.device), degree)
    place = torch.repeat_interleave(place, graph.degree[middle])  # of every path j - k - k'
    second = row_slots(graph, middle)
    joined = graph.has_edge(nodes[place], graph.col[second]) & drops.droppable[second]
    return torch.bincount(place[joined], minlength=len(nodes)) // 2
