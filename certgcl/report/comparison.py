"""Several runs on one page: their numbers side by side, and their differences from the first, with tests."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from certgcl.certify.budget_curve import BudgetCurve, first_budget
from certgcl.errors import ReportError
from certgcl.learning.evaluation import compare
from certgcl.report.content import Accuracy, Missing, NodeTable, Report, Summary
from certgcl.report.sources import ReportSource

MOST_ROWS = 100
NODES, SPLITS = "bound over norm, node by node", "Micro-F1, split by split"


@dataclass(frozen=True)
class ComparedRun:
    """The numbers of one run that can be compared; see :class:`certgcl.report.content.Report` for each."""

    name: str
    method: str
    budget: str
    proved: float
    kept: float | None
    over_norm: float | None
    half_rate: str
    half_count: str
    evaluated: float | None
    evaluated_std: float | None
    certified_accuracy: float | None


@dataclass(frozen=True)
class Difference:
    """A run against the first, by a paired t-test; ``t`` is None if all differences are equal."""

    run: str
    against: str
    measure: str
    difference: float
    t: float | None
    p: float
    pairs: int

    @property
    def words(self) -> str:
        """The difference as people say it."""
        return f"{100 * self.difference:+.1f} points" if self.measure == SPLITS else f"{self.difference:+.4g}"


@dataclass(frozen=True)
class ComparedNode:
    """A node in every run: its bound over the mean norm there, and its sign."""

    node: int
    name: str | None
    degree: int | None
    over_norm: list[float]
    sign: list[str]

    @property
    def difference(self) -> float:
        """The difference of the last run from the first."""
        return self.over_norm[-1] - self.over_norm[0]


@dataclass(frozen=True)
class Comparison:
    """The data that the page shows, and that is embedded in it.

    Args:
        warnings: what else differs between the runs and may explain a difference.
        values: one list per column, a row for each node that all runs have; empty if they cannot be compared.
        rows: the nodes that differ most.
    """

    name: str
    graph: str
    runs: list[ComparedRun]
    differences: list[Difference]
    warnings: list[str]
    values: dict[str, list[Any]]
    rows: list[ComparedNode]
    curves: list[BudgetCurve | Missing]

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain types, ready for JSON."""
        return asdict(self)


def compare_reports(sources: Sequence[ReportSource], reports: Sequence[Report]) -> Comparison:
    """The comparison of two runs or more; each needs a certificate.

    Raises:
        ReportError: a run without a certificate.
    """
    for source, report in zip(sources, reports, strict=True):
        if isinstance(report.summary, Missing):
            raise ReportError(
                f"{source.name} without a certificate",
                "runs are compared by their certificates",
                "Certify it first: certgcl certify --run RUN --budget 0.4",
            )
    names = _distinct([report.name for report in reports])
    same_graph = not _differ(sources, "edges")
    nodes = _nodes(reports) if same_graph else []
    values: dict[str, list[Any]] = {}
    if nodes:
        values = {
            "node": [row.node for row in nodes],
            "name": [row.name for row in nodes],
            "degree": [row.degree for row in nodes],
        }
        for place, name in enumerate(names):
            values |= {
                f"{name}: bound over norm": [row.over_norm[place] for row in nodes],
                f"{name}: sign": [row.sign[place] for row in nodes],
            }
    rows = sorted(nodes, key=lambda row: (-abs(row.difference), row.node))[:MOST_ROWS]
    runs = [_run(name, report) for name, report in zip(names, reports, strict=True)]
    return Comparison(
        " against ".join(names),
        reports[0].graph,
        runs,
        _differences(names, reports, [] if _differ(sources, "budget") else nodes) if same_graph else [],
        _warnings(sources),
        values,
        rows,
        [report.curve for report in reports],
    )


def _run(name: str, report: Report) -> ComparedRun:
    summary, curve, accuracy = report.summary, report.curve, report.accuracy
    assert isinstance(summary, Summary)
    half = (
        ("–", "–")
        if isinstance(curve, Missing)
        else (first_budget(curve.half_rate, curve.by_rate), first_budget(curve.half_count, curve.by_count))
    )
    known = (
        (None, None, None)
        if isinstance(accuracy, Missing)
        else (accuracy.evaluated_mean, accuracy.evaluated_std, accuracy.lower)
    )
    return ComparedRun(
        name, summary.method, summary.statement.budget, summary.share, summary.kept, summary.over_norm, *half, *known
    )


def _distinct(names: Sequence[str]) -> list[str]:
    """Distinct names for the runs, whatever their folders are called."""
    return [name if names.count(name) == 1 else f"{name} ({place})" for place, name in enumerate(names, 1)]


def _warnings(sources: Sequence[ReportSource]) -> list[str]:
    """The differences between the certificates, part by part."""
    parts = {
        "edges": "The graphs differ: neither nodes nor accuracies are compared pair by pair.",
        "features": "The features of the graphs differ.",
        "budget": "The budgets differ: under a smaller one more nodes are proved anyway, so bounds are not tested node "
        "by node. The budget curves use the same budgets for all runs.",
        "method": "The methods differ: a tighter one proves more nodes anyway.",
    }
    return [words for part, words in parts.items() if _differ(sources, part)]


def _differ(sources: Sequence[ReportSource], part: str) -> bool:
    """Whether the certificates differ in some part."""
    return len({source.certificate.evidence.parts[part].identity for source in sources if source.certificate}) > 1


def _nodes(reports: Sequence[Report]) -> list[ComparedNode]:
    """The nodes that all runs have; none if a certificate has no norms."""
    tables, norms = [], []
    for report in reports:
        assert isinstance(report.values, NodeTable)
        assert isinstance(report.summary, Summary)
        if not report.summary.norm_mean:
            return []
        tables.append(report.values)
        norms.append(report.summary.norm_mean)
    first = tables[0]
    places = [{node: place for place, node in enumerate(table.node)} for table in tables]
    shared = [node for node in first.node if all(node in there for there in places)]
    return [
        ComparedNode(
            node,
            None if first.name is None else first.name[places[0][node]],
            None if first.degree is None else first.degree[places[0][node]],
            [table.lower[there[node]] / norm for table, there, norm in zip(tables, places, norms, strict=True)],
            [table.sign[there[node]] for table, there in zip(tables, places, strict=True)],
        )
        for node in shared
    ]


def _differences(names: Sequence[str], reports: Sequence[Report], nodes: Sequence[ComparedNode]) -> list[Difference]:
    found = []
    for place in range(1, len(reports)):
        pairs = {NODES: ([row.over_norm[place] for row in nodes], [row.over_norm[0] for row in nodes])}
        one, first = reports[place].accuracy, reports[0].accuracy
        if isinstance(one, Accuracy) and isinstance(first, Accuracy) and one.protocol == first.protocol:
            pairs[SPLITS] = (one.evaluated, first.evaluated)
        for measure, (values, others) in pairs.items():
            if len(values) == len(others) >= 2:
                test = compare(values, others)
                found.append(
                    Difference(
                        names[place],
                        names[0],
                        measure,
                        test.difference,
                        test.t if math.isfinite(test.t) else None,
                        test.p,
                        test.n,
                    )
                )
    return found
