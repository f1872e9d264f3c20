"""What a report computes beyond its files: the budget curve, certified accuracy, and drops that hurt fragile nodes."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from certgcl.bounds import METHODS
from certgcl.certify.accuracy import certified_accuracy
from certgcl.certify.certificate import Certificate
from certgcl.certify.compactness import linear_bounds
from certgcl.certify.directions import compactness_directions
from certgcl.errors import EvaluationError, InputError
from certgcl.learning.evaluation.inputs import check_labels, masked_nodes
from certgcl.learning.evaluation.protocols import random_splits
from certgcl.report.content import Accuracy, BudgetCurve, BudgetPoint, Missing
from certgcl.report.sources import Subject, deciding

Progress = Callable[[int, int, str], object]
"""Called with the steps done, all steps, and what is done next."""

SEED = 0  # of samples, splits and searches: the same input gives the same page
_RATES = tuple(round(0.1 * k, 1) for k in range(1, 10))
_COUNTS = (1, 2, 3, 5, 8)
_GRID = (0.01, 0.1, 1.0, 10.0, 100.0)  # C of the logistic regression
_NO_ENCODER = "Neither a run nor --weights with --dataset or --graph gives an encoder and its graph to compute with."
_SKIPPED = "Skipped, as --sample 0 asks for."


def drawn(nodes: Tensor, most: int) -> Tensor:
    """``nodes``, or so many of them at random, in their order."""
    if len(nodes) <= most:
        return nodes
    order = torch.randperm(len(nodes), generator=torch.Generator().manual_seed(SEED))[:most]
    return nodes[order.sort().values]


def why_not(subject: Subject, sample: int) -> Missing | None:
    """Why nothing can be computed, if so."""
    if sample == 0:
        return Missing(_SKIPPED)
    if subject.encoder is None:
        return Missing(subject.absent.get("weights") or subject.absent.get("data") or _NO_ENCODER)
    return None


def budget_curve(subject: Subject, sample: int, progress: Progress) -> BudgetCurve | Missing:
    """The share of nodes that stay proved as the budget grows, in the directions of the certificate."""
    absent = why_not(subject, sample)
    graph, encoder, embeddings = subject.graph, subject.encoder, subject.embeddings
    if absent or graph is None or encoder is None or embeddings is None:
        return absent or Missing(_NO_ENCODER)
    certificate, method = subject.certificate, bound_method(subject.certificate)
    everyone = torch.arange(graph.num_nodes) if certificate is None else certificate.nodes
    directions = compactness_directions(embeddings) if certificate is None else _spread(certificate, graph.num_nodes)
    nodes = drawn(everyone, sample)
    counts = [q for q in _COUNTS if q <= int(graph.degree.max())]
    points: list[BudgetPoint] = []
    for budget in (*_RATES, *counts):
        progress(len(points), len(_RATES) + len(counts), f"budget curve, {budget:g}")
        found = deciding(linear_bounds(encoder, graph, budget, directions, method=method, nodes=nodes))
        points.append(BudgetPoint(budget, found.share_positive, float(found.lower.mean()), float(found.nominal.mean())))
    return BudgetCurve(method, len(nodes), len(everyone), points[: len(_RATES)], points[len(_RATES):])


def accuracy(subject: Subject, sample: int, progress: Progress) -> Accuracy | Missing:
    """Certified accuracy under the budget of the certificate, by the split of the graph's protocol."""
    absent = why_not(subject, sample)
    graph, weights, embeddings = subject.graph, subject.weights, subject.embeddings
    if absent or graph is None or weights is None or embeddings is None:
        return absent or Missing(_NO_ENCODER)
    if subject.certificate is None:
        return Missing("There is no certificate, and so no budget to certify an accuracy under.")
    if subject.labels is None or subject.data is None:
        return Missing("The graph has no labels.")
    progress(0, 1, "certified accuracy")
    labels, method = subject.labels, bound_method(subject.certificate)
    try:
        check_labels(labels, graph.num_nodes)
        public = subject.protocol == "public"
        splits = masked_nodes(subject.data, len(labels)) if public else random_splits(len(labels), (SEED,))[0]
        train, validation, test = (torch.as_tensor(part) for part in splits)
        nodes = drawn(test.sort().values, sample)
        probe = _probe(embeddings.numpy(), labels.numpy(), train.numpy(), validation.numpy())
        found = certified_accuracy(weights, probe, graph, labels, subject.budget, nodes=nodes, method=method)
    except InputError as error:
        return Missing(f"Not computed: {error.found}, but {error.rule}.")
    certified, broken, correct = (int(mask.sum()) for mask in (found.certified, found.broken, found.correct))
    return Accuracy(method, subject.protocol, len(train), len(nodes), len(test), found.clean, found.lower, found.upper,
                    certified, correct - certified - broken, broken, len(nodes) - correct)


def searched(subject: Subject, nodes: Tensor) -> Certificate | None:
    """Brackets with witnesses at some nodes: those of the certificate, else of a search; None where it cannot be."""
    certificate, worst = subject.certificate, subject.worst
    if certificate is None or worst is None:
        return None
    if certificate.witnesses is not None:
        places = {node: place for place, node in enumerate(certificate.nodes.tolist())}
        return certificate.at(torch.tensor([places[node] for node in nodes.tolist()]))
    if subject.encoder is None or subject.graph is None:
        return None
    directions = _spread(worst, subject.graph.num_nodes)
    return linear_bounds(subject.encoder, subject.graph, subject.budget, directions, method="optimized", nodes=nodes)


def bound_method(certificate: Certificate | None) -> str:
    """The method of a certificate, if it is a closed form that proves; else the default."""
    name = "" if certificate is None else certificate.method.partition(", ")[0]
    return name if name in METHODS and METHODS[name].certified else "degree"


def _spread(certificate: Certificate, nodes: int) -> Tensor:
    """The directions of a certificate at their nodes, zero elsewhere."""
    directions = certificate.directions.new_zeros(nodes, *certificate.directions.shape[1:])
    directions[certificate.nodes] = certificate.directions
    return directions


def _probe(z: np.ndarray, y: np.ndarray, train: np.ndarray, validation: np.ndarray) -> object:
    from sklearn.linear_model import LogisticRegression

    if (y[train] == y[train[0]]).all():
        raise EvaluationError(f"{len(train)} training nodes of one class", "a classifier needs two", "Use other masks")
    probes = [LogisticRegression(C=c, max_iter=2000).fit(z[train], y[train]) for c in _GRID]
    return max(probes, key=lambda probe: probe.score(z[validation], y[validation]))
