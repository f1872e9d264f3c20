"""Sums of node values under one shared change: the losses of single nodes are added up, but no edge is counted more
often than it can occur."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from certgcl.certify.pooling.multipliers import Array, Counts, Multipliers, best_multipliers

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Limits:
    """Limits on the number of items in one change: at a node, or in a graph.

    Args:
        counted: ones where an item counts against a limit, ``(E, L)``.
        most: ``B_l``, ``(L,)``.
        graph: of each limit, ``(L,)``.
        whole: for every item its one limit in the graph as a whole, ``(E,)``.
    """

    counted: sp.csr_matrix
    most: Counts
    graph: Counts
    whole: Counts

    @cached_property
    def of_graphs(self) -> Counts:
        """The limits in graphs as a whole, whether an item counts against them or not."""
        return np.unique(self.whole)


@dataclass(frozen=True, eq=False)
class SharedChanges:
    """One change for each of several graphs. An *item* is an edge that may be dropped, or a pair that may become one.

    Args:
        fields: ones where an item is in the receptive field of a node, ``(N, E)``, items of the node's graph alone.
        batch: the graph of each node, ``(N,)``.
        graph_of_item: ``(E,)``.
        limits: on the items.
        most: the most items that a change of each graph has, ``(G,)``.
        first: the least number of items that each level of values is needed for, ``(L,)``, increasing, 0 and 1 first.
    """

    fields: sp.csr_matrix
    batch: Counts
    graph_of_item: Counts
    limits: Limits
    most: Counts
    first: Counts

    def lower(self, values: Array, losses: Array | None = None, time_limit: float | None = None) -> tuple[Array, Array]:
        """Lower bounds of ``Σ_i v_i(S)`` over each graph, ``(G,)``, and how far rounding can have raised them.

        The best of four choices of multipliers: zeros, which give the sum of the nodes' own minima; edge scores; the
        loss by each item alone, plus the same number for all items of a node; and those of a linear program, which are
        the best possible. (They include the knapsack, with one number for all pairs.)

        Args:
            values: at most the value of each node without any item, and ``f_i``, at most ``v_i`` with as many items of
                its field as a level stands for, ``(N, L)``. The second level, of one item, is not used if ``losses``
                are given; levels from the third on hold for fewer items too, down to one.
            losses: ``δ``, how much each item by itself lowers each node in whose field it is, in the order of
                ``fields.data``; by default the most that any single item can.
        """
        # What holds with more items holds with fewer. The first value is left alone: no bound with more items improves
        # on it.
        values = np.concatenate([values[:, :1], np.maximum.accumulate(values[:, :0:-1], axis=1)[:, ::-1]], axis=1)
        known = KnownNodeValues(self, values, (values[:, 0] - values[:, 1])[self.node] if losses is None else losses)
        chosen = [np.zeros(len(self.node)), known.scores, known.alone]
        free = [Multipliers(each, self._thresholds(self.score(each))) for each in chosen]
        found = [self.by(known, each) for each in (*free, best_multipliers(self, known, time_limit))]
        best = np.argmax([bound - error for bound, error in found], axis=0)
        bound, error = (np.stack(each)[best, np.arange(len(self.most))] for each in zip(*found, strict=True))
        return bound, error

    def by(self, known: "KnownNodeValues", multipliers: Multipliers) -> tuple[Array, Array]:
        """The bound that multipliers give, and its rounding error.

        For any numbers ``a_ie`` of nodes and items of their fields, with ``s_e = Σ_i a_ie``, any ``μ_l >= 0``, and any
        admissible S,

            Σ v_i(S) = Σ_i ( v_i(S) + Σ_{e ∈ S ∩ field(i)} a_ie ) - Σ_{e ∈ S} s_e
                    >= Σ_i least_i(a) - Σ_l B_l μ_l - Σ_e [ s_e - Σ_{l counts e} μ_l ]+ .
        """
        mu, a = multipliers.limits, multipliers.pairs
        score, price = self.score(a), self.limits.counted @ mu
        paid = self.by_graph(self.limits.most * mu, self.limits.graph)
        excess = self.by_graph(np.maximum(score - price, 0), self.graph_of_item)
        size = self.by_graph(known.size, self.batch) + self.by_graph(np.abs(a), self.batch[self.node]) * 2 + paid
        size += self.by_graph(price, self.graph_of_item)
        return self.by_graph(known.least(a), self.batch) - paid - excess, 2 * _EPS * (16 + self._longest) * size

    def score(self, a: Array) -> Array:
        """``s_e``, ``(E,)``."""
        return np.bincount(self.fields.indices, weights=a, minlength=self.fields.shape[1]).astype(float)

    def _thresholds(self, score: Array) -> Array:
        """For every limit in a graph as a whole its B-th largest score, or zero: it makes ``B θ + Σ [s - θ]+`` the sum
        of the B largest."""
        whole, most = self.limits.whole, self.limits.most
        order = np.lexsort((-score, whole))
        count = np.bincount(whole, minlength=len(most))
        enough = np.flatnonzero((most > 0) & (count >= most))
        found = np.zeros(len(most))
        found[enough] = score[order[(np.cumsum(count) - count + most - 1)[enough]]]
        return np.maximum(found, 0)

    @cached_property
    def node(self) -> Counts:
        """The node of each entry of ``fields``."""
        return np.repeat(np.arange(len(self.batch)), np.diff(self.fields.indptr))

    @cached_property
    def reach(self) -> Counts:
        """An upper bound of the number of items of a node's field in one change, ``(N,)``."""
        return np.minimum(self.most[self.batch], np.diff(self.fields.indptr))

    @cached_property
    def _longest(self) -> Array:
        """An upper bound of the number of terms in any sum of a graph, ``(G,)``."""
        parts = self.batch, self.graph_of_item, self.limits.graph
        nodes, items, limits = (np.bincount(part, minlength=len(self.most)) for part in parts)
        return 2.0 * nodes + 2.0 * items + limits

    def by_graph(self, values: Array, place: Counts) -> Array:
        """Sums over the nodes, pairs, items or limits of each graph."""
        return np.bincount(place, weights=values, minlength=len(self.most)).astype(float)


class KnownNodeValues:
    """What is known about single nodes: ``v_i`` is at least ``f_i(0)`` without items, ``f_i(0) - δ_ie`` with e alone,
    else ``f_i(b)``."""

    def __init__(self, shared: SharedChanges, values: Array, losses: Array) -> None:
        self.shared, self.values, self.losses = shared, values, losses
        self.size = 4 * np.abs(values).max(axis=1) + np.bincount(
            shared.node, weights=np.abs(losses), minlength=len(values)
        )
        most = int(shared.reach.max(initial=0))
        level = np.searchsorted(shared.first, np.arange(most + 1), side="right") - 1
        self.by_count = values[:, level]  # f_i(b), (N, most + 1)
        self.by_count[np.arange(most + 1) > shared.reach[:, None]] = np.inf

    def least(self, a: Array) -> Array:
        """The least ``v_i(S) + Σ_{e ∈ S} a_ie`` over all S, or less: the value without items; that with one item, and
        the item's number; and ``f_i(b)`` with the b smallest numbers, for b from 2 on."""
        alone = np.full(len(self.values), np.inf)
        np.minimum.at(alone, self.shared.node, self.values[self.shared.node, 0] - self.losses + a)
        found = np.minimum(self.values[:, 0], np.where(self.shared.reach > 0, alone, np.inf))
        several = self.by_count[:, 2:]
        return np.minimum(found, (several + self.smallest(a)[:, 1:]).min(axis=1, initial=np.inf))

    def smallest(self, a: Array) -> Array:
        """The sums of the 1, 2, … smallest numbers of each node, up to the largest number of items, ``(N, most)``."""
        most, start = self.by_count.shape[1] - 1, self.shared.fields.indptr
        order = np.lexsort((a, self.shared.node))
        rank = np.arange(len(a)) - start[self.shared.node]
        table = np.zeros((len(self.values), most))
        kept = rank < most
        table[self.shared.node[kept], rank[kept]] = a[order][kept]
        return np.cumsum(table, axis=1)

    @cached_property
    def _several(self) -> Array:
        """The most that several items cost a node, per item, ``(N,)``."""
        loss = self.values[:, :1] - np.where(np.isfinite(self.by_count), self.by_count, self.values[:, :1])
        return (loss[:, 2:] / np.arange(2, self.by_count.shape[1])).max(axis=1, initial=0.0)

    @property
    def scores(self) -> Array:
        """``max(δ_ie, the most that several items cost per item)``: with these numbers every node keeps its first
        value."""
        return np.maximum(self.losses, self._several[self.shared.node])

    @property
    def alone(self) -> Array:
        """``δ_ie + κ_i``, κ the least with which every node keeps its first value."""
        short = self.values[:, :1] - self.by_count[:, 2:] - self.smallest(self.losses)[:, 1:]
        each = (short / np.arange(2, self.by_count.shape[1])).max(axis=1, initial=0.0)
        return self.losses + np.maximum(each, 0)[self.shared.node]
