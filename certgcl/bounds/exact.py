"""From a bound to the truth: branch and bound over the edges that one embedding depends on.

A branch of the search tree has dropped some edges for good and keeps others; a bound of what is left (``degree`` by
default) is a bound for every admissible set that agrees with it. The least bound of all open branches is a lower bound
of the minimum, the least value seen is an upper bound with its witness, and best-first search brings them together: it
can be stopped at any time, and when they meet the value is exact.
"""

import heapq
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

import torch
from torch import Tensor

from certgcl.activation import SlopeRule
from certgcl.bounds.branches import Branches
from certgcl.bounds.degree import Degree
from certgcl.bounds.problem import DropProblem
from certgcl.budget import AdmissibleDrops
from certgcl.chunks import row_ranges
from certgcl.encoder import GCNWeights
from certgcl.errors import MethodError
from certgcl.graph import Graph
from certgcl.search import ReceptiveField, greedy_drop

BATCH = 512  # branches that are bounded together

Decisions = dict[int, bool]
"""Edges of a field by their positions, and whether they are dropped."""


@dataclass(frozen=True, eq=False)
class Brackets:
    """``lower <= min_S w · z(S) <= upper`` for every anchor, and the dropped edges that reach ``upper``.

    Args:
        exact: whether the two are the same up to the tolerance, ``(A,)``.
        witnesses: ``(2, k)`` node numbers of the dropped edges, for every anchor.
        branches: how many branches were bounded for it, ``(A,)``.
    """

    lower: Tensor
    upper: Tensor
    exact: Tensor
    witnesses: tuple[Tensor, ...]
    branches: Tensor


@dataclass(order=True)
class _Branch:
    lower: float
    number: int
    decisions: Decisions = field(compare=False)


class _Tree:
    """The search for one anchor."""

    def __init__(self, anchor: int, receptive: ReceptiveField, drops: AdmissibleDrops, direction: Tensor,
                 lower: float) -> None:
        self.anchor, self.field, self.direction = anchor, receptive, direction
        self.budget, self.total = drops.local[receptive.nodes].tolist(), drops.total
        self.ends: list[tuple[int, int]] = list(map(tuple, receptive.edges.T.tolist()))
        self.clean = float(self._values([()])[0])
        self.upper, self.witness = self.clean, tuple[int, ...]()
        self._try(tuple(greedy_drop(receptive, drops, direction).tolist()))
        self.order = self._ranked()
        self.number = count()
        self.open = [_Branch(lower, next(self.number), {})]
        self.closed = float("inf")  # the least bound of branches closed within the tolerance
        self.bounded = 1

    def _values(self, sets: list[tuple[int, ...]]) -> Tensor:
        """``w · z`` without some edges, for sets of equal size."""
        dropped = torch.tensor(sets, dtype=torch.long, device=self.field.edges.device).reshape(len(sets), -1)
        return torch.cat([self.field.embeddings(dropped[part]) @ self.direction
                          for part in row_ranges(len(sets), self.field.adjacency.numel())])

    def _try(self, dropped: tuple[int, ...]) -> None:
        value = float(self._values([dropped])[0])
        if value < self.upper:
            self.upper, self.witness = value, dropped

    def _ranked(self) -> list[int]:
        """Edges in the order they are decided on: the anchor's own first, then those that matter more by themselves."""
        if not self.ends:
            return []
        effect = (self._values([(k,) for k in range(len(self.ends))]) - self.clean).abs().tolist()
        return sorted(range(len(self.ends)), key=lambda k: (0 not in self.ends[k], -effect[k]))

    @property
    def lower(self) -> float:
        """Below every branch, closed ones too: a tolerance may end the search, never lift the bound."""
        return min(self.closed, self.upper, self.open[0].lower if self.open else self.upper)

    def split(self) -> list[Decisions]:
        """The two branches below the lowest open one, or none where nothing is left to decide in it."""
        branch = heapq.heappop(self.open)
        left = list(self.budget)
        dropped = tuple(k for k, gone in branch.decisions.items() if gone)
        for k in dropped:
            for end in self.ends[k]:
                left[end] -= 1
        if len(dropped) < self.total:
            for k in self.order:
                if k not in branch.decisions and all(left[end] > 0 for end in self.ends[k]):
                    self._try((*dropped, k))
                    return [branch.decisions | {k: gone} for gone in (True, False)]
        return []  # the only set that agrees with it has been tried when its last edge was dropped

    def slots(self, decisions: Decisions) -> dict[int, bool]:
        return {int(self.field.slots[k]): gone for k, gone in decisions.items()}

    def close(self, tolerance: float) -> None:
        width = tolerance * max(abs(self.clean), abs(self.upper))
        while self.open and self.open[0].lower >= self.upper - width:
            self.closed = min(self.closed, heapq.heappop(self.open).lower)

    def add(self, decisions: Decisions, lower: float) -> None:
        self.bounded += 1
        heapq.heappush(self.open, _Branch(lower, next(self.number), decisions))


@dataclass(frozen=True)
class BranchAndBound:
    """Best-first branch and bound: with no limit, the minimum itself; with one, the best bracket found until then.

    Never below the bound it starts from, for a branch is never bounded below the one it comes from.

    Args:
        bound: of the branches.
        time_limit: in seconds, for all anchors of a call together.
        branch_limit: branches of each anchor that are bounded.
        tolerance: brackets narrower than this share of the larger of clean value and upper bound are closed.
        progress: called with the numbers of closed and of all anchors.
    """

    bound: Degree = field(default_factory=Degree)
    time_limit: float | None = None
    branch_limit: int | None = None
    tolerance: float = 1e-9
    progress: Callable[[int, int], object] | None = field(default=None, repr=False)
    certified: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        for name, limit in (("time_limit", self.time_limit), ("branch_limit", self.branch_limit)):
            if limit is not None and not limit >= 0:
                raise MethodError(f"{name}={limit!r}", "a limit is not negative", "Leave it out for none")

    @property
    def name(self) -> str:
        return "exact" if self.branch_limit is None else "optimized"

    @property
    def resolution(self) -> int:
        return self.bound.resolution

    def line_resolution(self, hidden_channels: int) -> int:
        return self.bound.line_resolution(hidden_channels)

    def rules(self, hidden_channels: int) -> tuple[SlopeRule, ...]:
        return self.bound.rules(hidden_channels)

    def __call__(self, weights: GCNWeights, problem: DropProblem, directions: Tensor) -> Tensor:
        brackets = [self.brackets(weights, problem, each) for each in directions.unbind(1)]
        return torch.stack([bracket.lower for bracket in brackets], dim=1)

    @torch.no_grad()
    def brackets(self, weights: GCNWeights, problem: DropProblem, directions: Tensor) -> Brackets:
        """Brackets of the least ``w · z_i(S)`` for the anchors of a problem; directions of all nodes, ``(N, d)``."""
        end = float("inf") if self.time_limit is None else time.monotonic() + self.time_limit
        limit = float("inf") if self.branch_limit is None else self.branch_limit
        graph, drops, anchors = problem.graph, problem.drops, problem.anchors
        lower = self.bound(weights, problem, directions[:, None])[:, 0]
        clean = (directions * weights.embed(graph)).sum(dim=1)[anchors].tolist()
        trees: dict[int, _Tree] = {}
        for position, anchor in enumerate(anchors.tolist()):
            receptive = ReceptiveField.around(graph, drops, weights, anchor)
            if receptive is not None and time.monotonic() < end:
                trees[position] = _Tree(anchor, receptive, drops, directions[anchor], float(lower[position]))
                trees[position].close(self.tolerance)
        while time.monotonic() < end:
            unfinished = [tree for tree in trees.values() if tree.open and tree.bounded < limit]
            if self.progress is not None:
                self.progress(len(trees) - len(unfinished), len(anchors))
            if not unfinished:
                break
            unfinished.sort(key=lambda tree: tree.bounded)
            self._split_and_bound(weights, graph, drops, directions, unfinished)
        return _brackets(graph, trees, lower, clean)

    def _split_and_bound(self, weights: GCNWeights, graph: Graph, drops: AdmissibleDrops, directions: Tensor,
                         trees: list[_Tree]) -> None:
        """Some rounds of splitting, until there are enough branches for a batch; and their bounds."""
        children: list[tuple[_Tree, Decisions, float]] = []
        for tree in _in_turn(trees):
            above = tree.open[0].lower
            children += [(tree, decisions, above) for decisions in tree.split()]
            tree.close(self.tolerance)
            if len(children) >= BATCH:
                break
        if not children:
            return
        branches = Branches.of(graph, drops, [tree.anchor for tree, _, _ in children],
                               [tree.slots(decisions) for tree, decisions, _ in children])
        found = self.bound(weights, branches.problem(weights.w1.dtype), directions[:, None])[:, 0].tolist()
        for (tree, decisions, above), value in zip(children, found, strict=True):
            tree.add(decisions, max(above, value))
        for tree in trees:
            tree.close(self.tolerance)


def _in_turn(trees: list[_Tree]) -> Iterator[_Tree]:
    """Every tree with an open branch, again and again."""
    while any(tree.open for tree in trees):
        yield from (tree for tree in trees if tree.open)


def _brackets(graph: Graph, trees: dict[int, _Tree], lower: Tensor, clean: list[float]) -> Brackets:
    low, high, none = lower.clone(), lower.new_tensor(clean), graph.col.new_empty(2, 0)
    exact, branches = torch.zeros_like(lower, dtype=torch.bool), torch.zeros_like(lower, dtype=torch.long)
    witnesses = [none] * len(lower)
    for position, tree in trees.items():
        low[position], high[position] = tree.lower, tree.upper
        exact[position], branches[position] = not tree.open, tree.bounded
        witnesses[position] = graph.edge_index[:, tree.field.slots[list(tree.witness)]]
    return Brackets(low, high, exact, tuple(witnesses), branches)
