"""The other ends of new edges: the states that they can be in, and the smallest of their terms for every row."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from certgcl.bounds.propagation import limits
from certgcl.bounds.propagation.balls import Ball
from certgcl.bounds.propagation.chain import Cells, Mix
from certgcl.bounds.propagation.levels import consecutive
from certgcl.bounds.two_layer.row_plan import starts
from certgcl.changes.edge_additions import AdmissibleAdditions
from certgcl.models.aggregations import Aggregation

if TYPE_CHECKING:
    from certgcl.bounds.propagation.ranges import NetworkRanges


class Shared(NamedTuple):
    """A part of the candidates' terms that is the same for all rows: ``S``, ``(cells of the ball, M)``."""

    ball: Ball
    values: Tensor


class Left(NamedTuple):
    """The states that a row's own state allows at the other end of a new edge."""

    gained: int
    lost: int
    both: int


class Columns(NamedTuple):
    """Candidates in their possible states: P nodes with G cells each, some of them repeated."""

    node: Tensor  # (P,)
    cell: Tensor  # (P, G), in the widest ball

    @classmethod
    def of(cls, widest: Ball, additions: AdmissibleAdditions, left: Left) -> "Columns":
        states = widest.cells
        gained = states.least_gain.clamp(min=1)
        fits = (
            (states.most_gain > 0)
            & (gained <= left.gained)
            & (states.first <= left.lost)
            & (states.first + gained <= left.both)
        )
        cell = fits.nonzero()[:, 0]
        number = torch.zeros_like(widest.degree).index_add_(0, states.row[cell], torch.ones_like(cell))
        row, begin = number.nonzero()[:, 0], starts(number)[:-1]
        rank = torch.arange(int(number.max()), device=cell.device).minimum(number[row, None] - 1)
        return cls(widest.nodes[row], cell[begin[row, None] + rank])

    def at(self, place: Tensor) -> "Columns":
        return Columns(self.node[place], self.cell[place])

    def terms(
        self,
        ranges: "NetworkRanges",
        scales: Aggregation,
        vectors: Sequence[tuple[Mix, Tensor]],
        shared: Shared | None,
    ) -> Tensor:
        """The terms for functionals ``(..., M, d)``: ``(..., M, P)``; like the functionals, the columns may have
        leading dimensions of their own."""
        total: Tensor | None = None
        widest, shape = ranges.widest, self.cell.shape
        for mix, vector in vectors:
            if mix.term.source == 0:
                middle, radius = (table[widest.place[self.node]] for table in ranges.feature_range(mix.term))
                value = vector @ middle.transpose(-1, -2)
                value = value if ranges.changed is None else value - vector.abs() @ radius.transpose(-1, -2)
                value = value[..., None]
            else:
                source = ranges.ball_of(mix.term.source)
                flat = self.cell.flatten()
                place = flat if source is widest else widest.cells_in(source, flat)
                middle, radius = (
                    table[place].unflatten(0, shape).flatten(-3, -2) for table in ranges.outputs(mix.term.source)
                )
                value = vector @ middle.transpose(-1, -2) - vector.abs() @ radius.transpose(-1, -2)
                value = value.unflatten(-1, shape[-2:])
            total = value if total is None else total + value
        if shared is not None:
            flat = self.cell.flatten()
            place = flat if shared.ball is widest else widest.cells_in(shared.ball, flat)
            part = shared.values[place].unflatten(0, shape).movedim(-1, -3)
            total = part if total is None else total + part
        assert total is not None
        into = widest.cells.extent(scales.into, total.dtype).take(self.cell)
        if self.cell.dim() > 2:  # one list for every entry, whose functionals come before the candidates
            into = into.at(slice(None), None)
        return into.least(total.expand(*total.shape[:-1], shape[-1])).amin(dim=-1)


class CandidateTable(NamedTuple):
    """Terms of candidates that are the same for every row, ``(P, M)``."""

    node: Tensor
    values: Tensor

    @classmethod
    def of(
        cls,
        ranges: "NetworkRanges",
        ball: Ball,
        left: Left,
        scales: Aggregation,
        mixes: Sequence[Mix],
        shared: Shared | None,
    ) -> "CandidateTable":
        assert ball.additions is not None
        columns = Columns.of(ranges.widest, ball.additions, left)
        if ball.additions.candidates is not None:  # ranges of all layers are known only near these rows
            columns = columns.at(is_listed(ball, columns.node).nonzero()[:, 0])
        vectors = [(mix, mix.functionals.explicit()[0].flatten(0, 1)) for mix in mixes]
        return cls(columns.node, columns.terms(ranges, scales, vectors, shared).T)

    def smallest(self, cells: Cells, number: int) -> Tensor:
        """The smallest terms of each row's candidates in ascending order, ``(E, number, M)``; infinite beyond them."""
        rows, place = torch.unique(cells.row, return_inverse=True)
        return smallest_outside(cells.ball, rows, self.node, self.values, number)[place]


def is_listed(ball: Ball, nodes: Tensor) -> Tensor:
    """Which of some nodes are a candidate of a row of the ball."""
    assert ball.additions is not None
    assert ball.additions.candidates is not None
    pairs, seen = ball.additions.candidates, torch.zeros_like(ball.graph.degree, dtype=torch.bool)
    seen[pairs.col[consecutive(pairs.rowptr[ball.nodes], pairs.rowptr.diff()[ball.nodes])]] = True
    return seen[nodes]


def smallest_outside(ball: Ball, rows: Tensor, node: Tensor, values: Tensor, number: int) -> Tensor:
    """The smallest values of nodes that may become neighbours of each row, ``(rows, number, M)``."""
    additions, graph = ball.additions, ball.graph
    assert additions is not None
    padded = torch.cat([values, values.new_full((1, values.shape[1]), torch.inf)])
    parts, places = [values.new_zeros(0, number, values.shape[1])], [rows[:0]]
    if additions.candidates is not None:
        inside = torch.full_like(graph.degree, len(node))
        inside[node] = torch.arange(len(node), device=node.device)
        for entries, others in candidate_lists(ball, rows, values.shape[1]):
            here = torch.where(others < 0, len(node), inside[others.clamp(min=0)])  # (B, C)
            order = padded.detach()[here].topk(min(number, here.shape[1]), dim=1, largest=False).indices
            found = padded[here].gather(1, order)
            parts.append(torch.nn.functional.pad(found, (0, 0, 0, number - found.shape[1]), value=torch.inf))
            places.append(entries)
        return torch.cat(parts)[torch.argsort(torch.cat(places))]
    order = values.detach().argsort(dim=0)  # (P, M)
    keys = graph.row * graph.num_nodes + graph.col
    column = torch.arange(values.shape[1], device=rows.device)
    need = (ball.degree[rows] + number + 1).clamp(max=len(node))
    by_need = torch.argsort(need, stable=True)
    group = torch.div((need[by_need] * values.shape[1]).cumsum(0), limits.MAX_ELEMENTS, rounding_mode="floor")
    for entries in by_need.split(torch.unique_consecutive(group, return_counts=True)[1].tolist()):
        first = order[: int(need[entries].max())]  # (K, M)
        own, there = ball.nodes[rows[entries]][:, None, None], node[first][None]
        wanted = (own * graph.num_nodes + there).contiguous()
        slot = torch.searchsorted(keys, wanted).clamp(max=max(0, len(keys) - 1))
        joined = (keys[slot] == wanted) if len(keys) else torch.zeros_like(wanted, dtype=torch.bool)
        out = (joined | (own == there)).cumsum(dim=1)
        rank = torch.arange(len(first), device=rows.device)[None, :, None]
        # The position of the k-th outside is k plus the number of others before it.
        place = torch.full((len(entries), number + 1, values.shape[1]), len(node), device=rows.device)
        inside = joined | (own == there)
        to = torch.where(inside, number, (rank - out).clamp(max=number))
        place.scatter_(1, to, first[None].expand(len(entries), -1, -1))
        parts.append(padded[place[:, :number], column])
        places.append(entries)
    return torch.cat(parts)[torch.argsort(torch.cat(places))]


def candidate_lists(ball: Ball, rows: Tensor, width: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Groups of rows with similar numbers of candidates, and these candidates, ``(B, C)``, -1 beyond a row's own."""
    assert ball.additions is not None
    assert ball.additions.candidates is not None
    listed = ball.additions.candidates
    nodes = ball.nodes[rows]
    length = listed.rowptr.diff()[nodes]
    order = torch.argsort(length, stable=True)
    group = torch.div((length[order].clamp(min=1) * width).cumsum(0), limits.MAX_ELEMENTS, rounding_mode="floor")
    for entries in order.split(torch.unique_consecutive(group, return_counts=True)[1].tolist()):
        rank = torch.arange(max(1, int(length[entries].max())), device=rows.device)
        place = listed.rowptr[nodes[entries], None] + rank
        inside = rank < length[entries, None]
        col = listed.col if len(listed.col) else listed.rowptr[:1]
        yield entries, torch.where(inside, col[place.clamp(max=len(col) - 1)], -1)
