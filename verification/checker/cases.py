"""Trees of cases: an edge is kept or lost, both branches are proved, and so is every admissible set.

A tree is a list, in the order in which it is walked: an edge ``(a, b)`` with a < b, then the tree of the sets that keep
it, then that of the sets that lose it; None is a leaf, where Theorem A must do. No list that ends too early, or goes
on, is a tree.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from .arithmetic import Array, Ints, dot_above, down
from .lines import Choices
from .statement import Drops, Graph, Network
from .theorem import Bound

Edge = tuple[int, int]
Tree = list[Edge | None]


class NotProved(Exception):
    """A leaf is below what is to be proved, or a tree is none."""


@dataclass
class Proof:
    """Of ``w · z_i >= least`` for one node, with several directions at a time.

    Args:
        branches: how many edges may be decided in the place of leaves that Theorem A does not prove.
    """

    network: Network
    node: int
    directions: Array  # (C, d)
    slack: Array  # what directions can be off by, (d,)
    least: Array  # (C,)
    choices: Choices
    branches: int = 0
    tree: Tree = field(default_factory=list)  # as it was proved

    def prove(self, drops: Drops, tree: Sequence[Edge | None] = (None,)) -> None:
        """Raises ``NotProved``, or leaves the tree that was used in ``tree``."""
        steps = iter(tree)
        self._case(drops, steps)
        if next(steps, self) is not self:
            raise NotProved("a tree with more branches than it has room for")

    def _case(self, drops: Drops, steps: Iterator[Edge | None]) -> None:
        try:
            edge = next(steps)
        except StopIteration:
            raise NotProved("a tree without one of its branches") from None
        if edge is None:
            self._leaf(drops)
        else:
            self._split(drops, edge, steps)

    def _split(self, drops: Drops, edge: Edge, steps: Iterator[Edge | None]) -> None:
        self.tree.append(edge)
        self._case(_kept(drops, edge), steps)
        lost = _lost(drops, edge)
        if lost is not None:
            self._case(lost, steps)
        else:
            self.tree.append(None)  # there is no such set
            if next(steps, edge) is not None:
                raise NotProved("branches of a case that cannot be")

    def _leaf(self, drops: Drops) -> None:
        bound = Bound(self.network, drops, [self.node], self.choices)
        found = below(bound, self.node, self.directions, self.slack)
        if (found >= self.least).all():
            self.tree.append(None)
            return
        edge = self._next_edge(drops) if self.branches else None
        if edge is None:
            raise NotProved(f"at least {float(np.min(found - self.least)):.3g} below what is to be proved")
        self.branches -= 1
        self._split(drops, edge, iter([None, None]))

    def _next_edge(self, drops: Drops) -> Edge | None:
        """An edge that can go, as near to the node as there is one."""
        seen, ring = {self.node}, [self.node]
        while ring:
            for i in ring:
                for k, free in zip(drops.graph.neighbours[i].tolist(), drops.free[i], strict=True):
                    if free:
                        return min(i, k), max(i, k)
            ring = sorted({int(k) for i in ring for k in drops.graph.neighbours[i]} - seen)
            seen.update(ring)
        return None


def below(bound: Bound, node: int, directions: Array, slack: Array) -> Array:
    """Below ``w · z`` for all w within ``slack`` of the directions."""
    found = bound.lower(node, directions)
    if not slack.any():
        return found
    at = slice(bound.first[node], bound.first[node] + bound.drops.states(node))
    sizes = np.concatenate([bound.outputs[m].rows(np.arange(at.start, at.stop)).size for m in bound.network.readout])
    return down(found - dot_above(slack[None], sizes))


def _kept(drops: Drops, edge: Edge) -> Drops:
    _check(drops.graph, edge)
    return Drops(drops.graph, drops.asked, drops.total, drops.kept | {edge})


def _lost(drops: Drops, edge: Edge) -> Drops | None:
    """The sets with an edge, by what else they have; None if there are none."""
    asked: Ints = drops.asked.copy()
    asked[list(edge)] -= 1
    if edge in drops.kept or min(asked[list(edge)]) < 0 or drops.total < 1:
        return None
    return Drops(drops.graph.without({edge}), asked, drops.total - 1, drops.kept)


def _check(graph: Graph, edge: Edge) -> None:
    a, b = edge
    if not (0 <= a < b < len(graph.neighbours) and b in graph.neighbours[a]):
        raise NotProved(f"a tree with {edge}, which is no edge")
