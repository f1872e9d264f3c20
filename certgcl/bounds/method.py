"""How a bound is requested, and what it returns: one interface for closed forms and searches."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

from torch import Tensor

from certgcl.arguments import shown
from certgcl.bounds.prepared import ChangeProblem
from certgcl.bounds.two_layer.row_plan import LineSharing
from certgcl.changes.changed_entries import ChangedEntries
from certgcl.changes.changes import AdmissibleChanges
from certgcl.errors import MethodError
from certgcl.models.activations import SlopeRule
from certgcl.models.network import GraphNetwork


@dataclass(frozen=True, eq=False)
class BoundResult:
    """The results of a method for ``w_ic · z_i`` at A anchors with C directions each.

    Args:
        lower: ``(A, C)``.
        upper: a value that some admissible change reaches, ``(A, C)``, if the method searched for one.
        witnesses: for each anchor the dropped edges that reach ``upper``, ``(2, k)`` node numbers.
        exact: whether lower and upper are the same up to the method's tolerance, ``(A, C)``.
        changed: the features that reach ``upper`` together with the dropped edges, where features may change.
        added: the new edges that do, ``(2, k)`` for each anchor, where edges may be added.
    """

    lower: Tensor
    upper: Tensor | None = None
    witnesses: tuple[Tensor, ...] | None = None
    exact: Tensor | None = None
    changed: tuple[ChangedEntries, ...] | None = None
    added: tuple[Tensor, ...] | None = None


class LineChoices(NamedTuple):
    """How a method chooses lines, for those who prove its bounds again; see :class:`certgcl.bounds.Degree`."""

    rules: tuple[SlopeRule, ...]
    lines: LineSharing = "shared"
    resolution: int = 1
    output: int = 1  # sign patterns at the anchor
    rows: int = 1  # and at its neighbours
    functional: bool = True  # whether ranges of channels are bounded by lines


class BoundMethod(ABC):
    """Every method is ``(network, problem, directions) -> lower``. Subclass it for a method of your own.

    Closed forms are differentiable in the weights and the directions. Callers ask the method for everything else that
    they need to know, and never test its type.
    """

    splits: ClassVar[bool] = True
    """Whether anchors may be bounded in parts. A search has limits for all anchors of a call together."""

    second_view: ClassVar[bool] = False
    """Whether it can bound compactness with both views free."""

    @property
    @abstractmethod
    def name(self) -> str: ...

    @property
    @abstractmethod
    def certified(self) -> bool:
        """Whether the result is a lower bound over all admissible changes."""

    @abstractmethod
    def __call__(self, network: GraphNetwork, problem: ChangeProblem, directions: Tensor) -> Tensor:
        """Values ``(A, C)`` for ``w_ic · z_i``.

        Args:
            directions: C directions for *every* node of the graph, ``(N, C, d)``; see ``problem.at_anchors``.
        """

    @property
    def resolution(self) -> int:
        """Maximum number of drop-count groups per node."""
        return 1

    def line_resolution(self, hidden_channels: int) -> int:
        """Maximum number of these groups that have ranges and lines of their own, at this width."""
        return 1

    def rules(self, hidden_channels: int) -> Sequence[SlopeRule]:
        """The slope rules that are used at this width of the hidden layers."""
        return ()

    def functionals(self, hidden_channels: int) -> int:
        """The number of an anchor's own functionals per direction that are held at a time, at this width."""
        return len(self.rules(hidden_channels))

    def line_choices(self, hidden_channels: int) -> LineChoices:
        """How lines are chosen at this width of the hidden layers."""
        rules = tuple(self.rules(hidden_channels))
        return LineChoices(rules or ("adaptive",), functional=bool(rules))

    def supports(self, network: GraphNetwork, changes: AdmissibleChanges) -> str | None:
        """Why the method does not bound this network under such changes; None if it does. Unless a method overrides
        this, it only supports edge drops."""
        return None if changes.drops_only else "it supports dropped edges only"

    def solve(self, network: GraphNetwork, problem: ChangeProblem, directions: Tensor) -> BoundResult:
        """Everything that the method finds, with upper values and witnesses if it searches for them."""
        return BoundResult(self(network, problem, directions))

    def limited(self, **limits: object) -> Self:
        """The same method with limits of a search."""
        listed = ", ".join(f"{name}={shown(limit)}" for name, limit in limits.items())
        raise MethodError(
            f"{listed} with method {self.name!r}",
            "only a search can be cut short",
            "Use optimized or exact, or leave it out",
        )

    def with_share_of_time(self, share: float) -> Self:
        """The same method with a share of its time limit, if it has one."""
        return self

    def reproducible(self) -> Self:
        """The same method in a form whose results do not depend on the number of processes or on the clock."""
        return self

    def for_worker(self) -> Self:
        """The same method for a piece of work in another process: it starts no processes and reports no progress."""
        return self
