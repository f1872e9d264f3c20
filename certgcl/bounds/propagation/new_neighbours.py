"""The contribution of a node to the row of an anchor through a new edge between them, by the node's own lines.

As for a neighbour (:mod:`certgcl.bounds.propagation.visits`), but the edge is one that the node has gained. In a
case of c with t lost and ``a >= 1`` gained edges,

    line  =  lemma with t  +  out(n_c) bot_(a-1)  +  e  +  out(n_c) in(n_i) C_i ,
    term  =  min_cases  in(n_c) ( max( interval,  best line ) + pair )

over the cases that the anchor's state allows for c. ``bot_(a-1)`` may count the anchor among the other candidates,
which cannot increase it.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from certgcl.bounds.propagation import limits
from certgcl.bounds.propagation.balls import Ball
from certgcl.bounds.propagation.chain import Cells, Mix
from certgcl.bounds.propagation.extremes import best
from certgcl.bounds.propagation.functionals import Functionals
from certgcl.bounds.propagation.levels import consecutive
from certgcl.bounds.propagation.lines_below import lines_at
from certgcl.bounds.propagation.neighbours import widest_layer
from certgcl.bounds.propagation.ranges import NetworkRanges
from certgcl.bounds.propagation.term_sets import TermSets
from certgcl.bounds.two_layer.row_plan import starts


class NewNeighbours:
    """Terms of candidates for functionals of some cells of the anchors.

    Args:
        ball: of the candidates.
        mixes: by one aggregation, and by every rule.
    """

    def __init__(self, ranges: NetworkRanges, cells: Cells, ball: Ball, mixes: Sequence[Mix]) -> None:
        self.ranges, self.cells, self.ball = ranges, cells, ball
        self.vectors: dict[int, Tensor] = {}
        self.features: list[Mix] = []
        for mix in mixes:
            if mix.term.source == 0:
                self.features.append(mix)
                continue
            vector, source = mix.functionals.explicit().flatten(1, 2), mix.term.source
            self.vectors[source] = vector if source not in self.vectors else self.vectors[source] + vector
        self.scales = mixes[0].term.aggregation

    def terms(self, entries: Tensor, nodes: Tensor) -> Tensor:
        """Of candidates of some entries, ``(V, R M)``."""
        width = next(iter(self.vectors.values())).shape[1]
        row = self.ball.place[nodes]
        each = (
            self.ball.cells.start.diff()[row]
            * width
            * (widest_layer(self.ranges) + self.ball.degree[row] * len(self.ranges.settings.rules))
        )
        group = torch.div(each.cumsum(0), limits.MAX_TERMS, rounding_mode="floor")
        sizes = torch.unique_consecutive(group, return_counts=True)[1].tolist()
        parts = [self._some(*pair) for pair in zip(entries.split(sizes), nodes.split(sizes), strict=True)]
        return torch.cat(parts) if parts else self.cells.ball.nodes.new_zeros(0, width).to(self.ranges.dtype)

    def _some(self, entries: Tensor, nodes: Tensor) -> Tensor:
        ranges, ball, rules = self.ranges, self.ball, len(self.ranges.settings.rules)
        row = ball.place[nodes]
        lines, count = ball.cells.start.diff()[row], ball.cases.start.diff()[row]
        visit = torch.arange(len(row), device=row.device)
        of_cell, of_case = (torch.repeat_interleave(visit, each) for each in (lines, count))
        cells, case = Cells(ball, consecutive(ball.cells.start[row], lines)), consecutive(ball.cases.start[row], count)
        cell = starts(lines)[of_case] + ball.cell_rank[case]
        omega = {
            source: Functionals(vector[:, None], None if len(vector) == 1 else entries[of_cell])
            for source, vector in self.vectors.items()
        }
        interval = sum(ranges.interval_below(source, cells, here)[:, 0] for source, here in omega.items())
        assert isinstance(interval, Tensor)
        sets = TermSets(
            ball,
            ball.cells.level[cells.place],
            torch.zeros_like(of_cell).index_add_(0, cell, torch.ones_like(cell)),
            ball.cases.first[case],
            ball.cases.last[case],
            torch.arange(len(case), device=row.device),
            None,
        )
        parent = Cells(self.cells.ball, self.cells.place[entries[of_cell]])
        value = interval[cell]
        found = lines_at(ranges, cells, omega, sets, parent=parent)
        assert found.added is not None
        line = (found.constant + found.added)[cell]
        if found.leaves is not None:
            scaled = TermSets(
                sets.ball,
                sets.level,
                sets.items,
                sets.first,
                sets.last,
                sets.place,
                ball.by_count(found.scales.out, ranges.dtype),
            )
            line = line + scaled.best_minima(found.leaves.terms)
        value = best([value, line.unflatten(1, (rules, -1)).amax(dim=1)])
        for mix in self.features:
            vector = mix.functionals.explicit().flatten(1, 2)[:, None]
            here = Functionals(vector, None if len(vector) == 1 else entries)
            pair = ranges.features_below(mix.term, here, ranges.widest.place[nodes])[:, 0]
            value = value + pair[of_case]
        value = ball.cases.extent(self.scales.into, value.dtype).rows(case).least(value)
        value = torch.where(self._left(entries[of_case], case)[:, None], value, torch.inf)
        least = value.new_full((len(row), value.shape[1]), torch.inf)
        return least.scatter_reduce(0, of_case[:, None].expand_as(value), value, "amin")

    def _left(self, entries: Tensor, case: Tensor) -> Tensor:
        """Whether an anchor's cell allows a case at the other end of a new edge."""
        anchors, cases, additions = self.cells.ball.cells, self.ball.cases, self.ball.additions
        assert additions is not None
        place = self.cells.place[entries]
        mine, lost = anchors.least_gain[place].clamp(min=1), anchors.first[place]
        gained, gone = cases.least_gain[case].clamp(min=1), cases.first[case]
        return (
            (cases.most_gain[case] > 0)
            & (mine + gained - 1 <= additions.total)
            & (lost + gone <= self.cells.ball.total[anchors.row[place]])
            & (lost + mine + gone + gained - 1 <= additions.both_total)
        )
