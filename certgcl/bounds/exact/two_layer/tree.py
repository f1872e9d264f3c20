"""Best-first branch and bound for one anchor."""

import heapq
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import count

import torch
from torch import Tensor

from certgcl.attacks import Field, Search, SearchSpace
from certgcl.bounds.exact.two_layer.case import Case, Incumbent
from certgcl.bounds.exact.two_layer.cells import DROPPED, FREE, KEPT
from certgcl.bounds.exact.two_layer.decisions import EdgeSite, NothingLeft
from certgcl.bounds.exact.two_layer.field import ReceptiveField
from certgcl.bounds.exact.two_layer.solution import Solution
from certgcl.graphs.row_chunks import row_ranges

MOST_PROPOSALS = 64  # proposals of cases that are tried
SEARCH = Search(relaxed=0, restarts=0, tried=(32,), worth=0.0)


@dataclass(order=True)
class _OpenCase:
    lower: float
    number: int
    case: Case | int = field(compare=False)  # or the edges that the anchor loses in a case not examined yet


def searched(space: SearchSpace, receptive: ReceptiveField) -> Field:
    """The field in the form of the search for drops, with the same edges in the same order."""
    found = space.field(int(receptive.nodes[0]), all_edges=True)
    assert found is not None  # it has at most as many messages as the other has entries
    return found


class Tree:
    """The search for one anchor: open cases, the least first, and the best drops known.

    Args:
        lower: a bound to start with.
        dropped: admissible drops to start with, by their positions in the field.
        tolerance: cases within this share of the larger of clean value and upper bound are closed.

    Attributes:
        bounded: the number of branches bounded: cells, in all cases.
    """

    def __init__(
        self,
        space: SearchSpace,
        receptive: ReceptiveField,
        direction: Tensor,
        lower: float,
        dropped: Tensor,
        tolerance: float,
    ) -> None:
        self.space, self.field, self.direction = space, receptive, direction
        self.root, self.tolerance = lower, tolerance
        self.clean = self.upper = float("inf")
        self._try(dropped[:0])
        self.clean = self.upper
        self._try(dropped)
        # Every number of edges that the anchor can lose is a case; the largest numbers come first.
        most = int(space.drops.local[receptive.nodes[0]])
        self.open = [_OpenCase(lower, -lost, lost) for lost in range(most, -1, -1)]
        self.closed, self.bounded, self.number = float("inf"), 0, count(1)
        self.proposals, self.proposed = 0, set[frozenset[int]]()

    @property
    def lower(self) -> float:
        """The least bound of all cases, closed ones too: a tolerance may end the search, but never raises the bound."""
        return min([self.closed, self.upper, *(case.lower for case in self.open[:1])])

    @property
    def done(self) -> bool:
        return not self.open or self.open[0].lower >= self.best.cutoff

    @property
    def best(self) -> Incumbent:
        return Incumbent(self.upper, self.before, self.tolerance * max(abs(self.clean), abs(self.upper)))

    @cached_property
    def site(self) -> EdgeSite:
        return EdgeSite(self.field, self.space.drops, self.direction)

    def grow(self, limit: float, end: float) -> None:
        """Search until it is done, or about ``limit`` branches are bounded, or the time is over."""
        while not self.done and self.bounded < limit and time.time() < end:
            self._step(limit)

    def _step(self, limit: float) -> None:
        """Take the least case: examine it for the first time, continue with its cells, or split it."""
        case = heapq.heappop(self.open).case
        if isinstance(case, int):
            self._look_at(lambda: Case(self.site, case, self.root))
        elif not case.exhausted:
            self._bound(case, partial(case.refine, self.best, limit - self.bounded))
        else:
            edge = self._edge_to_decide(case)
            if edge is None:  # a single set agrees with it
                self._try((case.decisions.state == DROPPED).nonzero()[:, 0])
            else:
                for kind in (DROPPED, KEPT):
                    self._look_at(partial(case.branched, edge, kind))
        while self.open and self.done:
            self.closed = min(self.closed, heapq.heappop(self.open).lower)

    def _look_at(self, make: Callable[[], Case]) -> None:
        with suppress(NothingLeft):
            case = make()
            self._bound(case, partial(case.lift, self.best))

    def _bound(self, case: Case, bound: Callable[[], None]) -> None:
        """Bound a case, and keep it unless nothing is left of it. Its proposed drops may improve on the incumbent."""
        left = False
        with suppress(NothingLeft):
            bound()
            left = True
        self.bounded += case.bounded
        self.closed = min(self.closed, case.closed)
        case.bounded, case.closed = 0, float("inf")
        if left:
            heapq.heappush(self.open, _OpenCase(case.lower, next(self.number), case))
            if case.lower < self.best.cutoff and self.proposals < MOST_PROPOSALS:
                self.proposals += 1
                self._try_nearby(Solution(case).admissible(self.witness))

    def _edge_to_decide(self, case: Case) -> int | None:
        """An edge that rows disagree on, or else the first one in order."""
        free = case.decisions.state == FREE
        undecided = [edge for edge in self.order if free[edge]]
        disputed = Solution(case).disputed() if undecided else set()
        return next((edge for edge in undecided if edge in disputed), next(iter(undecided), None))

    # -- drops that are tried --------------------------------------------------------------------------

    def _try(self, dropped: Tensor) -> None:
        before = self.field.preactivations(dropped[None])[0]
        value = float(self.field.weights.activation2(before) @ self.direction)
        if value < self.upper:
            self.upper, self.before, self.witness = value, before, dropped.sort().values

    def _try_nearby(self, proposal: list[int]) -> None:
        """Try these drops, unless they were tried before, and if they are the best so far, search around them."""
        if frozenset(proposal) in self.proposed:
            return
        self.proposed.add(frozenset(proposal))
        start, before = torch.tensor(proposal, dtype=torch.long), self.upper
        self._try(start)
        if self.upper < before:
            self._try(SEARCH.improved(self.space, searched(self.space, self.field), self.direction, start))

    @cached_property
    def order(self) -> list[int]:
        """Edges in the order they are decided on: the anchor's own, those of its neighbours, the others; and within
        each group, those with the larger effects first."""
        near, each = len(self.field.adjacency), torch.arange(self.field.edges.shape[1])[:, None]
        values = torch.cat(
            [
                self.field.embeddings(each[part]) @ self.direction
                for part in row_ranges(len(each), self.field.adjacency.numel())
            ]
        )
        effect = (values - self.clean).abs().tolist()
        nearest = self.field.edges.amin(dim=0).clamp(max=near).tolist()
        kind = [0 if node == 0 else 1 if node < near else 2 for node in nearest]
        # Of equivalent edges, the first one is decided first.
        return sorted(range(len(effect)), key=lambda k: (kind[k], -effect[k] if self.site.alike[k] < 0 else 0.0, k))
