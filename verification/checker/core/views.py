"""All graphs that a node can see, if there are few: the values on each of them, without any theorem.

What a node's embedding depends on is the edges with an end within ``hops`` of it, and the features there. All sets of
changes of these that the budgets allow are tried: an edge ``(a, b)`` that goes or comes; an entry ``(node, column,
value)`` that becomes 0 or 1, or a column that becomes 0 at all nodes, whose node is -1. Features in a box are not few.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import TypeAlias

import numpy as np

from .arithmetic import Array, Ints, dot_above, down
from .changes import Changes, Edge
from .network import Graph, Network, embed

Change: TypeAlias = Edge | tuple[int, int, float]

MOST_VIEWS = 1 << 12
MOST_ROWS = 1 << 15  # nodes of all views of a node
ROWS_AT_ONCE = 1 << 12


class Views:
    """The graphs that one node can see.

    Attributes:
        few: whether there are few enough to try all of them.
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
        boxed = changes.features is not None and changes.features.radius.any()
        self.single: list[Change] = [*self.edges, *self._entries()]
        self.sets = [] if boxed or len(self.single) > most else list(islice(self._sets(), most + 1))
        self.few = 0 < len(self.sets) <= most

    def _entries(self) -> Iterator[tuple[int, int, float]]:
        """All features that may become 0 or 1 by themselves."""
        x, features = self.changes.graph.x[self.field], self.changes.features
        if features is None:
            return
        if features.columns is not None:
            yield from ((-1, f, 0.0) for f in np.flatnonzero(x.any(axis=0)).tolist())
            return
        for k, row in zip(self.field, x, strict=True):
            yield from ((k, f, 0.0) for f in np.flatnonzero(row).tolist() if features.off[k])
            yield from ((k, f, 1.0) for f in np.flatnonzero(row == 0).tolist() if features.on[k])

    def _sets(self) -> Iterator[list[Change]]:
        """All admissible sets of changes, depth first."""
        waiting: list[tuple[list[Change], int]] = [([], 0)]
        while waiting:
            chosen, start = waiting.pop()
            yield chosen
            for at in range(start, len(self.single)):
                more = [*chosen, self.single[at]]
                if self.admissible(more):
                    waiting.append((more, at + 1))

    def admissible(self, chosen: list[Change]) -> bool:
        """Whether the budgets allow a set, and so all sets within it."""
        changes, added = self.changes, self.changes.additions
        edges: list[Edge] = [change for change in chosen if len(change) == 2]
        old = [b in changes.graph.neighbours[a] for a, b in edges]
        lost, gained = (
            [edge for edge, there in zip(edges, old, strict=True) if there == kind] for kind in (True, False)
        )
        for i in {end for edge in edges for end in edge}:
            t, a = (sum(i in edge for edge in some) for some in (lost, gained))
            if t > changes.budget[i] or (added is not None and (a > added.local[i] or t + a > added.both[i])):
                return False
        return (
            len(lost) <= changes.total
            and (added is None or (len(gained) <= added.total and len(edges) <= added.both_total))
            and self._admissible_entries([change for change in chosen if len(change) == 3])
        )

    def _admissible_entries(self, entries: list[tuple[int, int, float]]) -> bool:
        features = self.changes.features
        if features is None or features.columns is not None:
            return features is None or len(entries) <= (features.columns or 0)
        number = Counter((k, value) for k, _, value in entries)
        return len(entries) <= features.total and all(
            count <= (features.on if value else features.off)[k] for (k, value), count in number.items()
        )

    def least(self, directions: Array, slack: Array) -> Array:
        """Below ``w · z`` on every graph, for all w within ``slack`` of the directions."""
        return self.values(self.sets, directions, slack).min(axis=0)

    def values(self, views: list[list[Change]], directions: Array, slack: Array) -> Array:
        """Below the values on some graphs, ``(views, C)``."""
        at_once = max(1, ROWS_AT_ONCE // len(self.field))
        parts = [views[first : first + at_once] for first in range(0, len(views), at_once)]
        return np.concatenate([self._of_copies(part, directions, slack) for part in parts])

    def _of_copies(self, views: list[list[Change]], directions: Array, slack: Array) -> Array:
        """The same, of one graph that has all of them side by side."""
        size, place = len(self.field), {i: at for at, i in enumerate(self.field)}
        known = [set(self.changes.graph.neighbours[i].tolist()) for i in self.field]
        rows, numbers, x = list[Ints](), list[int](), self.changes.graph.x[self.field]
        origin = np.tile(np.arange(size), len(views))
        if self.changes.features is not None:
            x, origin = x[origin], np.arange(size * len(views))
        for copy, view in enumerate(views):
            changed: dict[int, set[int]] = {}
            for change in view:
                if len(change) == 2:
                    for i, k in (change, change[::-1]):
                        changed.setdefault(i, set()).add(k)
                else:
                    k, f, value = change
                    x[copy * size + np.arange(size) if k < 0 else copy * size + place[k], f] = value
            for i, before in zip(self.field, known, strict=True):
                now = before ^ changed.get(i, set())  # edges go, candidates come
                numbers.append(len(now))
                rows.append(np.array([place[k] + copy * size for k in now if k in place], dtype=np.int64))
        found = embed(self.network, Graph(x, tuple(rows)), origin, np.array(numbers))
        anchors = place[self.node] + size * np.arange(len(views))
        total, slacks = np.zeros((len(views), len(directions))), self.network.split(slack[None])
        for number, part in self.network.split(directions).items():
            boxes = found[number].rows(anchors)
            total = down(down(total + boxes.below(part)) - dot_above(slacks[number], boxes.size))
        return total
