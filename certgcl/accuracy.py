"""Certified accuracy: the share of nodes whose correct prediction no admissible drop can change."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from certgcl.bounds import BoundMethod
from certgcl.budget import BudgetLike, EdgeDropBudget
from certgcl.compactness import linear_bounds
from certgcl.encoder import GCNWeights
from certgcl.errors import InputError
from certgcl.graph import Graph, GraphLike
from certgcl.out_of_memory import told_when_out_of_memory
from certgcl.reading import ModelLike, read_encoder
from certgcl.search import ReceptiveField, Search


@dataclass(frozen=True, eq=False)
class CertifiedAccuracy:
    """What is known of every node's prediction under a budget.

    Args:
        nodes: the nodes in question, ``(A,)``.
        correct: the prediction on the graph as given is right.
        certified: it is, and stays so whatever admissible edges are dropped.
        broken: it is, and an admissible drop is known that changes it.
    """

    nodes: Tensor
    correct: Tensor
    certified: Tensor
    broken: Tensor

    @property
    def clean(self) -> float:
        """Accuracy on the graph as given."""
        return float(self.correct.double().mean())

    @property
    def lower(self) -> float:
        """Certified accuracy: at least this share is right under every admissible drop, node by node."""
        return float(self.certified.double().mean())

    @property
    def upper(self) -> float:
        """At most this share is: the others are wrong, or known to break."""
        return float((self.correct & ~self.broken).double().mean())

    def __str__(self) -> str:
        return (f"accuracy {100 * self.clean:.1f} %, certified {100 * self.lower:.1f} %, at most "
                f"{100 * self.upper:.1f} % ({len(self.nodes)} nodes)")


@told_when_out_of_memory()
def certified_accuracy(model: ModelLike, classifier: Any, graph: GraphLike, y: Tensor, budgets: BudgetLike, *,
                       nodes: Tensor | Sequence[int] | None = None, method: str | BoundMethod = "degree",
                       search: bool = True) -> CertifiedAccuracy:
    """How much of the accuracy of a linear classifier on the embeddings no admissible drop can take away.

    The prediction of node i stays y if every margin ``(v_y - v_c) · z_i(S) + (a_y - a_c)`` stays above zero, for each
    other class c with weights v and intercept a: linear functionals of the embedding, which are bounded one by one.

    Args:
        model: the encoder, as in :func:`certgcl.node_compactness`.
        classifier: fitted on the embeddings as they are (not normalised): scikit-learn's ``LogisticRegression`` or
            anything with ``coef_``, ``intercept_`` and ``classes_``; or a weight matrix ``(classes, d)``; or a pair of
            that and intercepts ``(classes,)``.
        y: the true class of every node, ``(N,)``.
        nodes: those that count, a mask or numbers; all by default.
        search: look for drops that change the predictions that are not certified; without it, ``upper`` is ``clean``.

    Example::

        probe = LogisticRegression().fit(embeddings[train], y[train])
        print(certgcl.certified_accuracy(encoder, probe, data, data.y, budgets=0.2, nodes=test))
    """
    graph = Graph.of(graph)
    weights = read_encoder(model, graph).to(torch.float64)
    vectors, intercepts, classes = _linear(classifier, weights)
    y = _labels(y, graph, classes)
    with torch.no_grad():
        scores = weights.embed(graph) @ vectors.T + intercepts
    correct = scores.argmax(dim=1) == y
    directions = vectors[y][:, None] - vectors  # (N, classes, d)
    offsets = intercepts[y][:, None] - intercepts
    bounds = linear_bounds(weights, graph, budgets, directions, method=method, nodes=nodes)
    anchors = bounds.nodes
    others = torch.arange(len(vectors), device=y.device) != y[anchors, None]
    margins = torch.where(others, bounds.lower + offsets[anchors], torch.inf)
    stays = ((margins > bounds.rounding) | ~others).all(dim=1) & bounds.certified
    correct = correct[anchors]
    broken = torch.zeros_like(correct)
    if search:
        open_ones = (correct & ~stays).nonzero()[:, 0]
        broken[open_ones] = _breakable(weights, graph, budgets, directions, offsets, anchors[open_ones],
                                       margins[open_ones])
    return CertifiedAccuracy(anchors, correct, correct & stays, broken)


def certified_accuracy_curve(model: ModelLike, classifier: Any, graph: GraphLike, y: Tensor,
                             budgets: Sequence[int | float], *, nodes: Tensor | Sequence[int] | None = None,
                             method: str | BoundMethod = "degree",
                             search: bool = True) -> dict[int | float, CertifiedAccuracy]:
    """:func:`certified_accuracy` under each of several budgets: drop rates, or numbers of edges at each node.

    Example::

        curve = certgcl.certified_accuracy_curve(encoder, probe, data, data.y, budgets=(0.1, 0.2, 0.4), nodes=test)
        for rate, accuracy in curve.items():
            print(rate, accuracy.lower, accuracy.upper)
    """
    graph = Graph.of(graph)
    weights = read_encoder(model, graph)
    return {budget: certified_accuracy(weights, classifier, graph, y, budget, nodes=nodes, method=method, search=search)
            for budget in budgets}


def _breakable(weights: GCNWeights, graph: Graph, budgets: BudgetLike, directions: Tensor, offsets: Tensor,
               anchors: Tensor, margins: Tensor) -> Tensor:
    """Whether drops are found that bring the least certain margin of a node below zero."""
    rival, drops = margins.argmin(dim=1), EdgeDropBudget.of(budgets).on(graph)
    around = [ReceptiveField.around(graph, drops, weights, anchor) for anchor in anchors.tolist()]
    fields = [(place, field) for place, field in enumerate(around) if field is not None]
    places = [place for place, _ in fields]
    chosen = directions[anchors, rival]
    found = Search()([field for _, field in fields], drops, chosen[places])
    least = torch.full_like(chosen[:, 0], torch.inf)
    for (place, field), dropped in zip(fields, found, strict=True):
        least[place] = field.embeddings(dropped[None])[0] @ chosen[place]
    return least + offsets[anchors, rival] < 0


def _linear(classifier: Any, weights: GCNWeights) -> tuple[Tensor, Tensor, Tensor]:
    """Weights ``(classes, d)``, intercepts and class labels of a linear classifier."""
    if hasattr(classifier, "coef_"):
        vectors, intercepts = torch.as_tensor(classifier.coef_), torch.as_tensor(classifier.intercept_)
        classes = torch.as_tensor(classifier.classes_)
        if len(classes) == 2 and len(vectors) == 1:  # scikit-learn keeps the one margin of two classes
            vectors, intercepts = torch.cat([-vectors, vectors]) / 2, torch.cat([-intercepts, intercepts]) / 2
    else:
        vectors, intercepts = classifier if isinstance(classifier, tuple) else (classifier, None)
        vectors = torch.as_tensor(vectors)
        intercepts = torch.zeros(len(vectors)) if intercepts is None else torch.as_tensor(intercepts)
        classes = torch.arange(len(vectors))
    width = weights.w2.shape[1]
    if vectors.dim() != 2 or vectors.shape[1] != width or intercepts.shape != vectors.shape[:1] or len(vectors) < 2:
        raise InputError(f"a classifier with weights {tuple(vectors.shape)} and intercepts {tuple(intercepts.shape)}",
                         f"it needs (classes, {width}) and (classes,)", "Fit it on the embeddings of this model")
    return vectors.to(weights.w1), intercepts.to(weights.w1), classes.to(weights.w1.device)


def _labels(y: Any, graph: Graph, classes: Tensor) -> Tensor:
    """The position of every label among the classes."""
    labels = torch.as_tensor(y, device=classes.device)
    if labels.shape != (graph.num_nodes,) or labels.dtype.is_floating_point:
        raise InputError(f"labels of shape {tuple(labels.shape)} and dtype {labels.dtype}",
                         f"there is one integer class for each of {graph.num_nodes} nodes", "Pass data.y")
    place = (labels[:, None] == classes).int()
    if not bool(place.any(dim=1).all()):
        unknown = labels[~place.any(dim=1)]
        raise InputError(f"label {int(unknown[0])}", f"the classifier knows {classes.tolist()}",
                         "Fit it on nodes of every class, or leave such nodes out")
    return place.argmax(dim=1)
