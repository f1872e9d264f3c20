"""Best-first branch and bound for one anchor of a network, edge by edge."""

import heapq
import math
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, count

import torch
from torch import Tensor

from certgcl.attacks.batch import FieldBatch
from certgcl.bounds.exact.networks.branches import UNION_SLOTS, Branch, Branches
from certgcl.bounds.exact.networks.rows import FieldRows
from certgcl.bounds.exact.two_layer.cells import DROPPED, FREE, KEPT
from certgcl.changes.subsets import number_of_subsets

BREADTH = 8  # branches that are split at a time
FEW_SETS = 64  # of drops, up to which a branch is enumerated


@dataclass(order=True)
class _OpenBranch:
    lower: float
    number: int
    state: Tensor = field(compare=False)


class EdgeTree:
    """The search for one anchor: open branches, the least first, and the best drops known.

    In a branch some edges are dropped and some are kept. It is split in two at the free edge with the largest effect by
    itself; a branch with few remaining sets of drops is enumerated. The bound of a branch is never below that of its
    parent, and neither the order of branches nor how they are split depends on what is known at the start: so a larger
    limit only continues where a smaller one ends.

    Args:
        guide: drops with a low value, at which the effects of edges are estimated.
        lower: a bound to start with.
        dropped: admissible drops to start with, by their positions in the field.
        tolerance: branches within this share of the larger of clean value and upper bound are closed.

    Attributes:
        upper, witness: the least value known, and the drops that reach it.
        bounded: the number of branches bounded or enumerated.
    """

    def __init__(
        self,
        branches: Branches,
        rows: FieldRows,
        direction: Tensor,
        guide: Tensor,
        lower: float,
        dropped: Tensor,
        tolerance: float,
    ) -> None:
        self.branches, self.rows, self.direction, self.guide = branches, rows, direction, guide
        self.root, self.tolerance = lower, tolerance
        self.upper, self.witness = math.inf, dropped[:0]
        self._try(rows.dropping(dropped[:0]))
        self.clean = self.upper
        self._try(rows.dropping(dropped))
        self.number = count()
        self.open = [_OpenBranch(-math.inf, next(self.number), rows.settled(rows.undecided).state[0])]
        self.closed, self.bounded = math.inf, 0
        self.parents: list[float] = []

    @property
    def lower(self) -> float:
        """The least bound of all branches, closed ones too: a tolerance may end the search, but never raises the
        bound."""
        return min(self.upper, max(self.root, min([self.closed, *(branch.lower for branch in self.open[:1])])))

    @property
    def done(self) -> bool:
        return not self.open or max(self.root, self.open[0].lower) >= self.cutoff

    @property
    def cutoff(self) -> float:
        return self.upper - self.tolerance * max(abs(self.clean), abs(self.upper))

    @classmethod
    def breadth(cls, rows: FieldRows) -> int:
        """How many branches are split at a time; this only depends on the field."""
        return min(BREADTH, max(1, UNION_SLOTS // (2 * max(1, len(rows.row)))))

    @classmethod
    def step_size(cls, rows: FieldRows) -> int:
        """Slots of all copies that a step bounds."""
        return 2 * cls.breadth(rows) * len(rows.row)

    # -- a step ----------------------------------------------------------------------------------------

    def cut(self) -> Branch:
        """Split the least branches. The parts have to be bounded and passed to :meth:`take`."""
        taken = [heapq.heappop(self.open) for _ in range(min(self.breadth(self.rows), len(self.open)))]
        ends = [branch for branch in taken if self._few(branch.state)]
        if ends:
            self._enumerate(ends)
        halved = [branch for branch in taken if branch not in ends]
        self.parents = [branch.lower for branch in halved for _ in range(2)]
        states = self._halves(torch.stack([branch.state for branch in halved])) if halved else self.rows.undecided[:0]
        return Branch(self.rows, states, self.direction)

    def take(self, branch: Branch, bounds: Tensor) -> None:
        """Continue with the branches that were split, given their bounds; bounds that are NaN carry no information."""
        self.bounded += len(bounds)
        for state, parent, bound in zip(branch.state, self.parents, bounds.tolist(), strict=True):
            lower = max(parent, bound) if math.isfinite(bound) else parent
            if lower < self.cutoff:
                heapq.heappush(self.open, _OpenBranch(lower, next(self.number), state))
            else:
                self.closed = min(self.closed, lower)

    def _halves(self, state: Tensor) -> Tensor:
        """Branches ``(B, E)``, each with one free edge dropped, and with it kept, ``(2 B, E)``. If it is kept, then so
        are all equivalent ones, because it stands for any of them."""
        branch, alike, free = torch.arange(len(state)), self.rows.alike, state == FREE
        edge = torch.where(free, self._effects(state), -1.0).argmax(dim=1)
        dropped, kept = state.clone(), state.clone()
        dropped[branch, edge], kept[branch, edge] = DROPPED, KEPT
        kept[free & (alike >= 0) & (alike == alike[edge][:, None])] = KEPT
        return self.rows.settled(torch.stack([dropped, kept], dim=1).flatten(0, 1)).state

    def _effects(self, state: Tensor) -> Tensor:
        """An estimate of the effect of every single edge in each of some branches, after the guide's drops among its
        free edges; ``(B, E)``."""
        batch, edges = self.batch, self.rows.edges
        dropped = torch.zeros(batch.ends.shape[:2], dtype=torch.bool)
        dropped[: len(state), self.guide] = True
        dropped[: len(state), :edges] = (state == DROPPED) | (dropped[: len(state), :edges] & (state == FREE))
        return batch.gains(dropped)[: len(state), :edges].abs().nan_to_num()

    @cached_property
    def batch(self) -> FieldBatch:
        copies = self.breadth(self.rows)
        return FieldBatch.of(self.branches.space, [self.rows.field] * copies, self.direction.expand(copies, -1))

    # -- drops that are tried --------------------------------------------------------------------------

    def _few(self, state: Tensor) -> bool:
        """Whether few sets of drops agree with some decisions, without taking local budgets into account."""
        free, total = int((state == FREE).sum()), int(self.rows.total - (state == DROPPED).sum())
        return number_of_subsets(free, total) <= FEW_SETS

    def _enumerate(self, ends: list[_OpenBranch]) -> None:
        """All sets of drops that agree with some branches."""
        self.bounded += len(ends)
        states = torch.cat([self._sets(branch.state) for branch in ends])
        if not self._try(states):
            self.closed = min(self.closed, *(branch.lower for branch in ends))

    def _sets(self, state: Tensor) -> Tensor:
        """All lists of decisions that leave nothing open and agree with some."""
        free = (state == FREE).nonzero()[:, 0].tolist()
        most = min(len(free), int(self.rows.total - (state == DROPPED).sum()))
        sets = [chosen for size in range(most + 1) for chosen in combinations(free, size)]
        found = torch.where(state == FREE, KEPT, state).repeat(len(sets), 1)
        for one, chosen in zip(found, sets, strict=True):
            one[list(chosen)] = DROPPED
        return found[self.rows.settled(found).possible]

    def _try(self, states: Tensor) -> bool:
        """Lists of admissible drops; whether all their values are numbers."""
        values = self.branches.values(Branch(self.rows, states, self.direction))
        finite = values.isfinite()
        best = int(values.masked_fill(~finite, torch.inf).argmin())
        if float(values[best]) < self.upper:
            self.upper, self.witness = float(values[best]), (states[best] == DROPPED).nonzero()[:, 0]
        return bool(finite.all())
