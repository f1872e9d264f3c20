"""The neighbours' side of a functional: their lines and row lemma, and the least that each adds to the anchor's row."""

from functools import partial

import torch
from torch import Tensor

from certgcl.bounds.counts import Scale
from certgcl.bounds.plan import starts
from certgcl.bounds.propagation.balls import Ball
from certgcl.bounds.propagation.chain import Cells, Mix, descend
from certgcl.bounds.propagation.leaves import leaf_values
from certgcl.bounds.propagation.ranges import NetworkRanges
from certgcl.bounds.propagation.term_sets import TermSets, consecutive
from certgcl.bounds.propagation.visits import Visited, Visits
from certgcl.bounds.recompute import recomputed
from certgcl.models.aggregations import Aggregation, Sum

MAX_VALUES = 1 << 22  # of functionals held at a time, entries × rules × M × d
MAX_TERMS = 1 << 23  # at the slots of the neighbours


def lines_at(ranges: NetworkRanges, cells: Cells, source: int, omega: Tensor,
             sets: TermSets | None = None) -> tuple[Tensor, Tensor, Aggregation]:
    """``ω · h >= e + out Σ in C`` in some cells: e ``(E, R M)``, C at all slots ``(terms, R M)``, and whose scales."""
    rules = ranges.settings.rules
    constant, mixes = descend(ranges, cells, rules, {source: omega})
    constant = constant.expand(len(cells.place), len(rules), omega.shape[2]).flatten(1)
    sets = sets or TermSets.of_cells(cells.ball, constant.new_empty(0), cells.place)
    if not mixes:
        return constant, constant.new_zeros(len(sets.slot), constant.shape[1]), Sum()
    by_rule = [Mix(mix.term, mix.vector.expand(-1, len(rules), -1, -1)) for mix in mixes]
    scales = mixes[0].term.aggregation
    return constant, leaf_values(ranges, sets, by_rule, scales), scales


def _scaled(sets: TermSets, scales: Aggregation, leaves: Tensor) -> Tensor:
    """The terms of the row lemma: every neighbour's scale at its worst."""
    return sets.ball.of_neighbours(scales.into, leaves.dtype).rows(sets.slot).least(leaves)


class SharedFunctionals:
    """Functionals that are the same for all anchors, at all nodes of a ball.

    Args:
        ball: of the neighbours.
        mix: with vectors ``(1, 1, M, d)``.
    """

    def __init__(self, ranges: NetworkRanges, ball: Ball, mix: Mix) -> None:
        self.ranges, self.ball, self.mix = ranges, ball, mix
        everywhere = Cells(ball, torch.arange(len(ball.cells.row), device=ball.nodes.device))
        self.interval = ranges.interval_below(mix.term.source, everywhere, mix.vector)[:, 0]
        rules, (_, _, number, width) = len(ranges.settings.rules), mix.vector.shape
        chunks = everywhere.place.split(max(1, MAX_VALUES // (rules * number * width)))
        scales: Aggregation = Sum()

        def work(chunk: Tensor) -> tuple[Tensor, Tensor]:
            nonlocal scales
            constant, leaves, scales = lines_at(ranges, Cells(ball, chunk), mix.term.source, mix.vector)
            return constant, leaves

        parts = [recomputed(partial(work, chunk), chunk.numel() * rules * number * width) for chunk in chunks]
        self.constant, self.leaves = (torch.cat(part) for part in zip(*parts, strict=True))
        self.scales = scales
        self.sets = TermSets.of_cases(ball, ball.by_count(scales.out, ranges.dtype))
        self.without, self.following = self.sets.minima(_scaled(self.sets, scales, self.leaves), following=True)

    def minima(self, cells: Cells, sets: TermSets, pairs: Tensor) -> Tensor:
        """φ at every slot of some cells of the anchors."""
        ball, dtype = self.ball, self.ranges.dtype
        row, rank = ball.place[cells.ball.neighbour[sets.slot]], cells.ball.parent_rank[sets.slot]
        cases = ball.cases
        visited = Visited(
            case=cases.start, first=cases.first, into=cases.extent(self.mix.term.aggregation.into, dtype),
            out=cases.extent(self.scales.out, dtype), item=torch.arange(len(cases.row), device=row.device),
            own=ball.cell_of_case, step=torch.where(ball.by_case, ball.degree, 0), lined=torch.ones_like(ball.by_case))
        visits = visits_of(cells, sets, torch.arange(len(sets.slot), device=row.device), ball, row, rank, self.scales,
                           visited, row, self.sets.start[ball.cells.start[row]] + rank)
        return visits.minima(len(self.ranges.settings.rules), self.without, self.following, self.constant,
                             self.interval, self.leaves, pairs)


def visits_of(cells: Cells, sets: TermSets, chosen: Tensor, ball: Ball, row: Tensor, rank: Tensor,
              scales: Aggregation, visited: Visited, place: Tensor, leaf: Tensor) -> Visits:
    """Visits at some terms of the anchors' sets.

    Args:
        ball: of the neighbours, with the row of each and the rank of the anchor in it.
        scales: of the neighbours' own sums.
        place, leaf: see :class:`Visits`.
    """
    dtype, owner, slot = visited.into.low.dtype, sets.owner[chosen], sets.slot[chosen]
    anchors = cells.ball.cells
    parent = anchors.extent(scales.into, dtype)
    state = cells.place[owner]
    left = cells.ball.total - anchors.first[state]
    return Visits(
        rows=visited, row=place, parent=_at(parent, state),
        kept=_at(ball.of_neighbours(scales.into, dtype), ball.rowptr[row] + rank),
        reach=cells.ball.reach[slot].minimum(left), droppable=cells.ball.droppable[slot], leaf=leaf)


def _at(scale: Scale, places: Tensor) -> Scale:
    return Scale(scale.low[places], None if scale.high is None else scale.high[places])


def own_minima(ranges: NetworkRanges, cells: Cells, sets: TermSets, ball: Ball, mix: Mix, pairs: Tensor) -> Tensor:
    """φ at every slot of some cells of the anchors, which have functionals of their own.

    Args:
        ball: of the neighbours.
        mix: with vectors ``(E, R or 1, M, d)``.
        pairs: ``(terms, R R M)`` or ``(terms, R M)``.
    """
    row = ball.place[cells.ball.neighbour[sets.slot]]
    hub = ball.degree[row] > (torch.inf if ranges.settings.hubs is None else ranges.settings.hubs)
    rules, number, width = len(ranges.settings.rules), mix.vector[0, :, :, 0].numel(), mix.vector.shape[-1]
    lines = ball.cells.start.diff()[row]
    cost = lines * (rules * number * (width + ball.degree[row] * ~hub))
    places, parts = [], []
    for group in (hub, ~hub):
        chosen = group.nonzero()[:, 0]
        if not len(chosen):
            continue
        chosen = chosen[torch.argsort(row[chosen], stable=True)]
        number_of = torch.div(cost[chosen].cumsum(0), MAX_TERMS, rounding_mode="floor")
        for part in chosen.split(torch.unique_consecutive(number_of, return_counts=True)[1].tolist()):
            places.append(part)
            parts.append(recomputed(partial(_own_part, ranges, cells, sets, ball, mix, pairs[part], part,
                                            bool(group is not hub)), int(cost.sum())))
    if not parts:
        return pairs
    return torch.cat(parts).index_select(0, torch.argsort(torch.cat(places)))


def _own_part(ranges: NetworkRanges, cells: Cells, sets: TermSets, ball: Ball, mix: Mix, pairs: Tensor,
              chosen: Tensor, lined: bool) -> Tensor:
    """The same for some visits; each has its own entries at the cells of its neighbour."""
    dtype, device, rules = ranges.dtype, chosen.device, len(ranges.settings.rules)
    slot, owner = sets.slot[chosen], sets.owner[chosen]
    row, rank = ball.place[cells.ball.neighbour[slot]], cells.ball.parent_rank[slot]
    lines, count = ball.cells.start.diff()[row], ball.cases.start.diff()[row]
    entry, case_start = starts(lines), starts(count)
    visit_of_entry = torch.repeat_interleave(torch.arange(len(chosen), device=device), lines)
    visit_of_case = torch.repeat_interleave(torch.arange(len(chosen), device=device), count)
    entries = Cells(ball, consecutive(ball.cells.start[row], lines))
    case = consecutive(ball.cases.start[row], count)
    by_case = ball.by_case[row]
    case_rank = torch.arange(len(case), device=device) - case_start[visit_of_case]
    omega = mix.vector.flatten(1, 2)[:, None]
    omega = omega if mix.shared else omega[owner[visit_of_entry]]
    interval = ranges.interval_below(mix.term.source, entries, omega)[:, 0]
    scales: Aggregation = Sum()
    width = rules * omega.shape[2]
    without = following = constant = leaves = interval.new_empty(0, width)
    start = starts(torch.zeros_like(lines))
    if lined:
        inner = TermSets(ball, row[visit_of_entry], torch.where(by_case, 1, count)[visit_of_entry],
                         ball.cases.first[case], ball.cases.last[case], torch.arange(len(case), device=device),
                         interval.new_empty(0))
        constant, leaves, scales = lines_at(ranges, entries, mix.term.source, omega, inner)
        inner = TermSets(ball, inner.row, inner.items, inner.first, inner.last, inner.place,
                         ball.by_count(scales.out, dtype))
        without, following = inner.minima(_scaled(inner, scales, leaves), following=True)
        start = inner.start
    visited = Visited(
        case=case_start, first=ball.cases.first[case],
        into=_at(ball.cases.extent(mix.term.aggregation.into, dtype), case),
        out=_at(ball.cases.extent(scales.out, dtype), case), item=torch.arange(len(case), device=device),
        own=entry[visit_of_case] + torch.where(by_case[visit_of_case], case_rank, 0),
        step=torch.where(by_case, ball.degree[row], 0), lined=torch.full_like(by_case, lined))
    leaf = start[entry[:-1]] + rank if lined else torch.zeros_like(rank)
    visits = visits_of(cells, sets, chosen, ball, row, rank, scales, visited,
                       torch.arange(len(chosen), device=device), leaf)
    return visits.minima(rules, without, following, constant, interval, leaves, pairs)
