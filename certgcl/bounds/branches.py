"""Subproblems: each of one anchor, with some edges dropped or kept for good and the rest as free as before.

Every admissible set S of the whole problem that agrees with the decisions of a branch is an admissible set of it, so a
bound of the branch holds for all of them; the smaller of the bounds of a branch with an edge dropped and with it kept
holds for all S that agree with the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from certgcl.bounds.neighbourhood import Hop, Neighbourhood, inverse_sqrt_degree, row_slots
from certgcl.bounds.problem import DropProblem
from certgcl.budget import AdmissibleDrops
from certgcl.graph import Graph


@dataclass(frozen=True, eq=False)
class Branches:
    """Some branches, all bounded together; each has rows of its own, so that its bounds and lines are its own.

    Args:
        anchor: the node each branch is about, ``(B,)``.
        branch, edge, dropped: the decisions: in which branch, on which edge (by either of its slots in the graph), and
            whether it is dropped or kept, ``(L,)`` each. Only droppable edges are decided on.
    """

    graph: Graph
    drops: AdmissibleDrops
    anchor: Tensor
    branch: Tensor
    edge: Tensor
    dropped: Tensor

    @classmethod
    def undecided(cls, graph: Graph, drops: AdmissibleDrops, anchors: Tensor) -> "Branches":
        """One branch for each anchor, with nothing decided."""
        none = anchors.new_empty(0)
        return cls(graph, drops, anchors, none, none, none.bool())

    @classmethod
    def of(cls, graph: Graph, drops: AdmissibleDrops, anchors: Sequence[int],
           decisions: Sequence[dict[int, bool]]) -> "Branches":
        """Branches from the decisions of each, slot by slot."""
        device = graph.col.device
        branch = [b for b, decided in enumerate(decisions) for _ in decided]
        return cls(graph, drops, torch.tensor(anchors, device=device),
                   torch.tensor(branch, dtype=torch.long, device=device),
                   torch.tensor([slot for decided in decisions for slot in decided], dtype=torch.long, device=device),
                   torch.tensor([gone for decided in decisions for gone in decided.values()], dtype=torch.bool,
                                device=device))

    def problem(self, dtype: torch.dtype) -> DropProblem:
        """The branches as something that a bound can be computed for: one result for each."""
        problem = DropProblem(self.graph, self.drops, self.anchor)
        problem.neighbourhoods[dtype] = self._neighbourhood(dtype)
        return problem

    def _neighbourhood(self, dtype: torch.dtype) -> Neighbourhood:
        """An inner row for each pair, then one for each anchor; other anchors are neighbours like any other there."""
        number = torch.arange(len(self.anchor), device=self.anchor.device)
        outer = self._rows(number, self.anchor, dtype)
        pairs = outer.col.numel()
        branch = torch.cat([number[outer.row], number])
        nodes = torch.cat([self.graph.col[outer.graph_slot], self.anchor])
        inner = self._rows(branch, nodes, dtype)
        pair = torch.where((self.graph.col[inner.graph_slot] == self.anchor[branch[inner.row]]) & (inner.row < pairs),
                           inner.row, -1)
        order = torch.argsort(2 * inner.row - (pair >= 0).long(), stable=True)
        place = torch.arange(len(nodes), device=nodes.device)
        return Neighbourhood(outer.with_targets(nodes, place[:pairs], place[pairs:]), inner.reordered(order),
                             pair[order])

    def _rows(self, branch: Tensor, node: Tensor, dtype: torch.dtype) -> Hop:
        """The rows of some nodes, each in its branch, without what is dropped there."""
        graph, drops = self.graph, self.drops
        slots = row_slots(graph, node)
        row = torch.repeat_interleave(torch.arange(len(node), device=node.device), graph.degree[node])
        decided, gone = self._state(branch[row], slots)
        slots, row, kept = slots[~gone], row[~gone], decided[~gone]
        neighbour, here = graph.col[slots], branch[row]
        budget, neighbour_budget = self._budget(branch, node), self._budget(here, neighbour)
        droppable = drops.droppable[slots] & ~kept & (budget[row] > 0) & (neighbour_budget > 0)
        most = neighbour_budget.minimum(self._free_edges(here, neighbour) - droppable.long())
        degree = torch.bincount(row, minlength=len(node))
        neighbour_degree = graph.degree[neighbour] - self._lost(here, neighbour)
        targets = torch.unique(torch.cat([neighbour, node]))
        return Hop(
            nodes=node, targets=targets, rowptr=torch.cat([degree.new_zeros(1), degree.cumsum(0)]),
            col=torch.searchsorted(targets, neighbour), own=torch.searchsorted(targets, node), graph_slot=slots,
            degree=degree, budget=budget, droppable=droppable, most_drops=most,
            low=inverse_sqrt_degree(neighbour_degree, 0, dtype),
            high=inverse_sqrt_degree(neighbour_degree, most, dtype),
        )

    # -- what the decisions say of edges and nodes -------------------------------------------------

    @cached_property
    def _decisions(self) -> tuple[Tensor, Tensor]:
        """Every decision by its branch and edge, in increasing order, and whether it is a drop."""
        key, order = torch.sort(self.branch * self.graph.col.numel() + self._edge_of(self.edge))
        return key, self.dropped[order]

    def _edge_of(self, slots: Tensor) -> Tensor:
        """An edge goes by the smaller of its two slots."""
        return slots.minimum(self.graph.reverse[slots])

    def _state(self, branch: Tensor, slots: Tensor) -> tuple[Tensor, Tensor]:
        """Whether the edges of slots are decided in a branch, and whether they are dropped."""
        keys, dropped = self._decisions
        if not keys.numel():
            none = torch.zeros_like(slots, dtype=torch.bool)
            return none, none
        key = branch * self.graph.col.numel() + self._edge_of(slots)
        place = torch.searchsorted(keys, key).clamp(max=len(keys) - 1)
        decided = keys[place] == key
        return decided, decided & dropped[place]

    def _ends(self, chosen: Tensor) -> Tensor:
        """Both ends of the chosen decisions with their branches, in increasing order."""
        branch, edge = self.branch[chosen], self.edge[chosen]
        first, n = branch * self.graph.num_nodes, self.graph
        return torch.cat([first + n.row[edge], first + n.col[edge]]).sort().values

    @cached_property
    def _dropped_ends(self) -> Tensor:
        return self._ends(self.dropped)

    @cached_property
    def _decided_ends(self) -> Tensor:
        return self._ends(torch.ones_like(self.dropped))

    def _count(self, ends: Tensor, branch: Tensor, node: Tensor) -> Tensor:
        key = branch * self.graph.num_nodes + node
        return torch.searchsorted(ends, key, right=True) - torch.searchsorted(ends, key)

    def _lost(self, branch: Tensor, node: Tensor) -> Tensor:
        """How many edges a node has lost for good."""
        return self._count(self._dropped_ends, branch, node)

    def _free_edges(self, branch: Tensor, node: Tensor) -> Tensor:
        """At most so many edges of a node are still free: those that were, less the decided ones."""
        return self.drops.droppable_degree[node] - self._count(self._decided_ends, branch, node)

    def _budget(self, branch: Tensor, node: Tensor) -> Tensor:
        """How many more edges a node can lose."""
        spent = torch.bincount(self.branch[self.dropped], minlength=len(self.anchor))
        left = (self.drops.local[node] - self._lost(branch, node)).minimum(self.drops.total - spent[branch])
        return left.minimum(self._free_edges(branch, node)).clamp(min=0)
