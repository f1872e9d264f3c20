"""What was certified, by which method and under which budget, in words."""

from collections.abc import Sequence

import torch
from torch import Tensor

from certgcl.certify.certificate import Certificate
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.graphs.graph import Graph
from certgcl.report.content import Statement
from certgcl.report.sources import ReportSource

Budget = int | float

_RATES = tuple(round(0.05 * k, 2) for k in range(1, 20))
_METHODS = {
    "degree": "degree-exact linear bounds, the tightest closed form of certgcl",
    "degree-fast": "degree-exact linear bounds with one case of drop counts, made for training and large graphs",
    "degree-cheap": "degree-exact bounds on interval pre-activations",
    "crown": "linear bounds on the box of all entries of the normalised adjacency matrix",
    "interval": "interval arithmetic on the box of all entries of the normalised adjacency matrix",
    "optimized": "degree-exact linear bounds, tightened by a short branch and bound, with drops that reach the upper "
    "value",
    "exact": "branch and bound to the end: where a bracket is closed, the bound is the minimum itself",
    "paper": "Theorem 2 of the paper as printed, which is not a bound",
    "released": "the score of the paper's released code, which is not a bound",
}


def statement(source: ReportSource, certificate: Certificate) -> Statement:
    return Statement(_holds(source, certificate), _method(certificate), _budget(source, certificate))


def _holds(source: ReportSource, certificate: Certificate) -> str:
    value = "w · z of a node"
    if source.is_compactness:
        value = "the compactness of a node (how much closer it is to its own positive than to the others on average)"
    elif certificate.directions.dim() == 3:
        value = "the least of the values w · z of a node in its directions w"
    bounded, everyone = len(certificate.nodes), len(certificate.local_budget)
    number = f"{bounded:,} of {everyone:,} nodes" if bounded < everyone else f"the {everyone:,} nodes"
    if not certificate.certified:
        return f"Nothing is proved. The scores at {number} estimate {value} in the worst view, and can lie above it."
    edges = "dropped" if certificate.additions is None else "dropped or added"
    features = certificate.features is not None
    stays = ["weights"] if features else ["features", "weights"]
    return (
        f"For each of {number} it is proved: whatever admissible edges are {edges}"
        f"{' and features are changed' if features else ''}, {value} does not fall below its lower bound. "
        f"{' and '.join(stays).capitalize()} stay as they are"
        f"{', and no edges are added.' if certificate.additions is None else '.'}"
    )


def _method(certificate: Certificate) -> str:
    name, _, views = certificate.method.partition(", ")
    known = _METHODS.get(name)
    words = f"{name}: {known}" if known else name
    settings = certificate.evidence.special_settings
    words += "" if settings is None else f"; settings {settings}"
    return f"{words}; both views may drop edges" if views == "both views" else words


def _budget(source: ReportSource, certificate: Certificate) -> str:
    """The requested rule, its effect at the nodes, and how many edges may be dropped in all; then features."""
    features = "" if certificate.features is None else f" Features: {certificate.features.words()}."
    if certificate.additions is not None:
        features = f" {certificate.additions.words().capitalize()}.{features}"
    graph, at_nodes, total = source.graph, _range(certificate.local_budget), f"{certificate.total_budget:,}"
    if graph is None:
        return f"At most {at_nodes} edges at a node; {total} in all.{features}"
    rule = budget_rule(certificate, graph, source.hints)
    if rule is None:
        words = f"{at_nodes} edges at a node"
    elif at_nodes == str(rule):
        words = _each(rule)
    else:
        words = f"{_each(rule)} (in effect {at_nodes})"
    every = certificate.total_budget >= graph.num_edges
    return f"At most {words}; {'any number' if every else f'{total} of {graph.num_edges:,} edges'} in all.{features}"


def _each(rule: Budget) -> str:
    if isinstance(rule, int):
        return f"{rule} edge{'' if rule == 1 else 's'} at each node"
    return f"round({rule} × degree) edges at each node, but never all of them"


def _range(counts: Tensor) -> str:
    """The least, the largest and the mean in words."""
    low, high = int(counts.min()), int(counts.max())
    return f"{low}" if low == high else f"{low} to {high}, {float(counts.double().mean()):.2f} on average"


def budget_rule(certificate: Certificate, graph: Graph, hints: Sequence[Budget] = ()) -> Budget | None:
    """A number of edges at each node, or a drop rate, that gives exactly the budgets of a certificate; None if none.

    Several may; those in ``hints`` are tried first.
    """
    most = int(certificate.requested_budget.max())
    for budget in (*hints, most, *_RATES):
        if torch.equal(total_too(budget, certificate.total_budget).on(graph).requested, certificate.requested_budget):
            return budget
    return None


def total_too(budget: Budget, total: int) -> EdgeDropBudget:
    if isinstance(budget, int):
        return EdgeDropBudget(budget, total)
    return EdgeDropBudget.from_drop_rate(budget, total=total)
