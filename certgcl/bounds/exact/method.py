"""From bounds to exact minima: branch and bound over the edges that one embedding depends on.

The least bound of all open branches is a lower bound of the minimum, the least value seen is an upper bound with its
witness, and best-first search brings them together: it can be stopped at any time, and when they meet the value is
exact. See :mod:`certgcl.bounds.exact.two_layer.case` for how a branch of a two-layer GCN is bounded, and
:mod:`certgcl.bounds.exact.networks` for all other networks.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from certgcl.arguments import callback, real, shown, whole
from certgcl.bounds.degree import Degree
from certgcl.bounds.exact.anchors import AnchorSearch, Brackets
from certgcl.bounds.exact.edge_changes.brackets import edge_brackets
from certgcl.bounds.exact.features import feature_brackets
from certgcl.bounds.exact.networks.search import NetworkSearch
from certgcl.bounds.exact.shares import searched
from certgcl.bounds.exact.two_layer.search import TwoLayerSearch
from certgcl.bounds.method import BoundMethod, BoundResult, LineChoices
from certgcl.bounds.prepared import ChangeProblem, check_call
from certgcl.changes.changes import AdmissibleChanges
from certgcl.errors import MethodError
from certgcl.executors import Executor, ExecutorLike, LocalProcesses, get_executor
from certgcl.models.activations import SlopeRule
from certgcl.models.network import GraphNetwork, two_layer_gcn

ANCHORS_PER_WORKER = 128  # anchors for each worker at least, since a process takes some seconds to start


@dataclass(frozen=True)
class BranchAndBound(BoundMethod):
    """Best-first branch and bound: without a limit, the minimum itself; with one, the best bracket found so far.

    The result is never below the bound it starts from, since the bound of a branch is never below that of its parent.
    Without a time limit the result does not depend on the number of workers (for other networks than two-layer GCNs, up
    to rounding).

    Args:
        bound: the starting bound; for networks other than two-layer GCNs, the bound of every branch.
        time_limit: in seconds, for all anchors of a call together.
        branch_limit: about how many branches of each anchor are bounded: cells of a two-layer GCN, for which see
            ``docs/theory.md``; of other networks, lists of edges that are dropped and kept; where edges may be added,
            of pairs that change and that stay.
        tolerance: brackets narrower than this share of the larger of clean value and upper bound are closed.
        workers: number of shares into which the anchors are split, each for one process with one thread; by default as
            many as the executor has workers, if there are more than a hundred anchors for each.
        progress: called with the numbers of finished and of all anchors.
        executor: where these run: ``"processes"`` of this machine by default, ``"here"``, ``"ray"``, or an instance.
    """

    bound: Degree = field(default_factory=Degree)
    time_limit: float | None = None
    branch_limit: int | None = None
    tolerance: float = 1e-9
    workers: int | None = field(default=None, repr=False)
    progress: Callable[[int, int], object] | None = field(default=None, repr=False)
    executor: ExecutorLike = field(default=None, repr=False)
    certified: bool = field(default=True, init=False)
    splits: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not isinstance(self.bound, Degree):
            raise MethodError(
                f"bound={shown(self.bound)}",
                "a search begins with a bound of certgcl.bounds.Degree",
                "Leave it out for the default",
            )
        remedy = "Leave it out for the default"
        if self.time_limit is not None:
            object.__setattr__(
                self,
                "time_limit",
                real(
                    self.time_limit,
                    "time_limit",
                    lambda limit: limit >= 0,
                    "it is a number of seconds, 0 or more",
                    remedy,
                    error=MethodError,
                ),
            )
        if self.branch_limit is not None:
            object.__setattr__(
                self,
                "branch_limit",
                whole(
                    self.branch_limit,
                    "branch_limit",
                    0,
                    "it is a number of branches, 0 or more",
                    remedy,
                    error=MethodError,
                ),
            )
        object.__setattr__(
            self,
            "tolerance",
            real(
                self.tolerance,
                "tolerance",
                lambda share: 0 <= share < math.inf,
                "it is a share of the value, 0 or more and finite",
                remedy,
                error=MethodError,
            ),
        )
        if self.workers is not None:
            object.__setattr__(
                self,
                "workers",
                whole(self.workers, "workers", 1, "it is a number of processes", remedy, error=MethodError),
            )
        callback(self.progress, "progress", MethodError)
        get_executor(self.executor)  # raises an error that says what is wrong

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

    def line_choices(self, hidden_channels: int) -> LineChoices:
        return self.bound.line_choices(hidden_channels)

    def supports(self, network: GraphNetwork, changes: AdmissibleChanges) -> None:
        return None

    def __call__(self, network: GraphNetwork, problem: ChangeProblem, directions: Tensor) -> Tensor:
        check_call(network, problem, directions)
        brackets = [self.brackets(network, problem, each) for each in directions.unbind(1)]
        return torch.stack([bracket.lower for bracket in brackets], dim=1)

    def solve(self, network: GraphNetwork, problem: ChangeProblem, directions: Tensor) -> BoundResult:
        check_call(network, problem, directions)
        if directions.shape[1] > 1:  # a witness belongs to one direction
            return BoundResult(self(network, problem, directions))
        found = self.brackets(network, problem, directions[:, 0])
        return BoundResult(
            found.lower[:, None],
            found.upper[:, None],
            found.witnesses,
            found.exact[:, None],
            found.changed,
            found.added,
        )

    def limited(self, **limits: Any) -> Self:
        return replace(self, **limits)

    def with_share_of_time(self, share: float) -> Self:
        return self if self.time_limit is None else replace(self, time_limit=share * self.time_limit)

    def reproducible(self) -> Self:
        if self.time_limit is not None:
            raise MethodError(
                f"reproducible=True with time_limit={self.time_limit!r}",
                "a search with a time limit does not give the same result twice",
                "Use branch_limit=",
            )
        return self.for_worker()  # a worker begins by bounding all its anchors together

    def for_worker(self) -> Self:
        return replace(self, workers=1, executor=None, progress=None)

    @torch.no_grad()
    def brackets(self, network: GraphNetwork, problem: ChangeProblem, directions: Tensor) -> Brackets:
        """Brackets of the least ``w · z_i(S)`` for the anchors of a problem; directions of all nodes, ``(N, d)``."""
        if not problem.changes.drops_only:
            end = math.inf if self.time_limit is None else time.time() + self.time_limit
            brackets = feature_brackets if problem.changes.additions is None else edge_brackets
            return brackets(
                network,
                problem,
                problem.at_anchors(directions),
                self.bound,
                end,
                math.inf if self.branch_limit is None else self.branch_limit,
                self.tolerance,
                self.progress,
            ).like(directions)
        kind: type[AnchorSearch] = NetworkSearch if two_layer_gcn(network) is None else TwoLayerSearch
        search = kind.of(network, problem, directions, self.bound, self.time_limit, self.branch_limit, self.tolerance)
        anchors, executor = len(problem.anchors), self._executor()
        most = executor.workers if self.workers is None else self.workers
        shares = min(most, anchors // (ANCHORS_PER_WORKER if self.workers is None else 1)) or 1
        found = search.run(self.progress) if shares == 1 else searched(search, shares, executor, self.progress)
        return found.like(directions)

    def _executor(self) -> Executor:
        return LocalProcesses(self.workers) if self.executor is None else get_executor(self.executor)
