"""Many branches at once: copies of a graph, in each of which some edges have changed and some stay as they are.

A *pair* is an edge that may be dropped or a candidate of a new edge. A branch decides some of them. The rest of the
budgets gives a problem of the same kind on the changed graph, so any bound of that problem bounds the branch.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from certgcl.bounds.degree import Degree
from certgcl.bounds.exact.networks.branches import Copies
from certgcl.bounds.prepared import ChangeProblem
from certgcl.bounds.two_layer.row_plan import starts
from certgcl.changes.changes import AdmissibleChanges
from certgcl.changes.edge_additions import AdmissibleAdditions, Candidates
from certgcl.changes.subsets import number_of_subsets
from certgcl.graphs.graph import Graph
from certgcl.models.network import GraphNetwork
from certgcl.runtime.tensor_cache import PRIVATE

UNDECIDED, CHANGED, STAYS = 0, 1, 2
UNION_NODES = 1 << 13  # of all copies that are processed together


@dataclass(frozen=True, eq=False)
class BudgetsLeft:
    """The budgets that some branches ``(B, P)`` leave.

    Args:
        lost, gained, both: at every node, ``(B, N)``.
        totals: of drops, additions and both together, ``(B, 3)``.
        open: the pairs that are free and within all of these, ``(B, P)``.
    """

    lost: Tensor
    gained: Tensor
    both: Tensor
    totals: Tensor
    open: Tensor


@dataclass(frozen=True, eq=False)
class EdgeBranches:
    """Branches for one anchor of a graph.

    Args:
        network: in float64.
        pairs: edges that may be dropped, and then the candidates of new edges, ``(2, P)``.
        new: which of them are new, ``(P,)``.
    """

    network: GraphNetwork
    graph: Graph
    changes: AdmissibleChanges
    bound: Degree
    anchor: int
    direction: Tensor
    pairs: Tensor
    new: Tensor

    @cached_property
    def undecided(self) -> Tensor:
        return torch.full((1, self.pairs.shape[1]), UNDECIDED, dtype=torch.int8)

    def left(self, state: Tensor) -> BudgetsLeft:
        """None of these is negative in a branch that some admissible change agrees with."""
        drops, added, nodes = self.changes.drops, self.changes.additions, self.graph.num_nodes
        assert added is not None
        changed = state == CHANGED
        lost, gained = (self._ends(changed & kind, nodes) for kind in (~self.new, self.new))
        counts = torch.stack([(changed & ~self.new).sum(dim=1), (changed & self.new).sum(dim=1)], dim=1)
        totals = torch.cat(
            [
                torch.tensor([drops.total, added.total]) - counts,
                added.both_total - counts.sum(dim=1, keepdim=True),
            ],
            dim=1,
        )
        of_drops, of_new, of_both = drops.local - lost, added.local - gained, added.both - lost - gained
        one, other = self.pairs
        room = torch.where(
            self.new, of_new[:, one].minimum(of_new[:, other]), of_drops[:, one].minimum(of_drops[:, other])
        )
        room = room.minimum(of_both[:, one]).minimum(of_both[:, other])
        room = room.minimum(torch.where(self.new, totals[:, 1:2], totals[:, :1])).minimum(totals[:, 2:])
        return BudgetsLeft(of_drops, of_new, of_both, totals, (state == UNDECIDED) & (room > 0))

    def _ends(self, chosen: Tensor, nodes: int) -> Tensor:
        """How many of the chosen pairs every node has, ``(B, P)`` to ``(B, N)``."""
        found = torch.zeros(len(chosen), nodes, dtype=torch.long)
        for ends in self.pairs:
            found.index_add_(1, ends, chosen.long())
        return found

    @property
    def at_once(self) -> int:
        return max(1, UNION_NODES // self.graph.num_nodes)

    def bounds(self, state: Tensor) -> Tensor:
        """Lower bounds of ``w · z`` over all changes that agree with the decisions, ``(B,)``; branches with the same
        totals are bounded together, because a graph has only one total of new edges."""
        left, found = self.left(state), torch.zeros(len(state), dtype=torch.float64)
        kinds, kind = torch.unique(left.totals[:, 1:], dim=0, return_inverse=True)
        for number in range(len(kinds)):
            for some in (kind == number).nonzero()[:, 0].split(self.at_once):
                problem = self._problem(state[some], left, some)
                directions = self.direction.expand(len(some), 1, -1)
                found[some] = self.bound(self.network, problem, directions)[:, 0]
        return found

    def every_change(self, state: Tensor, most: int) -> Tensor | None:
        """All changes that agree with the decisions of a branch ``(P,)``, as states ``(S, P)``; None if there may be
        more than ``most``."""
        left = self.left(state[None])
        free = left.open[0].nonzero()[:, 0]
        if number_of_subsets(len(free), int(left.totals[0, 2])) > most:
            return None
        found = state[None]
        for pair in free.tolist():
            more = found[self.left(found).open[:, pair]].clone()
            more[:, pair] = CHANGED
            found = torch.cat([found, more])
        return found

    def values(self, state: Tensor) -> Tensor:
        """``w · z`` after the changes of some branches and no others, ``(B,)``."""
        parts = []
        for some in state.split(self.at_once):
            graph, _ = self._union(some, torch.zeros_like(some, dtype=torch.bool))
            anchors = self.anchor + self.graph.num_nodes * torch.arange(len(some))
            parts.append(self.network.embed(graph)[anchors] @ self.direction)
        return torch.cat(parts)

    def _union(self, state: Tensor, droppable: Tensor) -> tuple[Graph, Tensor]:
        """Copies of the graph side by side, each with its changes; and which of the slots may be dropped."""
        graph, n = self.graph, self.graph.num_nodes
        copy, slot = (
            torch.cat([state != CHANGED, torch.ones(len(state), 1, dtype=torch.bool)], dim=1)[:, self._pair_of_slot]
            .nonzero()
            .T
        )
        free = torch.cat([droppable, torch.zeros(len(state), 1, dtype=torch.bool)], dim=1)[
            copy, self._pair_of_slot[slot]
        ]
        added, pair = ((state == CHANGED) & self.new).nonzero().T
        ends = self.pairs[:, pair] + n * added
        row = torch.cat([graph.row[slot] + n * copy, ends[0], ends[1]])
        col = torch.cat([graph.col[slot] + n * copy, ends[1], ends[0]])
        order = torch.argsort(row * (n * len(state)) + col)
        loses = torch.cat([free, torch.zeros(2 * len(added), dtype=torch.bool)])[order]
        x = graph.x if graph.x.layout == torch.strided else graph.x.to_dense()
        union = Graph.trusted(
            x.repeat(len(state), 1), starts(torch.bincount(row, minlength=n * len(state))), col[order]
        )
        vars(union)[PRIVATE] = True  # nobody else holds it, so no copies and no checks
        return union, loses

    @cached_property
    def _pair_of_slot(self) -> Tensor:
        """Which of the pairs every slot of the graph is; P for those that always stay."""
        graph, n = self.graph, self.graph.num_nodes
        low, high = torch.minimum(graph.row, graph.col), torch.maximum(graph.row, graph.col)
        found = torch.full_like(graph.col, self.pairs.shape[1])
        keys = self.pairs[0] * n + self.pairs[1]
        order = torch.argsort(keys)
        place = torch.searchsorted(keys[order], low * n + high).clamp(max=max(0, len(keys) - 1))
        if len(keys):
            there = keys[order][place] == low * n + high
            found[there] = order[place[there]]
        return found

    def _problem(self, state: Tensor, left: BudgetsLeft, some: Tensor) -> ChangeProblem:
        """The changes that are still possible in some branches with the same totals."""
        n, copies = self.graph.num_nodes, len(state)
        undecided = left.open[some]
        graph, droppable = self._union(state, undecided & ~self.new)
        degree = torch.bincount(graph.row[droppable], minlength=n * copies)
        whole, all_of_both = left.totals[some[0], 1:].tolist()
        both, whole_lost = left.both[some].flatten().clamp(max=all_of_both), left.totals[some, 0].repeat_interleave(n)
        lost = left.lost[some].flatten().minimum(both).minimum(degree).minimum(whole_lost)
        drops = Copies(lost, lost, int(whole_lost.max()), droppable, degree, whole_lost)
        copy, pair = (undecided & self.new).nonzero().T
        ends = self.pairs[:, pair] + n * copy
        row, col = torch.cat([ends, ends.flip(0)], dim=1)
        order = torch.argsort(row * (n * copies) + col)
        number = torch.bincount(row, minlength=n * copies)
        gained = left.gained[some].flatten().minimum(both).minimum(number).clamp(max=whole)
        added = AdmissibleAdditions(
            gained, whole, Candidates(starts(number), col[order]), number, both.minimum(lost + gained), all_of_both
        )
        features = self.changes.features
        if features is not None:
            features = replace(
                features, **{name: getattr(features, name).repeat(copies) for name in ("off", "on", "radius")}
            )
        changes = AdmissibleChanges(drops, features, added if len(row) else None)
        for made in (drops, added):
            vars(made)[PRIVATE] = True
        anchors = self.anchor + n * torch.arange(copies)
        return ChangeProblem(graph, changes, anchors, only_anchors=True)
