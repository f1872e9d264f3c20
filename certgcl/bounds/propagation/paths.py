"""All paths from some nodes to those that they depend on, in a graph with fixed edges."""

from dataclasses import dataclass

import torch
from torch import Tensor

from certgcl.bounds.propagation import limits
from certgcl.bounds.propagation.levels import consecutive
from certgcl.graphs.graph import Graph
from certgcl.models.aggregations import Aggregation


@dataclass(frozen=True, eq=False)
class Surroundings:
    """The nodes around some anchors, with the edges between them that a network can use.

    Args:
        nodes: in the graph, ascending, ``(n,)``.
        distance: to the nearest anchor, ``(n,)``.
        degree: in the whole graph, ``(n,)``.
        start, neighbour: the neighbours of every node except the outermost, by their positions here.
    """

    nodes: Tensor
    distance: Tensor
    degree: Tensor
    start: Tensor
    neighbour: Tensor

    @classmethod
    def of(cls, graph: Graph, anchors: Tensor, hops: int) -> "Surroundings":
        distance = torch.full_like(graph.degree, hops + 1)
        distance[anchors] = 0
        reached = anchors
        for hop in range(1, hops + 1):
            around = graph.col[consecutive(graph.rowptr[reached], graph.degree[reached])]
            reached = around[distance[around] > hop].unique()
            distance[reached] = hop
        nodes = (distance <= hops).nonzero()[:, 0]
        place = torch.zeros_like(graph.degree)
        place[nodes] = torch.arange(len(nodes), device=nodes.device)
        inner = torch.where(distance[nodes] < hops, graph.degree[nodes], 0)
        slots = consecutive(graph.rowptr[nodes], inner)
        return cls(
            nodes,
            distance[nodes],
            graph.degree[nodes],
            torch.cat([inner.new_zeros(1), inner.cumsum(0)]),
            place[graph.col[slots]],
        )

    def within(self, hops: int) -> Tensor:
        """Positions of the nodes within a distance of the anchors."""
        return (self.distance <= hops).nonzero()[:, 0]

    def slots(self, places: Tensor) -> tuple[Tensor, Tensor]:
        """The slots of some nodes, and which of them each belongs to."""
        count = self.start.diff()[places]
        return consecutive(self.start[places], count), torch.repeat_interleave(
            torch.arange(len(places), device=places.device), count
        )

    def weights(self, aggregation: Aggregation, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Of every node in its own row, ``(n,)``, and of the neighbour at every slot."""
        count = self.degree.to(dtype)
        row = torch.repeat_interleave(torch.arange(len(self.nodes), device=self.nodes.device), self.start.diff())
        return aggregation.own(count), aggregation.out(count)[row] * aggregation.into(count)[self.neighbour]


@dataclass(frozen=True, eq=False)
class Paths:
    """Some targets with all nodes from which they can be reached: a *pair* is a target and one such node.

    Args:
        target: of every pair, ``(P,)``; pairs of a target follow each other.
        node: its place in the surroundings.
        own: the pair of every target with itself, ``(B,)``.
        source, goal, slot: the steps of paths: from a pair to one with a neighbour of its node, at that slot.
    """

    target: Tensor
    node: Tensor
    own: Tensor
    source: Tensor
    goal: Tensor
    slot: Tensor

    @classmethod
    def of(cls, around: Surroundings, targets: Tensor, hops: int) -> "Paths":
        size = len(around.nodes)
        number = torch.arange(len(targets), device=targets.device)
        key = inner = number * size + targets
        for _ in range(hops):
            slot, owner = around.slots(key % size)
            inner, key = key, torch.cat([key, (key // size)[owner] * size + around.neighbour[slot]]).unique()
        if not hops:
            inner = key[:0]
        slot, owner = around.slots(inner % size)
        goal = torch.searchsorted(key, (inner // size)[owner] * size + around.neighbour[slot])
        return cls(
            key // size,
            key % size,
            torch.searchsorted(key, number * size + targets),
            torch.searchsorted(key, inner)[owner],
            goal,
            slot,
        )

    @classmethod
    def of_graphs(cls, around: Surroundings, graph: Tensor) -> "PathsOfGraphs":
        """Whole graphs as targets, with functionals of all nodes of each.

        Args:
            graph: of every node, ``(n,)``, all of them anchors.
        """
        everyone = torch.arange(len(graph), device=graph.device)
        slot, row = around.slots(everyone)
        first = torch.searchsorted(graph, torch.arange(int(graph[-1]) + 1, device=graph.device))
        return PathsOfGraphs(graph, everyone, first, row, around.neighbour[slot], slot)

    def start(self, functionals: Tensor) -> Tensor:
        """Functionals of the targets at the pairs where paths begin, ``(B, …)`` to ``(P, …)``."""
        return functionals.new_zeros(len(self.node), *functionals.shape[1:]).index_copy(0, self.own, functionals)

    def table(self, values: Tensor) -> Tensor:
        """The values of all pairs of a target side by side, with zeros up to the most pairs of any,
        ``(P, M, d)`` to ``(B, M, n d)``."""
        target, rank, longest = self._places()
        found = values.new_zeros(len(self.own), longest, *values.shape[1:]).index_put((target, rank), values)
        return found.transpose(1, 2).flatten(2)

    def pairs(self, table: Tensor, width: int) -> Tensor:
        """Values of all pairs from such a table by several ways, ``(B, M, W, n d)`` to ``(P, M W, d)``."""
        target, rank, _ = self._places()
        return table.unflatten(3, (-1, width))[target, :, :, rank].flatten(1, 2)

    def _places(self) -> tuple[Tensor, Tensor, int]:
        """The target of every pair, its rank among the pairs of the target, and the most pairs of any."""
        size = torch.bincount(self.target, minlength=len(self.own))
        rank = torch.arange(len(self.target), device=self.target.device) - (size.cumsum(0) - size)[self.target]
        return self.target, rank, int(size.max())

    def sums(self, values: Tensor) -> Tensor:
        """Of the values of all pairs of a target, ``(P, …)`` to ``(B, …)``."""
        return values.new_zeros(len(self.own), *values.shape[1:]).index_add(0, self.target, values)


class PathsOfGraphs(Paths):
    """Targets whose paths begin at all of their nodes; ``own`` is the first of them."""

    def start(self, functionals: Tensor) -> Tensor:
        return functionals[self.target]


def largest_sums(values: Tensor, target: Tensor, targets: int, most: int) -> Tensor:
    """The sum of the largest values of each target, as many as it counts, ``(n, T, M)`` to ``(targets, M)``.

    Args:
        values: at least zero.
        target: of every row of values, ``(n,)``.
    """
    (_, each, number), size = values.shape, torch.bincount(target, minlength=targets)
    rows, first = torch.argsort(target, stable=True), size.cumsum(0) - size
    order = torch.argsort(size)
    group = torch.div((size[order] * each * number).cumsum(0), limits.MAX_VALUES, rounding_mode="floor")
    found = values.new_zeros(targets, number)
    for some in order.split(torch.unique_consecutive(group, return_counts=True)[1].tolist()):
        longest = int(size[some].max())
        if not longest or not each:
            continue
        place = torch.arange(longest, device=rows.device)
        there = place < size[some, None]
        table = values[rows[torch.where(there, first[some, None] + place, 0)]]
        table = torch.where(there[..., None, None], table, 0).flatten(1, 2)
        found = found.index_copy(0, some, table.topk(min(most, table.shape[1]), dim=1).values.sum(dim=1))
    return found
