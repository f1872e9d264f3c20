"""Best-first branch and bound for one anchor, pair by pair."""

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

import torch
from torch import Tensor

from certgcl.bounds.exact.edge_changes.branches import CHANGED, STAYS, EdgeBranches

CUT_AT_ONCE = 8  # branches that are split at a time
FEW_CHANGE_SETS = 1 << 12  # of changes, up to which a branch is enumerated


@dataclass(order=True)
class _OpenChange:
    lower: float
    number: int
    state: Tensor = field(compare=False)


class ChangeTree:
    """Open branches, the least first, and the best change known.

    A branch is split in two at one of its open pairs, which is changed in one half and stays in the other. A branch
    with few graphs is enumerated if only edges may change. The bound of a branch is never below that of its parent.

    Args:
        lower: a bound to start with.
        state: an admissible change to start with, ``(1, P)``.
        which: chooses the pair at which a branch is split, given its state and its open pairs.
        fixed: whether features stay, so that a graph has one value.
        tolerance: branches within this share of the larger of clean value and upper bound are closed.

    Attributes:
        upper, witness: the least value known, and the change that reaches it.
        bounded: the number of branches bounded.
    """

    def __init__(
        self,
        branches: EdgeBranches,
        lower: float,
        state: Tensor,
        which: Callable[[Tensor, Tensor], int],
        fixed: bool,
        tolerance: float,
    ) -> None:
        self.branches, self.which, self.fixed, self.tolerance = branches, which, fixed, tolerance
        self.root, self.upper, self.witness = lower, math.inf, state
        self._try(branches.undecided)
        self.clean = self.upper
        self._try(state)
        self.number = count()
        self.open = [_OpenChange(lower, next(self.number), branches.undecided[0])]
        self.closed, self.bounded = math.inf, 0

    @property
    def lower(self) -> float:
        """The least bound of all branches, closed ones too: a tolerance may end the search, but never raises the
        bound."""
        return min(self.upper, max(self.root, min([self.closed, *(branch.lower for branch in self.open[:1])])))

    @property
    def done(self) -> bool:
        return not self.open or self.open[0].lower >= self.cutoff

    @property
    def cutoff(self) -> float:
        return self.upper - self.tolerance * max(abs(self.clean), abs(self.upper))

    def step(self) -> None:
        """Split the least branches, and bound both halves."""
        taken = [heapq.heappop(self.open) for _ in range(min(CUT_AT_ONCE, len(self.open)))]
        states = torch.stack([branch.state for branch in taken])
        is_open, children, parents = self.branches.left(states).open, [], []
        for branch, free in zip(taken, is_open, strict=True):
            changes = self.branches.every_change(branch.state, FEW_CHANGE_SETS if self.fixed else 1)
            if changes is not None:
                self._end(branch, changes)
                continue
            pair = self.which(branch.state, free)
            for decision in (CHANGED, STAYS):
                child = branch.state.clone()
                child[pair] = decision
                children.append(child)
                parents.append(branch.lower)
        if not children:
            return
        made = torch.stack(children)
        self._try(made[::2])
        self.bounded += len(made)
        for state, parent, bound in zip(made, parents, self.branches.bounds(made).tolist(), strict=True):
            lower = max(parent, bound) if math.isfinite(bound) else parent  # NaN carries no information
            if lower < self.cutoff:
                heapq.heappush(self.open, _OpenChange(lower, next(self.number), state))
            else:
                self.closed = min(self.closed, lower)

    def _end(self, branch: _OpenChange, changes: Tensor) -> None:
        """A branch with few graphs: the least of their values; or its bound, if features may change too."""
        value = self._try(changes) if self.fixed else branch.lower
        self.closed = min(self.closed, max(branch.lower, value))

    def _try(self, states: Tensor) -> float:
        values = self.branches.values(states)
        place = int(values.argmin())
        if float(values[place]) < self.upper:
            self.upper, self.witness = float(values[place]), states[place : place + 1]
        return float(values[place])
