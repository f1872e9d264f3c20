"""Pooled embeddings of one graph without some of its edges: every admissible set of them, or a greedy search."""

from collections.abc import Iterator
from itertools import combinations
from math import comb
from typing import NamedTuple

import torch
from torch import Tensor

from certgcl.certify.touched_edges import edges_of
from certgcl.changes.edge_drops import AdmissibleDrops
from certgcl.graphs.graph import Graph
from certgcl.models.pooled_network import PooledNetwork

ROWS = 1 << 16  # nodes that are embedded at a time
MOST_ROWS = 1 << 22  # nodes that a search may embed for one graph; a larger graph is not searched


class LeastValues(NamedTuple):
    """The least value that was found, for each direction, and the edges without which it is reached."""

    values: Tensor  # (C,)
    witnesses: tuple[Tensor, ...]  # (2, k) each


class GraphDropSets:
    """The drop sets of one graph, as lists of its edges that can be dropped."""

    def __init__(self, network: PooledNetwork, graph: Graph, drops: AdmissibleDrops, most: int) -> None:
        slots = edges_of(graph)
        self.network, self.graph, self.most = network, graph, most
        self.slots = slots[drops.droppable[slots]]
        self.ends = torch.stack([graph.row[self.slots], graph.col[self.slots]]).T.tolist()
        self.local = drops.local.tolist()

    @property
    def number(self) -> int:
        """At least how many sets there are."""
        return sum(comb(len(self.slots), size) for size in range(self.most + 1))

    @property
    def single_rows(self) -> int:
        """Nodes that are embedded to try each edge by itself."""
        return len(self.slots) * self.graph.num_nodes

    @property
    def pair_rows(self) -> int:
        """The same for each two edges."""
        return comb(len(self.slots), 2) * self.graph.num_nodes

    def pairs(self) -> list[tuple[int, int]]:
        """Each two edges that may be dropped together."""
        return (
            [chosen for chosen in combinations(range(len(self.slots)), 2) if self._admissible(chosen)]
            if (self.most > 1)
            else []
        )

    def every(self) -> Iterator[tuple[int, ...]]:
        """All admissible sets, the empty one first."""
        for size in range(self.most + 1):
            for chosen in combinations(range(len(self.slots)), size):
                if self._admissible(chosen):
                    yield chosen

    def _admissible(self, chosen: tuple[int, ...]) -> bool:
        lost: dict[int, int] = {}
        for edge in chosen:
            for end in self.ends[edge]:
                lost[end] = lost.get(end, 0) + 1
        return all(count <= self.local[node] for node, count in lost.items())

    def values(self, sets: list[tuple[int, ...]], directions: Tensor) -> Tensor:
        """``w · z`` without each of some sets of edges, ``(sets, C)`` for directions ``(C, d)``."""
        parts = [self.network.embed(*copies) for copies in self._in_parts(sets)]
        return torch.cat(parts) @ directions.T

    def of_nodes(self, sets: list[tuple[int, ...]], directions: Tensor) -> Tensor:
        """``w · z_i`` of every node instead, before pooling, ``(sets, n, C)``."""
        parts = [self.network.network.embed(graph) @ directions.T for graph, _ in self._in_parts(sets)]
        return torch.cat(parts).unflatten(0, (len(sets), self.graph.num_nodes))

    def _in_parts(self, sets: list[tuple[int, ...]]) -> Iterator[tuple[Graph, Tensor]]:
        at_once = max(1, ROWS // self.graph.num_nodes)
        for start in range(0, len(sets), at_once):
            yield self._copies(sets[start : start + at_once])

    def _copies(self, sets: list[tuple[int, ...]]) -> tuple[Graph, Tensor]:
        """The graph without each of the sets, side by side, and the copy that each node is in."""
        graph, count = self.graph, len(sets)
        kept = torch.ones(count, graph.col.numel(), dtype=torch.bool, device=graph.col.device)
        place = [(copy, edge) for copy, chosen in enumerate(sets) for edge in chosen]
        if place:
            copy, edge = torch.tensor(place, device=graph.col.device).T
            kept[copy, self.slots[edge]] = kept[copy, graph.reverse[self.slots[edge]]] = False
        copies = torch.arange(count, device=graph.col.device)[:, None]
        n = graph.num_nodes
        row, col = ((part + n * copies)[kept] for part in (graph.row, graph.col))
        rowptr = torch.cat([row.new_zeros(1), torch.bincount(row, minlength=n * count).cumsum(0)])
        return Graph.trusted(graph.x.repeat(count, 1), rowptr, col), torch.repeat_interleave(copies[:, 0], n)

    # -- minima ------------------------------------------------------------------------------------

    def enumerated(self, directions: Tensor) -> LeastValues:
        """The minimum over all admissible sets."""
        sets = list(self.every())
        least, place = self.values(sets, directions).min(dim=0)
        return LeastValues(least, tuple(self._edges(sets[number]) for number in place.tolist()))

    def greedy(self, directions: Tensor) -> LeastValues:
        """One edge after the other, each the one that hurts most, as long as that helps; for one direction after the
        other. No minimum, but a value that is reached."""
        clean = self.values([()], directions)[0]
        if self.single_rows * self.most > MOST_ROWS:
            return LeastValues(clean, tuple(self._edges(()) for _ in clean))
        found = [self._greedily(direction[None], value) for direction, value in zip(directions, clean, strict=True)]
        return LeastValues(torch.stack([value for value, _ in found]), tuple(edges for _, edges in found))

    def _greedily(self, direction: Tensor, best: Tensor) -> tuple[Tensor, Tensor]:
        chosen: tuple[int, ...] = ()
        while len(chosen) < self.most:
            sets = [
                longer
                for edge in range(len(self.slots))
                if edge not in chosen and self._admissible(longer := (*chosen, edge))
            ]
            least, place = self.values(sets, direction)[:, 0].min(dim=0) if sets else (best, best)
            if not bool(least < best):
                break
            best, chosen = least, sets[int(place)]
        return best, self._edges(chosen)

    def _edges(self, chosen: tuple[int, ...]) -> Tensor:
        slots = self.slots[list(chosen)]
        return torch.stack([self.graph.row[slots], self.graph.col[slots]])
