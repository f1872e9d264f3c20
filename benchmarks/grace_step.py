"""One training step of GRACE as its authors run it on Cora, alone or with a bound as regularizer."""

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch_geometric.utils import dropout_edge

import certgcl
from benchmarks.setting import WIDTHS, budget, make_encoder, weights_of
from certgcl.bounds import BoundMethod, DropProblem
from certgcl.compactness import compactness_directions

EDGE_DROP_RATES = (0.2, 0.4)
FEATURE_MASK_RATES = (0.3, 0.4)
TEMPERATURE = 0.4
LEARNING_RATE, WEIGHT_DECAY = 5e-4, 1e-5
KAPPA = 0.4  # the regularizer's share of the loss
DENSE_UP_TO, CHUNK = 8_000, 2_048  # above so many nodes, InfoNCE goes through so many rows at a time


class Regularizer:
    """``BCE(sigmoid(bound), 1)`` of the original graph, both directions: each view's comparisons for the other.

    Args:
        anchors: how many random nodes are bounded in each step; None for all.
    """

    def __init__(self, method: BoundMethod, graph: certgcl.Graph, anchors: int | None = None) -> None:
        self.method, self.graph, self.anchors = method, graph, anchors
        self.drops = budget(graph).on(graph)
        self.of_all_nodes = self._problem(torch.arange(graph.num_nodes, device=graph.x.device))

    def _problem(self, anchors: Tensor) -> DropProblem:
        return DropProblem(self.graph, self.drops, anchors)

    def __call__(self, encoder: certgcl.GCNEncoder, z1: Tensor, z2: Tensor) -> Tensor:
        problem = self.of_all_nodes
        if self.anchors is not None:
            problem = self._problem(torch.randperm(len(z1), device=z1.device)[: self.anchors])
        directions = torch.stack([compactness_directions(z2), compactness_directions(z1)], dim=1)  # (N, 2, d2)
        lower = self.method(weights_of(encoder), problem, directions)
        return functional.binary_cross_entropy_with_logits(lower, torch.ones_like(lower))


class GraceStep:
    """Two views, the encoder, the projection head, InfoNCE with all negatives, and one step of Adam; float32."""

    def __init__(self, graph: certgcl.Graph, regularizer: Regularizer | None = None) -> None:
        self.x = graph.x if graph.x.layout == torch.strided else graph.x.to_dense()
        self.edge_index = graph.edge_index
        self.regularizer = regularizer
        self.encoder = make_encoder(graph).train()
        width = WIDTHS[1]
        self.head = nn.Sequential(nn.Linear(width, width), nn.ELU(), nn.Linear(width, width)).to(self.x.device)
        self.optimizer = torch.optim.Adam([*self.encoder.parameters(), *self.head.parameters()], LEARNING_RATE,
                                          weight_decay=WEIGHT_DECAY)

    def embed_view(self, drop_rate: float, mask_rate: float) -> Tensor:
        edges, _ = dropout_edge(self.edge_index, drop_rate, force_undirected=True)
        mask = torch.rand(self.x.shape[1], device=self.x.device) >= mask_rate
        return self.encoder(self.x * mask, edges)

    def __call__(self) -> float:
        z1, z2 = map(self.embed_view, EDGE_DROP_RATES, FEATURE_MASK_RATES)
        loss = info_nce(self.head(z1), self.head(z2))
        if self.regularizer is not None:
            loss = (1 - KAPPA) * loss + KAPPA * self.regularizer(self.encoder, z1, z2)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())


def info_nce(p1: Tensor, p2: Tensor) -> Tensor:
    """``-log[ e^{s12(i,i)/τ} / ( Σ_j e^{s12(i,j)/τ} + Σ_{j≠i} e^{s11(i,j)/τ} ) ]``, the mean of both directions."""
    p1, p2 = functional.normalize(p1), functional.normalize(p2)
    return (_one_direction(p1, p2) + _one_direction(p2, p1)) / 2


def _one_direction(p1: Tensor, p2: Tensor) -> Tensor:
    nodes = torch.arange(len(p1), device=p1.device)
    if len(p1) <= DENSE_UP_TO:
        return _losses(nodes, p1, p2).mean()
    parts = [checkpoint(_losses, rows, p1, p2, use_reentrant=False) for rows in nodes.split(CHUNK)]
    return torch.cat(parts).mean()


def _losses(rows: Tensor, p1: Tensor, p2: Tensor) -> Tensor:
    anchors, positives = p1[rows], p2[rows]
    between = torch.exp(anchors @ p2.T / TEMPERATURE).sum(dim=1)
    within = torch.exp(anchors @ p1.T / TEMPERATURE).sum(dim=1)
    itself = torch.exp(anchors.square().sum(dim=1) / TEMPERATURE)
    return torch.log(between + within - itself) - (anchors * positives).sum(dim=1) / TEMPERATURE
