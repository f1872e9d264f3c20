"""A total budget of one edge: every drop is tried, so that the bound is the minimum itself.

Without the edge e = (a, b), with ``s'`` the scales of its ends after the loss and ``u_j = Σ_{k∈N[j]} s_k y_k``,

    u'_j = u_j + [a∈N[j]] (s'_a - s_a) y_a + [b∈N[j]] (s'_b - s_b) y_b - [j=a] s'_b y_b - [j=b] s'_a y_a ,

so only the rows j around a and b change, and ``Σ_{j∈N[i]} s_j h_j`` changes by their sum. One change of a row serves
all anchors next to it: nothing is computed for a whole graph at a time.
"""

import torch
from torch import Tensor

from certgcl.bounds.prepared import ChangeProblem
from certgcl.bounds.two_layer.neighbourhood import Neighbourhood, inverse_sqrt_degree, row_slots
from certgcl.bounds.two_layer.weights import GCNWeights
from certgcl.graphs.graph import Graph

AT_ONCE = 1 << 12  # changes of a row next to an anchor that are held at a time
MAX_SINGLE_DROPS = 1 << 20  # of them at one anchor, up to which it is enumerated


def least_over_single_drops(weights: GCNWeights, problem: ChangeProblem, directions: Tensor) -> tuple[Tensor, Tensor]:
    """The least ``w · z_i`` over the graph itself and all admissible drops of one edge, ``(E, C)``, and the positions
    of the E anchors that are small enough to be enumerated."""
    graph, directions = problem.graph, problem.at_anchors(directions)
    around_row = _sum_around(graph, graph.degree)
    changes = _sum_around(graph, around_row)[problem.anchors]
    places = (changes <= MAX_SINGLE_DROPS).nonzero()[:, 0]
    least, start = [], 0
    ends = changes[places].cumsum(0).div(AT_ONCE, rounding_mode="floor")
    for count in torch.unique_consecutive(ends, return_counts=True)[1].tolist():
        here = places[start : start + count]
        least.append(_least(weights, ChangeProblem(graph, problem.changes, problem.anchors[here]), directions[here]))
        start += count
    return torch.cat(least) if least else directions.new_empty(0, directions.shape[1]), places


def _sum_around(graph: Graph, values: Tensor) -> Tensor:
    """The sum over every node and its neighbours."""
    return values.index_add(0, graph.row, values[graph.col])


def _least(weights: GCNWeights, problem: ChangeProblem, directions: Tensor) -> Tensor:
    """For directions of the anchors, ``(A, C, d2)``."""
    graph, anchors, dtype = problem.graph, problem.anchors, weights.w1.dtype
    hood = problem.neighbourhood(dtype)
    outer, inner = hood.outer, hood.inner
    projected = problem.projected(weights)
    scale = inverse_sqrt_degree(graph.degree, 0, dtype)
    lost_one = inverse_sqrt_degree(graph.degree.clamp(min=1), 1, dtype)
    own = scale[inner.nodes, None]
    rows = inner.sum_over_neighbours(scale[graph.col[inner.graph_slot]], projected) + own * projected[inner.own]
    terms = own * weights.activation1(own * rows + weights.b1)  # s_j h_j
    sums = outer.sum_over_neighbours(torch.ones_like(outer.low), terms) + terms[outer.own]

    edge, row = _changes(problem, hood)
    node, a, b = inner.nodes[row], graph.row[edge], graph.col[edge]
    place = torch.zeros_like(graph.degree)
    place[inner.targets] = torch.arange(len(inner.targets), device=place.device)
    changed = rows[row]
    for end, other in ((a, b), (b, a)):
        near = (end == node) | graph.has_edge(end, node)
        # An end that is no longer next to j leaves its sum, with the scale it had.
        change = torch.where(other == node, -scale[end], (lost_one - scale)[end] * near)
        changed = changed + change[:, None] * projected[place[end]]
    after = torch.where((a == node) | (b == node), lost_one[node], scale[node])[:, None]
    new_terms = after * weights.activation1(after * changed + weights.b1)

    change, anchor = _at_anchors(hood, row)
    here = anchors[anchor]
    cut = ((a[change] == here) & (b[change] == node[change])) | ((b[change] == here) & (a[change] == node[change]))
    both, view = torch.unique(anchor * graph.col.numel() + edge[change], return_inverse=True)
    anchor, edge = both // graph.col.numel(), both % graph.col.numel()
    difference = new_terms[change] * ~cut[:, None] - terms[row[change]]
    total = sums[anchor].index_add(0, view, difference)
    here = anchors[anchor]
    touched = (graph.row[edge] == here) | (graph.col[edge] == here)
    after = torch.where(touched, lost_one[here], scale[here])[:, None]
    clean = _values(weights, scale[anchors, None] * sums, directions)
    views = _values(weights, after * total, directions[anchor])
    return clean.scatter_reduce(0, anchor[:, None].expand_as(views), views, "amin")


def _values(weights: GCNWeights, sums: Tensor, directions: Tensor) -> Tensor:
    """``w · σ(Σ_j Â_ij h_j W2 + b2)``, ``(V, C)``."""
    return (directions @ weights.activation2(sums @ weights.w2 + weights.b2)[..., None])[..., 0]


def _changes(problem: ChangeProblem, hood: Neighbourhood) -> tuple[Tensor, Tensor]:
    """Every droppable edge with every inner row that its loss changes: those of its ends and of their neighbours."""
    graph, inner = problem.graph, hood.inner
    number = len(inner.nodes)
    row = torch.cat([inner.row, torch.arange(number, device=inner.row.device)])
    near = torch.cat([graph.col[inner.graph_slot], inner.nodes])
    slots, row = row_slots(graph, near), torch.repeat_interleave(row, graph.degree[near])
    droppable = problem.drops.droppable[slots]
    slots, row = slots[droppable], row[droppable]
    key = torch.unique(slots.minimum(graph.reverse[slots]) * number + row)
    return key // number, key % number


def _at_anchors(hood: Neighbourhood, row: Tensor) -> tuple[Tensor, Tensor]:
    """Every change of a row with every anchor that the row enters: those next to it and itself."""
    outer = hood.outer
    column = torch.cat([outer.col, outer.own])
    column, order = torch.sort(column)
    anchor = torch.cat([outer.row, torch.arange(len(outer.own), device=column.device)])[order]
    first, end = torch.searchsorted(column, row), torch.searchsorted(column, row, right=True)
    number = end - first
    change = torch.repeat_interleave(torch.arange(len(row), device=row.device), number)
    start = number.cumsum(0) - number
    return change, anchor[torch.arange(len(change), device=row.device) - start[change] + first[change]]
