"""The nodes that some anchors depend on, hop by hop: their rows, and the states that they can be in.

The *state* of a node is how many of its edges are lost. States come in *cases*, single counts or groups of them, in
each of which a bound is computed by itself; one or several cases share a *cell*, which has pre-activation ranges and
lines of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from certgcl.bounds.propagation.drop_counts import Losses, Scale, drop_cases
from certgcl.bounds.two_layer.neighbourhood import row_slots
from certgcl.bounds.two_layer.row_plan import FEW_EDGES, LineSharing, starts
from certgcl.changes.edge_drops import AdmissibleDrops
from certgcl.graphs.graph import Graph

ScaleOfCount = Callable[[Tensor], Tensor]
"""From numbers of neighbours to scales: see :mod:`certgcl.models.aggregations`."""


@dataclass(frozen=True, eq=False)
class States:
    """Numbers ``first … last`` of edges that rows lose, one list for all rows, row after row."""

    start: Tensor  # (R + 1,)
    row: Tensor  # (F,)
    first: Tensor  # (F,)
    last: Tensor  # (F,)
    degree: Tensor  # (F,) of the row
    _extents: dict[tuple[ScaleOfCount, torch.dtype], Scale] = field(default_factory=dict)

    @classmethod
    def of(cls, number: Tensor, first: Tensor, last: Tensor, degree: Tensor) -> "States":
        """From tables ``(R, G)``, of which every row has its own number of columns."""
        start = starts(number)
        row = torch.repeat_interleave(torch.arange(len(number), device=number.device), number)
        rank = torch.arange(len(row), device=row.device) - start[row]
        return cls(start, row, first[row, rank], last[row, rank], degree[row])

    @property
    def rank(self) -> Tensor:
        """Which of its row's states each one is."""
        return torch.arange(len(self.row), device=self.row.device) - self.start[self.row]

    def extent(self, scale: ScaleOfCount, dtype: torch.dtype) -> Scale:
        """The range of a scale in every state; computed once."""
        if (scale, dtype) not in self._extents:
            self._extents[scale, dtype] = extent(scale, self.degree - self.last, self.degree - self.first, dtype)
        return self._extents[scale, dtype]


def extent(scale: ScaleOfCount, fewest: Tensor, most: Tensor, dtype: torch.dtype) -> Scale:
    """The range of a scale for ``fewest <= n <= most``: it is monotone from one neighbour on, so its extremes are at
    the ends, or at zero."""
    ends = [scale(n.to(dtype)) for n in (fewest, fewest.clamp(min=1).minimum(most), most)]
    low, high = torch.minimum(*ends[:2]).minimum(ends[2]), torch.maximum(*ends[:2]).maximum(ends[2])
    return Scale(low, None if torch.equal(low, high) else high)


@dataclass(frozen=True, eq=False)
class Ball:
    """Some nodes with all their neighbours, and how they can change.

    Per-slot facts hold *while the slot's edge is kept*: ``reach[(i, k)]`` is the largest number of edges that k can
    then lose.
    """

    graph: Graph
    total: Tensor  # (R,) edges that may go in all
    nodes: Tensor  # (R,) ascending
    place: Tensor  # (N,) the row of every node, or -1
    rowptr: Tensor  # (R + 1,)
    slot: Tensor  # (S,) in the graph
    droppable: Tensor  # (S,)
    reach: Tensor  # (S,)
    degree: Tensor  # (R,)
    budget: Tensor  # (R,)
    cases: States
    cells: States
    by_case: Tensor  # (R,) whether each case has a cell of its own
    _by_count: dict[tuple[ScaleOfCount, torch.dtype], Tensor] = field(default_factory=dict)
    _of_neighbours: dict[tuple[ScaleOfCount, torch.dtype], Scale] = field(default_factory=dict)

    @classmethod
    def around(cls, graph: Graph, drops: AdmissibleDrops, nodes: Tensor, resolution: int, lines: LineSharing) -> "Ball":
        """The rows of some nodes, in ascending order."""
        degree, budget, slot = graph.degree[nodes], drops.local[nodes], row_slots(graph, nodes)
        neighbour, droppable = graph.col[slot], drops.droppable[slot]
        reach = drops.local[neighbour].minimum(drops.droppable_degree[neighbour] - droppable.long())
        place = torch.full_like(graph.degree, -1)
        place[nodes] = torch.arange(len(nodes), device=nodes.device)
        found = drop_cases(Losses(degree, budget), resolution)
        cases = States.of(found.number, found.first, found.last, degree)
        by_case = torch.full_like(degree, lines == "by-count", dtype=torch.bool) if lines != "mixed" else (
            degree <= FEW_EDGES)
        one = torch.zeros_like(degree)
        cells = States.of(torch.where(by_case, found.number, 1),
                          torch.where(by_case[:, None], found.first, one[:, None]),
                          torch.where(by_case[:, None], found.last, budget[:, None]), degree)
        return cls(graph, drops.total_at(nodes), nodes, place, starts(degree), slot, droppable, reach, degree, budget,
                   cases, cells, by_case)

    @cached_property
    def row(self) -> Tensor:
        """Of every slot."""
        return torch.repeat_interleave(torch.arange(len(self.nodes), device=self.nodes.device), self.degree)

    @cached_property
    def neighbour(self) -> Tensor:
        """The node at every slot."""
        return self.graph.col[self.slot]

    @cached_property
    def count_start(self) -> Tensor:
        """Where the counts 0 … q of every row begin in a table of all of them."""
        return starts(self.budget + 1)

    def by_count(self, scale: ScaleOfCount, dtype: torch.dtype) -> Tensor:
        """A scale of every row for each number of edges that it can lose, row after row; computed once."""
        if (scale, dtype) not in self._by_count:
            row = torch.repeat_interleave(torch.arange(len(self.nodes), device=self.nodes.device), self.budget + 1)
            lost = torch.arange(len(row), device=row.device) - self.count_start[row]
            self._by_count[scale, dtype] = scale((self.degree[row] - lost).to(dtype))
        return self._by_count[scale, dtype]

    def of_neighbours(self, scale: ScaleOfCount, dtype: torch.dtype) -> Scale:
        """The range of a scale of the neighbour at every slot, ``(S,)``; computed once."""
        if (scale, dtype) not in self._of_neighbours:
            most = self.graph.degree[self.neighbour]
            self._of_neighbours[scale, dtype] = extent(scale, most - self.reach, most, dtype)
        return self._of_neighbours[scale, dtype]

    @cached_property
    def by_node(self) -> "Ball":
        """The same with one cell a node, for all of its cases."""
        nothing = torch.zeros_like(self.degree)
        cells = States.of(nothing + 1, nothing[:, None], self.budget[:, None], self.degree)
        return replace(self, cells=cells, by_case=torch.zeros_like(self.by_case))

    @cached_property
    def cell_of_case(self) -> Tensor:
        """``(cases,)``."""
        return self.cells.start[self.cases.row] + torch.where(self.by_case[self.cases.row], self.cases.rank, 0)

    @cached_property
    def parent_rank(self) -> Tensor:
        """Where i stands among the neighbours of k, for every slot (i, k)."""
        return self.graph.reverse[self.slot] - self.graph.rowptr[self.neighbour]

    def cells_in(self, other: "Ball", cells: Tensor | None = None) -> Tensor:
        """The cell that each cell here (or some) lies in there, where the nodes are among others."""
        row = self.cells.row if cells is None else self.cells.row[cells]
        rank = self.cells.rank if cells is None else self.cells.rank[cells]
        there = other.place[self.nodes[row]]
        return other.cells.start[there] + torch.where(other.by_case[there], rank, 0)


def balls_around(graph: Graph, drops: AdmissibleDrops, anchors: Tensor, hops: int, resolution: int,
                 lines: LineSharing) -> list[Ball]:
    """The anchors, and the nodes within one hop of them, two hops, and so on. All cases of the anchors are cells."""
    nodes = anchors.sort().values
    balls = [Ball.around(graph, drops, nodes, resolution, "by-count")]
    for hop in range(hops):
        touched = torch.zeros_like(graph.degree, dtype=torch.bool)
        touched[nodes] = True
        touched[balls[-1].neighbour] = True
        wider = touched.nonzero()[:, 0]
        same = len(wider) == len(nodes) and hop > 0
        balls.append(balls[-1] if same else Ball.around(graph, drops, wider, resolution, lines))
        nodes = wider
    return balls
