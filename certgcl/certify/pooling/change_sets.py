"""Pooled embeddings of one graph after changes: after every admissible change, or after those that a search tries."""

from collections.abc import Iterator
from functools import cached_property
from itertools import combinations
from math import comb
from typing import NamedTuple

import torch
from torch import Tensor

from certgcl.attacks.features import GraphFeatures
from certgcl.certify.pooling.set_changes import all_candidates
from certgcl.certify.touched_edges import edges_of
from certgcl.changes.changed_entries import ChangedEntries
from certgcl.changes.changes import AdmissibleChanges
from certgcl.graphs.graph import Graph
from certgcl.models.pooled_network import PooledNetwork, pooled_rows

ROWS = 1 << 16  # nodes that are embedded at a time
MOST_ROWS = 1 << 22  # nodes that a search may embed for one graph; a larger graph is not searched
MOST_SHARED = 1 << 20  # pairs of a node and an item that may become an edge, of one graph
MOST_NEW = 1 << 16  # pairs that may become edges, up to which they are listed
Items = tuple[int, ...]


class Witness(NamedTuple):
    """One change: edges that are dropped and added, ``(2, k)``, and changed features."""

    dropped: Tensor
    added: Tensor
    changed: ChangedEntries


class LeastValues(NamedTuple):
    """The least value that was found, for each direction, and the change that reaches it."""

    values: Tensor  # (C,)
    witnesses: tuple[Witness, ...]


class GraphChangeSets:
    """The changes of one graph. An *item* is an edge that can be dropped or a pair that can become one."""

    def __init__(self, network: PooledNetwork, graph: Graph, changes: AdmissibleChanges) -> None:
        self.network, self.graph, self.changes = network, graph, changes
        slots, added = edges_of(graph), changes.additions
        self.slots = slots[changes.drops.droppable[slots]]
        self.complete = added is None or int(added.addable_degree.sum()) // 2 <= MOST_NEW
        new = graph.edge_index[:, :0]
        if added is not None and self.complete:
            listed = all_candidates(graph, added.local > 0) if added.candidates is None else added.candidates
            pairs = torch.stack([listed.row, listed.col])
            new = pairs[:, (pairs[0] < pairs[1]) & (added.local[pairs] > 0).all(dim=0)]
        self.pairs = torch.cat([torch.stack([graph.row[self.slots], graph.col[self.slots]]), new], dim=1)
        self._ends = self.pairs.T.tolist()
        limits = [changes.drops.local] if added is None else [changes.drops.local, added.local, added.both]
        self._local = [limit.tolist() for limit in limits]

    def __len__(self) -> int:
        """How many items there are."""
        return self.pairs.shape[1]

    @property
    def _totals(self) -> tuple[int, int, int]:
        """The most edges that are dropped, added, and both."""
        drops, added = self.changes.drops, self.changes.additions
        if added is None:
            return drops.total, 0, drops.total
        return drops.total, added.total, added.both_total

    @cached_property
    def number(self) -> float:
        """An upper bound of the number of admissible changes; infinite if they are not listed."""
        if not self.complete:
            return torch.inf
        edges = sum(
            comb(len(self.slots), lost) * comb(len(self) - len(self.slots), gained) for lost, gained in self._sizes()
        )
        if self.changes.features is None:
            return edges
        features = GraphFeatures.of_graph(self.network, self.graph, self.changes.features).number()
        return torch.inf if features is None else edges * features

    @property
    def single_rows(self) -> int:
        """Nodes that are embedded to try each item by itself."""
        return len(self) * self.graph.num_nodes

    @property
    def shared(self) -> bool:
        """Whether there are few enough items to list the nodes that each of them affects."""
        return self.changes.additions is None or (self.complete and self.single_rows <= MOST_SHARED)

    @property
    def pair_rows(self) -> int:
        """The same for every pair of items."""
        return comb(len(self), 2) * self.graph.num_nodes

    def singles(self) -> list[Items]:
        """Each item by itself: all of these changes are admissible, because budgets are tightened."""
        return [(item,) for item in range(len(self))]

    def two(self) -> list[Items]:
        """All pairs of items that are admissible together."""
        return [chosen for chosen in combinations(range(len(self)), 2) if self.admissible(chosen)]

    def _sizes(self) -> Iterator[tuple[int, int]]:
        """How many edges may be dropped and added."""
        most_lost, most_gained, most = self._totals
        first = len(self.slots)
        for lost in range(min(most_lost, first) + 1):
            for gained in range(min(most_gained, len(self) - first, most - lost) + 1):
                yield lost, gained

    def every(self) -> Iterator[Items]:
        """All admissible sets of items, the empty one first."""
        first = len(self.slots)
        for lost, gained in self._sizes():
            for gone in combinations(range(first), lost):
                for new in combinations(range(first, len(self)), gained):
                    if self.admissible(gone + new):
                        yield gone + new

    def admissible(self, chosen: Items) -> bool:
        """Which of some sets of items all budgets allow."""
        first, (most_lost, most_gained, most) = len(self.slots), self._totals
        gained = sum(item >= first for item in chosen)
        if len(chosen) > most or gained > most_gained or len(chosen) - gained > most_lost:
            return False
        counts: list[dict[int, int]] = [{}, {}, {}]
        for item in chosen:
            for kind in (int(item >= first), 2):
                for end in self._ends[item]:
                    counts[kind][end] = counts[kind].get(end, 0) + 1
        return all(
            number <= limit[node]
            for count, limit in zip(counts, self._local, strict=False)
            for node, number in count.items()
        )

    def values(self, sets: list[Items], directions: Tensor) -> Tensor:
        """``w · z`` after each of some sets of items, with unchanged features, ``(sets, C)`` for directions
        ``(C, d)``."""
        parts = [self.network.embed(*copies) for copies in self._in_parts(sets)]
        return torch.cat(parts) @ directions.T

    def of_nodes(self, sets: list[Items], directions: Tensor) -> Tensor:
        """``w · z_i`` of every node instead, before pooling, ``(sets, n, C)``."""
        parts = [self.network.network.embed(graph) @ directions.T for graph, _ in self._in_parts(sets)]
        return torch.cat(parts).unflatten(0, (len(sets), self.graph.num_nodes))

    def of_channels(self, sets: list[Items], directions: Tensor) -> Tensor:
        """``w_m · pool_i z_im`` of every channel instead, before any head, ``(sets, d, C)`` in float64."""
        parts = [
            pooled_rows(self.network.network.embed(graph), copies, self.network.pool)
            for graph, copies in self._in_parts(sets)
        ]
        return torch.cat(parts).double()[..., None] * directions.double().T

    def _in_parts(self, sets: list[Items]) -> Iterator[tuple[Graph, Tensor]]:
        at_once = max(1, ROWS // self.graph.num_nodes)
        for start in range(0, len(sets), at_once):
            yield self._copies(sets[start : start + at_once])

    def _copies(self, sets: list[Items]) -> tuple[Graph, Tensor]:
        """Copies of the graph, one changed by each of the sets, side by side, and the copy that each node is in."""
        graph, count, n, first = self.graph, len(sets), self.graph.num_nodes, len(self.slots)
        device = graph.col.device
        kept = torch.ones(count, graph.col.numel(), dtype=torch.bool, device=device)
        listed = [(copy, item) for copy, chosen in enumerate(sets) for item in chosen]
        copy, item = torch.tensor(listed, dtype=torch.long, device=device).reshape(-1, 2).T
        gone = item < first
        slot = self.slots[item[gone]]
        kept[copy[gone], slot] = kept[copy[gone], graph.reverse[slot]] = False
        copies = torch.arange(count, device=device)[:, None]
        row, col = ((part + n * copies)[kept] for part in (graph.row, graph.col))
        if not bool(gone.all()):
            one, other = self.pairs[:, item[~gone]] + n * copy[~gone]
            row, col = torch.cat([row, one, other]), torch.cat([col, other, one])
            order = torch.argsort(row * (n * count) + col)
            row, col = row[order], col[order]
        rowptr = torch.cat([row.new_zeros(1), torch.bincount(row, minlength=n * count).cumsum(0)])
        return Graph.trusted(graph.x.repeat(count, 1), rowptr, col), torch.repeat_interleave(copies[:, 0], n)

    # -- minima ------------------------------------------------------------------------------------

    def enumerated(self, directions: Tensor) -> LeastValues:
        """The minimum over all admissible changes."""
        sets = list(self.every())
        if self.changes.features is not None:
            found = [self._best(direction, sets, every=True) for direction in directions]
            return LeastValues(torch.stack([value for value, _ in found]), tuple(witness for _, witness in found))
        least, place = self.values(sets, directions).min(dim=0)
        return LeastValues(least, tuple(self._witness(sets[number]) for number in place.tolist()))

    def searched(self, directions: Tensor) -> LeastValues:
        """A greedy search, for one direction after the other: edges are changed one by one, each time the one that
        lowers the value most, as long as there is one. Features are searched with these edges, and without. The result
        need not be the minimum, but it is attained."""
        clean = self.values([()], directions)[0]
        large = self.single_rows * self._totals[2] > MOST_ROWS
        found = []
        for direction, value in zip(directions, clean, strict=True):
            least, chosen = (value, ()) if large else self._greedily(direction[None], value)
            found.append((least, self._witness(chosen)))
            if self.changes.features is not None:
                found[-1] = self._best(direction, [(), chosen], every=False)
        return LeastValues(torch.stack([value for value, _ in found]), tuple(witness for _, witness in found))

    def _greedily(self, direction: Tensor, best: Tensor) -> tuple[Tensor, Items]:
        chosen: Items = ()
        while True:
            longer = [(*chosen, item) for item in range(len(self)) if item not in chosen]
            sets = [items for items in longer if self.admissible(items)]
            if not sets:
                return best, chosen
            least, place = self.values(sets, direction)[:, 0].min(dim=0)
            if not bool(least < best):
                return best, chosen
            best, chosen = least, sets[int(place)]

    def _best(self, direction: Tensor, sets: list[Items], every: bool) -> tuple[Tensor, Witness]:
        """The least value with one of some sets of items, over all features or those that a search finds."""
        assert self.changes.features is not None
        best, found = torch.inf, None
        for chosen in sets:
            graph, _ = self._copies([chosen])
            field = GraphFeatures.of_graph(self.network, graph, self.changes.features)
            value, x = field.least(direction) if every else field.search(direction)
            if found is None or value < best:
                best, found = value, self._witness(chosen, field.changed(x))
        assert found is not None
        return direction.new_tensor(best), found

    def _witness(self, chosen: Items, changed: ChangedEntries | None = None) -> Witness:
        items = torch.tensor(chosen, dtype=torch.long, device=self.pairs.device)
        gone = items < len(self.slots)
        return Witness(
            self.pairs[:, items[gone]],
            self.pairs[:, items[~gone]],
            ChangedEntries.none(self.pairs.device) if changed is None else changed,
        )
