"""The neighbours' side of a functional: their lines and row lemma, and the least that each adds to the anchor's row."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from certgcl.bounds.propagation import limits
from certgcl.bounds.propagation.balls import Ball
from certgcl.bounds.propagation.candidates import Shared
from certgcl.bounds.propagation.chain import Cells, Mix
from certgcl.bounds.propagation.extremes import best
from certgcl.bounds.propagation.falling_terms import FallingTerms
from certgcl.bounds.propagation.functionals import Functionals
from certgcl.bounds.propagation.levels import consecutive, in_portions
from certgcl.bounds.propagation.lines_below import LinesBelow, brief_lines, joined, lines_at
from certgcl.bounds.propagation.patterned_neighbours import least_lines, with_floor
from certgcl.bounds.propagation.ranges import NetworkRanges, least_by_row
from certgcl.bounds.propagation.recompute import recomputed
from certgcl.bounds.propagation.set_minima import Asked, EdgeMinima, SetMinima
from certgcl.bounds.propagation.sign_patterns import FEW_EDGES
from certgcl.bounds.propagation.term_sets import TermSets
from certgcl.bounds.propagation.visits import Visited, Visits
from certgcl.bounds.two_layer.row_plan import starts
from certgcl.models.aggregations import Aggregation, Sum
from certgcl.models.layer import Layer


class SharedFunctionals:
    """Functionals that are the same for all anchors, at all nodes of a ball.

    Args:
        ball: of the neighbours.
        mix: with functionals that are shared.
        by_sets: of the neighbours, where it is larger than the bound by lines,
        around: and the ball whose neighbours they are.
    """

    def __init__(
        self, ranges: NetworkRanges, ball: Ball, mix: Mix, by_sets: SetMinima | None = None, around: Ball | None = None
    ) -> None:
        self.ranges, self.ball, self.mix = ranges, ball, mix
        self.scales, self.by_cell, self.of_few = mix.term.aggregation, False, None
        if by_sets is not None and around is not None:
            self.of_few = EdgeMinima(by_sets, around, mix)
            nodes, resolution = ball.nodes[~by_sets.few], ranges.settings.resolution
            if not len(nodes):
                return
            ball = self.ball = Ball.around(ball.graph, ball.drops, nodes, resolution, ranges.lines)
        everywhere = Cells(ball, torch.arange(len(ball.cells.row), device=ball.nodes.device))
        self.interval = ranges.interval_below(mix.term.source, everywhere, mix.functionals)[:, 0]
        found = brief_lines(ranges, mix, ball) or self._lines(everywhere)
        self.constant, self.scales, leaves = found.constant, found.scales, found.leaves
        if leaves is None:
            nothing = self.constant.new_zeros(int(ball.degree[ball.cells.row].sum()), self.constant.shape[1])
            self.leaves, falling = nothing, FallingTerms(nothing)
        else:
            self.leaves, falling, _, self.by_cell = leaves
        self.sets = TermSets.of_cases(ball, ball.by_count(self.scales.out, ranges.dtype))
        self.leaf_start = leaf_starts(ranges, self.sets, self.by_cell)
        self.terms, self.without, self.following = self.sets.with_one_kept(
            falling, None if found.added is None else found.added[ball.cell_of_case]
        )

    def _lines(self, cells: Cells) -> LinesBelow:
        """In all cells of the ball, some at a time."""
        ranges, mix, every = self.ranges, self.mix, len(cells.place)
        (_, _, number, width), rules = mix.functionals.vector.shape, len(ranges.settings.rules)
        each = rules * number * width
        affordable = every * each * len(cells.ball.nodes) <= limits.MOST_MEETINGS
        at_once = limits.values_at_once(ranges.network.takes_layers(mix.term.source))
        omega = {mix.term.source: mix.functionals}

        def work(chunk: Tensor) -> LinesBelow:
            return lines_at(ranges, Cells(cells.ball, chunk), omega, affordable=affordable)

        return joined(
            [
                recomputed(partial(work, chunk), chunk.numel() * each)
                for chunk in cells.place.split(max(1, at_once // each))
            ]
        )

    def of_candidates(self) -> Shared:
        """The least ``ω · h`` in every cell of the ball, by its lines and its range: for nodes at the other end of a
        new edge."""
        lines = least_by_row(self.ball.cell_of_case, self.by_case(), len(self.ball.cells.row))
        return Shared(self.ball, best([lines, self.interval]).repeat(1, len(self.ranges.settings.rules)))

    def by_case(self) -> Tensor:
        """The least ``ω · h`` of every node in each of its cases, by the best of its lines, ``(cases, M)``."""
        constant = self.constant.repeat(1, self.without.shape[1] // self.constant.shape[1])
        lines = self.without + constant[self.ball.cell_of_case]
        return lines.unflatten(1, (-1, self.interval.shape[1])).amax(dim=1)

    def serves(self, layer: Layer) -> bool:
        """Whether the node's own functionals are the same up to a factor, and their result has the scale that the layer
        gives its neighbours."""
        return (
            not self.by_cell
            and self.scales == self.mix.term.aggregation
            and all(
                term is self.mix.term
                or (
                    term.weight is self.mix.term.weight
                    and term.source == self.mix.term.source
                    and not term.aggregation.mixes
                )
                for term in layer.terms
            )
        )

    def at_the_node(self, cells: Cells, sets: TermSets, times: int) -> tuple[Tensor, Tensor]:
        """The same functionals of the node itself: ``(own(n_i) + times) ω · h_i`` as constants, ``(E, RM)``, and terms
        at its slots, ``(slots, R M)``. Only if they serve a layer, ``times`` of whose terms are those of the node
        alone.

        A scale that varies is its middle, and ``own(n) - middle`` times the range of ``ω · h_i``.
        """
        place = cells.states_in(self.ball)
        own = cells.ball.cells.extent(self.mix.term.aggregation.own, self.ranges.dtype).rows(cells.place)
        constant, count = self.constant[place], self.constant.shape[1] // self.interval.shape[1]
        middle = times + (own.low if own.high is None else (own.low + own.high) / 2)
        constant = middle * constant
        if own.high is not None:
            least, negative = self.interval[place].chunk(2, dim=1)
            largest = torch.maximum(-least, -negative).repeat(1, 2 * count)
            constant = constant - (own.high - own.low) / 2 * largest
        rank = torch.arange(len(sets.slot), device=place.device) - sets.start[sets.owner]
        leaves = self.leaves[self.sets.start[place][sets.owner] + rank]
        return constant, middle[sets.owner] * leaves

    def minima(self, cells: Cells, sets: TermSets, pairs: Tensor) -> FallingTerms:
        """φ at every slot of some cells of the anchors."""
        if self.of_few is None:
            return self._by_lines(cells, sets, torch.arange(len(sets.slot), device=sets.slot.device), pairs)
        chosen, phi = self.of_few.at(cells, sets)
        others = torch.ones_like(sets.slot, dtype=torch.bool).index_fill(0, chosen, False).nonzero()[:, 0]
        times = pairs.shape[1] // phi.least.shape[1]
        parts = [phi.each(lambda part: part.repeat(1, times)).plus(pairs[chosen])]
        if len(others):
            parts.append(self._by_lines(cells, sets, others, pairs[others]))
        return FallingTerms.joined(parts).at(torch.argsort(torch.cat([chosen, others])))

    def _by_lines(self, cells: Cells, sets: TermSets, chosen: Tensor, pairs: Tensor) -> FallingTerms:
        ball, dtype, cases = self.ball, self.ranges.dtype, self.ball.cases
        slot = sets.slot[chosen]
        row, rank = ball.place[cells.ball.neighbour[slot]], cells.ball.parent_rank[slot]
        term, first = self.sets.start[ball.cells.start[row]] + rank, self.sets.start[ball.cells.start]
        several = ball.cells.start.diff() > 1
        visited = Visited(
            case=cases.start,
            first=cases.first,
            into=cases.extent(self.mix.term.aggregation.into, dtype),
            out=cases.extent(self.scales.out, dtype),
            item=torch.arange(len(cases.row), device=row.device),
            own=ball.cell_of_case,
            term_step=torch.where(several, ball.degree, 0),
            step=torch.where(several, self.leaf_start[first[:-1] + ball.degree] - self.leaf_start[first[:-1]], 0),
            lined=torch.ones_like(ball.by_case),
            cell=ball.cell_rank,
            gain=cases.least_gain,
        )
        visits = visits_of(
            self.ranges, cells, sets, chosen, self.scales, visited, row, self.leaf_start, term, self.by_cell
        )
        return visits.falling(
            cells.ball.most_lost is not None,
            len(self.ranges.settings.rules),
            self.without,
            self.following,
            self.constant,
            self.interval,
            self.leaves,
            self.terms,
            pairs,
        )


def leaf_starts(ranges: NetworkRanges, sets: TermSets, by_cell: bool) -> Tensor:
    """Where the values of every term begin; see :class:`Leaves`."""
    if not by_cell:
        return torch.arange(len(sets.slot) + 1, device=sets.slot.device)
    widest = ranges.widest
    return starts(widest.cells.start.diff()[widest.place[sets.ball.neighbour[sets.slot]]])


def visits_of(
    ranges: NetworkRanges,
    cells: Cells,
    sets: TermSets,
    chosen: Tensor,
    scales: Aggregation,
    visited: Visited,
    row: Tensor,
    leaf_start: Tensor,
    term: Tensor,
    by_cell: bool,
) -> Visits:
    """The visits at some terms of the anchors' sets.

    Args:
        scales: of the neighbours' own sums.
        row: of each in ``visited``.
        term: the place of the anchor among the neighbour's terms, whose values begin at ``leaf_start``.
    """
    owner, slot, anchors = sets.owner[chosen], sets.slot[chosen], cells.ball.cells
    state = cells.place[owner]
    leaf = leaf_start[term]
    if by_cell:  # the anchor's cell is known
        widest = ranges.widest
        mine = cells.ball.cells_in(widest, state)
        leaf = leaf + mine - widest.cells.start[widest.cells.row[mine]]
    lost, gained, additions = anchors.first[state], anchors.least_gain[state], cells.ball.additions
    others = cells.ball.total[anchors.row[state]] - lost
    gains = None if additions is None else (additions.total - gained, additions.both_total - lost - gained)
    return Visits(
        rows=visited,
        row=row,
        parent=anchors.extent(scales.into, visited.into.low.dtype).take(state),
        reach=cells.ball.reach[slot].minimum(others),
        gains=gains,
        droppable=cells.ball.droppable[slot],
        leaf=leaf,
        term=term,
    )


def own_minima(
    ranges: NetworkRanges,
    cells: Cells,
    sets: TermSets,
    ball: Ball,
    mixes: Sequence[Mix],
    pairs: Tensor,
    patterns: int = 1,
) -> FallingTerms:
    """φ at every slot of some cells of the anchors, which have functionals of their own.

    Args:
        ball: of the neighbours.
        mixes: by one aggregation, of one or several layers.
        pairs: ``(terms, R M')``, with M' functionals in all.
        patterns: sign patterns of the neighbours of few edges.
    """
    row = ball.place[cells.ball.neighbour[sets.slot]]
    hub = ball.degree[row] > (torch.inf if ranges.settings.hubs is None else ranges.settings.hubs)
    width = max(mix.functionals.vector.shape[-1] for mix in mixes)
    cost = ball.cells.start.diff()[row] * (pairs.shape[1] * (width + ball.degree[row] * ~hub))
    places, parts = [], []
    by_sets = ranges.by_sets(ranges.balls.index(ball), mixes[0].term) if len(mixes) == 1 else None
    if by_sets is not None:
        asked, vectors = Asked.of(by_sets, cells, sets), mixes[0].functionals.explicit().flatten(1, 2)
        values, owner = by_sets.outputs(mixes[0].term.source), sets.owner[asked.term]
        owner = owner if len(vectors) > 1 else owner * 0
        phi = by_sets.of_visits(asked.slot, asked.reach, values, vectors, owner, cells.ball.most_lost)
        places.append(asked.term)
        rules = len(ranges.settings.rules)
        parts.append(phi.each(lambda part: part.repeat(1, rules)).plus(pairs[asked.term]))
        others = ~by_sets.few[row]
    else:
        others = torch.ones_like(hub)
    few = ~hub & (ball.degree[row] <= FEW_EDGES) & (patterns > 1)
    for lined, number, here in ((False, 1, hub), (True, 1, ~hub & ~few), (True, patterns, few)):
        chosen = (here & others).nonzero()[:, 0]
        if not len(chosen):
            continue
        chosen = chosen[torch.argsort(row[chosen], stable=True)]
        for part in in_portions(chosen, number * cost[chosen], limits.terms_at_once()):
            places.append(part)
            parts.append(
                recomputed(
                    partial(_own_part, ranges, cells, sets, ball, mixes, pairs[part], part, lined, number),
                    int(cost.sum()),
                )
            )
    if not parts:
        return FallingTerms(pairs)
    return FallingTerms.joined(parts).at(torch.argsort(torch.cat(places)))


def _own_part(
    ranges: NetworkRanges,
    cells: Cells,
    sets: TermSets,
    ball: Ball,
    mixes: Sequence[Mix],
    pairs: Tensor,
    chosen: Tensor,
    lined: bool,
    patterns: int,
) -> FallingTerms:
    """The same for some visits, each with its own entries at the cells of its neighbour."""
    dtype, device, rules = ranges.dtype, chosen.device, len(ranges.settings.rules)
    slot, owner = sets.slot[chosen], sets.owner[chosen]
    row, rank = ball.place[cells.ball.neighbour[slot]], cells.ball.parent_rank[slot]
    lines, count = ball.cells.start.diff()[row], ball.cases.start.diff()[row]
    entry, case_start, number = starts(lines), starts(count), torch.arange(len(chosen), device=device)
    visit_of_entry, visit_of_case = (torch.repeat_interleave(number, each) for each in (lines, count))
    entries, case = Cells(ball, consecutive(ball.cells.start[row], lines)), consecutive(ball.cases.start[row], count)
    items = torch.arange(len(case), device=device)
    vectors: dict[int, Tensor] = {}
    for mix in mixes:
        vector = mix.functionals.explicit().flatten(1, 2)[:, None]
        vectors[mix.term.source] = vector if mix.term.source not in vectors else vectors[mix.term.source] + vector
    omega = {
        source: Functionals(vector, None if len(vector) == 1 else owner[visit_of_entry])
        for source, vector in vectors.items()
    }
    interval = sum(ranges.interval_below(source, entries, here)[:, 0] for source, here in omega.items())
    assert isinstance(interval, Tensor)
    scales: Aggregation = Sum()
    without = following = constant = values = terms = interval.new_empty(0, pairs.shape[1])
    leaf_start = term = torch.zeros_like(number)
    step, by_cell = torch.zeros_like(number), False
    if lined:
        cell = entry[visit_of_case] + ball.cell_rank[case]
        inner = TermSets(
            ball,
            ball.cells.level[entries.place],
            torch.zeros_like(visit_of_entry).index_add_(0, cell, torch.ones_like(cell)),
            ball.cases.first[case],
            ball.cases.last[case],
            items,
            None,
        )
        affordable = len(entries.place) * pairs.shape[1] * widest_layer(ranges) * len(ball.nodes) <= (
            limits.MEETINGS_OF_ANCHOR * len(torch.unique(owner))
        )
        constant, leaves, scales, added = lines_at(ranges, entries, omega, inner, affordable)
        inner = replace(inner, out=ball.by_count(scales.out, dtype))
        if leaves is None:
            values = constant.new_zeros(len(inner.slot), constant.shape[1])
            falling = FallingTerms(values)
            leaf_start = torch.arange(len(inner.slot) + 1, device=device)
        else:
            values, falling, leaf_start, by_cell = leaves
        terms, without, following = inner.with_one_kept(falling, None if added is None else added[cell])
        first = inner.start[entry[:-1]]
        term = first + rank
        step = torch.where(lines > 1, leaf_start[first + ball.degree[row]] - leaf_start[first], 0)
    visited = Visited(
        case=case_start,
        first=ball.cases.first[case],
        into=ball.cases.extent(mixes[0].term.aggregation.into, dtype).take(case),
        out=ball.cases.extent(scales.out, dtype).take(case),
        item=items,
        own=entry[visit_of_case] + ball.cell_rank[case],
        step=step,
        term_step=torch.where(lines > 1, ball.degree[row], 0),
        lined=torch.full_like(row, lined, dtype=torch.bool),
        cell=ball.cell_rank[case],
        gain=ball.cases.least_gain[case],
    )
    visits = visits_of(ranges, cells, sets, chosen, scales, visited, number, leaf_start, term, by_cell)
    if lined and patterns > 1:
        value = least_lines(ranges, entries, omega, inner, visits, patterns, affordable)
        if value is not None:
            visits, constant, interval = with_floor(visits, constant, interval, value)
    limited = cells.ball.most_lost is not None
    return visits.falling(limited, rules, without, following, constant, interval, values, terms, pairs)


def widest_layer(ranges: NetworkRanges) -> int:
    """Channels."""
    return max(ranges.network.width_of(number) for number in range(1, len(ranges.network.layers) + 1))
