"""Certified accuracy: the share of nodes whose correct prediction no admissible drop can change."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from certgcl.arguments import INTEGERS, flag, items, shown
from certgcl.attacks import Search, SearchSpace
from certgcl.bounds import BoundMethod, DropProblem
from certgcl.bounds.rounding.slack import Sizes
from certgcl.certify.certification import check_anchors
from certgcl.certify.compactness import linear_bounds
from certgcl.changes.edge_drops import AdmissibleDrops, BudgetLike, EdgeDropBudget
from certgcl.changes.embedding_without_edges import DropEvaluation
from certgcl.errors import InputError
from certgcl.formatting import percent
from certgcl.graphs.graph import Graph, GraphLike
from certgcl.models.classifier import LinearClassifier, read_classifier
from certgcl.models.network import GraphNetwork
from certgcl.models.reading import ModelLike, Reading, read_network
from certgcl.runtime.arithmetic import undisturbed
from certgcl.runtime.out_of_memory import told_when_out_of_memory

_RULE = "there is one integer or string class for each of {} nodes"


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

    def __post_init__(self) -> None:
        for name in ("nodes", "correct", "certified", "broken"):
            value = getattr(self, name)
            kinds = INTEGERS if name == "nodes" else {torch.bool}
            if not isinstance(value, Tensor) or value.is_nested or value.is_meta or value.layout != torch.strided or (
                    value.dim() != 1 or value.dtype not in kinds or value.shape != self.nodes.shape):
                raise InputError(f"{name} {shown(value)}", "there are node numbers, and three masks of their length",
                                 "Use certgcl.certified_accuracy")

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
        return (f"accuracy {percent(self.clean)}, certified {percent(self.lower)}, at most {percent(self.upper)} "
                f"({len(self.nodes)} nodes)")


@undisturbed()
@told_when_out_of_memory()
def certified_accuracy(model: ModelLike, classifier: Any, graph: GraphLike, y: Any, budgets: BudgetLike, *,
                       nodes: Tensor | Sequence[int] | None = None, method: str | BoundMethod = "degree",
                       search: bool = True, reading: Reading = "traced") -> CertifiedAccuracy:
    """How much of the accuracy of a linear classifier on the embeddings no admissible drop can take away.

    The prediction of node i stays y if every margin ``(v_y - v_c) · z_i(S) + (a_y - a_c)`` stays above zero, for each
    other class c with weights v and intercept a: linear functionals of the embedding, which are bounded one by one.

    ``certified`` says: for every admissible drop set S the classifier's own ``predict`` returns y at the embedding
    ``z_i(S)``, in exact arithmetic and of the model as it is run in its own precision, rounded to the coarser of that
    and the classifier's, whatever the order of its sums. A tie certifies nothing.

    Args:
        model: the encoder, as in :func:`certgcl.node_compactness`.
        classifier: fitted on the embeddings as they are (not normalised): one of scikit-learn's linear classifiers, or
            a ``Pipeline`` that scales first; an ``nn.Linear``, whose classes are 0, 1, …; a weight matrix
            ``(classes, d)``; or a pair of that and intercepts ``(classes,)``. What is not known to predict the class of
            the largest linear score, or differs from it where it is tried, raises ``ClassifierError``.
        y: the true class of every node, ``(N,)``: integers, or strings if those are the classifier's labels. Only those
            of ``nodes`` must be labels the classifier knows.
        nodes: those that count, a mask or numbers; all by default.
        search: look for drops that change the predictions that are not certified; without it, ``upper`` is ``clean``.
        reading: how the model is read, as in :func:`certgcl.node_compactness`.

    Example::

        probe = LogisticRegression().fit(embeddings[train], y[train])
        print(certgcl.certified_accuracy(encoder, probe, data, data.y, budgets=0.2, nodes=test))
    """
    graph, search = Graph.of(graph).private(), flag(search, "search")
    network = read_network(model, graph, reading, budgets=budgets)
    exact, drops, anchors = network.to(torch.float64), EdgeDropBudget.of(budgets).on(graph), check_anchors(nodes, graph)
    with torch.no_grad():
        embeddings = exact.embed(graph)
    linear = read_classifier(classifier, embeddings, network.precision)
    own = _places(y, linear, anchors, graph)
    directions, offsets = linear.differences(own)
    bounds = linear_bounds(network, graph, budgets, directions, method=method, nodes=anchors)
    own, directions, offsets = own[anchors], directions[anchors], offsets[anchors]
    sizes = Sizes.of(network, DropProblem.on(graph, drops, anchors), torch.float64)
    slack = bounds.rounding + bounds.run_error + linear.margin_slack(sizes.output + sizes.run, own)
    others = torch.arange(offsets.shape[1], device=own.device) != own[:, None]
    margins = torch.where(others, bounds.lower + offsets, torch.inf)
    correct = linear.predict(embeddings[anchors]) == own
    stays = ((margins > slack) | ~others).all(dim=1) & bounds.certified
    broken = torch.zeros_like(correct)
    if search:
        open_ones = (correct & ~stays).nonzero()[:, 0]
        rivals = margins[open_ones].argmin(dim=1)
        here = anchors[open_ones]
        reached = _lowest(exact, graph, drops, here, embeddings[here], directions[open_ones, rivals])
        wrong = linear.margins(reached, own[open_ones]) < -slack[open_ones]
        broken[open_ones] = wrong.any(dim=1) & (linear.predict(reached) != own[open_ones])
    return CertifiedAccuracy(anchors, correct, correct & stays, broken)


def certified_accuracy_curve(model: ModelLike, classifier: Any, graph: GraphLike, y: Any,
                             budgets: Sequence[int | float], *, nodes: Tensor | Sequence[int] | None = None,
                             method: str | BoundMethod = "degree",
                             search: bool = True, reading: Reading = "traced") -> dict[int | float, CertifiedAccuracy]:
    """:func:`certified_accuracy` under each of several budgets: drop rates, or numbers of edges at each node.

    Example::

        curve = certgcl.certified_accuracy_curve(encoder, probe, data, data.y, budgets=(0.1, 0.2, 0.4), nodes=test)
        for rate, accuracy in curve.items():
            print(rate, accuracy.lower, accuracy.upper)
    """
    graph = Graph.of(graph).private()
    network = read_network(model, graph, reading)
    for budget in items(budgets, "budgets", "they are a list of drop rates or numbers of edges", "Try (0.1, 0.2)"):
        if isinstance(budget, bool) or not isinstance(budget, (int, float, np.integer, np.floating)):
            raise InputError(f"budget {shown(budget)}", "a curve is over drop rates or numbers of edges",
                             "Use certified_accuracy for other budgets")
    return {budget: certified_accuracy(network, classifier, graph, y, budget, nodes=nodes, method=method, search=search)
            for budget in budgets}


@torch.no_grad()
def _lowest(network: GraphNetwork, graph: Graph, drops: AdmissibleDrops, anchors: Tensor, embeddings: Tensor,
            directions: Tensor) -> Tensor:
    """Embeddings of the anchors at which a search over admissible drops ends, with a low ``w · z``; ``(A, d)``.

    The given ``embeddings``, which no drop leads to, where a node is too large to be searched.
    """
    space, evaluation = SearchSpace(network, graph, drops), DropEvaluation.of(network, graph)
    around = map(space.field, anchors.tolist())
    fields = {place: field for place, field in enumerate(around) if field is not None}
    dropped, reached = Search()(space, list(fields.values()), directions[list(fields)]), embeddings.clone()
    for (place, field), edges in zip(fields.items(), dropped, strict=True):
        reached[place] = evaluation.embedding(field.anchor, space.edges(field, edges))
    return reached


def _places(y: Any, linear: LinearClassifier, anchors: Tensor, graph: Graph) -> Tensor:
    """The position of every label among the classes; 0 at nodes that do not count and have none of them."""
    try:
        labels = np.asarray(y.detach().cpu() if isinstance(y, Tensor) else y)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"labels of type {type(y).__name__} ({error})", _RULE.format(graph.num_nodes),
                         "Pass data.y") from error
    flags = all(isinstance(label, bool) for label in linear.labels)  # True is no name of class 1
    if labels.shape != (graph.num_nodes,) or labels.dtype.kind not in "iubUTO" or (
            labels.dtype.kind == "b" and not flags):
        raise InputError(f"labels of shape {tuple(labels.shape)} and dtype {labels.dtype}",
                         _RULE.format(graph.num_nodes), "Pass data.y")
    places = [linear.place.get(label) if isinstance(label, (int, str)) and isinstance(label, bool) == flags else None
              for label in labels.tolist()]
    for anchor in anchors.tolist():
        if places[anchor] is None:
            raise InputError(f"label {labels[anchor]!s} of node {anchor}", f"the classifier knows {linear.labels}",
                             "Fit it on nodes of every class, or leave such nodes out of nodes=")
    return torch.tensor([place or 0 for place in places], device=anchors.device)
