"""What may change about a graph: edges that go, edges that come, and features; and the states that this leaves a node.

Budgets are lowered to what can be used. An edge can go if both its ends may lose one and it is not kept, and a node
loses no more edges than can go; a candidate can come if both its ends may gain one. No admissible change is lost by
that.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from .arithmetic import Array, Ints, U, up
from .network import Graph

Edge = tuple[int, int]
MOST_COLUMNS = 6  # of features, up to which every set of masked columns is a graph of its own


@dataclass(frozen=True, eq=False)
class Additions:
    """Sets of candidates: at most ``local[i]`` at node i and ``total`` in all; with the lost edges, at most ``both[i]``
    at node i and ``both_total`` in all.

    Args:
        candidates: of every node, sorted; in both directions, and none of them an edge.
    """

    candidates: tuple[Ints, ...]
    local: Ints
    total: int
    both: Ints
    both_total: int

    def check(self, graph: Graph) -> "Additions":
        nodes = len(graph.neighbours)
        if not nodes == len(self.candidates) == len(self.local) == len(self.both):
            raise ValueError(f"budgets of new edges of {len(self.local)} nodes for a graph of {nodes}")
        there = [set(row.tolist()) for row in self.candidates]
        for i, (row, neighbours) in enumerate(zip(self.candidates, graph.neighbours, strict=True)):
            if (
                (np.diff(row) <= 0).any()
                or not all(0 <= c < nodes and c != i and i in there[c] for c in row.tolist())
                or np.isin(row, neighbours).any()
            ):
                raise ValueError(f"candidates of node {i} that are edges already, of one direction, or no nodes")
        if min(self.total, self.both_total, *self.local.tolist(), *self.both.tolist()) < 0:
            raise ValueError("budgets below zero")
        return self

    @cached_property
    def usable(self) -> "Additions":
        """Lowered to what can be used."""
        local = np.minimum(np.minimum(self.local, self.total), np.minimum(self.both, self.both_total))
        rows = self.candidates
        while True:
            rows = tuple(row[local[row] > 0] if local[i] > 0 else row[:0] for i, row in enumerate(rows))
            fewer = np.minimum(local, [len(row) for row in rows])
            if (fewer == local).all():
                return replace(self, candidates=rows, local=local, both=np.minimum(self.both, self.both_total))
            local = fewer

    def after_a_loss(self, edge: Edge) -> "Additions | None":
        both = self.both.copy()
        both[list(edge)] -= 1
        if min(both[list(edge)]) < 0 or self.both_total < 1:
            return None
        return replace(self, both=both, both_total=self.both_total - 1)

    def without(self, edge: Edge) -> "Additions":
        """Those that do not have a candidate."""
        rows = list(self.candidates)
        for a, b in (edge, edge[::-1]):
            rows[a] = rows[a][rows[a] != b]
        return replace(self, candidates=tuple(rows))

    def after_a_gain(self, edge: Edge) -> "Additions | None":
        """Those that have a candidate, by what else they have."""
        local = self.local.copy()
        local[list(edge)] -= 1
        left = self.without(edge).after_a_loss(edge)  # of both, as much
        if left is None or min(local[list(edge)]) < 0 or self.total < 1:
            return None
        return replace(left, local=local, total=self.total - 1)


@dataclass(frozen=True, eq=False)
class Features:
    """Node k has features of which at most ``off[k]`` became 0 and at most ``on[k]`` zeros became 1, ``total`` in the
    whole graph, and which moved by at most ``radius[k]``; or ``columns`` of them are 0 at all nodes, and nothing else
    has changed."""

    off: Ints
    on: Ints
    radius: Array
    total: int
    columns: int | None = None

    def check(self, graph: Graph) -> "Features":
        nodes = len(graph.neighbours)
        if not nodes == len(self.off) == len(self.on) == len(self.radius):
            raise ValueError(f"features of {len(self.off)} nodes may change, of a graph of {nodes}")
        if min(self.total, *self.off.tolist(), *self.on.tolist()) < 0 or not (self.radius >= 0).all():
            raise ValueError("budgets below zero")
        if self.columns is not None and (self.columns < 0 or self.on.any() or self.radius.any()):
            raise ValueError("columns that are masked, and other changes of features")
        if self.radius.any() and (self.on.any() or self.off.any()):
            raise ValueError("features that move in a box, and others that become 0 or 1")
        return self

    @property
    def any(self) -> bool:
        """Whether something can change."""
        if self.columns is not None:
            return self.columns > 0
        return bool((self.off.any() or self.on.any()) and self.total) or bool(self.radius.any())

    def masks(self, k: int) -> int:
        """How many entries of node k can become 0, whatever the others do."""
        return int(self.off[k]) if self.columns is None else self.columns

    def admit(self, before: Array, after: Array) -> bool:
        """Whether features may become others."""
        moved = before != after
        if self.columns is not None:
            columns = moved.any(axis=0)
            return int(columns.sum()) <= self.columns and not after[:, columns].any()
        if self.radius.any():
            moved, radius = after - before, self.radius[:, None]
            rounded = up(np.abs(before) + radius) * 2 * U  # of the sum whose result the features are
            return bool((np.abs(moved) <= radius + rounded).all())
        off, on = moved & (after == 0), moved & (before == 0) & (after == 1)
        return (
            bool((moved == (off | on)).all())
            and int(moved.sum()) <= self.total
            and bool((off.sum(axis=1) <= self.off).all() and (on.sum(axis=1) <= self.on).all())
        )


class Changes:
    """At most ``local[i]`` edges of node i may go and ``total`` in all, none of them in ``kept``; and more may change.

    The states of a node are the pairs (lost, gained), for no edge gained first, then for one, and so on.
    """

    def __init__(
        self,
        graph: Graph,
        local: Sequence[int] | Ints,
        total: int,
        kept: frozenset[Edge] = frozenset(),
        additions: Additions | None = None,
        features: Features | None = None,
    ) -> None:
        self.graph, self.kept, self.asked = graph, kept, np.asarray(local, dtype=np.int64)
        self.given, self.features = additions, features if features is not None and features.any else None
        self.additions = None if additions is None else additions.usable
        if self.additions is not None and not self.additions.local.any():
            self.asked, total = np.minimum(self.asked, self.additions.both), min(total, self.additions.both_total)
            self.additions = None
        self.total = min(int(total), sum(map(len, graph.neighbours)) // 2)
        budget = np.minimum(np.array([len(row) for row in graph.neighbours]), np.minimum(self.asked, self.total))
        pinned: dict[int, set[int]] = {}
        for a, b in kept:
            pinned.setdefault(a, set()).add(b)
            pinned.setdefault(b, set()).add(a)
        while True:
            free = [(budget[row] > 0) & (budget[i] > 0) for i, row in enumerate(graph.neighbours)]
            for i, others in pinned.items():
                free[i] &= ~np.isin(graph.neighbours[i], list(others))
            usable = np.minimum(budget, [int(row.sum()) for row in free])
            if (usable == budget).all():
                break
            budget = usable
        self.budget: Ints = budget
        self.free: list[NDArray[np.bool_]] = free

    def by_columns(self) -> "list[Changes]":
        """The changes of edges alone on the graph with each set of columns masked, if there are few columns; together
        they are all changes. Otherwise these changes themselves."""
        features, x = self.features, self.graph.x
        if features is None or features.columns is None or x.shape[1] > MOST_COLUMNS:
            return [self]
        filled, found = np.flatnonzero(x.any(axis=0)), []
        for number in range(min(features.columns, len(filled)) + 1):
            for chosen in combinations(filled, number):
                masked = x.copy()
                masked[:, list(chosen)] = 0
                graph = Graph(masked, self.graph.neighbours)
                found.append(Changes(graph, self.asked, self.total, self.kept, self.given))
        return found

    def pairs(self, i: int) -> list[tuple[int, int]]:
        """The states of a node."""
        if self.additions is None:
            return [(t, 0) for t in range(int(self.budget[i]) + 1)]
        gain, both = int(self.additions.local[i]), int(self.additions.both[i])
        return [(t, a) for a in range(gain + 1) for t in range(min(int(self.budget[i]), both - a) + 1)]

    def states(self, i: int) -> int:
        return len(self.pairs(i))

    def candidates(self, i: int) -> Ints:
        return np.zeros(0, dtype=np.int64) if self.additions is None else self.additions.candidates[i]

    def reach(self, i: int) -> Ints:
        """How many edges each neighbour k of i can lose while (i, k) is there: none of them is that one."""
        row = self.graph.neighbours[i]
        return np.minimum(self.budget[row], [int(self.free[k].sum()) for k in row] - self.free[i].astype(np.int64))

    def split(self, edge: Edge) -> "tuple[Changes, Changes | None]":
        """The changes that leave an edge or a candidate as it is, and those that do not, by what else they change; None
        if there are none. Whatever is admissible is one or the other.

        Raises:
            KeyError: it is neither.
        """
        a, b = edge
        if not 0 <= a < b < len(self.graph.neighbours):
            raise KeyError(edge)
        if b in self.graph.neighbours[a]:
            return self._with(kept=self.kept | {edge}), self._with_lost(edge)
        if self.given is None or b not in self.given.candidates[a]:
            raise KeyError(edge)
        come = self.given.after_a_gain(edge)
        grown = None if come is None else self._with(self.graph.plus(edge), kept=self.kept | {edge}, additions=come)
        return self._with(additions=self.given.without(edge)), grown

    def _with(
        self, graph: Graph | None = None, kept: frozenset[Edge] | None = None, additions: Additions | None = None
    ) -> "Changes":
        return Changes(
            graph or self.graph,
            self.asked,
            self.total,
            self.kept if kept is None else kept,
            additions or self.given,
            self.features,
        )

    def _with_lost(self, edge: Edge) -> "Changes | None":
        asked: Ints = self.asked.copy()
        asked[list(edge)] -= 1
        added = None if self.given is None else self.given.after_a_loss(edge)
        impossible = edge in self.kept or min(asked[list(edge)]) < 0 or self.total < 1
        if impossible or (added is None and self.given is not None):
            return None
        return Changes(self.graph.without({edge}), asked, self.total - 1, self.kept, added, self.features)
