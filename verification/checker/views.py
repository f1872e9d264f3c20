"""All graphs that a node can see, where they are few: the values on each of them, without any theorem.

What a node's embedding depends on is the edges with an end within ``hops`` of it. All sets of these that the budgets
allow are tried; features must stay.
"""

from collections.abc import Iterator
from itertools import islice

import numpy as np

from .arithmetic import Array, Ints, dot_above, down
from .changes import Changes, Edge
from .statement import Graph, Network, embed

MOST_VIEWS = 1024
MOST_ROWS = 1 << 15  # nodes of all views of a node
ROWS_AT_ONCE = 1 << 12


class Views:
    """The graphs that one node can see.

    Attributes:
        few: whether they are all tried.
    """

    def __init__(self, network: Network, changes: Changes, node: int) -> None:
        self.network, self.changes, self.node = network, changes, node
        field = {node}
        for _ in range(max(network.hops)):
            field |= {
                k for i in field for k in (*changes.graph.neighbours[i].tolist(), *changes.candidates(i).tolist())
            }
        self.field = sorted(field)
        self.edges = sorted(
            {
                (min(i, k), max(i, k))
                for i in field
                for k in (*changes.graph.neighbours[i][changes.free[i]].tolist(), *changes.candidates(i).tolist())
            }
        )
        most = min(MOST_VIEWS, MOST_ROWS // len(self.field))
        self.sets = list(islice(self._sets(), most + 1)) if changes.features is None else []
        self.few = 0 < len(self.sets) <= most

    def _sets(self) -> Iterator[list[Edge]]:
        """All admissible sets of edges that change, depth first."""
        waiting: list[tuple[list[Edge], int]] = [([], 0)]
        while waiting:
            chosen, start = waiting.pop()
            yield chosen
            for at in range(start, len(self.edges)):
                more = [*chosen, self.edges[at]]
                if self._admissible(more):
                    waiting.append((more, at + 1))

    def _admissible(self, chosen: list[Edge]) -> bool:
        """Whether the budgets allow a set, and so all sets within it."""
        changes, added = self.changes, self.changes.additions
        old = [b in changes.graph.neighbours[a] for a, b in chosen]
        lost, gained = (
            [edge for edge, there in zip(chosen, old, strict=True) if there == kind] for kind in (True, False)
        )
        for i in {end for edge in chosen for end in edge}:
            t, a = (sum(i in edge for edge in edges) for edges in (lost, gained))
            if t > changes.budget[i] or (added is not None and (a > added.local[i] or t + a > added.both[i])):
                return False
        return len(lost) <= changes.total and (
            added is None or (len(gained) <= added.total and len(chosen) <= added.both_total)
        )

    def least(self, directions: Array, slack: Array) -> Array:
        """Below ``w · z`` on every graph, for all w within ``slack`` of the directions."""
        return self._values(self.sets, directions, slack).min(axis=0)

    def dearest(self, directions: Array, slack: Array, least: Array) -> tuple[Edge | None, Array]:
        """The edge whose change does most by itself (a choice), and above the least that changes of one edge reach."""
        if not self.edges:
            return None, least
        views = [[], *([edge] for edge in self.edges[: MOST_ROWS // len(self.field)])]
        low, high = self._values(views, directions, slack), -self._values(views, -directions, slack)
        tight = int(np.argmin((low - least).min(axis=0)))
        allowed = [True, *(self._admissible(view) for view in views[1:])]
        return views[1 + int(np.argmax(np.abs(low[1:] - low[0])[:, tight]))][0], high[allowed].min(axis=0)

    def _values(self, views: list[list[Edge]], directions: Array, slack: Array) -> Array:
        """Below the values on some graphs, ``(views, C)``."""
        at_once = max(1, ROWS_AT_ONCE // len(self.field))
        parts = [views[first : first + at_once] for first in range(0, len(views), at_once)]
        return np.concatenate([self._of_copies(part, directions, slack) for part in parts])

    def _of_copies(self, views: list[list[Edge]], directions: Array, slack: Array) -> Array:
        """The same, of one graph that has all of them side by side."""
        size, place = len(self.field), {i: at for at, i in enumerate(self.field)}
        known = [set(self.changes.graph.neighbours[i].tolist()) for i in self.field]
        rows, numbers = list[Ints](), list[int]()
        for copy, view in enumerate(views):
            changed = {i: {b if a == i else a for a, b in view if i in (a, b)} for edge in view for i in edge}
            for i, before in zip(self.field, known, strict=True):
                now = before ^ changed.get(i, set())  # edges go, candidates come
                numbers.append(len(now))
                rows.append(np.array([place[k] + copy * size for k in now if k in place], dtype=np.int64))
        graph = Graph(self.changes.graph.x[self.field], tuple(rows))
        found = embed(self.network, graph, np.tile(np.arange(size), len(views)), np.array(numbers))
        anchors = place[self.node] + size * np.arange(len(views))
        total, slacks = np.zeros((len(views), len(directions))), self.network.split(slack[None])
        for number, part in self.network.split(directions).items():
            boxes = found[number].rows(anchors)
            total = down(down(total + boxes.below(part)) - dot_above(slacks[number], boxes.size))
        return total
