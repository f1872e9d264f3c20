"""Trees of cases: an edge stays or goes, a candidate comes or does not; if both branches are proved, so is the whole.

A tree is a list, in the order in which it is walked: a pair ``(a, b)`` with a < b, then the tree of the changes that
leave it as it is, then that of the others; None is a leaf, where Theorem A must do, or :mod:`views`. A list that ends
too early, or continues after its end, is not a tree. If none is given, the checker decides the edges with the largest
effects by themselves.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..choices import Choices, ways
from ..search import edge_to_decide
from .arithmetic import Array, dot_above, down, up
from .changes import Changes, Edge
from .fixed import Fixed
from .network import Network
from .rows import States
from .theorem import Bound
from .views import Views

Tree = list[Edge | None]


class NotProved(Exception):
    """A leaf is below the claim, or a tree is invalid."""


@dataclass
class Proof:
    """Of ``w · z_i >= least`` for one node, with several directions at a time.

    Args:
        branches: how many edges may be decided instead of leaves that Theorem A does not prove.
    """

    network: Network
    node: int
    directions: Array  # (C, d)
    slack: Array  # what directions can be off by, (d,)
    least: Array  # (C,)
    choices: Choices
    branches: int = 0
    tree: Tree = field(default_factory=list)  # as it was proved

    def prove(self, changes: Changes, tree: Sequence[Edge | None] = (None,)) -> None:
        """Raises ``NotProved``, or leaves the tree that was used in ``tree``."""
        steps = iter(tree)
        self._case(changes, steps)
        if next(steps, self) is not self:
            raise NotProved("a tree with more branches than it has room for")

    def _case(self, changes: Changes, steps: Iterator[Edge | None]) -> None:
        try:
            edge = next(steps)
        except StopIteration:
            raise NotProved("a tree without one of its branches") from None
        if edge is None:
            self._leaf(changes)
        else:
            self._split(changes, edge, steps)

    def _split(self, changes: Changes, edge: Edge, steps: Iterator[Edge | None]) -> None:
        self.tree.append(edge)
        try:
            same, other = changes.split(edge)
        except KeyError:
            raise NotProved(f"a tree with {edge}, which is no edge and no candidate") from None
        self._case(same, steps)
        if other is not None:
            self._case(other, steps)
        else:
            self.tree.append(None)  # there is no such change
            if next(steps, edge) is not None:
                raise NotProved("branches of a case that cannot be")

    def _leaf(self, changes: Changes) -> None:
        views = Views(self.network, changes, self.node)
        found = views.least(self.directions, self.slack) if views.few else self._bound(changes)
        if (found >= self.least).all():
            self.tree.append(None)
            return
        reason = f"at least {float(np.min(found - self.least)):.3g} below what is to be proved"
        if views.few or not self.branches:
            raise NotProved(reason)
        edge = edge_to_decide(views, self.directions, self.slack, self.least)
        if edge is None:
            raise NotProved(reason)
        self.branches -= 1
        self._split(changes, edge, iter([None, None]))

    def _bound(self, changes: Changes) -> Array:
        bounds = Bounds(self.network, changes, [self.node], ways(self.network, self.choices))
        return bounds.below(self.node, self.directions, self.slack, self.least)


class Bounds:
    """What Theorems A and B prove about some nodes, for every set of masked columns by itself where there are few."""

    def __init__(self, network: Network, changes: Changes, anchors: Sequence[int], choices: Sequence[Choices]) -> None:
        self.each = [Theorems(network, part, anchors, choices) for part in changes.by_columns()]

    def below(self, node: int, directions: Array, slack: Array, least: Array) -> Array:
        """Below ``w · z`` for all w within ``slack`` of the directions."""
        found = np.full(len(directions), np.inf)
        for each in self.each:
            found = np.minimum(found, each.below(node, directions, slack, least))
        return found

    def ranges(self, node: int) -> Array:
        """Of the embedding, ``(2, d)``."""
        return np.min([each.ranges(node) for each in self.each], axis=0)


class Theorems:
    """Their bounds under some changes, sharing those of the nodes around."""

    def __init__(self, network: Network, changes: Changes, anchors: Sequence[int], choices: Sequence[Choices]) -> None:
        self.given = network, changes, anchors
        alone = changes.features is not None and not States(network, changes, anchors).edges_change
        theorems: list[type[Bound] | type[Fixed]] = [Fixed, Bound] if alone else [Bound]
        self.ways = [(theorem, each) for each in choices for theorem in theorems]
        self.known: dict[int, Bound | Fixed] = {}

    def below(self, node: int, directions: Array, slack: Array, least: Array) -> Array:
        """The same with the first choices, and with the others while that is less than it should be."""
        best = np.full(len(directions), -np.inf)
        for way in range(len(self.ways)):
            bound = self._by(way)
            states = bound.first[node] + np.arange(bound.states.number[node])
            sizes = np.concatenate([bound.outputs[m].rows(states).size for m in bound.network.readout])
            off = dot_above(slack[None], sizes) if slack.any() else np.zeros(1)
            found = down(bound.lower(node, directions, up(least + 2 * off)) - off)
            best = np.fmax(best, found)  # NaN proves nothing
            if (best >= least).all():
                break
        return best

    def ranges(self, node: int) -> Array:
        bound = self._by(0)
        states, parts = bound.first[node] + np.arange(bound.states.number[node]), list[Array]()
        for number in bound.network.readout:  # not from boxes, which are rounded once more: a ReLU ends at zero
            low, high = (ends[number][states] for ends in (bound.lines.low, bound.lines.high))
            low, high = bound.network.layers[number - 1].activation.range(low, high)
            parts.append(np.array([low.min(axis=0), -high.max(axis=0)]))
        return np.concatenate(parts, axis=1)

    def _by(self, way: int) -> Bound | Fixed:
        if way not in self.known:
            theorem, choices = self.ways[way]
            self.known[way] = theorem(*self.given, choices)
        return self.known[way]
