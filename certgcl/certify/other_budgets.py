"""The question of a certificate again, under other budgets."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from certgcl.bounds import METHODS
from certgcl.certify.budget_curve import BudgetCurve, BudgetPoint
from certgcl.certify.certificate import Certificate
from certgcl.certify.compactness import linear_bounds, node_compactness
from certgcl.certify.evidence import foreign_parts
from certgcl.certify.measures import kept_share
from certgcl.changes.changes import Changes
from certgcl.changes.edge_additions import CandidatesLike, EdgeAddBudget
from certgcl.changes.edge_drops import AdmissibleDrops, DropsLike, EdgeDropBudget
from certgcl.errors import CertificateError
from certgcl.graphs.graph import Graph, GraphLike
from certgcl.models.network import GraphNetwork
from certgcl.models.reading import ModelLike, read_network

Progress = Callable[[int, int, str], object]
"""Called with the steps done, all steps, and what is done next."""

SEED = 0  # of samples: the same certificate gives the same curve
SAMPLE = 200  # nodes
QUICK = 1 << 17  # entries of a graph, up to which a curve takes at most twice the time of a certificate of all nodes
RATES = tuple(round(0.1 * k, 1) for k in range(1, 10))
COUNTS = (1, 2, 3, 5, 8)


@dataclass(frozen=True, eq=False)
class Step:
    """One budget of a curve, with its admissible drops and the bounds at all nodes of the curve."""

    budget: int | float
    drops: AdmissibleDrops
    bounds: Certificate

    def point(self, chosen: Tensor) -> BudgetPoint:
        """The results at some of the nodes, by position."""
        bounds = self.bounds.at(chosen)
        return BudgetPoint(self.budget, bounds.share_positive, kept_share(bounds.lower, bounds.nominal))


def with_curve(certificate: Certificate, model: ModelLike, graph: GraphLike, sample: int = SAMPLE) -> Certificate:
    """The implementation of :meth:`Certificate.with_curve`."""
    graph = Graph.of(graph)
    network = read_network(model, graph)
    _check_curve(certificate, foreign_parts(certificate.evidence, graph, network))
    nodes = drawn(deciding(certificate).nodes.cpu().sort().values, sample)
    by_rate, by_count = curve_steps(certificate, network.to(torch.float64), graph, nodes)
    everyone = torch.arange(len(nodes))
    return replace(
        certificate,
        curve=BudgetCurve(
            closed_form(certificate),
            len(nodes),
            len(certificate.nodes),
            tuple(step.point(everyone) for step in by_rate),
            tuple(step.point(everyone) for step in by_count),
        ),
    )


def _check_curve(certificate: Certificate, foreign: Sequence[str]) -> None:
    if foreign:
        raise CertificateError(
            f"a certificate that was made with other {' and '.join(foreign)}",
            "its budget curve is about the same encoder and graph",
            "Pass those that it was made with",
        )
    if not certificate.certified:
        raise CertificateError(
            f"a budget curve of method {certificate.method!r}", "that method proves nothing", "Use 'degree'"
        )
    if certificate.evidence.direction_source == "both views":
        raise CertificateError(
            "a budget curve with both views free",
            "its bounds would fix the second view, which is another question",
            "Certify with views='one'",
        )


def curve_steps(
    about: Certificate | None,
    network: GraphNetwork,
    graph: Graph,
    nodes: Tensor,
    progress: Progress = lambda *_: None,
) -> tuple[list[Step], list[Step]]:
    """Bounds under drop rates and under numbers of edges at each node, one direction a node."""
    counts = [q for q in COUNTS if q <= int(graph.degree.max())]
    steps: list[Step] = []
    for budget in (*RATES, *counts):
        progress(len(steps), len(RATES) + len(counts), f"budget curve, {budget:g}")
        bounds = deciding(bounds_under(budget, about, network, graph, closed_form(about), nodes))
        steps.append(Step(budget, EdgeDropBudget.of(budget).on(graph), bounds))
    return _monotone(steps[: len(RATES)]), _monotone(steps[len(RATES) :])


def bounds_under(
    budget: DropsLike | Changes,
    about: Certificate | None,
    network: GraphNetwork,
    graph: Graph,
    method: str,
    nodes: Tensor,
) -> Certificate:
    """Other bounds, under any changes, or any budget of drops with a certificate's other changes, in its directions;
    those of compactness without one. Those of compactness are computed again, so that ``rounding`` has their error."""
    changes = budget if isinstance(budget, Changes) else _with_drops(EdgeDropBudget.of(budget), about)
    if about is None or (about.evidence.direction_source == "graph" and about.directions.dim() == 2):
        return node_compactness(network, graph, changes, method=method, nodes=nodes)
    directions = about.directions.new_zeros(graph.num_nodes, *about.directions.shape[1:])
    directions[about.nodes] = about.directions
    return linear_bounds(network, graph, changes, directions, method=method, nodes=nodes)


def _with_drops(drops: EdgeDropBudget, about: Certificate | None) -> Changes:
    """Other drops, with everything else that a certificate allows to change."""
    if about is None:
        return Changes(drops)
    features, added = None if about.features is None else about.features.budget(), about.additions
    if added is None:
        return Changes(drops, features)
    listed: CandidatesLike = (
        "all" if added.candidates is None else torch.stack([added.candidates.row, added.candidates.col])
    )
    return Changes(drops, features, EdgeAddBudget(added.local, added.total, listed))


def closed_form(certificate: Certificate | None) -> str:
    """The method of a certificate, if it is a closed-form bound; otherwise the default."""
    name = "" if certificate is None else certificate.method.partition(", ")[0]
    return name if name in METHODS and METHODS[name].certified else "degree"


def deciding(certificate: Certificate) -> Certificate:
    """Of several directions of a node, the one with the least bound; directions of length zero do not count."""
    if certificate.directions.dim() == 2:
        return certificate
    silent = (certificate.directions == 0).all(dim=2)
    above = (certificate.lower - certificate.rounding - certificate.run_error).masked_fill(silent, torch.inf)
    least = above.argmin(dim=1)
    rows = torch.arange(len(least), device=least.device)
    chosen: dict[str, Any] = {
        name: getattr(certificate, name)[rows, least]
        for name in ("lower", "nominal", "rounding", "run_error", "directions")
    }
    return replace(certificate, **chosen, upper=None, witnesses=None)


def drawn(nodes: Tensor, most: int) -> Tensor:
    """``nodes``, or a random sample of them, in their order."""
    if len(nodes) <= most:
        return nodes
    order = torch.randperm(len(nodes), generator=torch.Generator().manual_seed(SEED))[:most]
    return nodes[order.sort().values]


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
