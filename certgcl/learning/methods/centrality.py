"""The centrality of nodes, and GCA's probabilities derived from it: edges and features of central nodes are kept more
often.

GCA's own "PageRank" is a lazy random walk, which on an undirected graph converges to the degree; here it is PageRank.
"""

from collections.abc import Callable
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from certgcl.errors import InputError
from certgcl.graphs.graph import Graph
from certgcl.graphs.row_chunks import row_ranges
from certgcl.graphs.sparse import csr_matrix, csr_transposed

Centrality: TypeAlias = Literal["degree", "eigenvector", "pagerank"]

DAMPING = 0.85
FLOOR = 1e-8  # smaller centralities count as this one in logarithms
LIMIT = 0.7  # the largest probability, so that no edge or feature is almost always dropped
EQUAL = 1e-6  # scores that differ by less are the same
CONVERGED = 1e-14  # largest change of an iteration that has converged
MAX_STEPS = 10_000


def node_centrality(graph: Graph, kind: Centrality) -> Tensor:
    """The centrality of every node, ``(N,)``, float64, never negative.

    - ``"degree"``: ``d_i``.
    - ``"eigenvector"``: the leading eigenvector v of A, ``|v| = 1``; zero outside the connected component with the
      largest eigenvalue, as in GCA; otherwise an isolated pair of nodes would be more central than most of that
      component.
    - ``"pagerank"``: ``c = (1 - δ)/N + δ (Σ_{j ~ i} c_j / d_j + Σ_{d_j = 0} c_j / N)`` with δ = 0.85; it sums to one.
    """
    match kind:
        case "degree":
            return graph.degree.double()
        case "eigenvector":
            return _eigenvector(graph)
        case "pagerank":
            return _pagerank(graph)
    raise InputError(f"centrality {kind!r}", "centralities are 'degree', 'eigenvector' and 'pagerank'", "Pick one")


def edge_drop_probabilities(graph: Graph, rate: float, kind: Centrality, limit: float = LIMIT) -> Tensor:
    """The probability that each undirected edge is dropped, in the order of ``graph.edge_index[:, graph.row <
    graph.col]``.

    ``p = min(rate (max s - s) / (max s - mean s), limit)`` for scores ``s_ij = (log c_i + log c_j) / 2``. (GCA scores
    each direction of an edge by one end; a view is undirected only if both have one probability.) The quotients have
    mean one, so the mean of p is the rate, minus what the limit cuts off. If all scores are equal, the quotients are
    one.
    """
    score = node_centrality(graph, kind).clamp(min=FLOOR).log()
    forward = graph.row < graph.col
    return _probabilities((score[graph.row[forward]] + score[graph.col[forward]]) / 2, rate, limit)


def feature_mask_probabilities(graph: Graph, rate: float, kind: Centrality, limit: float = LIMIT) -> Tensor:
    """The probability that each feature is masked, ``(F,)``.

    The same map of the scores ``s_f = log Σ_i 1[x_if ≠ 0] c_i``. A feature that no node has is masked like the least
    important of the others, and does not count in their mean.
    """
    total = _over_owners(graph, node_centrality(graph, kind).clamp(min=FLOOR))
    owned = total > 0
    known = _probabilities(total[owned].log(), rate, limit)
    probability = torch.full_like(total, float(known.max()) if known.numel() else min(rate, limit))
    probability[owned] = known
    return probability


def _probabilities(score: Tensor, rate: float, limit: float) -> Tensor:
    for name, value in (("rate", rate), ("limit", limit)):
        if not 0 <= value <= 1:
            raise InputError(f"{name}={value!r}", "it is a probability", "Pass a number from 0 to 1")
    weight = torch.ones_like(score)
    if score.numel() and float(score.max() - score.min()) > EQUAL:
        weight = (score.max() - score) / (score.max() - score.mean())
    return (rate * weight).clamp(max=limit)


def _over_owners(graph: Graph, centrality: Tensor) -> Tensor:
    """``Σ_i 1[x_if ≠ 0] c_i`` for every feature f."""
    sparse = graph.features.sparse
    if sparse is None:
        total = centrality.new_zeros(graph.num_features)
        for part in row_ranges(graph.num_nodes, graph.num_features):
            total += (graph.x[part] != 0).to(centrality.dtype).T @ centrality[part]
        return total
    owns = csr_matrix(
        sparse.crow_indices(),
        sparse.col_indices(),
        (sparse.values() != 0).to(centrality.dtype),
        (graph.num_nodes, graph.num_features),
    )
    return csr_transposed(owns) @ centrality


def _eigenvector(graph: Graph) -> Tensor:
    """Power iteration on ``A + I``: the same eigenvectors, but on a bipartite graph A alone would oscillate between two
    vectors."""
    adjacency = _adjacency(graph)

    def step(vector: Tensor) -> Tensor:
        after = adjacency @ vector + vector
        return after / torch.linalg.vector_norm(after)

    return _limit(step, adjacency.values().new_full((graph.num_nodes,), graph.num_nodes**-0.5))


def _pagerank(graph: Graph) -> Tensor:
    adjacency, n = _adjacency(graph), graph.num_nodes
    alone = graph.degree == 0
    share = 1 / graph.degree.clamp(min=1).double()

    def step(rank: Tensor) -> Tensor:
        return (1 - DAMPING) / n + DAMPING * (adjacency @ (rank * share) + rank[alone].sum() / n)

    return _limit(step, share.new_full((n,), 1 / n))


def _adjacency(graph: Graph) -> Tensor:
    ones = torch.ones(graph.col.numel(), dtype=torch.float64, device=graph.col.device)
    return csr_matrix(graph.rowptr, graph.col, ones, (graph.num_nodes, graph.num_nodes))


def _limit(step: Callable[[Tensor], Tensor], start: Tensor) -> Tensor:
    """The limit of the steps, or the last value if there are too many."""
    here = start
    for _ in range(MAX_STEPS):
        here, before = step(here), here
        if float((here - before).abs().max()) <= CONVERGED:
            break
    return here
