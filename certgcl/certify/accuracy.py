"""Certified accuracy: the share of nodes whose correct prediction no admissible drop can change."""

import time
from collections.abc import Sequence
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor, nn

from certgcl.arguments import flag, items, shown
from certgcl.attacks import Search, SearchSpace
from certgcl.attacks.edge_search import EdgeSearch
from certgcl.attacks.features import FeatureField, without
from certgcl.bounds import BoundMethod
from certgcl.bounds.rounding.slack import Sizes
from certgcl.certify.accuracy_result import CertifiedAccuracy
from certgcl.certify.compactness import linear_bounds
from certgcl.certify.prepared_graph import PreparedGraph
from certgcl.certify.question_arguments import NodesLike, check_anchors
from certgcl.changes.changes import AdmissibleChanges, BudgetLike
from certgcl.changes.embedding_without_edges import DropEvaluation
from certgcl.errors import ClassifierError, InputError
from certgcl.graphs.graph import Graph, GraphLike
from certgcl.models.classifier import LinearClassifier, class_scores, read_classifier
from certgcl.models.network import GraphNetwork
from certgcl.models.reading import ModelLike, Reading, read_network, read_scores
from certgcl.runtime.arithmetic import undisturbed
from certgcl.runtime.out_of_memory import told_when_out_of_memory

__all__ = ["CertifiedAccuracy", "certified_accuracy", "certified_accuracy_curve"]

SECONDS_OF_ANCHOR = 2.0  # seconds at most, for a search over added edges
_RULE = "there is one integer or string class for each of {} nodes"


_REQUIRED: Any = type("Required", (), {"__repr__": lambda self: "required"})()


@overload
def certified_accuracy(
    model: ModelLike,
    graph: GraphLike,
    y: Any,
    budgets: BudgetLike,
    *,
    classifier: Any = None,
    nodes: NodesLike = None,
    method: str | BoundMethod = "degree",
    search: bool = True,
    reading: Reading = "traced",
) -> CertifiedAccuracy: ...


@overload
def certified_accuracy(
    model: ModelLike,
    classifier: Any,
    graph: GraphLike,
    y: Any,
    budgets: BudgetLike,
    *,
    nodes: NodesLike = None,
    method: str | BoundMethod = "degree",
    search: bool = True,
    reading: Reading = "traced",
) -> CertifiedAccuracy: ...


@told_when_out_of_memory()
def certified_accuracy(
    model: ModelLike,
    *question: Any,
    classifier: Any = None,
    graph: GraphLike = _REQUIRED,
    y: Any = _REQUIRED,
    budgets: BudgetLike = _REQUIRED,
    nodes: NodesLike = None,
    method: str | BoundMethod = "degree",
    search: bool = True,
    reading: Reading = "traced",
) -> CertifiedAccuracy:
    """The share of a classifier's accuracy that no admissible drop can take away.

    ``certified_accuracy(model, graph, y, budgets)`` for a model that ends in class scores, or in their softmax or
    log_softmax: its prediction is the class of the largest. ``certified_accuracy(model, classifier, graph, y,
    budgets)``, or ``classifier=``, for a linear classifier on the embeddings of the model.

    A prediction p of node i stays if every margin ``(v_p - v_c) · z_i(S) + (a_p - a_c)`` stays above zero, for each
    other class c with weights v and intercept a: linear functionals of the embedding, which are bounded one by one. Of
    class scores, these are ``z_ip(S) - z_ic(S)``.

    ``stable`` says: for every admissible drop set S the classifier's own ``predict`` (or the argmax of the model's own
    output) is what it is on the graph as given, in exact arithmetic and of the model as it runs in its own precision,
    rounded to the coarser of that and the classifier's, whatever the order of its sums. ``certified`` says that it is
    right, too. A tie certifies nothing.

    Args:
        model: the classifier, or the encoder, as in :func:`certgcl.node_compactness`.
        classifier: fitted on the embeddings as they are (not normalised): one of scikit-learn's linear classifiers, or
            a ``Pipeline`` that scales first; an ``nn.Linear``, whose classes are 0, 1, …; a weight matrix
            ``(classes, d)``; or a pair of that and intercepts ``(classes,)``. A classifier that is not known to predict
            the class of the largest linear score, or that differs from it where it is tried, raises
            ``ClassifierError``.
        y: the true class of every node, ``(N,)``: integers, or strings if those are the classifier's labels. Only those
            of ``nodes`` must be labels the classifier knows.
        nodes: those that count, a mask or numbers; all by default.
        search: search for drops that change the predictions that are not certified; without it, ``upper`` is ``clean``.
        reading: how the model is read, as in :func:`certgcl.node_compactness`.

    Example::

        probe = LogisticRegression().fit(embeddings[train], y[train])
        print(certgcl.certified_accuracy(encoder, probe, data, data.y, budgets=0.2, nodes=test))
    """
    asked = _by_name(question, classifier=classifier, graph=graph, y=y, budgets=budgets)
    return _accuracy(model, **asked, nodes=nodes, method=method, search=search, reading=reading)


@overload
def certified_accuracy_curve(
    model: ModelLike,
    graph: GraphLike,
    y: Any,
    budgets: Sequence[int | float],
    *,
    classifier: Any = None,
    nodes: NodesLike = None,
    method: str | BoundMethod = "degree",
    search: bool = True,
    reading: Reading = "traced",
) -> dict[int | float, CertifiedAccuracy]: ...


@overload
def certified_accuracy_curve(
    model: ModelLike,
    classifier: Any,
    graph: GraphLike,
    y: Any,
    budgets: Sequence[int | float],
    *,
    nodes: NodesLike = None,
    method: str | BoundMethod = "degree",
    search: bool = True,
    reading: Reading = "traced",
) -> dict[int | float, CertifiedAccuracy]: ...


@told_when_out_of_memory()
def certified_accuracy_curve(
    model: ModelLike,
    *question: Any,
    classifier: Any = None,
    graph: GraphLike = _REQUIRED,
    y: Any = _REQUIRED,
    budgets: Sequence[int | float] = _REQUIRED,
    nodes: NodesLike = None,
    method: str | BoundMethod = "degree",
    search: bool = True,
    reading: Reading = "traced",
) -> dict[int | float, CertifiedAccuracy]:
    """:func:`certified_accuracy` under each of several budgets: drop rates, or numbers of edges at each node.

    Example::

        curve = certgcl.certified_accuracy_curve(encoder, probe, data, data.y, budgets=(0.1, 0.2, 0.4), nodes=test)
        for rate, accuracy in curve.items():
            print(rate, accuracy.lower, accuracy.upper)
    """
    asked = _by_name(question, classifier=classifier, graph=graph, y=y, budgets=budgets)
    rates = items(
        asked.pop("budgets"), "budgets", "they are a list of drop rates or numbers of edges", "Try (0.1, 0.2)"
    )
    for budget in rates:
        if isinstance(budget, bool) or not isinstance(budget, (int, float, np.integer, np.floating)):
            raise InputError(
                f"budget {shown(budget)}",
                "a curve is over drop rates or numbers of edges",
                "Use certified_accuracy for other budgets",
            )
    asked["graph"] = Graph.of(asked["graph"])
    return {
        budget: _accuracy(model, **asked, budgets=budget, nodes=nodes, method=method, search=search, reading=reading)
        for budget in rates
    }


def _by_name(question: tuple[Any, ...], **named: Any) -> dict[str, Any]:
    """The arguments by name: of the positional ones, the first is the classifier if there is one more than graph,
    labels and budgets."""
    names = [name for name, value in named.items() if value is _REQUIRED]
    if len(question) == len(names) + 1 and named["classifier"] is None:
        if question[0] is None:
            raise ClassifierError(
                "None as classifier",
                "its linear scores are not known",
                "Leave it out for a model that ends in class scores",
            )
        names = ["classifier", *names]
    if len(question) != len(names):
        raise TypeError("the arguments are (model, graph, y, budgets) or (model, classifier, graph, y, budgets)")
    return named | dict(zip(names, question, strict=True))


@undisturbed()
def _accuracy(
    model: ModelLike,
    graph: GraphLike,
    y: Any,
    budgets: BudgetLike,
    classifier: Any = None,
    nodes: NodesLike = None,
    method: str | BoundMethod = "degree",
    search: bool = True,
    reading: Reading = "traced",
) -> CertifiedAccuracy:
    """:func:`certified_accuracy` with all arguments in their places."""
    graph, search = Graph.of(graph).private(), flag(search, "search")
    network, softmax = _network(model, graph, classifier, reading, budgets)
    prepared = PreparedGraph(graph, budgets)
    exact, changes, anchors = network.to(torch.float64), prepared.changes, check_anchors(nodes, graph)
    with torch.no_grad():
        embeddings = exact.embed(graph)
    linear = (
        class_scores(network.width, network.precision, softmax)
        if classifier is None
        else (read_classifier(classifier, embeddings, network.precision))
    )
    labels = _places(y, linear, anchors, graph)[anchors]
    predicted = linear.predict(embeddings)
    directions, offsets = linear.differences(predicted)
    bounds = linear_bounds(network, prepared, None, directions, method=method, nodes=anchors)
    predicted, directions, offsets = predicted[anchors], directions[anchors], offsets[anchors]
    sizes = Sizes.of(network, prepared.problem(anchors), torch.float64)
    slack = bounds.rounding + bounds.run_error + linear.margin_slack(sizes.output + sizes.run, predicted)
    others = torch.arange(offsets.shape[1], device=predicted.device) != predicted[:, None]
    margins = torch.where(others, bounds.lower + offsets, torch.inf)
    correct = predicted == labels
    stays = ((margins > slack) | ~others).all(dim=1) & bounds.certified
    broken = torch.zeros_like(correct)
    if search:
        open_ones = (correct & ~stays).nonzero()[:, 0]
        rivals = margins[open_ones].argmin(dim=1)
        here = anchors[open_ones]
        reached = _lowest(exact, graph, changes, here, embeddings[here], directions[open_ones, rivals])
        wrong = linear.margins(reached, labels[open_ones]) < -slack[open_ones]
        broken[open_ones] = wrong.any(dim=1) & (linear.predict(reached) != labels[open_ones])
    return CertifiedAccuracy(
        anchors,
        correct,
        correct & stays,
        broken,
        stays,
        [linear.labels[place] for place in labels.tolist()],
        [linear.labels[place] for place in predicted.tolist()],
    )


def _network(
    model: ModelLike, graph: Graph, classifier: Any, reading: Reading, budgets: BudgetLike
) -> tuple[GraphNetwork, bool]:
    """The network that is bounded, and whether a softmax follows it."""
    if classifier is not None:
        return read_network(model, graph, reading, budgets=budgets), False
    if not isinstance(model, (nn.Module, GraphNetwork)) and hasattr(model, "fitted_encoder"):
        raise InputError(
            f"a {type(model).__name__} without a classifier",
            "it gives embeddings, not class scores",
            "Pass classifier=, fitted on its embeddings",
        )
    return read_scores(model, graph, reading, budgets=budgets)


@torch.no_grad()
def _lowest(
    network: GraphNetwork,
    graph: Graph,
    changes: AdmissibleChanges,
    anchors: Tensor,
    embeddings: Tensor,
    directions: Tensor,
) -> Tensor:
    """Embeddings of the anchors, ``(A, d)``, with a low ``w · z``, that a search over admissible changes ends at.

    For a node whose receptive field is too large to be searched, the given ``embeddings``, those without drops.
    """
    if changes.additions is not None:
        return _lowest_with_new_edges(network, graph, changes, anchors, embeddings, directions)
    space, evaluation = SearchSpace(network, graph, changes.drops), DropEvaluation.of(network, graph)
    around = map(space.field, anchors.tolist())
    fields = {place: field for place, field in enumerate(around) if field is not None}
    dropped, reached = Search()(space, list(fields.values()), directions[list(fields)]), embeddings.clone()
    for (place, field), edges in zip(fields.items(), dropped, strict=True):
        dropped_edges, changed = space.edges(field, edges), None
        if changes.features is not None:
            left = FeatureField.of(network, without(graph, dropped_edges), changes.features, field.anchor)
            changed = left.changed(left.search(directions[place])[1])
        reached[place] = evaluation.embedding(field.anchor, dropped_edges, changed)
    return reached


def _lowest_with_new_edges(
    network: GraphNetwork,
    graph: Graph,
    changes: AdmissibleChanges,
    anchors: Tensor,
    embeddings: Tensor,
    directions: Tensor,
) -> Tensor:
    """The same where edges may be added."""
    search, reached = EdgeSearch(network, graph, changes), embeddings.clone()
    for place, (anchor, direction) in enumerate(zip(anchors.tolist(), directions, strict=True)):
        view = search.changed(*search.greedy(anchor, direction, time.monotonic() + SECONDS_OF_ANCHOR))
        if changes.features is not None:
            around = FeatureField.of(network, view, changes.features, anchor)
            view = view.with_features(around.changed(around.search(direction)[1]).applied(graph))
        reached[place] = network.embed(view)[anchor]
    return reached


def _places(y: Any, linear: LinearClassifier, anchors: Tensor, graph: Graph) -> Tensor:
    """The position of every label among the classes; 0 at nodes that do not count and whose label is not among them."""
    try:
        labels = np.asarray(y.detach().cpu() if isinstance(y, Tensor) else y)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"labels of type {type(y).__name__} ({error})", _RULE.format(graph.num_nodes), "Pass data.y"
        ) from error
    flags = all(isinstance(label, bool) for label in linear.labels)  # True does not name class 1
    if (
        labels.shape != (graph.num_nodes,)
        or labels.dtype.kind not in "iubUTO"
        or (labels.dtype.kind == "b" and not flags)
    ):
        raise InputError(
            f"labels of shape {tuple(labels.shape)} and dtype {labels.dtype}",
            _RULE.format(graph.num_nodes),
            "Pass data.y",
        )
    places = [
        linear.place.get(label) if isinstance(label, (int, str)) and isinstance(label, bool) == flags else None
        for label in labels.tolist()
    ]
    for anchor in anchors.tolist():
        if places[anchor] is None:
            raise InputError(
                f"label {labels[anchor]!s} of node {anchor}",
                f"the classifier knows {linear.labels}",
                "Fit it on nodes of every class, or leave such nodes out of nodes=",
            )
    return torch.tensor([place or 0 for place in places], device=anchors.device)
