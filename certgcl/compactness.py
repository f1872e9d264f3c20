"""The two questions a user asks: how compact is every node in the worst view, and any direction's worst value."""

from collections.abc import Sequence

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

    A positive bound proves: in every view of ``graph`` that the budget allows, the node is closer to its own positive
    (its embedding in ``view``) than to the other nodes on average, in the sense of the paper's Definition 2.

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
    other = graph if view is None else Graph.of(view)
    if other.num_nodes != graph.num_nodes:
        raise GraphError(f"a view with {other.num_nodes} nodes for a graph with {graph.num_nodes}",
                         "both views have the same nodes", "Drop edges or features, not nodes")
    weights = read_encoder(model, graph).to(dtype)
    directions = compactness_directions(weights.embed(other))
    return _certify(weights, graph, budgets, directions[:, None], method, nodes, squeeze=True)


@torch.no_grad()
def linear_bounds(model: nn.Module | GCNWeights, graph: GraphLike, budgets: BudgetLike, directions: Tensor, *,
                  method: str | BoundMethod = "degree", nodes: Tensor | Sequence[int] | None = None,
                  dtype: torch.dtype = torch.float64) -> Certificate:
    """Certified lower bounds of ``w · z_i(S)`` for directions of your own, over every admissible drop set S.

    With a model that ends in class scores, ``w = e_y - e_c`` for each other class c bounds the margins of a
    prediction; with embeddings and a linear classifier, ``w`` is the difference of two of its weight vectors.

    Args:
        directions: one per node ``(N, d)``, or C per node ``(N, C, d)``. Other arguments as in
            :func:`node_compactness`.
    """
    graph = Graph.of(graph)
    weights = read_encoder(model, graph).to(dtype)
    width = weights.w2.shape[1]
    if directions.dim() not in (2, 3) or directions.shape[0] != graph.num_nodes or directions.shape[-1] != width:
        raise DirectionError(f"directions of shape {tuple(directions.shape)}",
                             f"they must be ({graph.num_nodes}, {width}) or ({graph.num_nodes}, C, {width})",
                             "Give every node its direction(s), with as many entries as the model has outputs")
    if not bool(torch.isfinite(directions).all()):
        raise DirectionError("a NaN or infinite direction", "directions must be finite", "Mend or drop it")
    single = directions.dim() == 2
    return _certify(weights, graph, budgets, directions.to(dtype)[:, None] if single else directions.to(dtype),
                    method, nodes, squeeze=single)


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


def _anchors(nodes: Tensor | Sequence[int] | None, graph: Graph) -> Tensor:
    device = graph.col.device
    if nodes is None:
        return torch.arange(graph.num_nodes, device=device)
    anchors = torch.as_tensor(nodes, device=device)
    if anchors.dtype == torch.bool and anchors.shape == (graph.num_nodes,):
        anchors = anchors.nonzero()[:, 0]
    if anchors.dim() != 1 or anchors.dtype.is_floating_point or anchors.dtype == torch.bool or not anchors.numel():
        raise InputError(f"nodes of dtype {anchors.dtype} and shape {tuple(anchors.shape)}",
                         "they must be a non-empty list of node numbers or a mask over all nodes", "Leave out for all")
    if int(anchors.min()) < 0 or int(anchors.max()) >= graph.num_nodes:
        outside = anchors[(anchors < 0) | (anchors >= graph.num_nodes)]
        raise InputError(f"node {int(outside[0])}", f"nodes are numbered 0 to {graph.num_nodes - 1}", "Mend the list")
    if torch.unique(anchors).numel() != anchors.numel():
        raise InputError("a node that is listed twice", "every anchor is bounded once", "Use torch.unique")
    return anchors.long()
