"""Sums of node values under changed features alone, as one functional of the features of a graph."""

import torch
from torch import Tensor

from certgcl.bounds import BoundMethod
from certgcl.bounds.propagation.fixed_graph import FixedGraphBound
from certgcl.bounds.propagation.ranges import Settings
from certgcl.bounds.rounding.slack import bound_factor
from certgcl.certify.pooling.set_changes import SetChanges
from certgcl.models.network import GraphNetwork


def merged_bounds(network: GraphNetwork, changes: SetChanges, bound: BoundMethod, directions: Tensor) -> Tensor:
    """Lower bounds of ``Σ_i w · z_i(X̃)`` over each graph, ``(G, C)``; all edges stay.

    The paths from all nodes of a graph end in *one* functional ``Σ_k μ_k · x̃_k``, whose least value is known for
    budgets of nodes, a total and columns: (25) of ``docs/theory.md`` added up over the nodes. Differentiable.
    """
    graphs, features = changes.graphs, changes.features
    assert features is not None
    width = max(map(network.width_of, range(1, len(network.layers) + 1)))
    chosen = bound.line_choices(width)
    settings = Settings(chosen.rules, "shared", resolution=1, hubs=None, functional=chosen.functional)
    everyone = torch.arange(graphs.union.num_nodes, device=graphs.union.col.device)
    return FixedGraphBound(network, graphs.union, features, everyone, settings).of_graphs(directions, graphs.batch)


def by_merged_paths(
    network: GraphNetwork, changes: SetChanges, bound: BoundMethod, directions: Tensor, sizes: Tensor
) -> tuple[Tensor, Tensor]:
    """The same in float64, and how far the rounding of sums can have raised them: in each layer at most as many numbers
    are added as there are nodes and features, and their sizes are those of the nodes, ``(N, d)``."""
    graphs = changes.graphs
    found = merged_bounds(network, changes, bound, directions).double()
    terms = 4 * (graphs.sizes.double() + graphs.union.num_features * graphs.sizes.double() + 16)
    summed = torch.einsum("gcd,gd->gc", directions.double().abs(), graphs.total(sizes.double()))
    eps = torch.finfo(directions.dtype).eps
    return found, eps * bound_factor(network) * (len(network.layers) + 1) * terms[:, None] * summed
