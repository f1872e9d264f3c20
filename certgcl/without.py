"""The embedding of one node on a graph without some edges, from the rows that it depends on alone."""

from dataclasses import dataclass

import torch
from torch import Tensor

from certgcl.encoder import GCNWeights
from certgcl.errors import GraphError
from certgcl.graph import Graph


@dataclass(frozen=True, eq=False)
class DropEvaluation:
    """``z_i(S)`` for one node and drop after the other, at the cost of the rows of the node and its neighbours.

    It shares no code with the searches for drops, so that it can check them.

    Args:
        projected: ``X W1``, ``(N, d1)``.
    """

    weights: GCNWeights
    graph: Graph
    projected: Tensor

    @classmethod
    def of(cls, weights: GCNWeights, graph: Graph) -> "DropEvaluation":
        return cls(weights, graph, graph.project(weights.w1))

    def embedding(self, node: int, dropped: Tensor) -> Tensor:
        """``z`` of a node without the edges ``dropped``, ``(2, k)``, each listed once; ``(d2,)``.

        Raises:
            GraphError: an edge that the graph does not have.
        """
        graph, weights, n = self.graph, self.weights, self.graph.num_nodes
        both = torch.cat([dropped, dropped.flip(0)], dim=1).to(graph.col.device)
        gone, at_ends = both[0] * n + both[1], self._slots(both[0].unique())
        absent = ~torch.isin(gone, graph.row[at_ends] * n + graph.col[at_ends])
        if bool(absent.any()):
            one, other = both[:, absent][:, 0].tolist()
            raise GraphError(f"a dropped edge ({one}, {other}) that the graph does not have",
                             "only edges of the graph can be dropped", "Pass the graph that they are from")
        left = graph.degree.index_add(0, both[0], -torch.ones_like(both[0]))
        scale = (left + 1).to(weights.w1.dtype).rsqrt()

        def kept(nodes: Tensor) -> Tensor:
            slots = self._slots(nodes)
            return slots[~torch.isin(graph.row[slots] * n + graph.col[slots], gone)]

        own = graph.col.new_tensor([node])
        near = torch.cat([own, graph.col[kept(own)]])
        slots, place = kept(near), graph.col.new_zeros(n).index_copy(0, near, torch.arange(len(near)).to(near))
        # (Â X W1)_t = s_t (Σ_c s_c Y_c + s_t Y_t), over the neighbours c that are left of t.
        sums = scale[near, None] * self.projected[near]
        sums = sums.index_add(0, place[graph.row[slots]],
                              scale[graph.col[slots], None] * self.projected[graph.col[slots]])
        hidden = weights.activation1(scale[near, None] * sums + weights.b1)
        return weights.activation2(scale[node] * (scale[near] @ (hidden @ weights.w2)) + weights.b2)

    def _slots(self, nodes: Tensor) -> Tensor:
        """The slots of some nodes, one node after the other."""
        start, count = self.graph.rowptr[nodes], self.graph.degree[nodes]
        first = torch.repeat_interleave(start - count.cumsum(0) + count, count)
        return first + torch.arange(len(first), device=first.device)
