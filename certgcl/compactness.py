"""The two questions a user asks: how compact is every node in the worst view, and any direction's worst value."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from certgcl.bounds import BoundMethod, DropProblem, get_method
from certgcl.bounds.rounding import rounding_slack
from certgcl.budget import BudgetLike, EdgeDropBudget
from certgcl.certificate import Certificate
from certgcl.encoder import GCNWeights
from certgcl.errors import BoundError, DirectionError, GraphError, InputError
from certgcl.graph import Graph, GraphLike
from certgcl.reading import read_encoder


def compactness_directions(embeddings: Tensor) -> Tensor:
    """``W^CL_i = z̄_i - mean_{j≠i} z̄_j`` with ``z̄`` the rows of the fixed view's embeddings divided by their norms.

    Rows of (almost) zero norm are treated as ``torch.nn.functional.normalize`` does: divided by 1e-12, so that a zero
    row stays zero and says nothing about its own node.
    """
    count = embeddings.shape[0]
    if count < 2:
        raise GraphError(f"a graph with {count} node", "node compactness compares a node with others",
                         "Give a graph of two nodes or more")
    unit = functional.normalize(embeddings, dim=1)
    return unit - (unit.sum(dim=0) - unit) / (count - 1)


@torch.no_grad()
def node_compactness(model: nn.Module | GCNWeights, graph: GraphLike, budgets: BudgetLike, *,
                     method: str | BoundMethod = "degree", view: GraphLike | None = None,
                     nodes: Tensor | Sequence[int] | None = None, dtype: torch.dtype = torch.float64) -> Certificate:
    """Certified lower bounds of node compactness: ``W^CL_i · z_i(S) >= lower_i`` for every admissible drop set S.

    A bound above the certificate's ``rounding`` proves: in every view of ``graph`` that the budget allows, the node is
    closer to its own positive (its embedding in ``view``) than to the other nodes on average.

    Args:
        model: a :class:`GCNEncoder`, or a module with two ``GCNConv`` layers called as ``model(x, edge_index)``.
        graph: the graph whose edges may be dropped: a ``Graph``, a PyG ``Data``, ``(x, edge_index)`` or networkx.
        budgets: an :class:`EdgeDropBudget`, an int (edges at each node), or a float (a drop rate).
        method: ``"degree"`` (default), ``"degree-cheap"``, ``"crown"``, ``"interval"``; or ``"paper"``, ``"released"``,
            which are not bounds; or an instance from :mod:`certgcl.bounds`.
        view: the fixed second view that gives ``W^CL``; the graph itself by default.
        nodes: the anchors to bound; all by default. They cost in proportion to their two-hop neighbourhoods.
        dtype: precision of the computation.

    Example::

        certificate = certgcl.node_compactness(encoder, data, budgets=2)
        print(certificate)
    """
    graph = Graph.of(graph)
    other = graph if view is None else _view(view, graph)
    weights = read_encoder(model, graph).to(_precision(dtype))
    directions = compactness_directions(weights.embed(other))
    return _certify(weights, graph, budgets, directions[:, None], method, nodes, squeeze=True)


@torch.no_grad()
def linear_bounds(model: nn.Module | GCNWeights, graph: GraphLike, budgets: BudgetLike, directions: Tensor, *,
                  method: str | BoundMethod = "degree", nodes: Tensor | Sequence[int] | None = None,
                  dtype: torch.dtype = torch.float64) -> Certificate:
    """Certified lower bounds of ``w · z_i(S)`` for directions of your own, over every admissible drop set S.

    With a model that ends in class scores, ``w = e_y - e_c`` for each other class c bounds the margins of a
    prediction; with embeddings and a linear classifier, ``w`` is the difference of two of its weight vectors (add the
    difference of their biases to the bound).

    Args:
        directions: one per node ``(N, d)``, or C per node ``(N, C, d)``. Other arguments as in
            :func:`node_compactness`.
    """
    graph = Graph.of(graph)
    weights = read_encoder(model, graph).to(_precision(dtype))
    directions = _directions(directions, graph, weights)
    single = directions.dim() == 2
    return _certify(weights, graph, budgets, directions[:, None] if single else directions, method, nodes,
                    squeeze=single)


def _certify(weights: GCNWeights, graph: Graph, budgets: BudgetLike, directions: Tensor, method: str | BoundMethod,
             nodes: Tensor | Sequence[int] | None, squeeze: bool) -> Certificate:
    """Bound ``(N, C, d)`` directions and check what came out before calling it a certificate."""
    bound = get_method(method)
    anchors = _anchors(nodes, graph)
    drops = EdgeDropBudget.of(budgets).on(graph)
    problem = DropProblem(graph, drops, anchors)
    lower = bound(weights, problem, directions)
    nominal = (directions[anchors] @ weights.embed(graph)[anchors][..., None])[..., 0]
    rounding = rounding_slack(weights, problem, directions)
    _check(lower, nominal, rounding, anchors, bound)
    chosen = directions[anchors]
    if squeeze:
        lower, nominal, rounding, chosen = lower[:, 0], nominal[:, 0], rounding[:, 0], chosen[:, 0]
    return Certificate(anchors, lower, nominal, rounding, bound.name, bound.certified, drops.local, drops.total, chosen)


def _check(lower: Tensor, nominal: Tensor, rounding: Tensor, anchors: Tensor, bound: BoundMethod) -> None:
    finite = (torch.isfinite(lower) & torch.isfinite(nominal)).all(dim=1)
    if not bool(finite.all()):
        raise BoundError(f"a non-finite value at node {int(anchors[~finite][0])}", "bounds must be finite",
                         "Look for weights or features so large that they overflow; float64 reaches further")
    crossed = (lower > nominal + rounding).any(dim=1) & bound.certified
    if bool(crossed.any()):
        raise BoundError(f"a lower bound above the clean value at node {int(anchors[crossed][0])}",
                         "no bound exceeds a value it should bound", "Please report this graph and encoder")


# -- arguments -------------------------------------------------------------------------------------


def _precision(dtype: torch.dtype) -> torch.dtype:
    if dtype not in (torch.float32, torch.float64):
        raise InputError(f"dtype={dtype!r}", "bounds are computed in torch.float32 or torch.float64",
                         "Leave it out for float64")
    return dtype


def _view(view: GraphLike, graph: Graph) -> Graph:
    view = Graph.of(view)
    if view.num_nodes != graph.num_nodes or view.num_features != graph.num_features:
        raise GraphError(f"a view with {view.num_nodes} nodes and {view.num_features} features for a graph with "
                         f"{graph.num_nodes} and {graph.num_features}", "both views have the same nodes and features",
                         "Drop edges, or set features to zero; keep the shape of x")
    if view.x.device != graph.x.device:
        raise GraphError(f"a view on {view.x.device} for a graph on {graph.x.device}", "both must be on one device",
                         f"Move it with view.to({str(graph.x.device)!r})")
    return view


def _directions(directions: Any, graph: Graph, weights: GCNWeights) -> Tensor:
    """``(N, d)`` or ``(N, C, d)`` directions in the dtype and on the device of the weights."""
    width = weights.w2.shape[1]
    try:
        given = torch.as_tensor(directions)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DirectionError(f"directions of type {type(directions).__name__} ({error})", "they must be numbers",
                             "Pass a tensor or an array") from error
    if given.dtype.is_complex or given.dtype == torch.bool:
        raise DirectionError(f"directions of dtype {given.dtype}", "they must be real numbers", "Pass floats")
    given = given.to(weights.w2)
    if given.dim() not in (2, 3) or given.shape[0] != graph.num_nodes or given.shape[-1] != width or not given.numel():
        raise DirectionError(f"directions of shape {tuple(given.shape)}",
                             f"they must be ({graph.num_nodes}, {width}) or ({graph.num_nodes}, C, {width})",
                             "Give every node its direction(s), with as many entries as the model has outputs")
    broken = (~torch.isfinite(given)).flatten(1).any(dim=1)
    if bool(broken.any()):
        raise DirectionError(f"a NaN or infinite direction at node {int(broken.nonzero()[0, 0])}",
                             "directions must be finite", "Mend or drop it")
    return given


def _anchors(nodes: Tensor | Sequence[int] | None, graph: Graph) -> Tensor:
    device = graph.col.device
    if nodes is None:
        return torch.arange(graph.num_nodes, device=device)
    try:
        anchors = torch.as_tensor(nodes, device=device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"nodes={nodes!r} ({error})", "they must be node numbers or a mask over all nodes",
                         "Leave out for all") from error
    if anchors.dtype == torch.bool and anchors.shape == (graph.num_nodes,):
        anchors = anchors.nonzero()[:, 0]
    whole = not (anchors.dtype.is_floating_point or anchors.dtype.is_complex or anchors.dtype == torch.bool)
    if anchors.dim() != 1 or not whole or not anchors.numel():
        raise InputError(f"nodes of dtype {anchors.dtype} and shape {tuple(anchors.shape)}",
                         "they must be a non-empty list of node numbers or a mask over all nodes", "Leave out for all")
    if int(anchors.min()) < 0 or int(anchors.max()) >= graph.num_nodes:
        outside = anchors[(anchors < 0) | (anchors >= graph.num_nodes)]
        raise InputError(f"node {int(outside[0])}", f"nodes are numbered 0 to {graph.num_nodes - 1}", "Mend the list")
    distinct, count = torch.unique(anchors, return_counts=True)
    if distinct.numel() != anchors.numel():
        raise InputError(f"node {int(distinct[count > 1][0])} listed {int(count[count > 1][0])} times",
                         "every anchor is bounded once", "Use torch.unique")
    return anchors.long()
