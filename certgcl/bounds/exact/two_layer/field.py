"""The part of a graph that one embedding of a two-layer GCN depends on, as dense rows of its matrix."""

from dataclasses import dataclass

import torch
from torch import Tensor

from certgcl.bounds.two_layer.weights import GCNWeights
from certgcl.changes.edge_drops import AdmissibleDrops
from certgcl.graphs.graph import Graph

LARGEST_FIELD = 1 << 20  # entries of Â in the rows of a node and its neighbours; beyond this, the node is not searched


@dataclass(frozen=True, eq=False)
class ReceptiveField:
    """Everything that one embedding depends on: the node itself (number 0), then its r - 1 neighbours, then theirs.

    After these m nodes come the ends of edges that lead further away, which only affect degrees.

    Args:
        nodes: their numbers in the graph.
        adjacency: ``A + I`` in the rows of the first r nodes, ``(r, m)``.
        degree: ``d + 1`` of all nodes.
        edges: the droppable edges that touch the first m nodes, ``(2, E)``.
        slots: the same edges as positions in the graph, ``(E,)``.
        projected: ``X W1``, ``(m, d1)``.
    """

    nodes: Tensor
    adjacency: Tensor
    degree: Tensor
    edges: Tensor
    slots: Tensor
    projected: Tensor
    weights: GCNWeights

    @classmethod
    def around(cls, graph: Graph, drops: AdmissibleDrops, weights: GCNWeights, anchor: int) -> "ReceptiveField | None":
        """The field of one node; None if it is too large to be searched."""
        near = torch.cat([graph.col.new_tensor([anchor]), graph.col[graph.rowptr[anchor] : graph.rowptr[anchor + 1]]])
        is_near = _mask(graph, near)
        is_far = _mask(graph, graph.col[is_near[graph.row]]) & ~is_near
        inner = torch.cat([near, is_far.nonzero()[:, 0]])
        if len(near) * len(inner) > LARGEST_FIELD:
            return None
        is_inner = is_near | is_far
        touching = is_inner[graph.row] | is_inner[graph.col]
        slots = (touching & (graph.row < graph.col) & drops.droppable).nonzero()[:, 0]
        is_outer = _mask(graph, graph.edge_index[:, slots]) & ~is_inner
        nodes = torch.cat([inner, is_outer.nonzero()[:, 0]])
        place = torch.full_like(graph.degree, -1)
        place[nodes] = torch.arange(len(nodes), device=nodes.device)
        row, col = place[graph.row], place[graph.col]
        adjacency = weights.w1.new_zeros(len(near), len(inner)).fill_diagonal_(1)
        adjacency[row[is_near[graph.row]], col[is_near[graph.row]]] = 1
        return cls(
            nodes,
            adjacency,
            (graph.degree[nodes] + 1).to(adjacency.dtype),
            torch.stack([row[slots], col[slots]]),
            slots,
            graph.project(weights.w1, inner),
            weights,
        )

    def embeddings(self, dropped: Tensor) -> Tensor:
        """``z`` of the node without some edges, given by their positions in ``edges``: ``(C, k)`` to ``(C, d2)``."""
        return self.weights.activation2(self.preactivations(dropped))

    def preactivations(self, dropped: Tensor) -> Tensor:
        """The same before the last activation."""
        count, (near, inner) = len(dropped), self.adjacency.shape
        adjacency, degree = self.adjacency.repeat(count, 1, 1), self.degree.repeat(count, 1)
        case = torch.arange(count, device=dropped.device)[:, None].expand_as(dropped)
        for one, other in (self.edges[:, dropped], self.edges[:, dropped].flip(0)):
            degree.scatter_add_(1, one, -torch.ones_like(one, dtype=degree.dtype))
            has_row = one < near
            adjacency[case[has_row], one[has_row], other[has_row]] = 0
        scale, weights = degree.rsqrt(), self.weights
        matrix = scale[:, :near, None] * adjacency * scale[:, None, :inner]
        hidden = weights.activation1(matrix @ self.projected + weights.b1)
        own_row = matrix[:, :1, :near] @ (hidden @ weights.w2)
        return own_row[:, 0] + weights.b2


def _mask(graph: Graph, nodes: Tensor) -> Tensor:
    mask = torch.zeros_like(graph.degree, dtype=torch.bool)
    mask[nodes] = True
    return mask
