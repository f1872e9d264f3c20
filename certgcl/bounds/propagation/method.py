"""Bounds of networks of any depth at the anchors of a problem, by each of the methods."""

import torch
from torch import Tensor

from certgcl.bounds.prepared import DropProblem
from certgcl.bounds.propagation.box import BoxBound, BoxRanges
from certgcl.bounds.propagation.network_bound import NetworkBound
from certgcl.bounds.propagation.ranges import NetworkRanges, Settings
from certgcl.models.activations import SlopeRule
from certgcl.models.network import GraphNetwork

BOX = Settings(("adaptive",), "shared", resolution=1, hubs=None, functional=False)


def by_states(network: GraphNetwork, problem: DropProblem, directions: Tensor, settings: Settings) -> Tensor:
    """``degree``: the least ``w · z`` at the anchors, ``(A, C)``."""
    return _in_order(NetworkBound(_ranges(NetworkRanges, network, problem, settings)), problem, directions)


def by_lines_on_the_box(network: GraphNetwork, problem: DropProblem, directions: Tensor,
                        rules: tuple[SlopeRule, ...]) -> Tensor:
    """``crown``."""
    settings = Settings(rules, BOX.lines, BOX.resolution, BOX.hubs, functional=True)
    return _in_order(BoxBound(_ranges(BoxRanges, network, problem, settings)), problem, directions)


def by_ranges_on_the_box(network: GraphNetwork, problem: DropProblem, directions: Tensor) -> Tensor:
    """``interval``."""
    bound = BoxBound(_ranges(BoxRanges, network, problem, BOX))
    return _in_order(bound, problem, directions, lines=False)


def _ranges(kind: type[NetworkRanges], network: GraphNetwork, problem: DropProblem,
            settings: Settings) -> NetworkRanges:
    return kind(network, problem.graph, problem.changes, problem.anchors, settings)


def _in_order(bound: NetworkBound, problem: DropProblem, directions: Tensor, lines: bool = True) -> Tensor:
    """The output at the anchors as they are given; a ball has its nodes in ascending order."""
    order = torch.argsort(problem.anchors)
    found = bound.output(problem.at_anchors(directions)[order], lines=lines)
    return found[torch.argsort(order)]
