"""Which dropped edges can matter to which nodes: the edges in the receptive field of each."""

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from certgcl.attacks.field import Reach
from certgcl.errors import OutOfMemoryError
from certgcl.graphs.graph import Graph
from certgcl.models.network import GraphNetwork

MOST_ENTRIES = 1 << 27  # pairs of a node and an edge that are held at a time


def edges_of(graph: Graph) -> Tensor:
    """The slots that stand for the edges, each by its direction from the lower node; ``(E,)``."""
    return (graph.row < graph.col).nonzero()[:, 0]


def touched_edges(network: GraphNetwork, graph: Graph, nodes: Tensor) -> sp.csr_matrix:
    """Ones where an edge is in the receptive field of a node, ``(A, E)``, int64; edges as in :func:`edges_of`.

    ``z_i(S) = z_i(S ∩ field(i))`` for every drop set S, where ``field(i)`` are the edges with an end within R hops of
    i. R is the largest distance up to which numbers of neighbours matter: K for K layers whose scales ``into`` depend
    on the neighbour's number of neighbours (GCN), K - 1 for others (mean, sum, GIN).

    Sound because the output of the last layer at i needs, of each layer that mixes, rows of nodes j within some
    d <= K - 1 hops. Such a row is a function of the edges at j that are left, of their number, of outputs of the
    previous layer at nodes within d + 1 hops, and, if ``into`` is not constant, of the numbers of edges of j's
    neighbours. All of these depend on edges with an end within d hops only, or d + 1 if ``into`` is not constant.
    Distances are those on the graph as given: dropping edges can only make them longer.
    """
    slots = edges_of(graph)
    return touched_pairs(network, graph, nodes, torch.stack([graph.row[slots], graph.col[slots]]))


def touched_pairs(network: GraphNetwork, graph: Graph, nodes: Tensor, pairs: Tensor) -> sp.csr_matrix:
    """The same for any pairs of nodes, ``(2, E)``: ones where a pair has an end within R hops of a node."""
    number = pairs.shape[1]
    reach, anchors = Reach.of(network).counts, nodes.cpu().numpy()
    if reach < 0:
        return sp.csr_matrix((len(anchors), number), dtype=np.int64)
    near = near_nodes(graph, anchors, reach)
    _check_size(near, np.bincount(pairs.cpu().numpy().ravel(), minlength=graph.num_nodes))
    ones, places = np.ones(2 * number, dtype=np.int64), np.arange(number)
    ends = sp.csr_matrix(
        (ones, (pairs.cpu().numpy().ravel(), np.concatenate([places, places]))), shape=(graph.num_nodes, number)
    )
    return _binary(near @ ends)


def near_nodes(graph: Graph, anchors: np.ndarray, hops: int) -> sp.csr_matrix:
    """Ones where a node is within some hops of an anchor, ``(A, N)``, int64."""
    row, col, degree = (part.cpu().numpy() for part in (graph.row, graph.col, graph.degree))
    adjacency = sp.csr_matrix((np.ones(len(row), dtype=np.int64), (row, col)), shape=(graph.num_nodes,) * 2)
    near = sp.csr_matrix(
        (np.ones(len(anchors), dtype=np.int64), (np.arange(len(anchors)), anchors)),
        shape=(len(anchors), graph.num_nodes),
    )
    for _ in range(hops):
        _check_size(near, degree)
        near = _binary(near + near @ adjacency)
    return near


def _check_size(near: sp.csr_matrix, degree: np.ndarray) -> None:
    """Raise an error for a product that may not fit into memory."""
    entries = int(degree[near.indices].sum())
    if entries > MOST_ENTRIES:
        raise OutOfMemoryError(
            f"{near.shape[0]} nodes with {entries} edges in their receptive fields",
            f"no more than {MOST_ENTRIES} are held at a time",
            "Ask about fewer nodes",
        )


def _binary(matrix: sp.csr_matrix) -> sp.csr_matrix:
    matrix.data[:] = 1
    return matrix
