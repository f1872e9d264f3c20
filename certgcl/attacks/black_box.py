"""Harmful drops for a model that can only be called."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from certgcl.changes.edge_drops import AdmissibleDrops
from certgcl.graphs.graph import Graph

MOST_EDGES = 512  # edges that are tried for a node, the nearest ones
RANDOM_STARTS = 8
PATIENCE = 8  # failed exchanges for each droppable edge, after which a search ends

Value = Callable[[Sequence[int]], float]
"""``w · z`` of a node without some edges, given by their slots."""


@dataclass(frozen=True, eq=False)
class BlackBox:
    """A search that calls the model itself: single edges, then the worst of them together, then exchanges.

    Args:
        end: when to stop, by ``time.monotonic``.
        chance: its random generator.
    """

    graph: Graph
    drops: AdmissibleDrops
    end: float
    chance: torch.Generator

    def candidates(self, anchor: int) -> list[int]:
        """Droppable edges, one slot for each: those at a node, then at its neighbours, and so on; then all others,
        since a model need not be local."""
        graph, nodes = self.graph, [anchor]
        found: dict[int, None] = {}
        seen = {anchor}
        for node in nodes:  # which grows in this loop
            slots = torch.arange(int(graph.rowptr[node]), int(graph.rowptr[node + 1]), device=graph.col.device)
            new = [each for each in graph.col[slots].tolist() if each not in seen]
            nodes += new
            seen.update(new)
            slots = slots[self.drops.droppable[slots]]
            found.update(dict.fromkeys(torch.minimum(slots, graph.reverse[slots]).tolist()))
            if len(found) >= MOST_EDGES:
                break
        others = self.drops.droppable & (graph.row < graph.col)
        found.update(dict.fromkeys(others.nonzero()[: 2 * MOST_EDGES, 0].tolist()))
        return list(found)[:MOST_EDGES]

    def __call__(self, anchor: int, value: Value) -> tuple[list[int], float]:
        """The slots of the drops with the lowest value found, and that value."""
        edges, best, lowest = self.candidates(anchor), list[int](), value([])
        effect: dict[int, float] = {}
        for edge in edges:
            if self._late():
                break
            effect[edge] = value([edge]) - lowest
        single = lowest

        def offer(dropped: list[int]) -> bool:
            nonlocal best, lowest
            found = value(dropped)
            if found < lowest:
                best, lowest = dropped, found
                return True
            return False

        order = sorted(effect, key=effect.__getitem__)
        for worst in (self._filled([edge for edge in order if effect[edge] < 0]), self._filled(order)):
            size = 1
            while size < 2 * len(worst) and not self._late():
                offer(worst[:size])
                size *= 2
        for _ in range(RANDOM_STARTS if edges else 0):
            if self._late():
                break
            offer(self._filled([edges[place] for place in self._shuffled(len(edges))]))
        in_vain = 0
        while edges and in_vain < PATIENCE * len(edges) and not self._late():
            in_vain = 0 if offer(self._exchanged(best, edges)) else in_vain + 1
        return (best, lowest) if lowest < single else ([], single)

    def _exchanged(self, dropped: list[int], edges: list[int]) -> list[int]:
        """The same with up to three edges put back or dropped, in exchange for others where the budgets are used up."""
        number = 1 + int(torch.randint(3, (), generator=self.chance))
        chosen = [edges[place] for place in self._shuffled(len(edges))[:number]]
        kept = [edge for edge in dropped if edge not in chosen]
        kept = [kept[place] for place in self._shuffled(len(kept))]
        return self._filled([edge for edge in chosen if edge not in dropped] + kept)

    def _filled(self, edges: Sequence[int]) -> list[int]:
        """As many of the edges as fit, in their order."""
        lost: dict[int, int] = {}
        found: list[int] = []
        for edge in edges:
            ends = int(self.graph.row[edge]), int(self.graph.col[edge])
            if len(found) < self.drops.total and all(lost.get(end, 0) < int(self.drops.local[end]) for end in ends):
                found.append(edge)
                for end in ends:
                    lost[end] = lost.get(end, 0) + 1
        return found

    def _shuffled(self, number: int) -> list[int]:
        return torch.randperm(number, generator=self.chance).tolist()

    def _late(self) -> bool:
        return time.monotonic() >= self.end


def minimal(value: Value, dropped: Sequence[int], below: float) -> list[int]:
    """A minimal subset of the drops: the value stays below a threshold, but would not if any one of them were put back.

    Edges are put back as long as that holds, the least important first. Another subset may be smaller still.
    """
    left = list(dropped)
    while True:
        values = {edge: value([other for other in left if other != edge]) for edge in left}
        spare = [edge for edge in sorted(values, key=values.__getitem__) if values[edge] < below]
        if not spare:
            return left
        # Put back as many at once as the value allows.
        count = len(spare)
        while count > 1 and value([edge for edge in left if edge not in spare[:count]]) >= below:
            count //= 2
        left = [edge for edge in left if edge not in spare[:count]]
