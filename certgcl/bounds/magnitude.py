"""How large an embedding can get: an upper bound of every |z_i(S)|, for what rounding can cost."""

import torch
from torch import Tensor

from certgcl.budget import AdmissibleDrops
from certgcl.encoder import GCNWeights
from certgcl.graph import Graph
from certgcl.sparse import csr_matrix

_ROUNDING = 1 + 1e-6  # sums of non-negative terms err by far less, relative to themselves


@torch.no_grad()
def largest_embeddings(weights: GCNWeights, graph: Graph, drops: AdmissibleDrops) -> Tensor:
    """At least ``|z_i(S)|`` of every node, entry by entry, for every admissible drop set S; ``(N, d2)``.

    The model with absolute values of all weights and features, and ``s_i = (d_i - q_i + 1)^(-1/2)`` for the scales: in
    no admissible view has i fewer edges, so ``Â_ij(S) <= s_i s_j``; and ``|σ(p)| <= max(1, |γ|) |p|``.
    """
    scale = (graph.degree - drops.local + 1).to(weights.w1.dtype).rsqrt()
    neighbours = csr_matrix(graph.rowptr, graph.col, scale[graph.row] * scale[graph.col], (graph.num_nodes,) * 2)

    def layer(values: Tensor, bias: Tensor, slope: Tensor) -> Tensor:
        summed = neighbours @ values + scale.square()[:, None] * values
        return (summed + bias.abs()) * slope.abs().clamp(min=1)

    hidden = layer(graph.project(weights.w1.abs(), absolute=True), weights.b1, weights.slope1)
    return layer(hidden @ weights.w2.abs(), weights.b2, weights.slope2) * _ROUNDING
