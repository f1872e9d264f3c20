"""Layers that depend on a node's own edges alone: their values for every set of edges that the node can lose.

A layer is *near* if it is a sum of terms of the features whose scales do not ask how many edges a neighbour has (sums,
means), and of terms of near layers at the same node: the first convolution of a GIN or GraphSAGE, and the rest of its
MLP. What it is at node i is a function of the set S of edges that i loses, so that

    p_i  >=  min { p_i(S) : S of t droppable edges,  first <= t <= last }

in a state with ``first … last`` edges lost and none gained, and likewise for every function of near layers; no line is
needed.
Budgets of other nodes may forbid some S, which leaves the minimum a lower bound. Nodes with more than
:data:`~certgcl.bounds.propagation.limits.MOST_SETS` sets are left to lines.
"""

import math
from dataclasses import dataclass
from itertools import chain, combinations
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from certgcl.bounds.propagation import limits
from certgcl.bounds.propagation.balls import Ball
from certgcl.bounds.propagation.extremes import best
from certgcl.bounds.propagation.levels import consecutive
from certgcl.bounds.two_layer.row_plan import starts
from certgcl.models.layer import Term
from certgcl.models.network import GraphNetwork

if TYPE_CHECKING:
    from certgcl.bounds.propagation.ranges import NetworkRanges


def near_layers(network: GraphNetwork) -> set[int]:
    """The numbers of the layers that depend on a node's own edges alone."""
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


@dataclass(frozen=True, eq=False)
class DropSets:
    """All sets of edges that some rows of a ball can lose.

    Args:
        row: of every set, ``(S,)``.
        lost: how many edges are in it, ``(S,)``.
        owner, slot: the sets' edges, one list for all: whose, and the slot in the ball.
    """

    ball: Ball
    row: Tensor
    lost: Tensor
    owner: Tensor
    slot: Tensor

    @classmethod
    def of(cls, ball: Ball, most_rows: int) -> "list[DropSets]":
        """The sets of all rows that have few of them, a block of rows at a time."""
        free = torch.zeros_like(ball.degree).index_add_(0, ball.row, ball.droppable.long())
        first, slots = starts(free), ball.droppable.nonzero()[:, 0]
        found = []
        for kind in torch.unique(torch.stack([free, ball.budget], dim=1), dim=0):
            edges, budget = kind.tolist()
            if sum(math.comb(edges, lost) for lost in range(budget + 1)) > limits.MOST_SETS:
                continue
            sets = list(chain.from_iterable(combinations(range(edges), lost) for lost in range(budget + 1)))
            lost = torch.tensor([len(each) for each in sets], device=kind.device)
            chosen = torch.tensor(list(chain.from_iterable(sets)), dtype=torch.long, device=kind.device)
            for rows in ((free == edges) & (ball.budget == budget)).nonzero()[:, 0].split(most_rows):
                each = lost.repeat(len(rows))
                owner = torch.repeat_interleave(torch.arange(len(each), device=kind.device), each)
                found.append(
                    cls(
                        ball,
                        rows.repeat_interleave(len(sets)),
                        each,
                        owner,
                        slots[(first[rows, None] + chosen).flatten()],
                    )
                )
        return found

    @property
    def cell(self) -> Tensor:
        """The cell of the ball that every set belongs to, with no edge gained; a row's cells at a level are its counts
        in their order."""
        cells = self.ball.cells
        number = cells.last - cells.first + 1
        of_count = torch.repeat_interleave(torch.arange(len(cells.row), device=cells.row.device), number)
        return of_count[starts(number)[cells.start[self.row]] + self.lost]

    def preactivations(self, ranges: "NetworkRanges", near: set[int]) -> dict[int, Tensor]:
        """Of the near layers, ``(S, d)``."""
        found: dict[int, Tensor] = {}
        for number in sorted(near):
            layer = ranges.network.layers[number - 1]
            parts = [
                self._of_features(ranges, term)
                if term.source == 0
                else term.project(ranges.network.layers[term.source - 1].activate(found[term.source]))
                for term in layer.terms
            ]
            found[number] = torch.stack(parts).sum(dim=0) + layer.bias
        return found

    def _of_features(self, ranges: "NetworkRanges", term: Term) -> Tensor:
        ball, values, scales = self.ball, ranges.projected(term), term.aggregation
        own = values[ranges.widest.place[ball.nodes[self.row]]]
        if not scales.mixes:
            return own
        rows, place = torch.unique_consecutive(self.row, return_inverse=True)
        every = consecutive(ball.rowptr[rows], ball.degree[rows])
        around = values[ranges.widest.place[ball.neighbour]]
        whole = values.new_zeros(len(rows), values.shape[1]).index_add(
            0, torch.repeat_interleave(torch.arange(len(rows), device=rows.device), ball.degree[rows]), around[every]
        )
        kept = whole[place].index_add(0, self.owner, around[self.slot], alpha=-1)
        left = (ball.degree[self.row] - self.lost).to(values.dtype)[:, None]
        return scales.own(left) * own + scales.out(left) * scales.into(torch.ones_like(left)) * kept

    def raised(self, bounds: Tensor, values: Tensor) -> Tensor:
        """Lower bounds in all cells of the ball, ``(cells, M)``, or the least values of the sets where those are
        higher."""
        # Where an edge may be gained in the same cell, the sets are not all that can happen.
        of_set = self.cell
        known = (self.ball.cells.most_gain[of_set] == 0).nonzero()[:, 0]
        cells, place = torch.unique(of_set[known], return_inverse=True)
        values = values[known]
        least = values.new_full((len(cells), values.shape[1]), torch.inf)
        least = least.scatter_reduce(0, place[:, None].expand_as(values), values, "amin")
        return bounds.index_copy(0, cells, best([bounds[cells], least]))


def range_by_sets(ranges: "NetworkRanges", number: int, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
    """The range of a near layer's pre-activations, within one that is given, ``(cells, d)``."""
    network = ranges.network
    near = {layer for layer in near_layers(network) if layer <= number}
    for sets in DropSets.of(ranges.ball_of(number), _rows_at_once(network, 1)):
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
    for sets in DropSets.of(ranges.balls[0], _rows_at_once(network, directions.shape[1])):
        found = sets.preactivations(ranges, near_layers(network))
        z = torch.cat([network.layers[number - 1].activate(found[number]) for number in network.readout], dim=1)
        bound = sets.raised(bound, (directions[sets.row] @ z[:, :, None])[..., 0])
    return bound


def _rows_at_once(network: GraphNetwork, directions: int) -> int:
    width = max(network.width_of(number) for number in range(1, len(network.layers) + 1))
    return max(1, limits.MAX_ELEMENTS // (limits.MOST_SETS * width * directions))
