"""Layers that depend only on a node's own edges: their values for every set of edges that the node can lose.

A layer is *near* if it is a sum of terms of the features whose scales do not depend on the number of edges of a
neighbour (sums, means), and of terms of near layers at the same node: the first convolution of a GIN or GraphSAGE, and
the rest of its MLP. Its value at node i is a function of the set S of edges that i loses, so that

    p_i  >=  min { p_i(S) : S of t droppable edges,  first <= t <= last }

in a state with ``first … last`` edges lost and none gained, and likewise for every function of near layers; no line is
needed.
Budgets of other nodes may forbid some S; the minimum is still a lower bound. Nodes with more than
:data:`~certgcl.bounds.propagation.limits.MOST_SETS` sets are bounded by lines.
"""

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from certgcl.bounds.propagation import limits
from certgcl.bounds.propagation.balls import Ball
from certgcl.bounds.propagation.extremes import best
from certgcl.bounds.propagation.levels import consecutive
from certgcl.bounds.two_layer.row_plan import starts
from certgcl.changes.subsets import number_of_subsets
from certgcl.models.layer import Term
from certgcl.models.network import GraphNetwork

if TYPE_CHECKING:
    from certgcl.bounds.propagation.ranges import NetworkRanges


def near_layers(network: GraphNetwork) -> set[int]:
    """The numbers of the layers that depend only on a node's own edges."""
    near: set[int] = set()
    for number, layer in enumerate(network.layers, 1):
        if all(
            not term.aggregation.counts_at_neighbours
            if term.source == 0
            else term.source in near and not term.aggregation.mixes
            for term in layer.terms
        ):
            near.add(number)
    return near


def few_sets(ball: Ball) -> Tensor:
    """Which rows can lose so few sets of edges that all are tried, ``(R,)``."""
    few = torch.zeros_like(ball.degree, dtype=torch.bool)
    for kind, chosen in _kinds(ball):
        few[chosen] = number_of_subsets(*kind) <= limits.MOST_SETS
    return few


def _kinds(ball: Ball) -> list[tuple[tuple[int, int], Tensor]]:
    """The rows by the number of edges that can be dropped, and by the budget."""
    free = torch.zeros_like(ball.degree).index_add_(0, ball.row, ball.droppable.long())
    kinds, place = torch.unique(torch.stack([free, ball.budget], dim=1), dim=0, return_inverse=True)
    order, number = torch.argsort(place, stable=True), torch.bincount(place, minlength=len(kinds)).tolist()
    return [((edges, budget), rows) for (edges, budget), rows in zip(kinds.tolist(), order.split(number), strict=True)]


@dataclass(frozen=True, eq=False)
class DropSets:
    """All sets of edges that some rows of a ball can lose, which have as many droppable edges and the same budget.

    Args:
        rows: of the ball, ``(n,)``.
        slots: their droppable edges, ``(n, f)``.
        gone: which of these every set has, sets of few edges first, ``(s, f)``.
        lost: how many, ``(s,)``.
    """

    ball: Ball
    rows: Tensor
    slots: Tensor
    gone: Tensor
    lost: Tensor

    @classmethod
    def of(cls, ball: Ball, width: int) -> "list[DropSets]":
        """The sets of all rows that have few of them, some rows at a time, in blocks for ``width`` numbers per set."""
        order = torch.argsort(ball.droppable.logical_not().long() + 2 * ball.row, stable=True)  # droppable slots first
        found = []
        for (edges, budget), chosen in _kinds(ball):
            if number_of_subsets(edges, budget) > limits.MOST_SETS:
                continue
            sets = [each for lost in range(budget + 1) for each in combinations(range(edges), lost)]
            gone = torch.zeros(len(sets), edges, dtype=torch.bool)
            for number, each in enumerate(sets):
                gone[number, list(each)] = True
            gone = gone.to(chosen.device)
            for rows in chosen.split(max(1, limits.MAX_ELEMENTS // (len(sets) * width))):
                slots = order[ball.rowptr[rows, None] + torch.arange(edges, device=rows.device)]
                found.append(cls(ball, rows, slots, gone, gone.sum(dim=1)))
        return found

    @property
    def cell(self) -> Tensor:
        """The cell of the ball that every set belongs to, with no edge gained; a row's cells at a level are its counts
        in their order. ``(n, s)``."""
        cells = self.ball.cells
        number = cells.last - cells.first + 1
        of_count = torch.repeat_interleave(torch.arange(len(cells.row), device=cells.row.device), number)
        return of_count[starts(number)[cells.start[self.rows]][:, None] + self.lost]

    def left(self, dtype: torch.dtype) -> Tensor:
        """How many edges the rows keep, ``(n, s, 1)``."""
        return (self.ball.degree[self.rows][:, None] - self.lost).to(dtype)[..., None]

    def kept(self, values: Tensor, whole: Tensor) -> Tensor:
        """Sums over the edges that are kept, ``(n, s, d)``.

        Args:
            values: at the droppable edges, ``(n, f, d)``.
            whole: the sums over all edges, ``(n, d)``.
        """
        return whole[:, None] - self.gone.to(values.dtype) @ values

    def preactivations(self, ranges: "NetworkRanges", near: set[int]) -> dict[int, Tensor]:
        """Of the near layers, ``(n, s, d)``."""
        found: dict[int, Tensor] = {}
        for number in sorted(near):
            layer = ranges.network.layers[number - 1]
            parts = [
                self._of_features(ranges, term)
                if term.source == 0
                else term.project(ranges.network.layers[term.source - 1].activate(found[term.source]))
                for term in layer.terms
            ]
            found[number] = sum(parts[1:], parts[0]) + layer.bias
        return found

    def outputs(self, ranges: "NetworkRanges", number: int) -> Tensor:
        """Of a near layer, ``(n, s, d)``."""
        found = self.preactivations(ranges, {layer for layer in near_layers(ranges.network) if layer <= number})
        return ranges.network.layers[number - 1].activate(found[number])

    def _of_features(self, ranges: "NetworkRanges", term: Term) -> Tensor:
        ball, values, scales = self.ball, ranges.projected(term), term.aggregation
        own = values[ranges.widest.place[ball.nodes[self.rows]]][:, None].expand(-1, len(self.lost), -1)
        if not scales.mixes:
            return own
        place = ranges.widest.place[ball.neighbour]
        degree = ball.degree[self.rows]
        owner = torch.repeat_interleave(torch.arange(len(degree), device=degree.device), degree)
        every = place[consecutive(ball.rowptr[self.rows], degree)]
        whole = values.new_zeros(len(degree), values.shape[1]).index_add(0, owner, values[every])
        left = self.left(values.dtype)
        kept = self.kept(values[place[self.slots]], whole)
        return scales.own(left) * own + scales.out(left) * scales.into(torch.ones_like(left)) * kept

    def raised(self, bounds: Tensor, values: Tensor) -> Tensor:
        """Lower bounds in all cells of the ball, ``(cells, M)``, or the least values of the sets, ``(n, s, M)``, where
        those are higher."""
        # If an edge may be gained in the same cell, the sets do not cover all cases.
        of_set, values = self.cell.flatten(), values.flatten(0, 1)
        known = (self.ball.cells.most_gain[of_set] == 0).nonzero()[:, 0]
        cells, place = torch.unique(of_set[known], return_inverse=True)
        values = values[known]
        least = values.new_full((len(cells), values.shape[1]), torch.inf)
        least = least.scatter_reduce(0, place[:, None].expand_as(values), values, "amin")
        return bounds.index_copy(0, cells, best([bounds[cells], least]))


def range_by_sets(ranges: "NetworkRanges", number: int, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
    """The range of a near layer's pre-activations, intersected with a given one, ``(cells, d)``."""
    near = {layer for layer in near_layers(ranges.network) if layer <= number}
    for sets in DropSets.of(ranges.ball_of(number), _width(ranges.network)):
        values = sets.preactivations(ranges, near)[number]
        lower, upper = sets.raised(lower, values), -sets.raised(-upper, -values)
    return lower, upper


def output_by_sets(ranges: "NetworkRanges", directions: Tensor, bound: Tensor) -> Tensor:
    """The least ``w · z`` in all cells of the anchors where that is more than a given bound, ``(cells, C)``, for a
    readout of near layers.

    Args:
        directions: ``(A, C, width of z)``.
    """
    network = ranges.network
    for sets in DropSets.of(ranges.balls[0], _width(network) * directions.shape[1]):
        found = sets.preactivations(ranges, near_layers(network))
        z = torch.cat([network.layers[number - 1].activate(found[number]) for number in network.readout], dim=-1)
        bound = sets.raised(bound, z @ directions[sets.rows].transpose(1, 2))
    return bound


def _width(network: GraphNetwork) -> int:
    return max(network.width_of(number) for number in range(1, len(network.layers) + 1))
