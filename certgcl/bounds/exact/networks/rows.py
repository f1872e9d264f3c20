"""The part of a graph that one embedding depends on, and what remains open after decisions on its edges."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from certgcl.attacks import Field, SearchSpace
from certgcl.bounds.exact.two_layer.cells import DROPPED, FREE, KEPT
from certgcl.bounds.two_layer.neighbourhood import row_slots


class Settled(NamedTuple):
    """B lists of decisions with all their consequences.

    Args:
        state: of every edge, ``(B, E)``: an edge is kept if a budget at it is used up.
        left: how many more edges every node can lose, ``(B, n)``.
        total: how many more can be dropped in all, ``(B,)``.
        possible: whether the budgets allow the drops that are decided, ``(B,)``.
    """

    state: Tensor
    left: Tensor
    total: Tensor
    possible: Tensor


@dataclass(frozen=True, eq=False)
class FieldRows:
    """A field as rows of a renumbered graph: all edges of every node whose number of edges matters.

    Args:
        field: the same field in the form of the search for drops; edges are in its order.
        nodes: their numbers in the graph, ascending, ``(n,)``.
        anchor: which of them the embedding is of.
        row, col: of every slot, ascending, ``(M,)``.
        edge: the droppable edge at every slot; E where it cannot be dropped, ``(M,)``.
        ends: of the droppable edges, ``(2, E)``.
        budget: ``q``, ``(n,)``.
        total: ``Q``.
        alike: edges with the same number here are equivalent; -1 for an edge without an equivalent one, ``(E,)``.
    """

    field: Field
    nodes: Tensor
    anchor: int
    row: Tensor
    col: Tensor
    edge: Tensor
    ends: Tensor
    budget: Tensor
    total: int
    alike: Tensor

    @classmethod
    def around(cls, space: SearchSpace, anchor: int) -> "FieldRows | None":
        """The rows around one node; None if its field is too large to be searched."""
        graph, counts = space.graph, space.reach.counts
        field = space.field(anchor, all_edges=True)
        if field is None:
            return None
        counted = row_slots(graph, field.nodes[field.distance <= counts])
        slots = torch.cat([counted, graph.reverse[counted]]).unique()
        nodes = torch.cat([field.nodes, graph.row[slots]]).unique()
        edge = torch.full_like(graph.col, field.slots.numel())
        edge[field.slots] = edge[graph.reverse[field.slots]] = torch.arange(field.slots.numel())
        row, col = (torch.searchsorted(nodes, ids) for ids in (graph.row[slots], graph.col[slots]))
        ends = torch.searchsorted(nodes, graph.edge_index[:, field.slots])
        inside = torch.zeros_like(nodes, dtype=torch.bool)
        inside[torch.searchsorted(nodes, field.nodes[field.distance <= counts])] = True
        budget = space.drops.local[nodes]
        return cls(
            field,
            nodes,
            int(torch.searchsorted(nodes, anchor)),
            row,
            col,
            edge[slots],
            ends,
            budget,
            space.drops.total,
            _alike(ends, inside, budget, space.reach.messages < counts),
        )

    @property
    def edges(self) -> int:
        return self.ends.shape[1]

    @property
    def undecided(self) -> Tensor:
        """Nothing is decided, ``(1, E)``."""
        return torch.full((1, self.edges), FREE, dtype=torch.int8)

    def dropping(self, dropped: Tensor) -> Tensor:
        """These edges are dropped, and all others kept; ``(1, E)``."""
        state = torch.full((1, self.edges), KEPT, dtype=torch.int8)
        state[0, dropped] = DROPPED
        return state

    def settled(self, state: Tensor) -> Settled:
        """The consequences of B lists of decisions ``(B, E)``.

        An edge can be dropped only while both its ends and the graph can lose one more, and a node can lose no more
        than its own and the total budget leave. There are no further consequences: a node whose budget is used up keeps
        its edges, and a node without such edges is not affected.
        """
        dropped, one, other = state == DROPPED, *self.ends
        left = self.budget - self._at_nodes(dropped)
        total = self.total - dropped.sum(dim=1)
        possible = (left >= 0).all(dim=1) & (total >= 0)
        free = (state == FREE) & (left[:, one] > 0) & (left[:, other] > 0) & (total > 0)[:, None]
        left = left.minimum(self._at_nodes(free)).minimum(total[:, None]).clamp(min=0)
        return Settled(torch.where((state == FREE) & ~free, KEPT, state), left, total.clamp(min=0), possible)

    def _at_nodes(self, edges: Tensor) -> Tensor:
        """How many of the edges ``(B, E)`` every node has, ``(B, n)``."""
        found = self.budget.new_zeros(len(edges), len(self.nodes))
        for end in self.ends:
            found.index_add_(1, end, edges.long())
        return found


def _alike(ends: Tensor, inside: Tensor, budget: Tensor, counted: bool) -> Tensor:
    """Edges from one node to ends outside, whose degrees do not matter and which can lose all the edges that they have
    here. Of these edges only the number counts, if they carry no message: if ``counted`` beyond the nodes that take
    messages."""
    number = torch.bincount(ends.flatten(), minlength=len(budget))
    alike = torch.full_like(ends[0], -1)
    for near, far in (ends, ends.flip(0)) if counted else ():
        alike = torch.where(inside[near] & ~inside[far] & (budget >= number)[far], near, alike)
    return alike
