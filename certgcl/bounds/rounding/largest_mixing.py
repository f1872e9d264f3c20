"""Mixing over absolute values, with every scale at its largest, of the rows that the embeddings of some anchors depend
on."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from certgcl.bounds.prepared import ChangeProblem
from certgcl.bounds.propagation.balls import within_a_hop
from certgcl.bounds.two_layer.neighbourhood import row_slots
from certgcl.changes.edge_additions import AdmissibleAdditions
from certgcl.graphs.graph import Graph
from certgcl.graphs.sparse import ConstantMatrix, csr_matrix
from certgcl.models.aggregations import Aggregation
from certgcl.models.network import GraphNetwork


class LargestMixing:
    """Where each layer is needed for the embeddings of some anchors, and the largest scales of its rows."""

    def __init__(self, network: GraphNetwork, problem: ChangeProblem, dtype: torch.dtype) -> None:
        self.graph, self.drops, self.anchors, self.dtype = problem.graph, problem.drops, problem.anchors, dtype
        self.additions = problem.changes.additions
        self.nodes = _needed(network, self.graph, self.additions, self.anchors)
        self.gain = torch.zeros_like(self.graph.degree) if self.additions is None else self.additions.local
        self._most = self.graph.degree + self.gain
        self.most_edges = int(self._most.max())
        self._made: dict[tuple[int | None, int | None, Aggregation], tuple[ConstantMatrix, Tensor | None]] = {}

    def degree(self, layer: int) -> Tensor:
        """The most neighbours of the nodes where a layer is needed."""
        nodes = self.nodes[layer]
        return self._most if nodes is None else self._most[nodes]

    def mix(self, aggregation: Aggregation, source: int, layer: int, values: Tensor) -> Tensor:
        """``own_i v_i + out_i Σ_j in_j v_j`` for ``v >= 0``, with each scale at its largest; every edge that may be
        added counts as the largest candidate, channel by channel."""
        rows, known = self.nodes[layer], self.nodes[source]

        def here() -> Tensor:
            return values if rows is None else values[self._places(source, rows)]

        if not aggregation.mixes:
            return here()
        key = (None if rows is None else layer, None if known is None else source, aggregation)
        if key not in self._made:
            scale = self._largest(aggregation.own, slice(None) if rows is None else rows)[:, None]
            # 0 · inf is not a number.
            self._made[key] = self._matrix(aggregation, source, layer), scale if bool(scale.any()) else None
        neighbours, own = self._made[key]
        mixed = neighbours @ values
        if self.additions is not None:
            mixed = mixed + self._added(aggregation, source, layer, values)
        return mixed if own is None else mixed.addcmul_(own, here())

    def largest_sum(self, aggregation: Aggregation, source: int, layer: int) -> float:
        """The largest sum of all scales in a row."""
        known = self.nodes[source]
        ones = torch.ones(self.graph.num_nodes if known is None else known.numel(), 1, dtype=self.dtype)
        sums = self.mix(aggregation, source, layer, ones.to(self.graph.row.device))
        return float(sums.max()) if sums.numel() else 0.0

    def before_scaling(self, aggregation: Aggregation, layer: int) -> Tensor:
        """How much larger the sum over neighbours can be before it is multiplied by ``out``, at every row."""
        out = aggregation.out(self.degree(layer).to(self.dtype))
        return torch.where(out > 0, 1 / out.clamp(min=torch.finfo(self.dtype).tiny), 1.0).clamp(min=1)

    def spread(self, network: GraphNetwork, branches: bool = False) -> float:
        """The factor by which sums inside a bound can be larger than here, ``ρ`` of (R7).

        In every layer, a bound may scale a neighbour as if the edge to it were not kept; and also a whole sum, before
        terms are taken out of it. That matters where a node can lose all its droppable edges. If aggregations differ,
        one is scaled as a multiple of another, each anywhere in its range.

        Args:
            branches: whether bounds are also needed where some edges have been decided: a node may then lose all
                that are left to drop, and keep one or more.
        """
        kinds = {term.aggregation for layer in network.layers for term in layer.terms if term.aggregation.mixes}
        drops, degree = self.drops, self.graph.degree
        bare = (drops.droppable_degree > 0) & (drops.local >= drops.droppable_degree)
        kept = degree - drops.droppable_degree
        alone = kept[bare]
        if branches:
            alone = torch.cat([alone, kept[drops.droppable_degree > 0].clamp(min=1)])
        alone = alone.unique().to(self.dtype)
        fewest = (degree - drops.local.minimum(drops.droppable_degree)).clamp(min=1).to(self.dtype)
        most, out, into, mixed = self._most.clamp(min=1).to(self.dtype), 1.0, 1.0, 1.0
        for kind in kinds:
            out = max(out, _largest_ratio(kind.out(alone), kind.out(alone + 1)) / 2**0.5)
            into = max(into, _largest_ratio(kind.into(alone), kind.into(alone + 1)))
            if len(kinds) > 1:
                ratios = (_largest_ratio(scale(fewest), scale(most)) for scale in (kind.out, kind.into))
                mixed = max(mixed, math.prod(ratios))
        return out * (into * mixed) ** network.hops

    def _added(self, aggregation: Aggregation, source: int, layer: int, values: Tensor) -> Tensor:
        rows, known = self.nodes[layer], self.nodes[source]
        gain = self.gain if rows is None else self.gain[rows]
        other = self.gain if known is None else self.gain[known]
        out, into = (
            self._largest(scale, slice(None) if nodes is None else nodes)
            for scale, nodes in ((aggregation.out, rows), (aggregation.into, known))
        )
        ends = (other > 0).nonzero()[:, 0]
        if not len(ends):
            return values.new_zeros(1, values.shape[1])
        largest = (into[ends, None] * values[ends]).amax(dim=0)
        found = (gain * out)[:, None] * largest
        return torch.where((gain > 0)[:, None], found, torch.zeros_like(found))  # 0 · inf is not a number

    def at_anchors(self, layer: int, values: Tensor) -> Tensor:
        nodes = self.nodes[layer]
        if nodes is None and len(self.anchors) == len(values) and bool((self.anchors.diff() == 1).all()):
            return values
        return values[self._places(layer, self.anchors)]

    def _matrix(self, aggregation: Aggregation, source: int, layer: int) -> ConstantMatrix:
        graph, rows, known = self.graph, self.nodes[layer], self.nodes[source]
        slots = slice(None) if rows is None else row_slots(graph, rows)
        # While the edge of a slot is kept, its ends can only lose other edges.
        kept = self.drops.droppable[slots].long()
        out, into = (
            self._largest(scale, ends[slots], kept)
            for scale, ends in ((aggregation.out, graph.row), (aggregation.into, graph.col))
        )
        degree = graph.degree if rows is None else graph.degree[rows]
        size = graph.num_nodes if known is None else known.numel()
        rowptr = graph.rowptr if rows is None else torch.cat([degree.new_zeros(1), degree.cumsum(0)])
        return ConstantMatrix(
            csr_matrix(rowptr, self._places(source, graph.col[slots]), out * into, (degree.numel(), size))
        )

    def _largest(self, scale: Callable[[Tensor], Tensor], nodes: Tensor | slice, kept: Tensor | int = 0) -> Tensor:
        """Over the numbers of neighbours that nodes can have, if a given number of droppable ones is kept: scales are
        monotone from 1 on."""
        most, drops = self._most[nodes], self.drops
        least = self.graph.degree[nodes] - drops.local[nodes].minimum(drops.droppable_degree[nodes] - kept)
        return torch.stack([scale(n.to(self.dtype)) for n in (most, least, least.clamp(min=1).minimum(most))]).amax(
            dim=0
        )

    def _places(self, source: int, nodes: Tensor) -> Tensor:
        known = self.nodes[source]
        return nodes if known is None else torch.searchsorted(known, nodes)


def _largest_ratio(one: Tensor, other: Tensor) -> float:
    """The larger of the two ratios of two scales, with room for their own rounding."""
    both = (one > 0) & (other > 0)
    if not bool(both.any()):
        return 1.0
    ratio = one[both] / other[both]
    return 1.0001 * max(float(ratio.max()), 1 / float(ratio.min()))


def _needed(
    network: GraphNetwork, graph: Graph, additions: AdmissibleAdditions | None, anchors: Tensor
) -> list[Tensor | None]:
    """The nodes where each layer is needed, from the features on, in increasing order; None for all."""
    nodes = graph.num_nodes
    masks = torch.zeros(len(network.layers) + 1, nodes, dtype=torch.bool, device=anchors.device)
    for number in network.readout:
        masks[number, anchors] = True
    for number in range(len(network.layers), 0, -1):
        rows = masks[number]
        around: Tensor | None = None
        for term in network.layers[number - 1].terms:
            masks[term.source] |= rows
            if term.aggregation.mixes and not bool(rows.all()):
                around = within_a_hop(graph, additions, rows.nonzero()[:, 0]) if around is None else around
                masks[term.source, around] = True
    return [None if bool(mask.all()) else mask.nonzero()[:, 0] for mask in masks]
