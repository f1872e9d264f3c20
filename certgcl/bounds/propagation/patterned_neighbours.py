"""Sign patterns of the neighbours of an anchor, in networks of any depth."""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from certgcl.bounds.propagation.added_edges import added_edges
from certgcl.bounds.propagation.chain import Cells, Mix, descend
from certgcl.bounds.propagation.functionals import Functionals
from certgcl.bounds.propagation.leaves import leaves_of
from certgcl.bounds.propagation.ranges import NetworkRanges
from certgcl.bounds.propagation.sign_patterns import SignPatterns, dearest
from certgcl.bounds.propagation.term_sets import TermSets
from certgcl.bounds.propagation.visits import Visits
from certgcl.models.two_piece import TwoPieceLinear


def least_lines(
    ranges: NetworkRanges,
    entries: Cells,
    omega: Mapping[int, Functionals],
    inner: TermSets,
    visits: Visits,
    patterns: int,
    affordable: bool,
) -> Tensor | None:
    """The least over the patterns of the best line below ``Σ ω · h`` at the visited nodes, in each of their cases,
    ``(cases, M)``; None if the activation has no pieces, or no neighbours are left.

    Args:
        entries: the cells that have functionals, and ``omega``, by layer: ``(E, 1, M, d)``.
        inner: the rows of all entries.
        visits: one for every visited node.
        affordable: whether functionals may be multiplied with all candidates for new edges.
    """
    last, rules = max(omega), ranges.settings.rules
    activation = ranges.network.layers[last - 1].activation
    if not isinstance(activation, TwoPieceLinear) or activation.linear:
        return None
    vector = omega[last].explicit().expand(len(entries.place), -1, -1, -1)
    through, constant = ranges.lines_below(last, entries, rules, Functionals(vector))
    lower, upper = (part[entries.states_in(ranges.ball_of(last)), None, None] for part in ranges.bounds[last])
    found = dearest(vector, lower, upper, activation.slope.expand(lower.shape[-1]), patterns)
    slopes = through.explicit()
    by_rule = SignPatterns(*(part.expand(-1, len(rules), *part.shape[2:]) for part in found)).slopes(slopes)
    number = by_rule.shape[3]
    others = {
        layer: Functionals(part.explicit().repeat_interleave(number, dim=2))
        for layer, part in omega.items()
        if layer != last
    }
    below, mixes = descend(ranges, entries, rules, others, (last, Functionals(by_rule.flatten(2, 3))))
    if not mixes:
        return None
    constant = below + (constant + found.gain)[..., None].expand(*by_rule.shape[:4]).flatten(2)
    scales = mixes[0].term.aggregation
    mixes = [Mix(mix.term, mix.functionals.by_rule(len(rules))) for mix in mixes]
    leaves = leaves_of(ranges, inner, mixes, scales)
    added = added_edges(ranges, entries, scales, mixes, affordable=affordable)
    rows = visits.rows
    terms, without, following = inner.with_one_kept(leaves.terms, None if added is None else added[rows.own])
    ways = terms.shape[1] // leaves.values.shape[1]
    constant, values = (table.repeat(1, ways) for table in (constant.flatten(1), leaves.values))
    visit = torch.repeat_interleave(torch.arange(len(visits.row), device=rows.case.device), rows.case.diff())
    case = torch.arange(len(visit), device=visit.device)
    lines = visits.lines(len(rules) * ways, visit, case, without, following, constant, values, terms)
    return lines.unflatten(1, (-1, number)).amin(dim=2)


def with_floor(visits: Visits, constant: Tensor, interval: Tensor, value: Tensor) -> tuple[Visits, Tensor, Tensor]:
    """Constants and intervals for each case separately, the latter no smaller than a given value."""
    own = visits.rows.own
    rows = replace(visits.rows, own=torch.arange(len(own), device=own.device))
    return replace(visits, rows=rows), constant[own], torch.maximum(interval[own], value)
