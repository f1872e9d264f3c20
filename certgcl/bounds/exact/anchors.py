"""Branch and bound for many anchors, one after the other, within a time limit."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self

import torch
from torch import Tensor

from certgcl.attacks import SearchSpace
from certgcl.bounds.degree import Degree
from certgcl.bounds.prepared import ChangeProblem
from certgcl.bounds.rounding.finite import check_finite
from certgcl.changes.changed_entries import ChangedEntries
from certgcl.changes.changes import AdmissibleChanges
from certgcl.changes.edge_drops import AdmissibleDrops
from certgcl.graphs.graph import Graph
from certgcl.models.network import GraphNetwork

FIRST_LIMIT = 32  # branches of an anchor in the first pass over all anchors
GROWTH = 4  # factor of that limit from one pass over the anchors to the next


@dataclass(frozen=True, eq=False)
class Brackets:
    """``lower <= min_S w · z(S) <= upper`` for every anchor, and the dropped edges that reach ``upper``.

    Args:
        exact: whether the two are the same up to the tolerance, ``(A,)``.
        witnesses: ``(2, k)`` node numbers of the dropped edges, for every anchor.
        branches: how many branches were bounded for it, ``(A,)``.
        changed: features that reach ``upper`` together with the dropped edges, if features may change.
        added: new edges that do, ``(2, k)`` for every anchor, if edges may be added.
    """

    lower: Tensor
    upper: Tensor
    exact: Tensor
    witnesses: tuple[Tensor, ...]
    branches: Tensor
    changed: tuple[ChangedEntries, ...] | None = None
    added: tuple[Tensor, ...] | None = None

    @classmethod
    def joined(cls, parts: "list[Brackets]") -> "Brackets":
        lower, upper, exact, branches = (
            torch.cat([getattr(part, name) for part in parts]) for name in ("lower", "upper", "exact", "branches")
        )
        return cls(lower, upper, exact, tuple(witness for part in parts for witness in part.witnesses), branches)

    def at(self, places: Tensor) -> "Brackets":
        return Brackets(
            self.lower[places],
            self.upper[places],
            self.exact[places],
            tuple(self.witnesses[place] for place in places.tolist()),
            self.branches[places],
        )

    def like(self, values: Tensor) -> "Brackets":
        """The same on the device and in the precision of some values."""
        return Brackets(
            self.lower.to(values),
            self.upper.to(values),
            self.exact.to(values.device),
            tuple(witness.to(values.device) for witness in self.witnesses),
            self.branches.to(values.device),
            None if self.changed is None else tuple(entries.to(values.device) for entries in self.changed),
            None if self.added is None else tuple(edges.to(values.device) for edges in self.added),
        )


class Grown(NamedTuple):
    """The state of the search for one anchor.

    Args:
        place: position of the anchor among all.
        dropped: the best drops known, by their positions in its field.
        slots: the same as positions in the graph.
        branches: how many were bounded.
    """

    place: int
    lower: float
    upper: float
    done: bool
    dropped: Tensor
    slots: Tensor
    branches: int


@dataclass(frozen=True, eq=False)
class AnchorSearch(ABC):
    """The data of a search, all in float64 and on the CPU, where many small steps are fastest; it can be sent to
    another process.

    Args:
        directions: of all nodes, ``(N, d2)``.
        end: when the time is over, in seconds since the epoch.
    """

    network: GraphNetwork
    graph: Graph
    changes: AdmissibleChanges
    anchors: Tensor
    directions: Tensor
    bound: Degree
    end: float
    branch_limit: float
    tolerance: float

    @classmethod
    def of(
        cls,
        network: GraphNetwork,
        problem: ChangeProblem,
        directions: Tensor,
        bound: Degree,
        time_limit: float | None,
        branch_limit: int | None,
        tolerance: float,
    ) -> Self:
        cpu = torch.device("cpu")
        end = float("inf") if time_limit is None else time.time() + time_limit
        return cls(
            network.to(torch.float64, cpu),
            problem.graph.to(cpu),
            problem.changes.to(cpu),
            problem.anchors.to(cpu),
            directions.to(cpu, torch.float64),
            bound,
            end,
            float("inf") if branch_limit is None else branch_limit,
            tolerance,
        )

    def at(self, places: Tensor) -> Self:
        """The same for some of the anchors."""
        return replace(self, anchors=self.anchors[places])

    @property
    def drops(self) -> AdmissibleDrops:
        return self.changes.drops

    @cached_property
    def space(self) -> SearchSpace:
        return SearchSpace(self.network, self.graph, self.drops)

    def order(self) -> Tensor:
        """The positions of the anchors, those with the smallest receptive fields first."""
        graph = self.graph
        around = torch.zeros_like(graph.degree).index_add_(0, graph.row, graph.degree[graph.col])
        return around[self.anchors].argsort(stable=True)

    @torch.no_grad()
    def run(self, progress: Callable[[int, int], object] | None = None) -> Brackets:
        """The brackets. The search goes over the anchors repeatedly, each time with a larger limit of branches. It
        restarts from an anchor's present bracket, so that only one search at a time takes memory."""
        problem = ChangeProblem(self.graph, self.changes, self.anchors)
        lower = self.bound(self.network, problem, self.directions[:, None])[:, 0]
        clean = (self.directions * self.network.embed(self.graph)).sum(dim=1)[self.anchors]
        check_finite(self.anchors, lower, clean)  # a tree can only start from finite values
        none = self.graph.col.new_empty(2, 0)
        number = len(self.anchors)
        found = Brackets(
            lower.clone(),
            clean.clone(),
            torch.zeros_like(lower, dtype=torch.bool),
            (none,) * number,
            torch.zeros(number, dtype=torch.long),
        )
        witnesses: list[Tensor] = list(found.witnesses)
        waiting, finished = self.order().tolist(), 0
        limit = FIRST_LIMIT if self.branch_limit > GROWTH * FIRST_LIMIT else self.branch_limit
        dropped: dict[int, Tensor] = {}
        while waiting:
            again = []
            for tree in self._grown(waiting, found.lower, dropped, limit):
                place = tree.place
                found.lower[place], found.upper[place] = tree.lower, tree.upper
                found.exact[place] = tree.done
                found.branches[place] += tree.branches
                dropped[place] = tree.dropped
                witnesses[place] = self.graph.edge_index[:, tree.slots]
                if tree.done or limit >= self.branch_limit:
                    finished += 1
                    if progress is not None:
                        progress(finished, number)
                else:
                    again.append(place)
            if time.time() >= self.end:
                break
            waiting, limit = again, min(GROWTH * limit, self.branch_limit)
        if progress is not None:
            progress(finished, number)
        return replace(found, witnesses=tuple(witnesses))

    @abstractmethod
    def _grown(self, places: list[int], lower: Tensor, dropped: dict[int, Tensor], limit: float) -> Iterator[Grown]:
        """The searches for some anchors while there is time, each up to about ``limit`` branches; anchors whose
        receptive field is too large are skipped.

        Args:
            lower: bounds to start with.
            dropped: drops to start with, where some are known.
        """
