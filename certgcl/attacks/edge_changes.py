"""Dropped and added edges that hurt a node: values that are reached, and nothing that is certified.

Where few changes are admissible all are tried, which gives the worst case itself. Else edges are changed one by one:
the derivatives of ``w · z_i`` by the weight of every edge around the anchor, and of every pair that may become one with
an end at the anchor or at a neighbour of it, name those that promise the most; of these the best is taken.
"""

import itertools
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from certgcl.arguments import real
from certgcl.attacks.any_model import directions_of
from certgcl.certify.certification import NodesLike, check_anchors
from certgcl.changes.changes import AdmissibleChanges, BudgetLike, Changes
from certgcl.errors import BudgetError, InputError
from certgcl.graphs.graph import Graph, GraphLike
from certgcl.models.network import GraphNetwork, features_times
from certgcl.models.reading import ModelLike, read_network

FEW_CHANGES = 1 << 9  # sets of edges up to which all are tried
PROMISING = 8  # single changes that are tried at each step
MOST_PAIRS = 1 << 22  # candidates with an end near the anchor that are looked at


@dataclass(frozen=True, eq=False)
class FoundChanges:
    """Admissible changes of edges that lower ``w_i · z_i``. They are no certificate: others may lower it further.

    Args:
        nodes: the nodes that were asked for, ``(A,)``.
        clean: ``w_i · z_i`` on the graph, ``(A,)``.
        values: the lowest that was found, ``(A,)``: an upper bound of the worst case.
        dropped, added: the edges of that change, ``(2, k)`` node numbers, for every node.
        exact: whether all changes were tried, ``(A,)``: then the value is the worst case, up to rounding.
        searched: whether there was time for a node, ``(A,)``.
    """

    nodes: Tensor
    clean: Tensor
    values: Tensor
    dropped: tuple[Tensor, ...]
    added: tuple[Tensor, ...]
    exact: Tensor
    searched: Tensor
    certified: Literal[False] = field(default=False, init=False)

    def witness(self, node: int) -> tuple[Tensor, Tensor]:
        """The edges dropped and the edges added that reach the value of a node, ``(2, k)`` each."""
        place = (self.nodes == node).nonzero()[:, 0]
        if not len(place):
            raise InputError(f"node {node}", "only nodes that were asked for have a witness", "See .nodes")
        return self.dropped[int(place[0])], self.added[int(place[0])]

    def __str__(self) -> str:
        found = [
            f"changes found at {int((self.values < self.clean).sum())} of {len(self.nodes)} nodes (not certified)",
            f"  clean     mean {float(self.clean.mean()):.4g}",
            f"  found     mean {float(self.values.mean()):.4g}, min {float(self.values.min()):.4g}",
            f"  negative  {int((self.values < 0).sum())} of {len(self.nodes)}",
            f"  exact     {int(self.exact.sum())} of {len(self.nodes)}",
        ]
        missing = int((~self.searched).sum())
        return "\n".join(found + ([f"  no time for {missing} nodes"] if missing else []))


def search_changes(
    model: ModelLike,
    graph: GraphLike,
    budgets: BudgetLike,
    nodes: NodesLike = None,
    *,
    directions: Any = None,
    seconds: float = 60.0,
) -> FoundChanges:
    """Look for admissible drops and additions of edges that lower ``w_i · z_i``: an attack on a model that can be read.

    Nothing is certified but by exhaustion, where few changes are admissible. Values are those of the model's weights in
    float64, on the changed graph.

    Args:
        model, graph, nodes: as in :func:`certgcl.node_compactness`.
        budgets: likewise; edges alone change.
        directions: ``w_i`` of every node, ``(N, d)``; those of node compactness by default.
        seconds: for all nodes together.

    Example::

        found = certgcl.search_changes(encoder, data, Changes(drops=1, additions=1), nodes=[0, 1, 2])
        dropped, added = found.witness(0)
    """
    graph = Graph.of(graph)
    end = time.monotonic() + real(
        seconds,
        "seconds",
        lambda given: given >= 0,
        "it is a number of seconds, 0 or more",
        "Leave it out for a minute",
    )
    changes, anchors = Changes.of(budgets).on(graph), check_anchors(nodes, graph)
    if changes.features is not None:
        raise BudgetError(
            "search_changes with features that change", "it knows changes of edges", "Leave the features out"
        )
    network = read_network(model, graph).copied().to(torch.float64)
    with torch.no_grad():
        embeddings = network.embed(graph)
    wanted = directions_of(directions, embeddings)[anchors]
    search = _EdgeSearch(network, graph, changes)
    clean = (embeddings[anchors] * wanted).sum(dim=1)
    values, nothing = clean.clone(), graph.edge_index[:, :0]
    dropped, added = [nothing] * len(anchors), [nothing] * len(anchors)
    exact, searched = (torch.zeros_like(anchors, dtype=torch.bool) for _ in range(2))
    few = search.few()
    worst = None if few is None else search.worst(few, anchors, wanted, end)
    for position, anchor in enumerate(anchors.tolist()):
        if worst is None and time.monotonic() >= end:
            break
        lost, gained = search.greedy(anchor, wanted[position], end) if worst is None else worst[position]
        value = float(search.embeddings(lost, gained)[anchor] @ wanted[position])
        searched[position], exact[position] = True, worst is not None
        if value < float(clean[position]):
            values[position] = value
            dropped[position], added[position] = (_edges(pairs, graph).T for pairs in (lost, gained))
    return FoundChanges(anchors, clean, values, tuple(dropped), tuple(added), exact, searched)


Pair = tuple[int, int]
Change = tuple[list[Pair], list[Pair]]


class _EdgeSearch:
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
        """Whether all budgets are kept."""
        drops, added = self.changes.drops, self.changes.additions
        ends = [
            torch.bincount(torch.tensor(pairs, dtype=torch.long).flatten(), minlength=self.graph.num_nodes)
            for pairs in (lost, gained)
        ]
        if len(lost) > drops.total or bool((ends[0] > drops.local.cpu()).any()):
            return False
        if added is None:
            return not gained
        return (
            len(gained) <= added.total
            and len(lost) + len(gained) <= added.both_total
            and not bool(((ends[1] > added.local.cpu()) | (ends[0] + ends[1] > added.both.cpu())).any())
        )

    def candidates(self, nodes: Tensor) -> list[Pair]:
        """Pairs that may become edges with an end among some nodes, as far as there are not too many."""
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
        number = sum(math.comb(len(self.droppable), k) for k in range(most_lost + 1)) * sum(
            math.comb(len(pairs), k) for k in range(most_gained + 1)
        )
        if number > FEW_CHANGES:
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
        index = _edges(sorted(self.edges - set(lost) | set(gained)), self.graph).T
        return self.network.embed(Graph.from_edges(self.graph.x, torch.cat([index, index.flip(0)], dim=1)))

    @torch.no_grad()
    def value(self, anchor: int, direction: Tensor, lost: list[Pair], gained: list[Pair]) -> float:
        """``w · z`` there, with products of features that are computed once."""
        edges = _edges(sorted(self.edges - set(lost) | set(gained)), self.graph)
        return float(self._relaxed(edges, edges.new_ones(len(edges), dtype=self.network.dtype))[anchor] @ direction)

    def worst(self, changes: list[Change], anchors: Tensor, directions: Tensor, end: float) -> list[Change] | None:
        """The worst of all changes for each anchor; None where time runs out."""
        lowest, which = torch.full_like(directions[:, 0], torch.inf), torch.zeros_like(anchors)
        for number, change in enumerate(changes):
            if time.monotonic() >= end:
                return None
            value = (self.embeddings(*change)[anchors] * directions).sum(dim=1)
            which = torch.where(value < lowest, number, which)
            lowest = lowest.minimum(value)
        return [changes[number] for number in which.tolist()]

    def greedy(self, anchor: int, direction: Tensor, end: float) -> Change:
        """One edge after the other, as long as the value falls and there is time."""
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
                if (value := self.value(anchor, direction, a, b)) < lowest
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
        every = _edges(present + absent, self.graph)
        weight = (torch.arange(len(every), device=every.device) < len(present)).double().requires_grad_()
        value = self._relaxed(every, weight)[anchor] @ direction
        (gradient,) = torch.autograd.grad(value, weight)
        gain = torch.where(weight.detach() > 0, gradient, -gradient)
        taken = 0
        for place in gain.argsort(descending=True).tolist():
            if taken == PROMISING or not gain[place] > 0:
                return
            pair = (int(every[place, 0]), int(every[place, 1]))
            if place < len(present) and (pair in gained or pair not in self.droppable):
                continue
            step = (sorted([*lost, pair]), gained) if place < len(present) else (lost, sorted([*gained, pair]))
            if self.allowed(*step):
                taken += 1
                yield step

    def _relaxed(self, pairs: Tensor, weight: Tensor) -> Tensor:
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


def _edges(pairs: list[Pair], graph: Graph) -> Tensor:
    return torch.tensor(pairs, dtype=torch.long, device=graph.col.device).reshape(-1, 2)


def _subsets(pairs: list[Pair], most: int) -> Iterator[list[Pair]]:
    for size in range(most + 1):
        yield from map(list, itertools.combinations(pairs, size))
