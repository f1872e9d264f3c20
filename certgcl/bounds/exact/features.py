"""Brackets under changed features: a lower bound, a search for upper bounds, and enumeration if they are few.

If edges may be dropped as well, the search first drops the edges that lower the value most with unchanged features, and
then searches features on the remaining graph.
"""

import time
from collections.abc import Callable

import torch
from torch import Tensor

from certgcl.attacks import Search, SearchSpace
from certgcl.attacks.features import FeatureField, without
from certgcl.bounds.degree import Degree
from certgcl.bounds.exact.anchors import Brackets
from certgcl.bounds.prepared import ChangeProblem
from certgcl.bounds.rounding.finite import check_finite
from certgcl.changes.changed_entries import ChangedEntries
from certgcl.models.network import GraphNetwork

MOST_ENUMERATED = 1 << 12  # admissible features of an anchor that are tried one by one, at most


@torch.no_grad()
def feature_brackets(
    network: GraphNetwork,
    problem: ChangeProblem,
    directions: Tensor,
    bound: Degree,
    end: float,
    branch_limit: float,
    tolerance: float,
    progress: Callable[[int, int], object] | None = None,
) -> Brackets:
    """Brackets of the least ``w · z_i``, one anchor after the other, in float64 on the CPU.

    Args:
        directions: of the anchors, ``(A, d)``.
        end: when the time is over, in seconds since the epoch: after that the clean value is the upper bound.
        branch_limit: how many admissible features of an anchor are tried one by one, at most.
    """
    cpu = torch.device("cpu")
    network, graph, changes = network.to(torch.float64, cpu), problem.graph.to(cpu), problem.changes.to(cpu)
    anchors, directions = problem.anchors.to(cpu), directions.to(cpu, torch.float64)
    here = ChangeProblem(graph, changes, anchors, only_anchors=True)
    lower = bound(network, here, directions[:, None])[:, 0]
    upper = (directions * network.embed(graph)[anchors]).sum(dim=1)
    check_finite(anchors, lower, upper)
    assert changes.features is not None
    space = SearchSpace(network, graph, changes.drops)
    nothing = graph.col.new_empty(2, 0)
    witnesses, changed = [nothing] * len(anchors), [ChangedEntries.none(cpu)] * len(anchors)
    tried = torch.zeros(len(anchors), dtype=torch.long)
    for place, (anchor, direction) in enumerate(zip(anchors.tolist(), directions, strict=True)):
        if time.time() >= end:
            break
        field = FeatureField.of(network, graph, changes.features, anchor)
        number = field.number() if changes.features_only else None
        if number is not None and number <= min(branch_limit, MOST_ENUMERATED):
            value, x = field.least(direction)
            lower[place], tried[place] = max(float(lower[place]), value), number
        else:
            value, x = field.search(direction)
        dropped = nothing
        if bool(changes.drops.local.any()):
            edges = _dropped(space, anchor, direction)
            left = FeatureField.of(network, without(graph, edges), changes.features, anchor)
            below, there = left.search(direction)
            if below < value:
                value, x, dropped, field = below, there, edges, left
        upper[place], witnesses[place], changed[place] = value, dropped, field.changed(x)
        if progress is not None:
            progress(place + 1, len(anchors))
    exact = upper - lower <= tolerance * lower.abs().maximum(upper.abs())
    return Brackets(lower.minimum(upper), upper, exact, tuple(witnesses), tried, tuple(changed))


def _dropped(space: SearchSpace, anchor: int, direction: Tensor) -> Tensor:
    """Edges whose loss hurts an anchor, ``(2, k)``; none if its receptive field is too large to be searched."""
    around = space.field(anchor)
    if around is None:
        return space.graph.col.new_empty(2, 0)
    (dropped,) = Search()(space, [around], direction[None])
    return space.edges(around, dropped)
