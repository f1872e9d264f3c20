"""Differentiable bounds of pooled embeddings: for a loss, without enumeration and linear programs."""

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from certgcl.attacks.field import Reach
from certgcl.bounds import BoundMethod, ChangeProblem
from certgcl.certify.pooling.changed_features import merged_bounds
from certgcl.certify.pooling.graph_set import GraphSet
from certgcl.certify.pooling.set_changes import SetChanges
from certgcl.certify.touched_edges import edges_of, touched_edges
from certgcl.graphs.graph import Graph
from certgcl.models.network import GraphNetwork
from certgcl.models.pooled_network import Pool, pooled_rows

MOST_ROWS = 1 << 17  # nodes that are embedded to try every edge separately


@dataclass(frozen=True, eq=False)
class PooledProblem:
    """Several graphs, and what may change about each.

    It caches everything that depends only on graphs and budgets: keep it to bound many encoders.
    """

    graphs: GraphSet
    changes: SetChanges
    _fields: dict[int, Tensor] = field(default_factory=dict, init=False, repr=False)

    def lower(self, method: BoundMethod, network: GraphNetwork, pool: Pool, directions: Tensor) -> Tensor:
        """Lower bounds of ``w · pool_i z_i`` over the admissible changes of each graph, ``(G, C)``.

        Differentiable in the weights and in the directions, ``(G, C, d)``. For sums and means it is the best of the
        bounds that apply: the sum of the nodes' own bounds; edge scores if edges are only dropped, a case of (22) in
        ``docs/theory.md``; and one functional of all features of a graph, if only features change.
        """
        if pool == "max":
            return self._by_ranges(method, network, directions)
        graphs, of_nodes, found = self.graphs, directions[self.graphs.batch], []
        if self.changes.drops_only:
            found.append(self._by_dropped_edges(method, network, of_nodes))
        else:
            clean = _products(of_nodes, network.embed(graphs.union))
            found.append(graphs.total(method(network, self._whole, of_nodes).minimum(clean)))
            if not self._largest:
                found.append(merged_bounds(network, self.changes, method, directions))
        total = torch.stack(found).amax(dim=0)
        return total / graphs.sizes[:, None] if pool == "mean" else total

    def _by_dropped_edges(self, method: BoundMethod, network: GraphNetwork, of_nodes: Tensor) -> Tensor:
        """The bound if edges are dropped and nothing else changes."""
        graphs, most = self.graphs, self._largest
        clean = _products(of_nodes, network.embed(graphs.union))
        total = graphs.total(clean)
        if not most:
            return total
        pairs = self._pairs(network)
        alone = self._taken_alone(method, network, pairs, of_nodes, clean)
        lowest = None if most == 1 else method(network, self._whole, of_nodes).minimum(clean)
        found = total - self._by_edge_scores(
            pairs, alone if lowest is None else alone.maximum((clean - lowest)[pairs[0]] / 2)
        )
        return found if lowest is None else found.maximum(graphs.total(lowest))

    def _taken_alone(
        self, method: BoundMethod, network: GraphNetwork, pairs: Tensor, directions: Tensor, clean: Tensor
    ) -> Tensor:
        """Upper bounds of the loss of each node by each single edge of its field, ``(P, C)``: from a forward pass
        without the edge, or, if there are too many, the most that any single edge can cost."""
        node, edge = pairs
        if self._copies is None:
            return (clean - method(network, self._one_dropped, directions).minimum(clean))[node]
        copies, start = self._copies
        place = start[edge] + node - self.graphs.starts[self.graphs.batch[node]]
        return clean[node] - _products(directions[node], network.embed(copies)[place])

    def _by_edge_scores(self, pairs: Tensor, taken: Tensor) -> Tensor:
        """An upper bound of what the nodes of a graph can lose together, ``(G, C)``.

        With ``a_ie = max(δ_ie, (v_i - f_i(Q)) / 2)`` a node loses at most the sum of ``a_ie`` over the dropped edges of
        its field: one edge takes ``δ_ie`` at most, and two or more take ``v_i - f_i(Q)`` at most. So S takes at most
        ``Σ_{e ∈ S} s_e`` with ``s_e = Σ_{i : e ∈ field(i)} a_ie``: at most the sum of the Q largest that are positive.
        With Q = 1 that is exact if δ is.

        Args:
            taken: ``a_ie``, ``(P, C)``.
        """
        graph = self._graph_of_edge
        scores = taken.new_zeros(len(graph), taken.shape[1]).index_add(0, pairs[1], taken).clamp(min=0)
        paid = []
        for score in scores.unbind(1):
            by_size = torch.argsort(score.detach(), descending=True)
            order = by_size[torch.argsort(graph[by_size], stable=True)][self._counted]
            paid.append(taken.new_zeros(len(self.graphs)).index_add(0, graph[order], score[order]))
        return torch.stack(paid, dim=1)

    def _by_ranges(self, method: BoundMethod, network: GraphNetwork, directions: Tensor) -> Tensor:
        """``w+ · max_i low_i + w- · max_i high_i``, channel by channel."""
        units = torch.eye(network.width, dtype=network.dtype, device=network.device)
        both = torch.cat([units, -units]).expand(self.graphs.union.num_nodes, -1, -1)
        low, negative_high = method(network, self._whole, both).chunk(2, dim=1)
        low, high = (pooled_rows(values, self.graphs.batch, "max") for values in (low, -negative_high))
        return (directions.clamp(min=0) @ low[..., None] + directions.clamp(max=0) @ high[..., None])[..., 0]

    # -- what depends only on graphs and budgets --------------------------------------------------

    @property
    def _largest(self) -> int:
        return int(self.changes.most_edges.max())

    @cached_property
    def _whole(self) -> ChangeProblem:
        return self._limited_to(self._largest)

    @cached_property
    def _one_dropped(self) -> ChangeProblem:
        return self._limited_to(1)

    def _limited_to(self, total: int) -> ChangeProblem:
        union = self.graphs.union
        everyone = torch.arange(union.num_nodes, device=union.col.device)
        return ChangeProblem(union, self.changes.limited_to(total), everyone)

    @cached_property
    def _copies(self) -> tuple[Graph, Tensor] | None:
        """A disjoint union of copies of the graphs, each without one of the edges, and where each begins; None if it
        would be too large."""
        union, slots, graph = self.graphs.union, self._slots, self._graph_of_edge
        sizes = self.graphs.sizes[graph]
        if int(sizes.sum()) > MOST_ROWS:
            return None
        ends = union.rowptr[self.graphs.starts + self.graphs.sizes]  # of the slots of each graph
        first = union.rowptr[self.graphs.starts]
        start, copy = sizes.cumsum(0) - sizes, torch.repeat_interleave((ends - first)[graph])
        count = torch.bincount(copy, minlength=len(slots))
        slot = torch.arange(len(copy), device=copy.device) - (count.cumsum(0) - count)[copy] + first[graph][copy]
        kept = (slot != slots[copy]) & (slot != union.reverse[slots][copy])
        slot, copy = slot[kept], copy[kept]
        shift = (start - self.graphs.starts[graph])[copy]
        degree = torch.bincount(union.row[slot] + shift, minlength=int(sizes.sum()))
        nodes = torch.arange(int(sizes.sum()), device=copy.device) - torch.repeat_interleave(
            start - self.graphs.starts[graph], sizes
        )
        return Graph.trusted(
            union.x[nodes], torch.cat([degree.new_zeros(1), degree.cumsum(0)]), union.col[slot] + shift
        ), start

    @cached_property
    def _slots(self) -> Tensor:
        """One slot of each edge that can be dropped."""
        slots = edges_of(self.graphs.union)
        return slots[self.changes.drops.droppable[slots]]

    def _pairs(self, network: GraphNetwork) -> Tensor:
        """Nodes, and edges of their receptive fields that can be dropped, ``(2, P)``."""
        reach, union = Reach.of(network).counts, self.graphs.union
        if reach not in self._fields:
            everyone = torch.arange(union.num_nodes, device=union.col.device)
            droppable = self.changes.drops.droppable[edges_of(union)].cpu().numpy()
            pairs = touched_edges(network, union, everyone)[:, droppable].nonzero()
            self._fields[reach] = torch.stack([torch.from_numpy(part).long() for part in pairs]).to(union.col.device)
        return self._fields[reach]

    @cached_property
    def _graph_of_edge(self) -> Tensor:
        return self.graphs.batch[self.graphs.union.row[self._slots]]

    @cached_property
    def _counted(self) -> Tensor:
        """The places of the first Q edges of each graph, if edges are sorted by graph."""
        graph = self._graph_of_edge
        count = torch.bincount(graph, minlength=len(self.graphs))
        rank = torch.arange(len(graph), device=graph.device) - (count.cumsum(0) - count)[graph]
        return (rank < self.changes.most_dropped[graph]).nonzero()[:, 0]


def _products(directions: Tensor, z: Tensor) -> Tensor:
    """``w · z`` of rows, ``(R, C)`` for directions ``(R, C, d)``."""
    return (directions @ z[..., None])[..., 0]
