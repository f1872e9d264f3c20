"""Bounds of networks of any depth at the anchors of a problem, by each of the methods."""

import torch
from torch import Tensor

from certgcl.bounds.prepared import ChangeProblem
from certgcl.bounds.propagation import limits
from certgcl.bounds.propagation.box import BoxBound, BoxRanges
from certgcl.bounds.propagation.extremes import best
from certgcl.bounds.propagation.fixed_graph import FixedGraphBound
from certgcl.bounds.propagation.network_bound import NetworkBound
from certgcl.bounds.propagation.ranges import NetworkRanges, Settings
from certgcl.models.activations import SlopeRule
from certgcl.models.network import GraphNetwork

BOX = Settings(("adaptive",), "shared", resolution=1, hubs=None, functional=False)


def by_states(network: GraphNetwork, problem: ChangeProblem, directions: Tensor, settings: Settings) -> Tensor:
    """``degree``: the least ``w · z`` at the anchors, ``(A, C)``."""
    features = problem.changes.features
    if features is not None and problem.changes.features_only:
        bound = FixedGraphBound(network, problem.graph, features, problem.anchors, settings)
        merged = bound.output(problem.at_anchors(directions))
        if network.features * max(layer.width for layer in network.layers) > limits.FEW_FEATURE_PRODUCTS:
            return merged
        # Paths are not merged here, but every neighbour uses its best lines.
        return best([merged, _by_states(network, problem, directions, settings)])
    return _by_states(network, problem, directions, settings)


def _by_states(network: GraphNetwork, problem: ChangeProblem, directions: Tensor, settings: Settings) -> Tensor:
    bound = NetworkBound(_ranges(NetworkRanges, network, problem, settings), problem.at_anchors(directions))
    return _in_order(bound, problem, directions)


def by_lines_on_the_box(
    network: GraphNetwork, problem: ChangeProblem, directions: Tensor, rules: tuple[SlopeRule, ...]
) -> Tensor:
    """``crown``."""
    settings = Settings(rules, BOX.lines, BOX.resolution, BOX.hubs, functional=True)
    bound = BoxBound(_ranges(BoxRanges, network, problem, settings), problem.at_anchors(directions))
    return _in_order(bound, problem, directions)


def by_ranges_on_the_box(network: GraphNetwork, problem: ChangeProblem, directions: Tensor) -> Tensor:
    """``interval``."""
    bound = BoxBound(_ranges(BoxRanges, network, problem, BOX))
    return _in_order(bound, problem, directions, lines=False)


def _ranges(
    kind: type[NetworkRanges], network: GraphNetwork, problem: ChangeProblem, settings: Settings
) -> NetworkRanges:
    return kind(network, problem.graph, problem.changes, problem.anchors, settings)


def _in_order(bound: NetworkBound, problem: ChangeProblem, directions: Tensor, lines: bool = True) -> Tensor:
    """The output in the given order of the anchors; a ball has its nodes in ascending order."""
    order = torch.argsort(problem.anchors)
    found = bound.output(problem.at_anchors(directions)[order], lines=lines)
    return found[torch.argsort(order)]
