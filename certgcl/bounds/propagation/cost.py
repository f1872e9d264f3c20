"""How much memory the bound of a network takes, from counts alone."""

import torch
from torch import Tensor

from certgcl.bounds.prepared import ChangeProblem
from certgcl.bounds.propagation import limits
from certgcl.bounds.propagation.balls import within_a_hop
from certgcl.bounds.propagation.drop_sets import near_layers
from certgcl.bounds.propagation.ranges import Settings, radii
from certgcl.bounds.two_layer.row_plan import FEW_EDGES
from certgcl.changes.subsets import number_of_subsets
from certgcl.models.network import GraphNetwork

BASE = 1 << 28  # torch's and numba's own
TENSORS_AT_ONCE = 8  # of a chunk of functionals, while it is processed
TABLES_OF_FALLING_TERMS = 3  # the least, clean, and their fall, under a total that is a limit
TABLES_OF_SETS = 4  # what is kept for every set of edges that nodes can lose
BYTES_OF_SLOT = 256  # of balls, sets and visits


def estimated_bytes(network: GraphNetwork, problem: ChangeProblem, directions: int, settings: Settings) -> int:
    """An estimate of the most bytes that are held at any time, for a number of directions per node."""
    graph, size, rules = problem.graph, torch.finfo(network.dtype).bits // 8, len(settings.rules)
    radius = radii(network)
    balls = [problem.anchors]
    for _ in range(max(radius)):
        balls.append(within_a_hop(graph, problem.changes.additions, balls[-1]))
    cells = [_cells(problem, nodes, settings, anchors=number == 0) for number, nodes in enumerate(balls)]
    counts = [int(number.sum()) for number in cells]
    terms = [int((number * graph.degree[nodes]).sum()) for number, nodes in zip(cells, balls, strict=True)]
    values = len(balls[-1]) * sum(term.outputs for layer in network.layers for term in layer.terms if term.source == 0)
    for number, layer in enumerate(network.layers, 1):
        values += 6 * layer.width * counts[radius[number]]  # bounds, outputs, and outputs by node
    if near_layers(network) and settings.functional and problem.changes.additions is None:  # outputs and own parts
        widest = max(network.width_of(number) for number in range(1, len(network.layers) + 1))
        values += TABLES_OF_SETS * widest * _sets(problem, balls[-1])
    columns = 2 * limits.CHANNELS * rules
    channels = max(4 * terms[min(here + 1, len(balls) - 1)] + 4 * counts[here] for here in radius) * columns
    output = 3 * terms[0] * directions * rules * max(rules, settings.patterns.output)
    chunk = TENSORS_AT_ONCE * (limits.MAX_VALUES + limits.MAX_TERMS + limits.MAX_ELEMENTS)
    falling = TABLES_OF_FALLING_TERMS if _total_counts(problem, balls[-1]) else 1
    if problem.changes.additions is not None:  # rows meet all candidates, in each of their cells
        chunk += TENSORS_AT_ONCE * max(limits.MAX_ELEMENTS, counts[-1] * directions * rules)
    return (
        BASE
        + size * (values + falling * max(channels * settings.functional, output) + chunk)
        + BYTES_OF_SLOT * (terms[0] + 2 * terms[-1])
    )


def _total_counts(problem: ChangeProblem, nodes: Tensor) -> bool:
    """Whether the total may be a limit for some node and its neighbours together."""
    graph, drops = problem.graph, problem.drops
    if problem.changes.additions is not None or not drops.limited:
        return False
    together = drops.local.index_add(0, graph.row, drops.local[graph.col])
    return bool((together > drops.total_at(together))[nodes].any())


def _sets(problem: ChangeProblem, nodes: Tensor) -> int:
    """The number of sets of edges that are tried, over all nodes with few of them."""
    drops = problem.drops
    kinds = torch.stack([drops.droppable_degree[nodes], drops.local[nodes]], dim=1)
    found, number = torch.unique(kinds, dim=0, return_counts=True)
    each = [number_of_subsets(*kind) for kind in found.tolist()]
    return sum(sets * count for sets, count in zip(each, number.tolist(), strict=True) if sets <= limits.MOST_SETS)


def _cells(problem: ChangeProblem, nodes: Tensor, settings: Settings, anchors: bool) -> Tensor:
    """How many cells every node has."""
    added = problem.changes.additions
    levels = 1 if added is None else (added.local[nodes] + 1).clamp(max=settings.resolution)
    cases = (problem.drops.local[nodes] + 1).clamp(max=settings.resolution) * levels
    if anchors or settings.lines == "by-count":
        return cases
    few = problem.graph.degree[nodes] <= FEW_EDGES
    return torch.where(few, cases, levels) if settings.lines == "mixed" else torch.ones_like(cases) * levels
