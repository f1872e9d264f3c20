"""Which dropped edges can matter to which nodes: the edges in the receptive field of each."""

import numpy as np
import scipy.sparse as sp
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
    d <= K - 1 hops. Such a row is a function of which edges at j are left, of j's number of them, of outputs of the
    layer before at nodes within d + 1 hops, and, where ``into`` counts, of the numbers of edges of j's neighbours.
    All of that is about edges with an end within d hops, or d + 1 where ``into`` counts. Distances are those on the
    graph as given: without some edges they can only be longer.
    """
    reach, n = Reach.of(network).counts, graph.num_nodes
    row, col, degree = (part.cpu().numpy() for part in (graph.row, graph.col, graph.degree))
    slots, anchors = edges_of(graph).cpu().numpy(), nodes.cpu().numpy()
    edges = np.arange(len(slots))
    if reach < 0:
        return sp.csr_matrix((len(anchors), len(edges)), dtype=np.int64)
    ones = np.ones(len(row), dtype=np.int64)
    adjacency = sp.csr_matrix((ones, (row, col)), shape=(n, n))
    near = sp.csr_matrix(
        (np.ones(len(anchors), dtype=np.int64), (np.arange(len(anchors)), anchors)), shape=(len(anchors), n)
    )
    for _ in range(reach):
        _check_size(near, degree)
        near = _binary(near + near @ adjacency)
    _check_size(near, degree)
    ends = sp.csr_matrix(
        (ones, (np.concatenate([row[slots], col[slots]]), np.concatenate([edges, edges]))), shape=(n, len(edges))
    )
    return _binary(near @ ends)


def _check_size(near: sp.csr_matrix, degree: np.ndarray) -> None:
    """Refuse a product that memory may not hold."""
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
