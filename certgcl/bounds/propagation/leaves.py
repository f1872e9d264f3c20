"""Functionals of the neighbours of many rows: products of every row's vectors with the ranges at its slots."""

from collections.abc import Callable, Iterable
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from certgcl.bounds import compiled
from certgcl.bounds.propagation import limits
from certgcl.bounds.propagation.chain import Mix
from certgcl.bounds.propagation.drop_counts import Scale
from certgcl.bounds.propagation.extremes import best
from certgcl.bounds.propagation.falling_terms import FallingTerms
from certgcl.bounds.propagation.functionals import Functionals
from certgcl.bounds.propagation.levels import consecutive, in_portions
from certgcl.bounds.propagation.term_sets import TermSets
from certgcl.bounds.two_layer.row_plan import starts
from certgcl.models.aggregations import Aggregation

if TYPE_CHECKING:
    from certgcl.bounds.propagation.ranges import NetworkRanges


class Leaves(NamedTuple):
    """Values C of the neighbours, to be multiplied by their scales, and the resulting terms of the row lemma.

    If ranges distinguish the states of a neighbour, it has a value in each of its cells; otherwise one value.
    """

    values: Tensor  # (leaves, R M)
    terms: FallingTerms  # (terms, R M), in(n_q) C_q over the states that a kept edge leaves in reach
    start: Tensor  # (terms + 1,) the first value of every term, and the end
    by_cell: bool


def leaves_of(
    ranges: "NetworkRanges", sets: TermSets, mixes: list[Mix], base: Aggregation, by_cell: bool = True
) -> Leaves:
    """The least ``Σ β · h_q`` at every slot of the sets, a vector β a set by each mix.

    They are to be multiplied by ``out(n_i) in(n_q)`` of the base: the scales of other aggregations are ranges in terms
    of these.

    Args:
        by_cell: whether neighbours may have a value in each of their cells.
    """
    by_cell = by_cell and ranges.settings.lines == "by-count" and any(mix.term.source for mix in mixes)
    ball, widest, neighbour = sets.ball, ranges.widest, sets.ball.neighbour[sets.slot]
    row = widest.place[neighbour]
    number = widest.cells.start.diff()[row] if by_cell else torch.ones_like(row)
    cell = consecutive(widest.cells.start[row], number) if by_cell else None
    start = starts(number)
    owner = torch.repeat_interleave(torch.arange(len(row), device=row.device), number) if by_cell else None
    total: Tensor | None = None
    for mix in mixes:
        if mix.term.source == 0:
            place = row if owner is None else row[owner]
            values = _of_features(ranges, mix, sets, start, place)
        else:
            source = ranges.ball_of(mix.term.source)
            if cell is None:
                tables, place = ranges.node_range(mix.term.source), source.place[neighbour]
            else:
                tables = ranges.outputs(mix.term.source)
                place = cell if source is widest else widest.cells_in(source, cell)
            values = _least(tables, mix.functionals, sets, start, place)
        if mix.term.aggregation != base:
            ratio = _ratio(sets, mix.term.aggregation, base, values.dtype)
            values = (ratio.column if owner is None else ratio.rows(owner)).least(values)
        total = values if total is None else total + values
    assert total is not None
    if cell is None or owner is None:

        def of_nodes(most: int | None) -> Tensor:
            return ball.of_neighbours(base.into, total.dtype, most).rows(sets.slot).least(total)

        return Leaves(total, FallingTerms.of(of_nodes, ball.most_lost), start, False)
    scaled = widest.cells.extent(base.into, total.dtype).rows(cell).least(total)
    reach, first = ball.reach[sets.slot][owner], widest.cells.first[cell]

    def of_cells(most: int | None) -> Tensor:
        beyond = first > (reach if most is None else reach.clamp(max=most))
        here = torch.where(beyond[:, None], torch.inf, scaled)
        terms = total.new_full((len(row), total.shape[1]), torch.inf)
        return terms.scatter_reduce(0, owner[:, None].expand_as(here), here, "amin")

    return Leaves(total, FallingTerms.of(of_cells, ball.most_lost), start, True)


def _ratio(sets: TermSets, of: Aggregation, to: Aggregation, dtype: torch.dtype) -> Scale:
    """``out(n_i) in(n_q)`` of one aggregation over that of another, at every term. Both ends have a neighbour there,
    each other, so no scale is zero."""
    ball, nothing = sets.ball, torch.zeros_like(sets.level)
    last = nothing.scatter_reduce(0, sets.item_owner, sets.last, "amax", include_self=False)
    first = nothing.scatter_reduce(0, sets.item_owner, sets.first, "amin", include_self=False)
    gained, levels = sets.level[sets.owner], ball.levels
    degree, around = sets.degree[sets.owner], ball.graph.degree[ball.neighbour[sets.slot]]
    low = high = torch.ones((), dtype=dtype, device=degree.device)
    for kind, fewest, largest in (
        ("out", degree - last[sets.owner] + levels.first[gained], degree - first[sets.owner] + levels.last[gained]),
        ("into", around - ball.reach[sets.slot], ball.most_around[sets.slot]),
    ):
        (one, other), (one_more, other_more) = (
            [getattr(aggregation, kind)(n.clamp(min=1).to(dtype)) for aggregation in (of, to)]
            for n in (fewest, largest)
        )
        low = low * torch.minimum(one, one_more) / torch.maximum(other, other_more)
        high = high * torch.maximum(one, one_more) / torch.minimum(other, other_more)
    return Scale(low, high)


def _least(
    ranges: tuple[Tensor, Tensor], functionals: Functionals, sets: TermSets, start: Tensor, place: Tensor
) -> Tensor:
    """The least values of functionals over rows of ranges, given by middle and radius."""
    if functionals.same and functionals.slopes is not None:
        return _in_pieces(functionals, functionals.lowest_some, ranges, sets, start, place)
    vectors = functionals.explicit()
    few = vectors.shape[1] * vectors.shape[2] < limits.MANY_FUNCTIONALS and len(vectors) > 1
    if not few or not compiled.usable(place.device):
        return _dot(ranges, (vectors, -vectors.abs()), sets.row, start[sets.start], place)
    from certgcl.bounds.compiled.entries import least_products

    middle, radius = (part[:, None] for part in ranges)
    return least_products(_owner(sets, start, place), place, vectors.flatten(1, 2), middle, radius)


def _of_features(ranges: "NetworkRanges", mix: Mix, sets: TermSets, start: Tensor, place: Tensor) -> Tensor:
    """The least values of functionals over all features that nodes may have."""
    functionals, table = mix.functionals, ranges.projected(mix.term)
    if ranges.changed is None:
        return _exact(table, functionals, sets, start, place)
    by_range = _least(ranges.feature_range(mix.term), functionals, sets, start, place)
    if not ranges.falls_affordable(mix.term, functionals):
        return by_range
    vectors = functionals.explicit().flatten(1, 2)
    here = vectors.expand(len(place), -1, -1) if len(vectors) == 1 else vectors[_owner(sets, start, place)]
    exact = _exact(table, functionals, sets, start, place)
    return best([by_range, exact - ranges.falls(mix.term, here, place)])


def _exact(table: Tensor, functionals: Functionals, sets: TermSets, start: Tensor, place: Tensor) -> Tensor:
    """Functionals of rows of a table that are known."""
    if functionals.shared:
        return (table @ functionals.vector.flatten(0, -2).T)[place]
    if functionals.slopes is None or not (functionals.same or compiled.usable(table.device)):
        return _dot((table,), (functionals.explicit(),), sets.row, start[sets.start], place)
    if not functionals.same:
        return functionals.dot_each(table, place, start[sets.start])
    return _in_pieces(functionals, functionals.dot_some, (table,), sets, start, place)


def _in_pieces(
    functionals: Functionals,
    values: Callable[..., Tensor],
    tables: tuple[Tensor, ...],
    sets: TermSets,
    start: Tensor,
    place: Tensor,
) -> Tensor:
    """Values of functionals with one ω at rows of tables, some at a time."""
    at_once = max(1, limits.MAX_ELEMENTS // (functionals.rules * functionals.vector.shape[3]))
    owner = _owner(sets, start, place)
    parts = [
        values(*(table[some] for table in tables), mine)
        for some, mine in zip(place.split(at_once), owner.split(at_once), strict=True)
    ]
    return torch.cat(parts) if len(place) else tables[0].new_zeros(0, functionals.rules * functionals.number)


def _owner(sets: TermSets, start: Tensor, place: Tensor) -> Tensor:
    """The set of every value."""
    return torch.repeat_interleave(sets.owner, start.diff()) if len(place) != len(sets.owner) else sets.owner


def _dot(tables: tuple[Tensor, ...], vectors: tuple[Tensor, ...], row: Tensor, start: Tensor, place: Tensor) -> Tensor:
    """``Σ tables[place] · vectors``, where positions ``start[i] … start[i + 1] - 1`` use the vectors i ``(R, M, d)``.

    Args:
        row: sets of the same row have the same values.
    """
    if vectors[0].shape[0] == 1:
        return _sum(table @ vector.flatten(0, -2).T for table, vector in zip(tables, vectors, strict=True))[place]
    flat = [vector.flatten(1, 2) for vector in vectors]
    runs = torch.unique_consecutive(row, return_counts=True)[1]
    return (
        _by_row(tables, flat, runs, start, place)
        if 2 * len(runs) < len(row)
        else (_by_length(tables, flat, start, place))
    )


def _by_row(tables: tuple[Tensor, ...], flat: list[Tensor], runs: Tensor, start: Tensor, place: Tensor) -> Tensor:
    """One product for all sets of a row. Values are taken at once, and split: a separate gradient for each piece would
    be as large as the table."""
    first = starts(runs)[:-1]
    length = start.diff()[first]
    here = place[consecutive(start[first], length)]
    values = [table[here].split(length.tolist()) for table in tables]
    vectors = [vector.split(runs.tolist()) for vector in flat]
    parts = [
        _sum(vector[row] @ value[row].T for value, vector in zip(values, vectors, strict=True)).transpose(1, 2)
        for row in range(len(runs))
    ]
    return torch.cat([part.flatten(0, 1) for part in parts])


def _by_length(tables: tuple[Tensor, ...], flat: list[Tensor], start: Tensor, place: Tensor) -> Tensor:
    """One product for all sets with the same number of values, some sets at a time."""
    length, (count, width) = start.diff(), flat[0].shape[1:]
    order = torch.argsort(length, stable=True)
    size = length[order] * max(width, count) + count * width
    found, index = [flat[0].new_zeros(0, count)], [place[:0]]
    for some in in_portions(order, size, limits.MAX_ELEMENTS):
        lengths, sets = (each.tolist() for each in torch.unique_consecutive(length[some], return_counts=True))
        here = consecutive(start[some], length[some])
        sizes = [each * number for each, number in zip(lengths, sets, strict=True)]
        values = [table[place[here]].split(sizes) for table in tables]
        vectors = [vector[some].transpose(1, 2).split(sets) for vector in flat]
        for number, shape in enumerate(zip(sets, lengths, strict=True)):
            found.append(
                _sum(
                    value[number].view(*shape, width) @ vector[number]
                    for value, vector in zip(values, vectors, strict=True)
                ).flatten(0, 1)
            )
        index.append(here)
    return torch.cat(found).index_select(0, torch.argsort(torch.cat(index)))


def _sum(parts: Iterable[Tensor]) -> Tensor:
    return reduce(torch.add, parts)
