"""Bounds on the box: every entry of an aggregation's matrix varies independently between its extremes.

``interval`` and ``crown`` go through a network of any depth on it. Unlike the row lemma, it ignores that all entries of
a row share one number of neighbours, and how many of them can be dropped. Of added edges, only as many as are allowed
are counted.
"""

import torch
from torch import Tensor

from certgcl.bounds.propagation import limits
from certgcl.bounds.propagation.added_edges import added_edges
from certgcl.bounds.propagation.balls import Ball, extent
from certgcl.bounds.propagation.chain import Cells, Descent, Mix
from certgcl.bounds.propagation.drop_counts import Scale
from certgcl.bounds.propagation.extremes import best
from certgcl.bounds.propagation.functionals import Functionals
from certgcl.bounds.propagation.leaves import leaves_of
from certgcl.bounds.propagation.lines_below import lines_at
from certgcl.bounds.propagation.network_bound import NetworkBound
from certgcl.bounds.propagation.ranges import NetworkRanges
from certgcl.bounds.propagation.term_sets import TermSets
from certgcl.models.aggregations import Aggregation
from certgcl.models.layer import Term


def entries(ball: Ball, aggregation: Aggregation, dtype: torch.dtype) -> Scale:
    """The range of ``out(n_i) in(n_k)`` at every slot; down to zero if the edge can be dropped."""
    droppable = torch.zeros_like(ball.degree).index_add_(0, ball.row, ball.droppable.long())
    lost = ball.budget[ball.row].minimum(droppable[ball.row] - ball.droppable.long())
    degree = ball.degree[ball.row]
    out = extent(aggregation.out, degree - lost, degree + ball.gain[ball.row], dtype)
    both = out.times(ball.of_neighbours(aggregation.into, dtype))
    return Scale(torch.where(ball.droppable, 0, both.low), both.low if both.high is None else both.high)


class BoxRanges(NetworkRanges):
    """Ranges of all layers on the box; every node has one cell."""

    def _aggregated(self, term: Term, ball: Ball) -> Tensor:
        values, aggregation = self._values(term), term.aggregation
        source = self.widest if term.source == 0 else self.ball_of(term.source)
        terms = entries(ball, aggregation, self.dtype).column.least(values[source.place[ball.neighbour]])
        own = ball.cells.extent(aggregation.own, self.dtype).column.least(self._at_cells(term, ball, values))
        added = self._added(term, ball, values)
        return (own if added is None else own + added).index_add(0, ball.row, terms)


class BoxBound(NetworkBound):
    """Lines at the anchor and at its neighbours, ranges beyond, and every sum minimised entry by entry."""

    def _near(self) -> set[int]:
        return set()

    def _shared_neighbours(self, number: int, units: Functionals, by_sets: object) -> None:
        return None

    def _minimum(
        self, cells: Cells, descent: Descent, shared: object, deep: bool = True, patterns: int = 1, meet: bool = True
    ) -> Tensor:
        count, functionals = len(self.rules), descent.constant.shape[2]
        total = descent.constant.expand(len(cells.place), count, functionals).flatten(1)
        sets = TermSets.of_cells(cells.ball, None, cells.place)
        if descent.mixes:
            met = [Mix(mix.term, mix.functionals.by_rule(count)) for mix in descent.mixes]
            added = added_edges(self.ranges, cells, met[0].term.aggregation, met, affordable=meet)
            total = total if added is None else total + added
        for mix in descent.mixes:
            mix = Mix(mix.term, mix.functionals.by_rule(count))
            values = (
                self._at_slots(cells, sets, mix)
                if mix.term.source
                else leaves_of(self.ranges, sets, [mix], mix.term.aggregation, by_cell=False).values
            )
            total = total.index_add(0, sets.owner, self._least(sets, mix.term.aggregation, values))
        return total.unflatten(1, (count, functionals)).amax(dim=1)

    def _least(self, sets: TermSets, aggregation: Aggregation, values: Tensor) -> Tensor:
        return entries(sets.ball, aggregation, self.ranges.dtype).rows(sets.slot).least(values)

    def _at_slots(self, cells: Cells, sets: TermSets, mix: Mix) -> Tensor:
        """The least ``β · h_k`` at every slot, ``(terms, R M)``: the best of the neighbour's lines and its range."""
        vector = mix.functionals.explicit().flatten(1, 2)[:, None]
        wider = self.ranges.balls[self._radius(cells.ball) + 1]
        rows = wider.place[cells.ball.neighbour[sets.slot]]
        if len(vector) == 1:  # shared by all anchors: once for every neighbour
            everyone = Cells(wider, torch.arange(len(wider.nodes), device=rows.device))
            return self._values(everyone, {mix.term.source: Functionals(vector)})[rows]
        at_once = max(1, limits.MAX_VALUES // vector[0].numel())
        parts = [
            self._values(Cells(wider, some), {mix.term.source: Functionals(vector[mine])})
            for some, mine in zip(rows.split(at_once), sets.owner.split(at_once), strict=True)
        ]
        return torch.cat(parts) if parts else vector.new_zeros(0, vector.shape[2])

    def _values(self, cells: Cells, omega: dict[int, Functionals]) -> Tensor:
        """The least ``ω · h`` at some nodes, ``(E, M)``."""
        ((source, functionals),) = omega.items()
        interval = self.ranges.interval_below(source, cells, functionals)[:, 0]
        sets = TermSets.of_cells(cells.ball, None, cells.place)
        meetings = interval.numel() * len(self.rules) * functionals.vector.shape[-1] * len(self.ranges.widest.nodes)
        lines, leaves, aggregation, added = lines_at(self.ranges, cells, omega, sets, meetings <= limits.MOST_MEETINGS)
        lines = lines if added is None else lines + added
        if leaves is not None:
            lines = lines.index_add(0, sets.owner, self._least(sets, aggregation, leaves.values))
        return best([interval, lines.unflatten(1, (len(self.rules), -1)).amax(dim=1)])
