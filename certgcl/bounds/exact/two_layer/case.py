"""A case: the drops around one anchor that agree with some decisions, with a known number of edges lost by the anchor.

The rows of its neighbours are bounded separately, cell by cell (:mod:`certgcl.bounds.exact.two_layer.cells`), and
combined by the row lemma of the anchor. A cell whose bound, combined with the best of all others, stays above a known
value is discarded. The remaining cells narrow the pre-activations of both layers, which raises the bound, which
excludes more cells.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from certgcl.bounds.exact.two_layer.cells import (
    ABSENT,
    DROPPED,
    FREE,
    KEPT,
    CellBounds,
    Linearised,
    RowCells,
    remaining,
)
from certgcl.bounds.exact.two_layer.decisions import Decisions, EdgeSite, NothingLeft
from certgcl.bounds.interval import output_interval

ROUNDS = 6  # rounds of splitting cells, before another case is continued
SPLIT_AT_ONCE = 24  # cells of a row
MOST_CELLS = 1 << 11  # beyond that, it is better to split the case
GROUPS = 4  # groups of the counts of a row, to start with
PROGRESS = 0.1  # share of the gap: a case that closes less of it is better split


@dataclass(frozen=True, eq=False)
class Incumbent:
    """The best drops known: their value, the pre-activation of the last layer there, and the tolerance."""

    value: float
    before: Tensor
    width: float

    @property
    def cutoff(self) -> float:
        return self.value - self.width


@dataclass(frozen=True, eq=False)
class Composed:
    """Lower bounds of ``ω · Σ_j Â_ij h_j`` for M functionals, ``(M,)``, and the terms they consist of.

    Args:
        cost: the term of every cell, ``(C, M)``.
        row_cost: the least of a row, ``(R, M)``.
    """

    bound: Tensor
    cost: Tensor
    row_cost: Tensor


class Case:
    """One case: :meth:`lift` bounds it, and every call of :meth:`refine` improves the bound.

    Attributes:
        channels: the output channels whose sign is not known, ``(M / 2,)``.
        lower2, upper2: bounds of the second pre-activation, ``(d2,)``.
        lower: the bound.
        closed: the least bound of what was discarded.
        bounded: how many cells were bounded.
        exhausted: whether splitting cells cannot improve anything.
    """

    def __init__(self, site: EdgeSite, lost: int, lower: float) -> None:
        weights = site.weights
        self.site, self.lost, self.lower = site, lost, lower
        self.rows: CellBounds = site.rows(lost)
        self.decisions = Decisions.none(site, lost)
        self.channels = torch.arange(len(weights.b2))
        self.upper2 = torch.full_like(weights.b2, torch.inf)
        self.lower2 = -self.upper2
        self.omega = weights.w2[:, 0]
        self.cost: Tensor | None = None
        self.closed, self.bounded, self.exhausted = float("inf"), 0, False
        self.cells = self._first_cells()
        self._restrict()
        self.cells = self._bounded(self.cells)

    def _first_cells(self) -> RowCells:
        """A few groups of counts for every row, with no decisions."""
        site = self.site
        budget = site.budget[1 : len(site.size) + 1]
        row = torch.arange(len(budget)).repeat_interleave(GROUPS)
        group = torch.arange(GROUPS).repeat(len(budget))
        start, end = (((budget[row] + 1) * part).div(GROUPS, rounding_mode="floor") for part in (group, group + 1))
        row, start, end = row[start < end], start[start < end], end[start < end]
        node = site.node[row]
        there = torch.arange(node.shape[1]) < site.size[row, None]
        infinite = torch.full_like(site.weights.b1, torch.inf).expand(len(row), -1)
        return RowCells(
            row,
            start,
            end - 1,
            torch.where(there, FREE, ABSENT),
            torch.zeros_like(node),
            site.budget[node],
            -infinite,
            infinite,
            infinite[:, :0],
        )

    def branched(self, edge: int, kind: int) -> "Case":
        """The same case with one more edge dropped or kept."""
        case = Case.__new__(Case)
        case.__dict__.update(self.__dict__)
        case.lower2, case.upper2 = self.lower2.clone(), self.upper2.clone()
        case.closed, case.exhausted, case.cost = float("inf"), False, None
        case.decisions = self.decisions.branched(edge, kind)
        case._restrict()
        case.bounded = len(case.cells)
        return case

    # -- consequences ----------------------------------------------------------------------

    def _restrict(self) -> None:
        """Keep only the cells that agree with the decisions; a neighbour without cells is lost."""
        while True:
            self.decisions = self.decisions.settled()
            before = len(self.cells)
            self.cells = self._agreeing()
            if len(self.cells) != before:
                self.cost = None
            own = self.decisions.own
            lonely = own != DROPPED
            lonely[self.cells.row] = False
            if not bool(lonely.any()):
                return
            if bool((own[lonely] == KEPT).any()):
                raise NothingLeft
            self.decisions = self.decisions.decided(self.site.own_edge[lonely], DROPPED)

    def _agreeing(self) -> RowCells:
        site, cells, known = self.site, self.cells, self.decisions
        node, this, own = site.node[cells.row], cells.row + 1, known.own[cells.row]
        edges = torch.where(cells.state == ABSENT, ABSENT, known.of(site.edge[cells.row]))
        agrees = ((edges == FREE) | (cells.state == FREE) | (edges == cells.state)).all(dim=1) & (own != DROPPED)
        # The edge to the anchor is kept, and so is that to a leaf where its counts matter.
        most = known.most[this].minimum(known.dropped[this] + known.free[this] - (own == FREE).long())
        leaf_most = known.most[node].minimum(known.dropped[node] + known.free[node] - (edges == FREE).long())
        return (
            replace(
                cells,
                state=torch.where(cells.state == FREE, edges, cells.state),
                fewest=cells.fewest.maximum(known.fewest[this]),
                most=cells.most.minimum(most.clamp(max=site.total - self.lost)),
                leaf_fewest=cells.leaf_fewest.maximum(known.fewest[node]),
                leaf_most=cells.leaf_most.minimum(leaf_most),
            )
            .at(agrees)
            .possible()
        )

    def _imply(self) -> None:
        """If all cells of a neighbour that stays agree on an edge, it is decided."""
        site, cells = self.site, self.cells
        for row in (self.decisions.own == KEPT).nonzero()[:, 0].tolist():
            mine, size = cells.at(cells.row == row), int(site.size[row])
            if not len(mine):
                raise NothingLeft
            self.decisions = self.decisions.counted(
                torch.tensor([row + 1]), mine.fewest.min()[None], mine.most.max()[None]
            )
            edge, state = site.edge[row, :size], mine.state[:, :size]
            for kind in (DROPPED, KEPT):
                agreed = (state == kind).all(dim=0)
                self.decisions = self.decisions.decided(edge[agreed & (edge >= 0)], kind)
            self.decisions = self.decisions.counted(
                site.node[row, :size][agreed],
                mine.leaf_fewest[:, :size].amin(dim=0)[agreed],
                mine.leaf_most[:, :size].amax(dim=0)[agreed],
            )

    # -- the bound -----------------------------------------------------------------------------------

    def refine(self, best: Incumbent, limit: float) -> None:
        """Split cells and raise the bound, a few times, until about ``limit`` cells are bounded."""
        start = self.lower
        for _ in range(ROUNDS):
            if self.bounded >= limit:
                return
            if not self._split():
                self.exhausted = True
                return
            self.lift(best)
            if self.lower >= best.cutoff:
                return
        self.exhausted = self.lower - start < PROGRESS * (best.value - start)

    def lift(self, best: Incumbent) -> None:
        """The bound that the cells give; raises an exception if nothing is left below the incumbent."""
        self._narrow_output()
        weights, direction = self.site.weights, self.site.direction
        slopes, constants = self._output_lines(best.before)
        omega = weights.w2 @ slopes
        found = self.composed(self.rows.functionals(self.cells, omega), omega)
        place = int((found.bound + constants).argmax())
        bound, self.omega, self.cost = float((found.bound + constants)[place]), omega[:, place], found.cost[:, place]
        interval = output_interval(weights.activation2, direction[None, None], self.lower2[None], self.upper2[None])
        self.lower = max(self.lower, bound, float(interval))
        self._leave_out(bound, found.row_cost[:, place], best.cutoff)

    def _channel_functionals(self) -> Tensor:
        columns = self.site.weights.w2[:, self.channels]
        return torch.cat([columns, -columns], dim=1)

    def _bounded(self, cells: RowCells) -> RowCells:
        self.bounded += len(cells)
        return self.rows.bounded(cells, self._channel_functionals())

    def _narrow_output(self) -> None:
        """Bounds of the channels whose sign is open; those that are known by now are left out."""
        here = self.channels
        least, most = self.composed(self.cells.channels, self._channel_functionals()).bound.chunk(2)
        b2 = self.site.weights.b2[here]
        self.lower2[here] = self.lower2[here].maximum(b2 + least)
        self.upper2[here] = self.upper2[here].minimum(b2 - most)
        unknown = (self.lower2[here] < 0) & (self.upper2[here] > 0)
        self.cells = replace(self.cells, channels=self.cells.channels[:, unknown.repeat(2)])
        self.channels = here[unknown]

    def _output_lines(self, before: Tensor) -> tuple[Tensor, Tensor]:
        """Slopes ``(d2, 2)`` and constants of lines below ``w · σ2(p)``: by the longer piece, and lines that touch it
        at the incumbent."""
        weights, w = self.site.weights, self.site.direction
        lines = weights.activation2.lines(self.lower2, self.upper2, "adaptive")
        touching = torch.where(before > 0, torch.ones_like(weights.slope2), weights.slope2)
        unknown, convex = (self.lower2 < 0) & (self.upper2 > 0), weights.slope2 <= 1
        positive, negative = w.clamp(min=0), w.clamp(max=0)
        slopes = torch.stack(
            [
                positive * lines.lower_slope + negative * lines.upper_slope,
                positive * torch.where(unknown & convex, touching, lines.lower_slope)
                + negative * torch.where(unknown & ~convex, touching, lines.upper_slope),
            ],
            dim=1,
        )
        return slopes, weights.b2 @ slopes + positive @ lines.lower_intercept + negative @ lines.upper_intercept

    def composed(self, values: Tensor, omega: Tensor) -> Composed:
        """``ω · Σ_j Â_ij h_j`` from lower bounds ``(C, M)`` of ``ω · h_j``: the theorem of section 6 of the theory for
        one count of the anchor, with the best cell of every neighbour."""
        rows, tau, own = self.rows, self.rows.tau, self.decisions.own
        there, number, y = own != DROPPED, len(own), self.rows.projected
        row, (low, high) = self.cells.row, rows.scale(self.cells)
        left = (self.lost - (own == DROPPED).sum())[None]

        def lemma(terms: Tensor) -> Tensor:
            return remaining(terms[None], (own == FREE)[None], left, left)[0, 0]

        least, most = (
            low.new_zeros(number).scatter_reduce(0, row, scale, kind, include_self=False)[:, None] * y[1 : number + 1]
            for scale, kind in ((low, "amin"), (high, "amax"))
        )
        fixed = tau**2 * y[0] + self.site.weights.b1
        line = Linearised.between(
            self.site.weights, fixed + tau * lemma(least.minimum(most)), fixed - tau * lemma(-least.maximum(most))
        )
        back = line.products(y[1 : number + 1], omega)
        value = values + tau**2 * back[row]
        cost = tau * (low[:, None] * value).minimum(high[:, None] * value)
        row_cost = cost.new_full((number, cost.shape[1]), torch.inf).scatter_reduce(
            0, row[:, None].expand_as(cost), cost, "amin"
        )
        row_cost = torch.where(there[:, None], row_cost, 0.0)
        own_terms = line.products(tau**2 * y[0], omega) + line.constants(omega)
        return Composed(tau**2 * own_terms + lemma(row_cost), cost, row_cost)

    def _leave_out(self, bound: float, row_cost: Tensor, cutoff: float) -> None:
        """Discard the cells, and the losses of neighbours, for which the bound is not below the cutoff."""
        assert self.cost is not None
        own = self.decisions.own
        free, left = own == FREE, self.lost - int((own == DROPPED).sum())
        order = torch.where(free, row_cost, -torch.inf).argsort(descending=True)
        taken = torch.zeros_like(free)
        taken[order[:left]] = True
        last = float(row_cost[order[left - 1]]) if left else torch.inf
        following = float(row_cost[order[left]]) if left < int(free.sum()) else -torch.inf
        # If a neighbour that the bound has lost is kept, the next one is lost instead, and the other way round.
        with_cell = bound - torch.where(taken, following, row_cost)[self.cells.row] + self.cost
        without = torch.where(free & ~taken, bound + last - row_cost, -torch.inf)
        out, kept = with_cell >= cutoff, without >= cutoff
        if not bool(out.any()) and not bool(kept.any()):
            return
        self.closed = min([self.closed, *with_cell[out].tolist(), *without[kept].tolist()])
        self.cells, self.cost = self.cells.at(~out), self.cost[~out]
        self.decisions = self.decisions.decided(self.site.own_edge[kept], KEPT)
        self._imply()
        self._restrict()

    def _split(self) -> bool:
        """Split the most promising cells of every row; False if there are none, or too many."""
        cells = self.cells
        divisible = cells.divisible()
        if not bool(divisible.any()) or len(cells) > MOST_CELLS:
            return False
        cost = self.rows.functionals(cells, self.omega[:, None])[:, 0] if self.cost is None else self.cost
        order = torch.where(divisible, cost, torch.inf).argsort()
        order = order[torch.argsort(cells.row[order], stable=True)]
        rank = torch.arange(len(order)) - torch.searchsorted(cells.row[order], cells.row[order])
        chosen = torch.zeros_like(divisible)
        chosen[order[rank < SPLIT_AT_ONCE]] = True
        chosen &= divisible
        parents = cells.at(chosen)
        place = self.rows.importance(parents, self.omega).argmax(dim=1)
        self.cells = RowCells.joined([cells.at(~chosen), self._bounded(parents.split(place).possible())])
        return True
