"""The truth by enumeration: every admissible graph is built and run. Plain networkx and PyG, independent of certgcl."""

from collections.abc import Iterator
from itertools import combinations

import networkx as nx
import torch
from torch import Tensor
from torch_geometric.nn import GCNConv

from verification.case import Case, Droppable

Edge = tuple[int, int]


def admissible_drops(case: Droppable) -> Iterator[tuple[Edge, ...]]:
    """Every set of at most Q edges that takes at most q_i from node i, the empty set first."""
    budgets = case.node_budgets()
    for size in range(min(case.graph_budget(), len(case.edges)) + 1):
        for drops in combinations(case.edges, size):
            lost = [0] * case.nodes
            for u, v in drops:
                lost[u] += 1
                lost[v] += 1
            if all(have <= may for have, may in zip(lost, budgets, strict=True)):
                yield drops


def embeddings(case: Case, graphs: list[nx.Graph]) -> Tensor:
    """Embeddings on many graphs over the case's nodes at once, as one disjoint union; ``(graphs, n, d2)``."""
    pieces = [
        torch.tensor(sorted(graph.edges), dtype=torch.long).reshape(-1, 2).T + k * case.nodes
        for k, graph in enumerate(graphs)
    ]
    edges = torch.cat(pieces, dim=1)
    edge_index = torch.cat([edges, edges.flip(0)], dim=1)
    hidden = _activate(_layer(case.w1, case.b1)(case.x.repeat(len(graphs), 1), edge_index), case.slope1)
    output = _activate(_layer(case.w2, case.b2)(hidden, edge_index), case.slope2)
    return output.reshape(len(graphs), case.nodes, -1)


def admissible_embeddings(case: Case) -> Tensor:
    """Embeddings for every admissible drop, the clean ones first; ``(drops, n, d2)``."""
    graphs = []
    for drops in admissible_drops(case):
        graph = case.graph.copy()
        graph.remove_edges_from(drops)
        graphs.append(graph)
    return embeddings(case, graphs)


@torch.no_grad()
def enumerated_minimum(case: Case) -> Tensor:
    """``min_S w_i · z_i(S)`` over all admissible S, ``(n,)``."""
    return (admissible_embeddings(case) * case.directions).sum(dim=2).amin(dim=0)


@torch.no_grad()
def enumerated_minimum_over_pairs(case: Case) -> Tensor:
    """``min W^CL_i(S2) · z_i(S1)`` over all pairs of admissible S1 and S2, ``(n,)``."""
    z = admissible_embeddings(case)
    return torch.einsum("anc,bnc->nab", _directions(z), z).flatten(1).amin(dim=1)


@torch.no_grad()
def nominal(case: Case) -> Tensor:
    """``w_i · z_i`` on the graph as it is, ``(n,)``."""
    return (embeddings(case, [case.graph])[0] * case.directions).sum(dim=1)


@torch.no_grad()
def compactness_directions(case: Case) -> Tensor:
    """``z̄_i - mean_{j≠i} z̄_j`` on the clean graph, ``(n, d2)``."""
    return _directions(embeddings(case, [case.graph]))[0]


def _directions(z: Tensor) -> Tensor:
    """``z̄_i - mean_{j≠i} z̄_j`` for embeddings on many graphs, written as a loop; ``(graphs, n, d2)``."""
    nodes = range(z.shape[1])
    unit = [z[:, i] / z[:, i].norm(dim=1, keepdim=True).clamp(min=1e-12) for i in nodes]
    return torch.stack(
        [
            unit[i] - sum((unit[j] for j in nodes if j != i), torch.zeros_like(unit[i])) / (len(nodes) - 1)
            for i in nodes
        ],
        dim=1,
    )


def _layer(weight: Tensor, bias: Tensor) -> GCNConv:
    conv = GCNConv(*weight.shape).double()
    conv.lin.weight = torch.nn.Parameter(weight.T.clone())
    conv.bias = torch.nn.Parameter(bias.clone())
    return conv


def _activate(p: Tensor, slope: Tensor) -> Tensor:
    return p.clamp(min=0) + slope * p.clamp(max=0)
