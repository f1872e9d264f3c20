"""Bounds under a sequence of budgets, at a random sample of nodes and at the most fragile ones."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from certgcl.certify.certificate import Certificate
from certgcl.certify.measures import kept_share
from certgcl.changes.edge_drops import AdmissibleDrops, EdgeDropBudget
from certgcl.report.content import BudgetCurve, BudgetPoint
from certgcl.report.sources import ReportSource, bound_method, deciding

Progress = Callable[[int, int, str], object]
"""Called with the steps done, all steps, and what is done next."""

SEED = 0  # seed of samples, splits and searches: the same input gives the same page
FRAGILE = 100  # number of the least bounds that are always included, whatever the sample
_RATES = tuple(round(0.1 * k, 1) for k in range(1, 10))
_COUNTS = (1, 2, 3, 5, 8)


@dataclass(frozen=True, eq=False)
class Step:
    """One budget of a curve, with its admissible drops and the bounds at all nodes of the curve."""

    budget: int | float
    drops: AdmissibleDrops
    bounds: Certificate


@dataclass(frozen=True, eq=False)
class Curves:
    """Args:
    nodes: in their order, ``(n,)``.
    drawn: those of them that are the random sample, ``(n,)``; the others are included for their own sake.
    of: the number of nodes that the sample represents.
    """

    method: str
    nodes: Tensor
    drawn: Tensor
    of: int
    by_rate: list[Step]
    by_count: list[Step]

    def covering(self, drops: AdmissibleDrops) -> Iterator[tuple[Tensor, Tensor]]:
        """Bounds, with their rounding, under budgets that allow everything that ``drops`` allows: they hold for it as
        well."""
        for step in (*self.by_rate, *self.by_count):
            if bool((step.drops.local >= drops.local).all()) and step.drops.total >= drops.total:
                yield step.bounds.lower, step.bounds.rounding

    def raised(self, known: Certificate, drops: AdmissibleDrops) -> "Curves":
        """The curve with bounds of the same nodes under ``drops``: they hold under every budget that allows no more."""
        by_rate, by_count = (
            [
                replace(step, bounds=higher_of(step.bounds, known))
                if bool((step.drops.local <= drops.local).all()) and step.drops.total <= drops.total
                else step
                for step in steps
            ]
            for steps in (self.by_rate, self.by_count)
        )
        return replace(self, by_rate=by_rate, by_count=by_count)

    def lower(self, node: int) -> tuple[list[float], list[float]]:
        """The bounds of a node along both curves."""
        place = int(torch.searchsorted(self.nodes, node))
        by_rate, by_count = (
            [float(step.bounds.lower[place]) for step in steps] for steps in (self.by_rate, self.by_count)
        )
        return by_rate, by_count

    def summary(self) -> BudgetCurve:
        by_rate, by_count = ([self._point(step) for step in steps] for steps in (self.by_rate, self.by_count))
        return BudgetCurve(
            self.method, int(self.drawn.sum()), self.of, by_rate, by_count, half_lost(by_rate), half_lost(by_count)
        )

    def _point(self, step: Step) -> BudgetPoint:
        bounds = step.bounds.at(self.drawn)
        return BudgetPoint(step.budget, bounds.share_positive, kept_share(bounds.lower, bounds.nominal))


def half_lost(points: list[BudgetPoint]) -> float | None:
    """The smallest computed budget under which at most half of the nodes are proved; None if there is none."""
    return next((point.budget for point in points if point.proved <= 0.5), None)


def drawn(nodes: Tensor, most: int) -> Tensor:
    """``nodes``, or a random sample of them, in their order."""
    if len(nodes) <= most:
        return nodes
    order = torch.randperm(len(nodes), generator=torch.Generator().manual_seed(SEED))[:most]
    return nodes[order.sort().values]


def curves_of(subject: ReportSource, sample: int, progress: Progress) -> Curves:
    """The curves of a subject with an encoder and its graph, in the directions of its certificate."""
    graph, worst, method = subject.graph, subject.worst, bound_method(subject.certificate)
    assert graph is not None
    everyone = torch.arange(graph.num_nodes) if worst is None else worst.nodes.sort().values
    chosen = drawn(everyone, sample)
    fragile = chosen[:0] if worst is None else worst.nodes[worst.lower.argsort(stable=True)[:FRAGILE]]
    nodes = torch.cat([chosen, fragile]).unique()
    counts = [q for q in _COUNTS if q <= int(graph.degree.max())]
    steps: list[Step] = []
    for budget in (*_RATES, *counts):
        progress(len(steps), len(_RATES) + len(counts), f"budget curve, {budget:g}")
        bounds = deciding(subject.bounds(budget, method, nodes))
        steps.append(Step(budget, EdgeDropBudget.of(budget).on(graph), bounds))
    return Curves(
        method,
        nodes,
        torch.isin(nodes, chosen),
        len(everyone),
        _monotone(steps[: len(_RATES)]),
        _monotone(steps[len(_RATES) :]),
    )


def _monotone(steps: list[Step]) -> list[Step]:
    """What holds under a larger budget holds under a smaller one."""
    for place in range(len(steps) - 2, -1, -1):
        step, after = steps[place], steps[place + 1].bounds
        steps[place] = Step(step.budget, step.drops, higher_of(step.bounds, after))
    return steps


def higher_of(one: Certificate, other: Certificate) -> Certificate:
    """The stronger of two certificates of the same values, node by node; both must hold."""
    better = other.lower - other.rounding - other.run_error > one.lower - one.rounding - one.run_error
    merged: dict[str, Any] = {
        name: torch.where(better, getattr(other, name), getattr(one, name))
        for name in ("lower", "rounding", "run_error")
    }
    return replace(one, **merged)
