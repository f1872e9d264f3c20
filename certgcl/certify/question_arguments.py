"""The arguments of a question that are checked before anything is computed."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor

from certgcl.arguments import INTEGERS, LARGEST, choice, numbers, real, shown
from certgcl.bounds import BoundMethod
from certgcl.errors import InputError, MethodError
from certgcl.graphs.graph import Graph, GraphLike

Views = Literal["one", "both"]
NodesLike: TypeAlias = Tensor | Sequence[Any] | None
"""Anchors: node numbers, names of nodes that have some, or a mask over all nodes; None for all."""


def check_views(views: Views, view: GraphLike | None, bound: BoundMethod) -> None:
    choice(views, "views", get_args(Views))
    if views == "one":
        return
    if view is not None:
        raise InputError(
            "views='both' with view=", "with both views free, there is no fixed second view", "Leave one out"
        )
    if not bound.second_view:
        raise MethodError(
            f"views='both' with method {bound.name!r}",
            "only closed-form bounds support a second view",
            "Use 'degree', 'degree-fast', 'degree-cheap', 'crown' or 'interval'",
        )


def precision_of(dtype: torch.dtype) -> torch.dtype:
    """The dtype of a computation, if it is one that bounds are computed in."""
    if not isinstance(dtype, torch.dtype) or dtype not in (torch.float32, torch.float64):
        raise InputError(
            f"dtype={shown(dtype)}", "bounds are computed in torch.float32 or torch.float64", "Leave it out for float64"
        )
    return dtype


def byte_limit(memory_limit: int) -> int:
    limit = real(
        memory_limit,
        "memory_limit",
        lambda given: 0 < given < float("inf"),
        "it is a positive number of bytes",
        "Try 4 * 1024**3, or leave it out for three quarters of what is free",
    )
    return max(1, int(min(limit, LARGEST // 2)))


def check_anchors(nodes: NodesLike, graph: Graph) -> Tensor:
    """``nodes`` as checked node numbers; all by default."""
    device = graph.col.device
    if nodes is None:
        return torch.arange(graph.num_nodes, device=device)
    anchors = numbers(
        graph.numbers_of(nodes),
        "nodes",
        "they must be node numbers, names or a mask over all nodes",
        "Leave out for all",
        device=device,
    )
    if anchors.dtype == torch.bool and anchors.shape == (graph.num_nodes,):
        anchors = anchors.nonzero()[:, 0]
    if anchors.dim() != 1 or anchors.dtype not in INTEGERS or not anchors.numel():
        raise InputError(
            f"nodes of dtype {anchors.dtype} and shape {tuple(anchors.shape)}",
            "they must be a non-empty list of node numbers or a mask over all nodes",
            "Leave out for all",
        )
    anchors = anchors.long()
    if int(anchors.min()) < 0 or int(anchors.max()) >= graph.num_nodes:
        outside = anchors[(anchors < 0) | (anchors >= graph.num_nodes)]
        raise InputError(f"node {int(outside[0])}", f"nodes are numbered 0 to {graph.num_nodes - 1}", "Fix the list")
    distinct, count = torch.unique(anchors, return_counts=True)
    if distinct.numel() != anchors.numel():
        raise InputError(
            f"node {int(distinct[count > 1][0])} listed {int(count[count > 1][0])} times",
            "every anchor is bounded once",
            "Use torch.unique",
        )
    return anchors.clone()  # the caller's tensor may change
