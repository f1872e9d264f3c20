"""Lemma R: the states of nodes, and the least sum over the neighbours that are left."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .arithmetic import Array, Ints, Scale, down, gamma, sum_below, up
from .statement import Drops, Network, Term


@dataclass(frozen=True, eq=False)
class Row:
    """The neighbours of a node, and all states of all of them in one list."""

    neighbours: Ints
    flat: Ints  # where each state stands among the states of all nodes
    owner: Ints  # the neighbour of each
    begin: Ints  # the first of each neighbour
    reach: Ints  # the most edges that each neighbour loses while the edge is there


class States:
    """The states of the nodes around some anchors, one list for all: how many edges a node loses.

    Args:
        anchors: those whose values are asked for; ``balls`` are these, the nodes within one hop of them, and so on.
    """

    def __init__(self, network: Network, drops: Drops, anchors: Sequence[int]) -> None:
        self.drops = drops
        self.balls = self._around(anchors, max(network.hops) + 1)
        nodes = self.balls[-1]
        number = drops.budget[nodes] + 1
        self.first = {int(i): int(at) for i, at in zip(nodes, np.cumsum(number) - number, strict=True)}
        self.lost = np.concatenate([np.arange(each) for each in number])
        degree = np.repeat([len(drops.graph.neighbours[i]) for i in nodes], number)
        self.scales = {
            term.mixing: term.mixing.scales((degree - self.lost).astype(float))
            for layer in network.layers
            for term in layer.terms
        }
        self.rows: dict[int, Row] = {}
        self.limited = drops.total < sum(int(free.sum()) for free in drops.free) // 2

    def _around(self, anchors: Sequence[int], hops: int) -> list[Ints]:
        balls: list[Ints] = [np.unique(np.array(anchors, dtype=np.int64))]
        for _ in range(hops):
            balls.append(np.unique(np.concatenate([balls[-1], *(self.drops.graph.neighbours[i] for i in balls[-1])])))
        return balls

    def row(self, i: int) -> Row:
        if i not in self.rows:
            neighbours = self.drops.graph.neighbours[i]
            number = self.drops.budget[neighbours] + 1
            begin = np.cumsum(number) - number
            owner = np.repeat(np.arange(len(neighbours)), number)
            flat = np.array([self.first[int(k)] for k in neighbours], dtype=np.int64)[owner] + (
                np.arange(len(owner)) - begin[owner]
            )
            self.rows[i] = Row(neighbours, flat, owner, begin, self.drops.reach(i))
        return self.rows[i]

    def as_parent(self, k: int, i: int, t: int) -> int:
        """Where state t of i stands among the states of the neighbours of k."""
        row = self.row(k)
        return int(row.begin[np.searchsorted(row.neighbours, i)]) + t

    def out_in(self, i: int, t: int, term: Term) -> Scale:
        """``out(n_i) in(n_k)`` in state t, for all states of all neighbours."""
        _, out, into = self.scales[term.mixing]
        return out.at(self.first[i] + t).by(into.at(self.row(i).flat))

    def least_sum(self, i: int, t: int, values: Array, parents: bool = False) -> Array:
        """Below the sum over the neighbours that are left in state t, from values in each of their states: ``(M,)``.
        With ``parents``, below that of the others, for each neighbour that is known to be left, ``(neighbours, M)``."""
        row, left = self.row(i), self.drops.total - t
        if not len(row.neighbours):
            return np.zeros((0 if parents else 1, values.shape[1]))[() if parents else 0]
        lost = self.lost[row.flat]
        inside = (lost <= np.minimum(row.reach[row.owner], left))[:, None]
        least = np.minimum.reduceat(np.where(inside, values, np.inf), row.begin, axis=0)
        found = self._kept(i, t, least, parents)
        if not self.limited:
            return found
        # Few edges in all: neighbours start from their values without a loss, and fall by so much for each edge.
        clean = values[row.begin]
        each = up(up(clean[row.owner] - values) / np.maximum(lost, 1)[:, None])
        rate = np.where(inside & (lost > 0)[:, None], each, 0.0)
        rate = np.maximum(np.maximum.reduceat(rate, row.begin, axis=0), 0)
        room = left + min(left, self._between(i))
        order = np.argsort(-rate, axis=0, kind="stable")
        most = row.reach[order]
        taken = np.clip(room - (np.cumsum(most, axis=0) - most), 0, most)
        gain = -sum_below(-up(taken * np.take_along_axis(rate, order, axis=0)))
        return np.maximum(found, down(self._kept(i, t, clean, parents) - gain))

    def _kept(self, i: int, t: int, terms: Array, parents: bool) -> Array:
        """Below the sum of terms when the t largest of those that can go are gone; with ``parents``, of all others."""
        free = self.drops.free[i]
        fixed, loose = terms[~free].sum(axis=0), np.sort(terms[free], axis=0)
        count = len(loose) - t  # how many of them stay
        slack = up(4 * gamma(2 * len(terms) + 4) * np.abs(terms).sum(axis=0))
        prefix = np.concatenate([np.zeros_like(loose[:1] if len(loose) else terms[:1]), np.cumsum(loose, axis=0)])
        if not parents:
            return down(fixed + prefix[count] - slack)
        others = fixed - terms + prefix[count]
        if count >= 1:  # either the parent is among the smallest, or the next larger one is not
            others = np.where(free[:, None], np.maximum(others, fixed + prefix[count - 1]), others)
        else:
            others = np.where(free[:, None], -np.inf, others)  # not while the parent is there
        return down(others - slack)

    def _between(self, i: int) -> int:
        """How many edges between neighbours of i can go."""
        around = self.drops.graph.neighbours[i]
        return (
            sum(int((self.drops.free[k] & np.isin(self.drops.graph.neighbours[k], around)).sum()) for k in around) // 2
        )
