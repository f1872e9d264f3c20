"""The degree-exact bound of a network of any depth, at the anchors of a problem."""

import torch
from torch import Tensor

from certgcl.bounds.problem import DropProblem
from certgcl.bounds.propagation.network_bound import NetworkBound
from certgcl.bounds.propagation.ranges import NetworkRanges, Settings
from certgcl.models.network import GraphNetwork


def bound_network(network: GraphNetwork, problem: DropProblem, directions: Tensor, settings: Settings) -> Tensor:
    """The least ``w · z`` at the anchors, ``(A, C)``."""
    ranges = NetworkRanges(network, problem.graph, problem.drops, problem.anchors, settings)
    order = torch.argsort(problem.anchors)
    found = NetworkBound(ranges).output(problem.at_anchors(directions)[order])
    return found[torch.argsort(order)]
