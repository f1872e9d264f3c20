"""The nodes that some anchors depend on, hop by hop: their rows, and their possible states.

The *state* of a node is how many of its edges are lost, and how many it gained. States come in *cases*, single counts
or groups of them, each with a separate bound; one or several cases share a *cell*, which has its own pre-activation
ranges and lines. The numbers of edges gained come in *levels*, single ones or groups; all cases of a cell are of one
level. If no edge can be added, every node has one level: none gained.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from certgcl.bounds.propagation.drop_counts import Losses, Scale, drop_cases
from certgcl.bounds.propagation.levels import Levels, consecutive
from certgcl.bounds.two_layer.neighbourhood import edges_between_neighbours, row_slots
from certgcl.bounds.two_layer.row_plan import FEW_EDGES, LineSharing, starts
from certgcl.changes.edge_additions import AdmissibleAdditions
from certgcl.changes.edge_drops import AdmissibleDrops
from certgcl.graphs.graph import Graph

ScaleOfCount = Callable[[Tensor], Tensor]
"""From numbers of neighbours to scales: see :mod:`certgcl.models.aggregations`."""


@dataclass(frozen=True, eq=False)
class States:
    """Numbers ``first … last`` of edges that rows lose at a level of edges gained, one list for all rows, row after
    row, level after level."""

    start: Tensor  # (R + 1,)
    row: Tensor  # (F,)
    first: Tensor  # (F,)
    last: Tensor  # (F,)
    degree: Tensor  # (F,) of the row
    level: Tensor  # (F,) among those of all rows
    least_gain: Tensor  # (F,)
    most_gain: Tensor  # (F,)
    _extents: dict[tuple[ScaleOfCount, torch.dtype], Scale] = field(default_factory=dict)

    @classmethod
    def of(cls, levels: Levels, number: Tensor, first: Tensor, last: Tensor, degree: Tensor) -> "States":
        """From tables ``(levels, G)``, of which every level has its own number of columns."""
        start = starts(number)
        level = torch.repeat_interleave(torch.arange(len(number), device=number.device), number)
        rank = torch.arange(len(level), device=level.device) - start[level]
        row = levels.row[level]
        return cls(
            start[levels.start],
            row,
            first[level, rank],
            last[level, rank],
            degree[row],
            level,
            levels.first[level],
            levels.last[level],
        )

    @property
    def rank(self) -> Tensor:
        """The number of each state within its row."""
        return torch.arange(len(self.row), device=self.row.device) - self.start[self.row]

    def extent(self, scale: ScaleOfCount, dtype: torch.dtype) -> Scale:
        """The range of a scale in every state; computed once."""
        if (scale, dtype) not in self._extents:
            self._extents[scale, dtype] = extent(
                scale, self.degree - self.last + self.least_gain, self.degree - self.first + self.most_gain, dtype
            )
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
    drops: AdmissibleDrops
    additions: AdmissibleAdditions | None
    total: Tensor  # (R,) edges that may go in all
    nodes: Tensor  # (R,) ascending
    place: Tensor  # (N,) the row of every node, or -1
    rowptr: Tensor  # (R + 1,)
    slot: Tensor  # (S,) in the graph
    droppable: Tensor  # (S,)
    reach: Tensor  # (S,)
    degree: Tensor  # (R,)
    budget: Tensor  # (R,)
    gain: Tensor  # (R,) edges that may be added
    levels: Levels
    cases: States
    cells: States
    by_case: Tensor  # (R,) whether each case has a cell of its own
    _by_count: dict[tuple[ScaleOfCount, torch.dtype], Scale] = field(default_factory=dict)
    _of_neighbours: dict[tuple[ScaleOfCount, torch.dtype, int | None], Scale] = field(default_factory=dict)

    @classmethod
    def around(
        cls,
        graph: Graph,
        drops: AdmissibleDrops,
        nodes: Tensor,
        resolution: int,
        lines: LineSharing,
        additions: AdmissibleAdditions | None = None,
    ) -> "Ball":
        """The rows of some nodes, in ascending order."""
        degree, budget, slot = graph.degree[nodes], drops.local[nodes], row_slots(graph, nodes)
        neighbour, droppable = graph.col[slot], drops.droppable[slot]
        reach = drops.local[neighbour].minimum(drops.droppable_degree[neighbour] - droppable.long())
        place = torch.full_like(graph.degree, -1)
        place[nodes] = torch.arange(len(nodes), device=nodes.device)
        gain = torch.zeros_like(degree) if additions is None else additions.local[nodes]
        levels = Levels.of(gain, resolution)
        most = (
            budget[levels.row]
            if additions is None
            else budget[levels.row].minimum(additions.both[nodes][levels.row] - levels.first)
        )
        found = drop_cases(Losses(degree[levels.row], most), resolution)
        cases = States.of(levels, found.number, found.first, found.last, degree)
        by_case = (
            torch.full_like(degree, lines == "by-count", dtype=torch.bool)
            if lines != "mixed"
            else (degree <= FEW_EDGES)
        )
        apart = by_case[levels.row]
        cells = States.of(
            levels,
            torch.where(apart, found.number, 1),
            torch.where(apart[:, None], found.first, torch.zeros_like(most)[:, None]),
            torch.where(apart[:, None], found.last, most[:, None]),
            degree,
        )
        return cls(
            graph,
            drops,
            additions,
            drops.total_at(nodes),
            nodes,
            place,
            starts(degree),
            slot,
            droppable,
            reach,
            degree,
            budget,
            gain,
            levels,
            cases,
            cells,
            by_case,
        )

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
        """The positions where the counts 0 … q of every level begin in a table of all of them."""
        return starts(self.budget[self.levels.row] + 1)

    def by_count(self, scale: ScaleOfCount, dtype: torch.dtype) -> Scale:
        """A scale of every row for each number of edges that it can lose at each of its levels; computed once."""
        if (scale, dtype) not in self._by_count:
            levels, number = self.levels, self.budget[self.levels.row] + 1
            level = torch.repeat_interleave(torch.arange(len(number), device=number.device), number)
            left = self.degree[levels.row[level]] - (
                torch.arange(len(level), device=level.device) - self.count_start[level]
            )
            self._by_count[scale, dtype] = extent(scale, left + levels.first[level], left + levels.last[level], dtype)
        return self._by_count[scale, dtype]

    def of_neighbours(self, scale: ScaleOfCount, dtype: torch.dtype, most: int | None = None) -> Scale:
        """The range of a scale of the neighbour at every slot, where that loses at most a number of edges, ``(S,)``;
        computed once."""
        if (scale, dtype, most) not in self._of_neighbours:
            reach = self.reach if most is None else self.reach.clamp(max=most)
            self._of_neighbours[scale, dtype, most] = extent(
                scale, self.graph.degree[self.neighbour] - reach, self.most_around, dtype
            )
        return self._of_neighbours[scale, dtype, most]

    @cached_property
    def most_lost(self) -> int | None:
        """The most edges that a neighbour can lose, if the total is a limit for any row and its neighbours together;
        None otherwise, and where edges can be added."""
        together = self.budget.index_add(0, self.row, self.reach)
        if self.additions is not None or bool((together <= self.total).all()):
            return None
        return int(self.reach.minimum(self.total[self.row]).max())

    def units(self, row: Tensor, lost: Tensor) -> Tensor:
        """How many edges all kept neighbours of some rows together can lose, where the rows lose some themselves: each
        of those that are left of the total one, or two if it lies between them."""
        left = (self.total[row] - lost).clamp(min=0)
        return left + left.minimum(self._between[row])

    @cached_property
    def _between(self) -> Tensor:
        return edges_between_neighbours(self.graph, self.drops, self.nodes)

    @cached_property
    def most_around(self) -> Tensor:
        """The most neighbours that the node at every slot can have, ``(S,)``."""
        most = self.graph.degree[self.neighbour]
        return most if self.additions is None else most + self.additions.local[self.neighbour]

    @cached_property
    def by_node(self) -> "Ball":
        """The same ball with one cell for each level of a node, for all of its cases."""
        first = torch.zeros_like(self.levels.row)
        last = first.scatter_reduce(0, self.cases.level, self.cases.last, "amax")
        cells = States.of(self.levels, first + 1, first[:, None], last[:, None], self.degree)
        return replace(self, cells=cells, by_case=torch.zeros_like(self.by_case))

    @cached_property
    def cell_of_case(self) -> Tensor:
        """``(cases,)``."""
        return self.cells.start[self.cases.row] + self.cell_rank

    @cached_property
    def cell_rank(self) -> Tensor:
        """Which of its row's cells every case is in, ``(cases,)``."""
        cases = self.cases
        return torch.where(self.by_case[cases.row], cases.rank, cases.level - self.levels.start[cases.row])

    @cached_property
    def parent_rank(self) -> Tensor:
        """The position of i among the neighbours of k, for every slot (i, k)."""
        return self.graph.reverse[self.slot] - self.graph.rowptr[self.neighbour]

    def cells_in(self, other: "Ball", cells: Tensor | None = None) -> Tensor:
        """The cell of another ball, with more nodes, that contains each cell of this one (or some)."""
        row = self.cells.row if cells is None else self.cells.row[cells]
        rank = self.cells.rank if cells is None else self.cells.rank[cells]
        level = self.cells.level if cells is None else self.cells.level[cells]
        there = other.place[self.nodes[row]]
        return other.cells.start[there] + torch.where(other.by_case[there], rank, level - self.levels.start[row])


def balls_around(
    graph: Graph,
    drops: AdmissibleDrops,
    anchors: Tensor,
    hops: int,
    resolution: int,
    lines: tuple[LineSharing, LineSharing],
    additions: AdmissibleAdditions | None = None,
) -> list[Ball]:
    """The anchors, and the nodes within one hop of them, two hops, and so on, where candidates count as hops like
    edges.

    Args:
        lines: which cases are cells, at the anchors and beyond.
    """
    nodes = anchors.sort().values
    balls = [Ball.around(graph, drops, nodes, resolution, lines[0], additions)]
    for hop in range(hops):
        wider = within_a_hop(graph, additions, nodes)
        same = len(wider) == len(nodes) and hop > 0
        balls.append(balls[-1] if same else Ball.around(graph, drops, wider, resolution, lines[1], additions))
        nodes = wider
    return balls


def within_a_hop(graph: Graph, additions: AdmissibleAdditions | None, nodes: Tensor) -> Tensor:
    """Some nodes, their neighbours, and what may become their neighbours; in ascending order."""
    touched = torch.zeros_like(graph.degree, dtype=torch.bool)
    touched[nodes] = True
    touched[graph.col[row_slots(graph, nodes)]] = True
    if additions is not None and bool(additions.local[nodes].any()):
        if additions.candidates is None:
            touched |= additions.local > 0
        else:
            listed = additions.candidates
            touched[listed.col[consecutive(listed.rowptr[nodes], listed.rowptr.diff()[nodes])]] = True
    return touched.nonzero()[:, 0]
