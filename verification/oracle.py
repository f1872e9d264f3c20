"""The truth by exhaustion: every admissible graph is built and run. Plain networkx and PyG; nothing of certgcl."""

from collections.abc import Iterator
from itertools import combinations

import networkx as nx
import torch
from torch import Tensor
from torch_geometric.nn import GCNConv

from verification.case import Case

Edge = tuple[int, int]


def admissible_drops(case: Case) -> Iterator[tuple[Edge, ...]]:
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
    pieces = [torch.tensor(sorted(graph.edges), dtype=torch.long).reshape(-1, 2).T + k * case.nodes
              for k, graph in enumerate(graphs)]
    edges = torch.cat(pieces, dim=1)
    edge_index = torch.cat([edges, edges.flip(0)], dim=1)
    hidden = _activate(_layer(case.w1, case.b1)(case.x.repeat(len(graphs), 1), edge_index), case.slope1)
    output = _activate(_layer(case.w2, case.b2)(hidden, edge_index), case.slope2)
    return output.reshape(len(graphs), case.nodes, -1)


@torch.no_grad()
def enumerated_minimum(case: Case) -> Tensor:
    """``min_S w_i · z_i(S)`` over all admissible S, ``(n,)``."""
    graphs = []
    for drops in admissible_drops(case):
        graph = case.graph.copy()
        graph.remove_edges_from(drops)
        graphs.append(graph)
    return (embeddings(case, graphs) * case.directions).sum(dim=2).amin(dim=0)


@torch.no_grad()
def nominal(case: Case) -> Tensor:
    """``w_i · z_i`` on the graph as it is, ``(n,)``."""
    return (embeddings(case, [case.graph])[0] * case.directions).sum(dim=1)


@torch.no_grad()
def compactness_directions(case: Case) -> Tensor:
    """``z̄_i - mean_{j≠i} z̄_j`` on the clean graph, written as a loop."""
    z = embeddings(case, [case.graph])[0]
    unit = [row / max(float(row.norm()), 1e-12) for row in z]
    return torch.stack([
        unit[i] - sum((unit[j] for j in range(case.nodes) if j != i), torch.zeros_like(unit[i])) / (case.nodes - 1)
        for i in range(case.nodes)
    ])


def _layer(weight: Tensor, bias: Tensor) -> GCNConv:
    conv = GCNConv(*weight.shape).double()
    conv.lin.weight = torch.nn.Parameter(weight.T.clone())
    conv.bias = torch.nn.Parameter(bias.clone())
    return conv


def _activate(p: Tensor, slope: Tensor) -> Tensor:
    return p.clamp(min=0) + slope * p.clamp(max=0)
