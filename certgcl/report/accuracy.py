"""The accuracies on the page: the certified one, and that of ``certgcl evaluate``."""

import numpy as np
import torch

from certgcl.certify.accuracy import certified_accuracy
from certgcl.certify.other_budgets import SEED, Progress, closed_form, drawn
from certgcl.errors import EvaluationError, InputError
from certgcl.learning.evaluation import evaluate
from certgcl.learning.evaluation.inputs import check_labels, masked_nodes
from certgcl.learning.evaluation.protocols import random_splits
from certgcl.report.content import Accuracy, Missing
from certgcl.report.sources import ReportSource

SEEDS = 5  # of certgcl evaluate, by default
_GRID = (0.01, 0.1, 1.0, 10.0, 100.0)  # C of the logistic regression


def accuracy(source: ReportSource, sample: int, progress: Progress) -> Accuracy | Missing:
    """Certified accuracy under the budget of the certificate, by the first split of the graph's protocol.

    A test node of a class that the classifier never saw is always wrong.
    """
    graph, weights, embeddings, certificate = source.graph, source.weights, source.embeddings, source.certificate
    if certificate is None:
        return Missing("There is no certificate, and so no budget to certify an accuracy under.")
    if source.labels is None or source.data is None:
        return Missing("The graph has no labels.")
    assert graph is not None
    assert weights is not None
    assert embeddings is not None
    progress(0, 1, "certified accuracy")
    labels, method = source.labels, closed_form(certificate)
    try:
        check_labels(labels, graph.num_nodes)
        public = source.protocol == "public"
        splits = masked_nodes(source.data, len(labels)) if public else random_splits(len(labels), (SEED,))[0]
        train, validation, test = (torch.as_tensor(part) for part in splits)
        nodes = drawn(test.sort().values, sample)
        probe = _probe(embeddings.numpy(), labels.numpy(), train.numpy(), validation.numpy())
        seen = nodes[torch.isin(labels[nodes], labels[train])]
        correct = certified = broken = 0
        if len(seen):
            found = certified_accuracy(weights, probe, graph, labels, certificate.changes, nodes=seen, method=method)
            correct, certified, broken = (int(mask.sum()) for mask in (found.correct, found.certified, found.broken))
        evaluated = evaluate(embeddings, labels, source.protocol, masks=source.data, seeds=SEEDS)
    except InputError as error:
        return Missing(f"Not computed: {error.found}, but {error.rule}.")
    count = len(nodes)
    return Accuracy(
        method,
        source.protocol,
        len(train),
        count,
        len(test),
        correct / count,
        certified / count,
        (correct - broken) / count,
        certified,
        correct - certified - broken,
        broken,
        count - correct,
        count - len(seen),
        list(evaluated.micro),
        evaluated.micro_mean,
        evaluated.micro_std,
    )


def _probe(z: np.ndarray, y: np.ndarray, train: np.ndarray, validation: np.ndarray) -> object:
    from sklearn.linear_model import LogisticRegression

    if (y[train] == y[train[0]]).all():
        raise EvaluationError(f"{len(train)} training nodes of one class", "a classifier needs two", "Use other masks")
    probes = [LogisticRegression(C=c, max_iter=2000).fit(z[train], y[train]) for c in _GRID]
    return max(probes, key=lambda probe: probe.score(z[validation], y[validation]))
