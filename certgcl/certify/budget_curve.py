"""How large a budget the nodes of a certificate withstand: what is proved of them under drop rates, and under numbers
of edges."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from certgcl.formatting import percent


@dataclass(frozen=True)
class BudgetPoint:
    """The results under one budget: a drop rate, or a number of edges at each node.

    Args:
        proved: the share of the nodes that are proved to stay above zero.
        kept: the share of their clean value that is kept; see :class:`certgcl.certify.measures.Measures`.
    """

    budget: float
    proved: float
    kept: float | None


@dataclass(frozen=True)
class BudgetCurve:
    """Bounds under growing budgets, at a random sample of nodes.

    What is proved under one budget is proved under every smaller one, so ``proved`` never grows along a curve.

    Args:
        method: of the bounds.
        nodes, of: the size of the sample, and of what it is drawn from.
        by_rate, by_count: under drop rates, and under numbers of edges at each node, ascending.
    """

    method: str
    nodes: int
    of: int
    by_rate: Sequence[BudgetPoint]
    by_count: Sequence[BudgetPoint]

    def __post_init__(self) -> None:
        if not isinstance(self.method, str) or not self.by_rate:
            raise ValueError(f"a budget curve of method {self.method!r} with {len(self.by_rate)} drop rates")
        if not (type(self.nodes) is int and type(self.of) is int and 0 < self.nodes <= self.of):
            raise ValueError(f"a budget curve at {self.nodes} of {self.of} nodes")
        for points in (self.by_rate, self.by_count):
            budgets, proved = [point.budget for point in points], [point.proved for point in points]
            numbers = [*budgets, *proved, *(point.kept for point in points if point.kept is not None)]
            if not all(type(number) in (int, float) and math.isfinite(number) for number in numbers):
                raise ValueError("a budget curve with something other than numbers")
            if sorted(set(budgets)) != budgets or sorted(proved, reverse=True) != proved:
                raise ValueError("a budget curve that is not in order")
            if not all(0 <= share <= 1 for share in proved):
                raise ValueError("a budget curve with shares beyond 0 and 1")

    @property
    def half_rate(self) -> float | None:
        """The smallest computed drop rate under which at most half of the nodes are proved; None if there is none."""
        return _half_lost(self.by_rate)

    @property
    def half_count(self) -> float | None:
        """The smallest such number of edges at each node."""
        return _half_lost(self.by_count)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "BudgetCurve":
        """From the output of :meth:`to_dict`; anything else raises ``ValueError``, ``TypeError`` or ``KeyError``."""
        curves = {name: tuple(BudgetPoint(**point) for point in content[name]) for name in ("by_rate", "by_count")}
        return cls(**{**content, **curves})

    def to_dict(self) -> dict[str, Any]:
        """The same, as JSON can hold it."""
        return asdict(self)

    def rows(self) -> list[tuple[str, str]]:
        """The line that :class:`~certgcl.Certificate` prints."""
        rate = _in_words(self.half_rate, self.by_rate)
        edges = _in_words(self.half_count, self.by_count)
        count = f", or {edges} {'edge' if edges == '1' else 'edges'} at each node" if self.by_count else ""
        where = f"{self.nodes:,} of {self.of:,} nodes, method {self.method}"
        point = next((point for point in self.by_rate if point.budget == self.half_rate), self.by_rate[-1])
        return [("half lost", f"at drop rate {rate}{count}; {percent(point.proved)} proved there ({where})")]


def _half_lost(points: Sequence[BudgetPoint]) -> float | None:
    return next((point.budget for point in points if point.proved <= 0.5), None)


def _in_words(budget: float | None, points: Sequence[BudgetPoint]) -> str:
    return first_budget(budget, points).replace(">", "more than")


def first_budget(budget: float | None, points: Sequence[BudgetPoint]) -> str:
    """A budget of a curve in words; if there is none, the last one with ``>``."""
    if budget is not None:
        return f"{budget:g}"
    return f"> {points[-1].budget:g}" if points else "–"
