"""What an embedding is compared with: the directions of node compactness, or directions passed by the user."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from certgcl.arguments import FLOATS, INTEGERS, numbers, shown
from certgcl.errors import DirectionError, GraphError
from certgcl.graphs.graph import Graph
from certgcl.models.network import GraphNetwork

SMALLEST_NORM = 1e-12  # what torch.nn.functional.normalize divides shorter rows by


def compactness_directions(embeddings: Tensor) -> Tensor:
    """``W^CL_i = z̄_i - mean_{j≠i} z̄_j`` with ``z̄`` the rows of the fixed view's embeddings divided by their norms.

    Rows of (almost) zero norm are treated as ``torch.nn.functional.normalize`` does: divided by 1e-12, so that a zero
    row stays zero and says nothing about its own node.
    """
    if (
        not isinstance(embeddings, Tensor)
        or embeddings.is_nested
        or embeddings.is_meta
        or (embeddings.layout != torch.strided or embeddings.dim() != 2 or embeddings.dtype not in FLOATS)
    ):
        raise DirectionError(
            f"embeddings {shown(embeddings)}",
            "they must be a dense matrix of floats, one row per node",
            "Pass the output of the encoder",
        )
    count = embeddings.shape[0]
    if count < 2:
        raise GraphError(
            f"a graph with {count} node",
            "node compactness compares a node with others",
            "Give a graph of two nodes or more",
        )
    unit = functional.normalize(embeddings, dim=1, eps=SMALLEST_NORM)
    return unit - (unit.sum(dim=0) - unit) / (count - 1)


def check_directions(directions: Any, graph: Graph, network: GraphNetwork) -> Tensor:
    """``(N, d)`` or ``(N, C, d)`` directions in the dtype and on the device of the network."""
    width = network.width
    given = numbers(directions, "directions", "they must be numbers", "Pass a tensor or an array", error=DirectionError)
    if given.dtype not in INTEGERS and given.dtype not in FLOATS:
        raise DirectionError(f"directions of dtype {given.dtype}", "they must be real numbers", "Pass floats")
    given = given.to(network.device, network.dtype)
    if given.dim() not in (2, 3) or given.shape[0] != graph.num_nodes or given.shape[-1] != width or not given.numel():
        raise DirectionError(
            f"directions of shape {tuple(given.shape)}",
            f"they must be ({graph.num_nodes}, {width}) or ({graph.num_nodes}, C, {width})",
            "Give every node its direction(s), with as many entries as the model has outputs",
        )
    broken = (~torch.isfinite(given)).flatten(1).any(dim=1)
    if bool(broken.any()):
        raise DirectionError(
            f"a NaN or infinite direction at node {int(broken.nonzero()[0, 0])}",
            "directions must be finite",
            "Fix or drop it",
        )
    return given
