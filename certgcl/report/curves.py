"""Bounds under a sequence of budgets, at a random sample of nodes and at the most fragile ones."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from certgcl.certify.budget_curve import BudgetCurve
from certgcl.certify.certificate import Certificate
from certgcl.certify.other_budgets import Progress, Step, closed_form, curve_steps, drawn, higher_of
from certgcl.changes.edge_drops import AdmissibleDrops
from certgcl.report.sources import ReportSource

FRAGILE = 100  # nodes with the least bounds that are always included, whatever the sample


@dataclass(frozen=True, eq=False)
class Curves:
    """Args:
    nodes: in their order, ``(n,)``.
    drawn: those of them that are the random sample, ``(n,)``; the others are the most fragile nodes.
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
        by_rate, by_count = ([step.point(self.drawn) for step in steps] for steps in (self.by_rate, self.by_count))
        return BudgetCurve(self.method, int(self.drawn.sum()), self.of, by_rate, by_count)


def curves_of(source: ReportSource, sample: int, progress: Progress) -> Curves:
    """The curves of a source with an encoder and its graph, in the directions of its certificate."""
    graph, encoder, worst = source.graph, source.encoder, source.worst
    assert graph is not None
    assert encoder is not None
    everyone = torch.arange(graph.num_nodes) if worst is None else worst.nodes.sort().values
    chosen = drawn(everyone, sample)
    fragile = chosen[:0] if worst is None else worst.nodes[worst.lower.argsort(stable=True)[:FRAGILE]]
    nodes = torch.cat([chosen, fragile]).unique()
    steps = curve_steps(source.certificate, encoder, graph, nodes, progress)
    return Curves(closed_form(source.certificate), nodes, torch.isin(nodes, chosen), len(everyone), *steps)
