"""Lemma R: the states of nodes, and the least sum over the neighbours that are left and those that were added."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .arithmetic import Array, Ints, Scale, down, gamma, sum_below, up
from .changes import Changes
from .network import Network, Term


@dataclass(frozen=True, eq=False)
class Row:
    """The neighbours of a node and then its candidates, and all states of all of them in one list."""

    others: Ints
    degree: int  # how many of them are neighbours
    flat: Ints  # where each state stands among the states of all nodes
    owner: Ints  # the one whose it is
    begin: Ints  # the first of each
    reach: Ints  # the most edges that each neighbour loses while the edge is there


class States:
    """The states of the nodes around some anchors, one list for all: how many edges a node loses and gains.

    Args:
        anchors: those whose values are asked for; ``balls`` are these, the nodes within one hop of them, and so on.
    """

    def __init__(self, network: Network, changes: Changes, anchors: Sequence[int]) -> None:
        self.changes = changes
        self.balls = self._around(anchors, max(network.hops) + 1)
        nodes = self.balls[-1]
        pairs = [changes.pairs(int(i)) for i in nodes]
        number = np.array([len(each) for each in pairs])
        self.number = {int(i): int(count) for i, count in zip(nodes, number, strict=True)}
        self.first = {int(i): int(at) for i, at in zip(nodes, np.cumsum(number) - number, strict=True)}
        self.lost, self.gained = np.array([pair for each in pairs for pair in each], dtype=np.int64).reshape(-1, 2).T
        degree = np.repeat([len(changes.graph.neighbours[i]) for i in nodes], number)
        self.scales = {
            term.mixing: term.mixing.scales((degree - self.lost + self.gained).astype(float))
            for layer in network.layers
            for term in layer.terms
        }
        self.rows: dict[int, Row] = {}
        edges = sum(int(free.sum()) for free in changes.free) // 2
        self.limited = changes.total < edges and changes.additions is None

    @property
    def edges_change(self) -> bool:
        """Whether any edge of these nodes can go, or come."""
        return len(self.lost) > len(self.number)

    def _around(self, anchors: Sequence[int], hops: int) -> list[Ints]:
        balls: list[Ints] = [np.unique(np.array(anchors, dtype=np.int64))]
        for _ in range(hops):
            rows = [row for i in balls[-1] for row in (self.changes.graph.neighbours[i], self.changes.candidates(i))]
            balls.append(np.unique(np.concatenate([balls[-1], *rows])))
        return balls

    def row(self, i: int) -> Row:
        if i not in self.rows:
            neighbours = self.changes.graph.neighbours[i]
            others = np.concatenate([neighbours, self.changes.candidates(i)])
            number = np.array([self.number[int(k)] for k in others], dtype=np.int64)
            begin = np.cumsum(number) - number
            owner = np.repeat(np.arange(len(others)), number)
            flat = np.array([self.first[int(k)] for k in others], dtype=np.int64)[owner] + (
                np.arange(len(owner)) - begin[owner]
            )
            self.rows[i] = Row(others, len(neighbours), flat, owner, begin, self.changes.reach(i))
        return self.rows[i]

    def beside(self, i: int, s: int) -> NDArray[np.bool_]:
        """Which states of the others are possible while i is in state s and the edge between them is there. The edges
        that both lose and gain are different ones, but for that edge itself, if it came."""
        row, at, changes = self.row(i), self.first[i] + s, self.changes
        t, a, lost, gained = self.lost[at], self.gained[at], self.lost[row.flat], self.gained[row.flat]
        fits: NDArray[np.bool_] = t + lost <= changes.total
        old = row.owner < row.degree
        fits[old] &= lost[old] <= row.reach[row.owner[old]]
        if changes.additions is not None:
            both = np.where(old, 0, -1) + a + gained
            fits &= (both <= changes.additions.total) & (both + t + lost <= changes.additions.both_total)
            fits &= old | ((a > 0) & (gained > 0))
        return fits

    def as_parent(self, k: int, i: int, s: int) -> int:
        """Where state s of i stands among the states of the others of k."""
        row = self.row(k)
        return int(row.begin[np.flatnonzero(row.others == i)[0]]) + s

    def out_in(self, i: int, s: int, term: Term) -> Scale:
        """``out(n_i) in(n_k)`` in state s, for all states of all others."""
        _, out, into = self.scales[term.mixing]
        return out.at(self.first[i] + s).by(into.at(self.row(i).flat))

    def least_sum(self, i: int, s: int, values: Array, parents: bool = False) -> Array:
        """Below the sum over those that are neighbours in state s, from values in each of their states: ``(M,)``.
        With ``parents``, below that of the others, for each that is known to be a neighbour, ``(others, M)``."""
        row, t, a = self.row(i), int(self.lost[self.first[i] + s]), int(self.gained[self.first[i] + s])
        if not len(row.others):
            return np.zeros((0 if parents else 1, values.shape[1]))[() if parents else 0]
        inside = self.beside(i, s)[:, None]
        least = np.minimum.reduceat(np.where(inside, values, np.inf), row.begin, axis=0)
        old, new = least[: row.degree], least[row.degree :]
        found = self._kept(i, t, old, parents)
        if self.limited and row.degree:
            found = np.maximum(found, self._with_few_edges(i, t, values, inside, parents))
        if not len(new):
            return found
        found = down(found + _gained(new, a))
        if not parents:
            return found
        by_new = down(self._kept(i, t, old, False) + _gained(new, a - 1))  # its edge is one of those that came
        return np.concatenate([found, np.broadcast_to(by_new, new.shape)])

    def _with_few_edges(self, i: int, t: int, values: Array, inside: NDArray[np.bool_], parents: bool) -> Array:
        """At a price for each edge that a neighbour loses. The best is the fall of the last neighbour that loses any if
        as many as can go do so where values fall most; but any will do."""
        row, left = self.row(i), self.changes.total - t
        clean, lost = values[row.begin], self.lost[row.flat]
        each = np.where(inside & (lost > 0)[:, None], (clean[row.owner] - values) / np.maximum(lost, 1)[:, None], 0.0)
        fall = np.maximum(np.maximum.reduceat(each, row.begin, axis=0), 0)
        room = left + min(left, self._between(i))
        order = np.argsort(-fall, axis=0, kind="stable")
        least = np.minimum.reduceat(np.where(inside, values, np.inf), row.begin, axis=0)
        most = np.where(fall > 0, (clean - least) / np.where(fall > 0, fall, 1), 0)
        whole = (np.cumsum(np.take_along_axis(most, order, axis=0), axis=0) < room).sum(axis=0)
        last = np.minimum(whole, row.degree - 1)[None]
        price = np.take_along_axis(fall, np.take_along_axis(order, last, axis=0), axis=0)[0]
        price = np.where(np.isfinite(price) & (whole < row.degree), price, 0)
        dearer = np.where(inside, down(values + down(lost[:, None].astype(float) * price)), np.inf)
        terms = np.minimum.reduceat(dearer, row.begin, axis=0)
        return down(self._kept(i, t, terms, parents) - up(room * price))

    def _kept(self, i: int, t: int, terms: Array, parents: bool) -> Array:
        """Below the sum of terms when the t largest of those that can go are gone; with ``parents``, of all others."""
        if not len(terms):
            return np.zeros_like(terms) if parents else np.zeros(terms.shape[1])
        free = self.changes.free[i]
        fixed, loose = terms[~free].sum(axis=0), np.sort(terms[free], axis=0)
        count = len(loose) - t  # how many of them stay
        slack = up(4 * gamma(2 * len(terms) + 4) * np.abs(terms).sum(axis=0))
        prefix = np.concatenate([np.zeros_like(terms[:1]), np.cumsum(loose, axis=0)])
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
        around, changes = self.changes.graph.neighbours[i], self.changes
        return sum(int((changes.free[k] & np.isin(changes.graph.neighbours[k], around)).sum()) for k in around) // 2


def _gained(terms: Array, a: int) -> Array:
    """Below the sum of any a of the candidates' terms: of the a smallest. Those that cannot come are infinite; if too
    few can, there is no such state, and any number will do."""
    smallest = np.sort(terms, axis=0)[: max(a, 0)]
    if not len(smallest):
        return np.zeros(terms.shape[1])
    total = sum_below(np.where(smallest == np.inf, 0.0, smallest))
    return np.where(np.isnan(terms).any(axis=0), np.nan, total)  # which the order would put last
