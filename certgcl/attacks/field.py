"""The part of a graph that one embedding depends on."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from certgcl.changes.edge_drops import AdmissibleDrops
from certgcl.graphs.graph import Graph
from certgcl.models.mixing import features_times
from certgcl.models.network import GraphNetwork

LARGEST_FIELD = 1 << 22  # messages into the rows of a field; beyond this, the node is not searched


@dataclass(frozen=True)
class Reach:
    """How far from the node itself each part of a network is needed for its embedding.

    Args:
        outputs: for every layer, features first: up to which distance its output matters; -1 for nowhere.
        messages: up to which distance nodes receive messages from their neighbours; -1 for nowhere.
        counts: up to which distance numbers of neighbours matter: those of the nodes that take messages, and those of
            their neighbours where the scale ``into`` depends on them.
    """

    outputs: tuple[int, ...]
    messages: int
    counts: int

    @classmethod
    def of(cls, network: GraphNetwork) -> "Reach":
        outputs = [-1] * (len(network.layers) + 1)
        for number in network.readout:
            outputs[number] = 0
        messages = counts = -1
        for number in range(len(network.layers), 0, -1):
            here = outputs[number]
            for term in network.layers[number - 1].terms if here >= 0 else ():
                mixing = term.aggregation
                outputs[term.source] = max(outputs[term.source], here + mixing.mixes)
                if mixing.mixes:
                    messages, counts = max(messages, here), max(counts, here + mixing.counts_at_neighbours)
        return cls(tuple(outputs), messages, counts)


@dataclass(frozen=True, eq=False)
class Field:
    """Everything that one embedding depends on. Nodes are renumbered: 0 is the node itself, then come its
    neighbours, then theirs; the last ones are ends of edges that lead further away, and matter for nothing else.

    Args:
        nodes: their numbers in the graph, ``(n,)``.
        distance: from the node itself, ``(n,)``.
        degree: their numbers of neighbours in the graph, ``(n,)``.
        edges: the ends of the droppable edges that matter, ``(2, E)``.
        slots: the same edges as positions in the graph, ``(E,)``.
        row, col: the nodes that receive and send the messages, row by row, ``(M,)``.
        edge: the droppable edge that each message goes along; E where it cannot be dropped, ``(M,)``.
    """

    nodes: Tensor
    distance: Tensor
    degree: Tensor
    edges: Tensor
    slots: Tensor
    row: Tensor
    col: Tensor
    edge: Tensor

    @property
    def anchor(self) -> int:
        return int(self.nodes[0])


@dataclass(frozen=True, eq=False)
class SearchSpace:
    """A network on a graph with the drops that are admissible there: what all searches on it have in common."""

    network: GraphNetwork
    graph: Graph
    drops: AdmissibleDrops

    @cached_property
    def reach(self) -> Reach:
        return Reach.of(self.network)

    @cached_property
    def tables(self) -> dict[tuple[int, int], Tensor]:
        """``X W`` of every term that takes the features, by the numbers of its layer and of the term there."""
        return {
            (number, place): features_times(self.graph, term.weight)
            for number, layer in enumerate(self.network.layers, 1)
            if self.reach.outputs[number] >= 0
            for place, term in enumerate(layer.terms)
            if term.source == 0
        }

    @cached_property
    def single(self) -> "SearchSpace":
        """The same in float32, for what need not be exact."""
        space = SearchSpace(self.network.to(torch.float32), self.graph, self.drops)
        space.__dict__["tables"] = {place: table.float() for place, table in self.tables.items()}
        return space

    def field(self, anchor: int, all_edges: bool = False) -> Field | None:
        """The field of one node; None if it is too large to be searched.

        Args:
            all_edges: whether it keeps all edges that matter. Of those that lead out of it and carry no message, only
                the number at a node matters, so that otherwise no more of them are kept than the node can lose.
        """
        graph, reach, hops = self.graph, self.reach, self.reach.outputs[0]
        outside = max(hops, reach.counts) + 1
        distance = torch.full_like(graph.degree, outside)
        distance[anchor] = 0
        reached = graph.col.new_tensor([anchor])
        for hop in range(1, outside):
            neighbours = graph.col[_slots(graph, reached)]
            reached = neighbours[distance[neighbours] == outside].unique()
            distance[reached] = hop
        takes = (distance <= reach.messages).nonzero()[:, 0]
        if int(graph.degree[takes].sum()) > LARGEST_FIELD:
            return None
        counted = _slots(graph, (distance <= reach.counts).nonzero()[:, 0])
        counted = counted[self.drops.droppable[counted]]
        if not all_edges:
            counted = self._enough(counted, distance)
        slots = torch.where(graph.row[counted] < graph.col[counted], counted, graph.reverse[counted]).unique()
        ends = graph.edge_index[:, slots]
        inside = (distance <= hops).nonzero()[:, 0]
        nodes = torch.cat([inside, ends.flatten()]).unique()
        nodes = nodes[torch.argsort(distance[nodes], stable=True)]
        place = torch.empty_like(graph.degree)
        place[nodes] = torch.arange(len(nodes), device=nodes.device)
        messages = _slots(graph, nodes[distance[nodes] <= reach.messages])
        edge = torch.full_like(graph.col, len(slots))
        edge[slots] = edge[graph.reverse[slots]] = torch.arange(len(slots), device=slots.device)
        return Field(
            nodes,
            distance[nodes],
            graph.degree[nodes],
            place[ends],
            slots,
            place[graph.row[messages]],
            place[graph.col[messages]],
            edge[messages],
        )

    def _enough(self, slots: Tensor, distance: Tensor) -> Tensor:
        """Slots of counted nodes, without those of which the node has enough equivalent ones; ends that can lose more
        go first."""
        graph, local = self.graph, self.drops.local
        near, far = distance[graph.row[slots]], distance[graph.col[slots]]
        leads_out = (near > self.reach.messages) & (far > self.reach.counts)
        outward = slots[leads_out]
        outward = outward[torch.argsort(local[graph.col[outward]], descending=True, stable=True)]
        enough = rank(graph.row[outward]) < local[graph.row[outward]]
        return torch.cat([slots[~leads_out], outward[enough]])

    def edges(self, field: Field, dropped: Tensor) -> Tensor:
        """Edges of a field by the numbers of their nodes in the graph, ``(k,)`` to ``(2, k)``."""
        return self.graph.edge_index[:, field.slots[dropped]]


def _slots(graph: Graph, nodes: Tensor) -> Tensor:
    """The slots of some nodes, one node after the other."""
    return ranges(graph.rowptr[nodes], graph.degree[nodes])


def ranges(start: Tensor, count: Tensor) -> Tensor:
    """``start, …, start + count - 1`` of each, one after the other."""
    first = torch.repeat_interleave(start - count.cumsum(0) + count, count)
    return first + torch.arange(len(first), device=first.device)


def rank(group: Tensor) -> Tensor:
    """How many before each are of the same group."""
    order = torch.argsort(group, stable=True)
    number = torch.bincount(group)
    found = torch.empty_like(group)
    found[order] = torch.arange(len(group), device=group.device) - (number.cumsum(0) - number)[group[order]]
    return found
