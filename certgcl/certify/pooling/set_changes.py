"""What may change about each of several graphs, and about their disjoint union, where single nodes are bounded."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from certgcl.certify.pooling.graph_set import GraphSet
from certgcl.changes.changes import AdmissibleChanges, BudgetLike, Changes
from certgcl.changes.edge_additions import AdmissibleAdditions, Candidates
from certgcl.changes.edge_drops import AdmissibleDrops, EdgeDropBudget
from certgcl.changes.feature_changes import AdmissibleFeatures
from certgcl.errors import BudgetError, GraphError
from certgcl.graphs.graph import Graph

MOST_LISTED = 1 << 26  # pairs of nodes of the same graph, where all of them may become edges


@dataclass(frozen=True, eq=False)
class SetChanges:
    """What may change about each of several graphs: every graph has budgets of its own.

    A node only depends on its own graph. So a bound of single nodes on the union holds in every graph, provided that no
    node may lose or gain more in its graph than on the union: totals of the union are the largest of all graphs.
    """

    graphs: GraphSet
    each: tuple[AdmissibleChanges, ...]

    @classmethod
    def of(cls, graphs: GraphSet, budgets: BudgetLike) -> "SetChanges":
        """What budgets allow in each graph separately."""
        changes, each = Changes.of(budgets), []
        for number, graph in enumerate(graphs.graphs):
            try:
                each.append(changes.on(graph))
            except (BudgetError, GraphError) as error:
                raise type(error)(f"graph {number}: {error.found}", error.rule, error.remedy) from error
        return cls(graphs, tuple(each))

    def at(self, graphs: GraphSet, places: Sequence[int]) -> "SetChanges":
        """What may change about some of the graphs, ``self.graphs.at(places)``."""
        return SetChanges(graphs, tuple(self.each[place] for place in places))

    @property
    def drops_only(self) -> bool:
        """Whether edges can be dropped and nothing else can change."""
        return self.each_addition is None and self.features is None

    # -- of each graph -----------------------------------------------------------------------------

    @cached_property
    def totals(self) -> Tensor:
        """``Q`` of each graph, ``(G,)``."""
        return self.graphs.sizes.new_tensor([changes.drops.total for changes in self.each])

    @cached_property
    def most_dropped(self) -> Tensor:
        """An upper bound of the number of edges that a graph can lose, ``(G,)``."""
        most = self.totals
        for counts in (self.drops.local, self.drops.droppable_degree):
            most = most.minimum(self.graphs.total(counts) // 2)
        return most

    @cached_property
    def most_added(self) -> Tensor:
        """An upper bound of the number of edges that a graph can gain, ``(G,)``."""
        added = self.each_addition
        if added is None:
            return torch.zeros_like(self.totals)
        most = self.totals.new_tensor([part.total for part in added])
        for counts in (torch.cat([part.local for part in added]), torch.cat([part.addable_degree for part in added])):
            most = most.minimum(self.graphs.total(counts) // 2)
        return most

    @cached_property
    def most_edges(self) -> Tensor:
        """An upper bound of the number of edges of a graph that can change, ``(G,)``."""
        most = self.most_dropped + self.most_added
        if self.each_addition is None:
            return most
        return most.minimum(most.new_tensor([part.both_total for part in self.each_addition]))

    @cached_property
    def each_addition(self) -> tuple[AdmissibleAdditions, ...] | None:
        """Of every graph; None where no edge can be added to any."""
        if all(changes.additions is None for changes in self.each):
            return None
        return tuple(
            _nothing_added(changes.drops) if changes.additions is None else changes.additions for changes in self.each
        )

    @cached_property
    def each_feature(self) -> tuple[AdmissibleFeatures, ...] | None:
        """Of every graph; None where features stay."""
        found = tuple(changes.features for changes in self.each if changes.features is not None)
        return found or None

    # -- of the union ------------------------------------------------------------------------------

    @cached_property
    def drops(self) -> AdmissibleDrops:
        """The drops of all graphs side by side, without the total of each graph."""
        local, requested, droppable, degree = (
            torch.cat([getattr(changes.drops, name) for changes in self.each])
            for name in ("local", "requested", "droppable", "droppable_degree")
        )
        return AdmissibleDrops(local, requested, int(self.totals.sum()), droppable, degree)

    @cached_property
    def features(self) -> AdmissibleFeatures | None:
        """On the union, with the largest total and number of columns of any graph; None where nothing can change."""
        each = self.each_feature
        if each is None or all(part.nothing for part in each):
            return None
        off, on, radius = (torch.cat([getattr(part, name) for part in each]) for name in ("off", "on", "radius"))
        totals = [part.total for part in each]
        total = max(totals) if any(part.limited for part in each) else sum(totals)
        return AdmissibleFeatures(each[0].kind, off, on, radius, max(part.columns for part in each), total)

    @cached_property
    def additions(self) -> AdmissibleAdditions | None:
        """On the union, with the largest totals of any graph; candidates are pairs of the same graph."""
        each = self.each_addition
        if each is None:
            return None
        local, degree, both = (
            torch.cat([getattr(part, name) for part in each]) for name in ("local", "addable_degree", "both")
        )
        return AdmissibleAdditions(
            local,
            max(part.total for part in each),
            each[0].candidates if len(each) == 1 else self._listed(each),
            degree,
            both,
            max(part.both_total for part in each),
        )

    def _listed(self, each: Sequence[AdmissibleAdditions]) -> Candidates:
        sizes = self.graphs.sizes.tolist()
        pairs = sum(size**2 for size, part in zip(sizes, each, strict=True) if part.candidates is None)
        if pairs > MOST_LISTED:
            raise BudgetError(
                f"{pairs} pairs of nodes of {len(each)} graphs",
                f"where all may become edges, pairs are listed up to {MOST_LISTED}",
                'Use candidates="two-hop", or certify a graph at a time',
            )
        pointers, columns, slots = [self.totals.new_zeros(1)], [], 0
        for graph, part, start in zip(self.graphs.graphs, each, self.graphs.starts.tolist(), strict=True):
            listed = all_candidates(graph, part.local > 0) if part.candidates is None else part.candidates
            pointers.append(listed.rowptr[1:] + slots)
            columns.append(listed.col + start)
            slots += listed.col.numel()
        return Candidates(torch.cat(pointers), torch.cat(columns))

    def limited_to(self, total: int) -> AdmissibleChanges:
        """On the union, with at most ``total`` changed edges in the graph of any one node, and all admissible
        features."""
        union = self.graphs.union
        drops = EdgeDropBudget(self.drops.requested, min(total, int(self.totals.max()))).on(union)
        added = self.additions
        if added is not None:
            both = min(total, added.both_total)
            added = replace(added, total=min(total, added.total), both=added.both.clamp(max=both), both_total=both)
            added = added.on(union, drops)
        return AdmissibleChanges(drops, self.features, added if added is not None and bool(added.local.any()) else None)


def all_candidates(graph: Graph, open_ends: Tensor) -> Candidates:
    """All pairs of a graph that may become edges, as a list for every node."""
    free = open_ends[:, None] & open_ends
    free[graph.row, graph.col] = False
    free.fill_diagonal_(False)
    number = free.sum(dim=1)
    return Candidates(torch.cat([number.new_zeros(1), number.cumsum(0)]), free.nonzero()[:, 1])


def _nothing_added(drops: AdmissibleDrops) -> AdmissibleAdditions:
    nothing = torch.zeros_like(drops.local)
    none = Candidates(torch.cat([nothing, nothing.new_zeros(1)]), nothing[:0])
    return AdmissibleAdditions(nothing, 0, none, nothing, drops.local, drops.total)
