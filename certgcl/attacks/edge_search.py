"""Harmful drops and additions of edges, found by derivatives or by trying all of them.

It shares no code with the bounds that it tests.
"""

import itertools
import time
from collections.abc import Iterator

import torch
from torch import Tensor

from certgcl.changes.changes import AdmissibleChanges
from certgcl.changes.subsets import number_of_subsets
from certgcl.graphs.graph import Graph
from certgcl.models.mixing import features_times
from certgcl.models.network import GraphNetwork

FEW_CHANGES = 1 << 9  # sets of edges up to which all are tried
PROMISING = 8  # single changes that are tried at each step
MOST_PAIRS = 1 << 22  # candidates with an end near the anchor that are considered
Pair = tuple[int, int]
Change = tuple[list[Pair], list[Pair]]


class EdgeSearch:
    """Changes of the edges of one graph."""

    def __init__(self, network: GraphNetwork, graph: Graph, changes: AdmissibleChanges) -> None:
        self.network, self.graph, self.changes = network, graph, changes
        self.features = {
            term: features_times(graph, term.weight)
            for layer in network.layers
            for term in layer.terms
            if term.source == 0
        }
        once = graph.row < graph.col
        self.edges = {(u, v) for u, v in graph.edge_index[:, once].T.tolist()}
        self.droppable = {(u, v) for u, v in graph.edge_index[:, once & changes.drops.droppable].T.tolist()}

    def allowed(self, lost: list[Pair], gained: list[Pair]) -> bool:
        """Whether all budgets allow the change."""
        drops, added, ends = self.changes.drops, self.changes.additions, self._ends(lost, gained)
        if len(lost) > drops.total or bool((ends[0] > drops.local.cpu()).any()):
            return False
        if added is None:
            return not gained
        return (
            len(gained) <= added.total
            and len(lost) + len(gained) <= added.both_total
            and not bool(((ends[1] > added.local.cpu()) | (ends[0] + ends[1] > added.both.cpu())).any())
        )

    def _ends(self, lost: list[Pair], gained: list[Pair]) -> tuple[Tensor, Tensor]:
        """How many edges every node loses and gains, ``(N,)`` each, on the CPU."""
        nodes = self.graph.num_nodes
        first, second = (torch.tensor(pairs, dtype=torch.long).flatten() for pairs in (lost, gained))
        return torch.bincount(first, minlength=nodes), torch.bincount(second, minlength=nodes)

    def _room(self, lost: list[Pair], gained: list[Pair]) -> tuple[Tensor, Tensor]:
        """The nodes that may lose one more edge, and those that may gain one more, ``(N,)`` each."""
        drops, added, ends = self.changes.drops, self.changes.additions, self._ends(lost, gained)
        loses = (ends[0] < drops.local.cpu()) & (len(lost) < drops.total)
        if added is None:
            return loses, torch.zeros_like(loses)
        both = (ends[0] + ends[1] < added.both.cpu()) & (len(lost) + len(gained) < added.both_total)
        return loses & both, (ends[1] < added.local.cpu()) & (len(gained) < added.total) & both

    def candidates(self, nodes: Tensor) -> list[Pair]:
        """Pairs with an end among some nodes that may become edges, unless there are too many."""
        added = self.changes.additions
        if added is None:
            return []
        found: set[Pair] = set()
        open_ends = (added.local > 0).nonzero()[:, 0]
        for node in nodes[added.local[nodes] > 0].tolist():
            others = (
                open_ends
                if added.candidates is None
                else added.candidates.col[added.candidates.rowptr[node] : added.candidates.rowptr[node + 1]]
            )
            found |= {
                (min(node, other), max(node, other))
                for other in others[added.local[others] > 0].tolist()
                if other != node
            }
            if len(found) > MOST_PAIRS:
                break
        return sorted(found - self.edges)

    def few(self) -> list[Change] | None:
        """All admissible changes, if they are few."""
        if self.graph.num_nodes > FEW_CHANGES:
            return None
        pairs = self.candidates(torch.arange(self.graph.num_nodes, device=self.graph.col.device))
        added = self.changes.additions
        most_lost = min(len(self.droppable), self.changes.drops.total)
        most_gained = 0 if added is None else min(len(pairs), added.total)
        if number_of_subsets(len(self.droppable), most_lost) * number_of_subsets(len(pairs), most_gained) > FEW_CHANGES:
            return None
        return [
            (lost, gained)
            for lost in _subsets(sorted(self.droppable), most_lost)
            for gained in _subsets(pairs, most_gained)
            if self.allowed(lost, gained)
        ]

    @torch.no_grad()
    def embeddings(self, lost: list[Pair], gained: list[Pair]) -> Tensor:
        """On the changed graph, by the network itself."""
        return self.network.embed(self.changed(lost, gained))

    def changed(self, lost: list[Pair], gained: list[Pair]) -> Graph:
        """The graph without some edges and with others."""
        index = edges_of(sorted(self.edges - set(lost) | set(gained)), self.graph).T
        return Graph.from_edges(self.graph.x, torch.cat([index, index.flip(0)], dim=1))

    @torch.no_grad()
    def value(self, anchor: int, direction: Tensor, lost: list[Pair], gained: list[Pair]) -> float:
        """``w · z`` there, with products of features that are computed once."""
        edges = edges_of(sorted(self.edges - set(lost) | set(gained)), self.graph)
        return float(self.relaxed(edges, edges.new_ones(len(edges), dtype=self.network.dtype))[anchor] @ direction)

    def worst(self, changes: list[Change], anchors: Tensor, directions: Tensor, end: float) -> list[Change] | None:
        """The worst of all changes for each anchor; None if time runs out."""
        lowest, which = torch.full_like(directions[:, 0], torch.inf), torch.zeros_like(anchors)
        for number, change in enumerate(changes):
            if time.monotonic() >= end:
                return None
            value = (self.embeddings(*change)[anchors] * directions).sum(dim=1)
            which = torch.where(value < lowest, number, which)
            lowest = lowest.minimum(value)
        return [changes[number] for number in which.tolist()]

    def greedy(self, anchor: int, direction: Tensor, end: float) -> Change:
        """Changes one edge after the other, as long as the value falls and time is left."""
        lost: list[Pair] = []
        gained: list[Pair] = []
        lowest = self.value(anchor, direction, lost, gained)
        near = torch.cat(
            [
                torch.tensor([anchor], device=self.graph.col.device),
                self.graph.col[self.graph.rowptr[anchor] : self.graph.rowptr[anchor + 1]],
            ]
        )
        pairs = self.candidates(near)
        while time.monotonic() < end:
            steps = [
                (value, a, b)
                for a, b in self._promising(anchor, direction, lost, gained, pairs)
                if time.monotonic() < end and (value := self.value(anchor, direction, a, b)) < lowest
            ]
            if not steps:
                return lost, gained
            lowest, lost, gained = min(steps)
        return lost, gained

    def _promising(
        self, anchor: int, direction: Tensor, lost: list[Pair], gained: list[Pair], pairs: list[Pair]
    ) -> Iterator[Change]:
        """The admissible changes by one more edge that lower the value most, to first order."""
        present = sorted(self.edges - set(lost) | set(gained))
        absent = [pair for pair in pairs if pair not in set(gained)]
        every = edges_of(present + absent, self.graph)
        there = torch.arange(len(every), device=every.device) < len(present)
        gain = self._gains(every, there, anchor, direction)
        fixed = [pair not in self.droppable or pair in gained for pair in present] + [False] * len(absent)
        loses, gains = (each.to(every.device)[every].all(dim=1) for each in self._room(lost, gained))
        open_pairs = torch.where(there, loses, gains) & ~torch.tensor(fixed, device=every.device) & (gain > 0)
        best = torch.where(open_pairs, gain, 0).topk(min(PROMISING, int(open_pairs.sum()))).indices
        for place in best.tolist():
            pair = (int(every[place, 0]), int(every[place, 1]))
            yield (sorted([*lost, pair]), gained) if there[place] else (lost, sorted([*gained, pair]))

    def gains(
        self, anchor: int, direction: Tensor, lost: list[Pair], gained: list[Pair], pairs: Tensor, new: Tensor
    ) -> Tensor:
        """First-order decrease of the value if a pair ``(2, P)`` is toggled, with some edges lost and some gained,
        ``(P,)``.

        Args:
            new: which of the pairs are not edges of the graph.
        """
        gone, there = set(lost), set(gained)
        present = [
            (pair in there) if added else (pair not in gone)
            for pair, added in zip(((u, v) for u, v in pairs.T.tolist()), new.tolist(), strict=True)
        ]
        others = sorted(self.edges - {(u, v) for u, v in pairs.T.tolist()})
        every = torch.cat([pairs.T, edges_of(others, self.graph)])
        return self._gains(every, torch.tensor(present + [True] * len(others)), anchor, direction)[: len(present)]

    @torch.enable_grad()
    def _gains(self, every: Tensor, present: Tensor, anchor: int, direction: Tensor) -> Tensor:
        weight = present.double().requires_grad_()
        (gradient,) = torch.autograd.grad(self.relaxed(every, weight)[anchor] @ direction, weight)
        return torch.where(present, gradient, -gradient)

    def relaxed(self, pairs: Tensor, weight: Tensor) -> Tensor:
        """Embeddings where every pair is an edge of some weight, ``(N, width)``."""
        row, col = torch.cat([pairs, pairs.flip(1)]).T
        both = torch.cat([weight, weight])
        count = torch.zeros(self.graph.num_nodes, 1, dtype=weight.dtype, device=weight.device).index_add(
            0, row, both[:, None]
        )
        outputs: list[Tensor] = []
        for layer in self.network.layers:
            p = layer.bias.expand(self.graph.num_nodes, -1)
            for term in layer.terms:
                v = self.features[term] if term.source == 0 else term.project(outputs[term.source - 1])
                own, out, into = (
                    scale(count) for scale in (term.aggregation.own, term.aggregation.out, term.aggregation.into)
                )
                p = p + own * v
                if term.aggregation.mixes:
                    p = p + out * torch.zeros_like(v).index_add(0, row, both[:, None] * (into * v)[col])
            outputs.append(layer.activate(p))
        return torch.cat([outputs[number - 1] for number in self.network.readout], dim=1)


def edges_of(pairs: list[Pair], graph: Graph) -> Tensor:
    return torch.tensor(pairs, dtype=torch.long, device=graph.col.device).reshape(-1, 2)


def _subsets(pairs: list[Pair], most: int) -> Iterator[list[Pair]]:
    for size in range(most + 1):
        yield from map(list, itertools.combinations(pairs, size))
