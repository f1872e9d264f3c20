"""Functionals of the neighbours of many rows: products of every row's vectors with the values at its slots."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from certgcl.bounds.counts import Scale
from certgcl.bounds.propagation.chain import Mix
from certgcl.bounds.propagation.term_sets import TermSets
from certgcl.models.aggregations import Aggregation

if TYPE_CHECKING:
    from certgcl.bounds.propagation.ranges import NetworkRanges

MAX_ELEMENTS = 1 << 22  # of one tensor, so that it stays near the processor
FEW_SLOTS = 32  # of a row up to which rows of the same degree are multiplied together, and beyond, one by one


def leaf_values(ranges: "NetworkRanges", sets: TermSets, mixes: list[Mix], base: Aggregation) -> Tensor:
    """The least ``Σ β · h_q`` at every term of the sets, a vector β a set by each mix; ``(terms, R M)``.

    They are to be multiplied by ``out(n_i) in(n_q)`` of the base: what the scales of other aggregations are in terms of
    these is a range.
    """
    total = None
    for mix in mixes:
        values = _products(ranges, sets, mix)
        if mix.term.aggregation != base:
            values = _ratio(sets, mix.term.aggregation, base, values.dtype).column.least(values)
        total = values if total is None else total + values
    assert total is not None
    return total


def _ratio(sets: TermSets, of: Aggregation, to: Aggregation, dtype: torch.dtype) -> Scale:
    """``out(n_i) in(n_q)`` of one aggregation over that of another, at every term. Both ends have a neighbour there,
    each other; so that no scale is zero."""
    ball, items = sets.ball, sets.start.new_zeros(len(sets.row)).scatter_reduce_(
        0, sets.item_owner, sets.last, "amax", include_self=False)
    least = sets.first.new_zeros(len(sets.row)).scatter_reduce_(0, sets.item_owner, sets.first, "amin",
                                                                include_self=False)
    degree = sets.degree[sets.owner]
    few, many = (degree - items[sets.owner]).clamp(min=1), (degree - least[sets.owner]).clamp(min=1)
    neighbour = ball.neighbour[sets.slot]
    most = ball.graph.degree[neighbour]
    fewest = (most - ball.reach[sets.slot]).clamp(min=1)
    low = high = torch.ones((), dtype=dtype, device=degree.device)
    for kind, n_low, n_high in (("out", few, many), ("into", fewest, most)):
        ends = []
        for n in (n_low, n_high):
            one, other = (getattr(aggregation, kind)(n.to(dtype)) for aggregation in (of, to))
            ends.append((one, other))
        (top0, base0), (top1, base1) = ends
        low = low * torch.minimum(top0, top1) / torch.maximum(base0, base1)
        high = high * torch.maximum(top0, top1) / torch.minimum(base0, base1)
    return Scale(low, high)


def _products(ranges: "NetworkRanges", sets: TermSets, mix: Mix) -> Tensor:
    target = sets.ball.neighbour[sets.slot]
    if mix.term.source == 0:
        tables, place = (ranges.projected(mix.term),), ranges.widest.place[target]
        vectors: tuple[Tensor, ...] = (mix.vector,)
    else:
        ball = ranges.ball_of(mix.term.source)
        tables, place = ranges.node_range(mix.term.source), ball.place[target]
        vectors = mix.vector, -mix.vector.abs()
    return _dot(tables, vectors, sets, place)


def _dot(tables: tuple[Tensor, ...], vectors: tuple[Tensor, ...], sets: TermSets, place: Tensor) -> Tensor:
    """``Σ tables[place] · vectors`` for all terms, each set with its own vectors ``(T, R, M, d)``."""
    if vectors[0].shape[0] == 1:
        values = sum(table @ vector.flatten(0, -2).T for table, vector in zip(tables, vectors, strict=True))
        assert isinstance(values, Tensor)
        return values[place]
    flat = [vector.flatten(1, 2) for vector in vectors]
    count, width = flat[0].shape[1:]
    found, index = [], []
    for degree in torch.unique(sets.degree).tolist():
        if not degree:
            continue
        chosen = (sets.degree == degree).nonzero()[:, 0]
        at_once = max(1, MAX_ELEMENTS // max(degree * width, count * width, degree * count))
        for part in chosen.split(at_once):
            here = sets.start[part, None] + torch.arange(degree, device=part.device)
            values = sum(table[place[here]] @ vector[part].transpose(1, 2)
                         for table, vector in zip(tables, flat, strict=True))
            assert isinstance(values, Tensor)
            found.append(values.flatten(0, 1))
            index.append(here.flatten())
    if not found:
        return flat[0].new_zeros(0, count)
    order = torch.argsort(torch.cat(index))
    return torch.cat(found).index_select(0, order)
