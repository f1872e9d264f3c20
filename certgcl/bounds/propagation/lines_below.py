"""Functionals of some nodes through their own lines: constants, and what remains for their neighbours."""

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from certgcl.bounds import compiled
from certgcl.bounds.propagation.added_edges import added_edges
from certgcl.bounds.propagation.balls import Ball
from certgcl.bounds.propagation.chain import Cells, Mix, descend
from certgcl.bounds.propagation.falling_terms import FallingTerms
from certgcl.bounds.propagation.functionals import Functionals
from certgcl.bounds.propagation.leaves import Leaves, leaves_of
from certgcl.bounds.propagation.ranges import NetworkRanges
from certgcl.bounds.propagation.recompute import once
from certgcl.bounds.propagation.term_sets import TermSets
from certgcl.bounds.two_layer.row_plan import starts
from certgcl.models.aggregations import Aggregation, Sum
from certgcl.models.layer import Term


class LinesBelow(NamedTuple):
    """``Σ ω · h >= e + out Σ in C`` in some cells."""

    constant: Tensor  # e, (E, R M)
    leaves: Leaves | None  # C at all slots, if any,
    scales: Aggregation  # and whose scales
    added: Tensor | None  # what edges gained add, (E, R M); None where none can be added


def lines_at(
    ranges: NetworkRanges,
    cells: Cells,
    omega: Mapping[int, Functionals],
    sets: TermSets | None = None,
    affordable: bool = True,
    parent: Cells | None = None,
) -> LinesBelow:
    """Functionals of some cells by their lines.

    Args:
        affordable: whether they may be multiplied with all candidates for new edges.
        parent: a node in a known cell for each, to which it has a new edge; what that adds is part of ``added``.
    """
    rules = ranges.settings.rules
    constant, mixes = descend(ranges, cells, rules, omega)
    constant = constant.expand(len(cells.place), len(rules), next(iter(omega.values())).number).flatten(1)
    if not mixes:
        return LinesBelow(constant, None, Sum(), None if cells.ball.additions is None else torch.zeros_like(constant))
    sets = sets or TermSets.of_cells(cells.ball, None, cells.place)
    by_rule = [Mix(mix.term, mix.functionals.by_rule(len(rules))) for mix in mixes]
    scales = mixes[0].term.aggregation
    added = added_edges(ranges, cells, scales, by_rule, affordable=affordable, given=int(parent is not None))
    if added is not None and parent is not None:
        added = added + sum(_of_parent(ranges, cells, mix, parent) for mix in by_rule)
    return LinesBelow(constant, leaves_of(ranges, sets, by_rule, scales), scales, added)


def _of_parent(ranges: NetworkRanges, cells: Cells, mix: Mix, parent: Cells) -> Tensor:
    """The least ``out(n_c) in(n_i) β · h_i`` of a node i that is a new neighbour of each cell's, ``(E, R M)``."""
    if mix.term.source == 0:
        value = ranges.features_below(mix.term, mix.functionals, ranges.widest.place[parent.node])
    else:
        value = ranges.interval_below(mix.term.source, parent, mix.functionals)
    out = cells.ball.cells.extent(mix.term.aggregation.out, ranges.dtype).take(cells.place)
    into = parent.ball.cells.extent(mix.term.aggregation.into, ranges.dtype).take(parent.place)
    return out.times(into).column.least(value.flatten(1))


def joined(parts: list[LinesBelow]) -> LinesBelow:
    """The lines of some cells, followed by those of others."""
    constant, leaves, scales, added = zip(*parts, strict=True)
    known = [part for part in leaves if part is not None]
    together = None
    if known:
        values, terms, start, by_cell = zip(*known, strict=True)
        number = torch.cat([each.diff() for each in start])
        together = Leaves(torch.cat(values), FallingTerms.joined(terms), starts(number), by_cell[0])
    return LinesBelow(torch.cat(constant), together, scales[0], None if added[0] is None else torch.cat(added))


def brief_lines(ranges: NetworkRanges, mix: Mix, ball: Ball) -> LinesBelow | None:
    """The same for functionals that all cells of a ball share, where lines stop at ranges one layer down.

    By a kernel that holds the functionals of one cell at a time; None if it cannot be used.
    """
    layer, omega, rules = ranges.network.layers[mix.term.source - 1], mix.functionals, ranges.settings.rules
    mixing = [term for term in layer.terms if term.aggregation.mixes]
    if not (
        compiled.usable(layer.bias.device)
        and not torch.is_grad_enabled()
        and ranges.settings.brief
        and ball.additions is None
        and omega.shared
        and omega.paired
        and not layer.linear
        and len(mixing) == 1
        and all(term.source and term.weight.dim() == 2 for term in layer.terms)
    ):
        return None
    cells = Cells(ball, torch.arange(len(ball.cells.row), device=ball.nodes.device))
    through, constant = ranges.lines_below(mix.term.source, cells, rules, omega)
    constant = constant + through.dot(layer.bias)
    below: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}
    for term in layer.terms:
        mixed = [other for other in mixing if other.weight is term.weight and other.source == term.source]
        at_node, at_slots = once(
            below, (id(term.weight), term.source), partial(_least_below, ranges, cells, term, through, bool(mixed))
        )
        if term is not mixing[0]:
            constant = constant + at_node
            continue
        own, leaves = ball.cells.extent(term.aggregation.own, ranges.dtype), at_slots
        constant = constant + own.at(slice(None), None, None).least(at_node)
    scales = mixing[0].aggregation
    start = torch.arange(len(leaves) + 1, device=leaves.device)

    def within(most: int | None) -> Tensor:
        return ball.of_neighbours(scales.into, ranges.dtype, most).column.least(leaves)

    terms = FallingTerms.of(within, ball.most_lost)
    return LinesBelow(constant.flatten(1), Leaves(leaves, terms, start, False), scales, None)


def _least_below(
    ranges: NetworkRanges, cells: Cells, term: Term, functionals: Functionals, neighbours: bool
) -> tuple[Tensor, Tensor]:
    """The least ``W λ · h`` at the node of every cell, ``(E, R, M)``, and at its neighbours, ``(slots, R M)``, if these
    are asked for."""
    from certgcl.bounds.compiled.entries import least_below

    assert functionals.slopes is not None
    source, ball = ranges.ball_of(term.source), cells.ball
    own = source.place[cells.node]
    met = torch.ones_like(own) + (ball.degree[cells.row] if neighbours else 0)
    start, target = starts(met), own
    at_node = torch.zeros(int(start[-1]), dtype=torch.bool, device=own.device).index_fill(0, start[:-1], True)
    if neighbours:
        target = own.new_empty(len(at_node))
        target[at_node], target[~at_node] = own, source.place[ball.neighbour]
    found = least_below(
        functionals.slopes,
        functionals.vector[0, 0, : functionals.number // 2],
        term.weight,
        start,
        target,
        *ranges.node_range(term.source),
    )
    return found[at_node].unflatten(1, (-1, functionals.number)), found[~at_node]
