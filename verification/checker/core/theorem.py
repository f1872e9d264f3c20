"""Theorem A and Lemma R, for every node and state that an anchor depends on. ``__init__.py`` has their proofs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import comb

import numpy as np

from ..choices import Choices, Rule
from .arithmetic import (
    ETA,
    Array,
    Boxes,
    Ints,
    Scale,
    U,
    dot_above,
    dot_below,
    down,
    gamma,
    plus,
    product,
    sum_below,
    up,
)
from .changes import Changes
from .inputs import Inputs
from .lines import Lines, Pieces
from .network import Network, Term
from .rows import States

MORE_CANDIDATES = 4  # than a node gains edges, that are asked for their lines, for each functional
MOST_DEEP = 4096  # functionals at states of neighbours, up to which ranges of channels use lines there
MOST_SETS = 64  # of edges that a node can lose, up to which layers of the node's own edges are evaluated for each


@dataclass(frozen=True, eq=False)
class Passed:
    """``β · h_k`` that a node in some state passes on to each neighbour k, up to ``residual``; ``beta`` is a functional
    of ``W' x`` where the source is the features, and None stands for all unit vectors and their negatives there."""

    term: Term
    beta: Array | None  # (M, d)
    residual: Array | float


@dataclass(frozen=True, eq=False)
class Sets:
    """The sets of so many edges that a node can lose: what is left of its neighbours, and boxes around the
    pre-activations of near layers, by their number."""

    lost: int
    kept: list[Ints]
    boxes: dict[int, Boxes]


class Bound:
    """Ranges of all layers around some anchors, and then lower bounds of functionals of their embeddings."""

    def __init__(self, network: Network, changes: Changes, anchors: Sequence[int], choices: Choices) -> None:
        self.network, self.changes, self.choices = network, changes, choices
        self.states = States(network, changes, anchors)
        self.first, self.row = self.states.first, self.states.row
        self.lines = Lines(network, self.states, choices)
        self.inputs = Inputs(network, changes, self.states.balls[-2])  # of the last, states are known, and no more
        self.sets: dict[int, list[Sets]] = {}
        self.outputs: dict[int, Boxes] = {}  # in all states, by layer
        self.sizes: dict[int, Array] = {}
        for number in range(1, len(network.layers) + 1):
            self._find_ranges(number)

    # -- ranges of pre-activations -----------------------------------------------------------------

    def _find_ranges(self, number: int) -> None:
        layer, width = self.network.layers[number - 1], self.network.width(number)
        low, high = (np.full((len(self.states.lost), width), np.nan) for _ in range(2))
        used = any(term.source == number for other in self.network.layers for term in other.terms)
        lines = (
            self.choices.functional
            and (used or not layer.activation.linear)
            and any(term.source for term in layer.terms)
        )
        tables = {
            id(term): self._tables(term, self.states.balls[self.network.hops[number] + 1])
            for term in layer.terms
            if term.mixes and term.source and lines
        }
        near = number in self.near
        for i in self.states.balls[self.network.hops[number]].tolist():
            for t in range(self.states.number[i]):
                at = self.first[i] + t
                value = self._of_channels(i, t, number, None, {})
                for rule in self.lines.rules(at, number - 1) if lines else ():
                    value = np.maximum(value, self._of_channels(i, t, number, rule, tables))
                low[at], high[at] = value[:width], -value[width:]
            if near:
                for sets in self._by_sets(i):
                    at, each = self.first[i] + sets.lost, sets.boxes[number].each()
                    low[at] = np.maximum(low[at], each[:, :width].min(axis=0))
                    high[at] = np.minimum(high[at], -each[:, width:].min(axis=0))
        self.lines.low[number], self.lines.high[number] = low, high
        there = ~np.isnan(low[:, 0])
        known = Boxes.between(*layer.activation.range(low[there], high[there]))
        middle, reach = (np.full_like(low, np.nan) for _ in range(2))  # where a layer is not needed, nothing follows
        middle[there], reach[there] = known.middle, known.reach
        self.outputs[number], self.sizes[number] = Boxes(middle, reach), known.size

    def _of_channels(
        self, i: int, t: int, number: int, rule: Rule | None, tables: dict[int, dict[int, Array]]
    ) -> Array:
        """Below all ``p_c`` and ``-p_c`` of a layer, ``(2 d,)``: by ranges alone, or by lines of the node's own layers
        and those of its neighbours."""
        constant, passed = self._chain(i, t, {}, number, rule)
        if not passed:
            return constant
        others = [each for each in passed if id(each.term) not in tables]
        deep = self.choices.deep and rule is not None and len(self.row(i).flat) * len(constant) <= MOST_DEEP
        deep = deep and len(others) > 0 and all(each.beta is not None for each in others)
        values = self._neighbour_values(i, t, others, 1) if deep else self._passed_values(i, t, others)
        for each in passed:
            if id(each.term) in tables:
                found = self._looked_up(i, t, tables[id(each.term)])
                values = down(values + self.states.out_in(i, t, each.term).columns.times(found))
        return plus(constant, self.states.least_sum(i, t, values))

    def _tables(self, term: Term, nodes: Ints) -> dict[int, Array]:
        """Below ``±(W' h_k)_c`` for every state of k, and every state that a neighbour known to be there can be in:
        ``(states of k, states of neighbours, 2 d)``."""
        units, tables = term.units(), {}
        for k in nodes.tolist():
            here = []
            for s in range(self.states.number[k]):
                ranges = self.outputs[term.source].rows(np.array([self.first[k] + s])).below(units)
                here.append(np.maximum(ranges, self._below(k, s, {term.source: units}, 1)))
            tables[k] = np.array(here)
        return tables

    def _looked_up(self, i: int, t: int, table: dict[int, Array]) -> Array:
        """The values of all neighbours of i in all their states, while i is in state t."""
        found = [table[k][:, self.states.as_parent(k, i, t)] for k in self.row(i).others.tolist()]
        return np.concatenate(found) if found else np.zeros((0, 1))

    # -- layers of a node's own edges --------------------------------------------------------------

    @cached_property
    def near(self) -> set[int]:
        """Layers that depend on which edges a node loses alone: terms of features whose ``in`` is one, and local terms
        of such layers."""
        near: set[int] = set()
        for number, layer in enumerate(self.network.layers, 1):
            if (
                self.choices.functional
                and self.changes.features is None
                and all(
                    (term.source == 0 and term.mixing.name in ("local", "mean", "sum"))
                    or (term.source in near and not term.mixes)
                    for term in layer.terms
                )
            ):
                near.add(number)
        return near

    def _by_sets(self, i: int) -> "list[Sets]":
        """For every state without a new edge, boxes around the pre-activations of near layers for each set of lost
        edges; none where there are too many sets."""
        if i not in self.sets:
            self.sets[i] = list(self._each_set(i))
        return self.sets[i]

    def _each_set(self, i: int) -> "Iterator[Sets]":
        free = np.flatnonzero(self.changes.free[i])
        budget = int((self.states.gained[self.first[i] :][: self.states.number[i]] == 0).sum()) - 1
        if sum(comb(len(free), t) for t in range(budget + 1)) > MOST_SETS:
            return
        neighbours, degree = self.changes.graph.neighbours[i], len(self.changes.graph.neighbours[i])
        for t in range(budget + 1):
            kept = [np.setdiff1d(np.arange(degree), gone) for gone in combinations(free, t)]
            found: dict[int, Boxes] = {}
            for number in sorted(self.near):
                layer, parts = self.network.layers[number - 1], []
                for term in layer.terms:
                    own, out = (scale.at(self.first[i] + t) for scale in self.states.scales[term.mixing][:2])
                    if term.source:
                        below = self.network.layers[term.source - 1].activation
                        each = found[term.source].each()
                        width = each.shape[1] // 2
                        outputs = Boxes.between(*below.range(each[:, :width], -each[:, width:]))
                        parts.append(own.times(product(outputs, term.weight).each()))
                        continue
                    mine = own.times(self.inputs.each(term, [i]))
                    if not term.mixes:
                        parts.append(np.repeat(mine, len(kept), axis=0))
                        continue
                    around = self.inputs.each(term, neighbours)
                    sums = np.array([sum_below(around[left]) for left in kept])
                    parts.append(down(mine + out.times(sums)))
                bias = np.concatenate([layer.bias, -layer.bias])
                both = plus(np.broadcast_to(bias, parts[0].shape), *parts)
                found[number] = Boxes.between(both[:, : len(layer.bias)], -both[:, len(layer.bias) :])
            yield Sets(t, kept, found)

    def _of_sets(self, sets: "Sets", omega: dict[int, Array]) -> Array:
        """Below a functional of near layers for each set, ``(sets, M)``."""
        value = np.zeros(1)
        for number, part in omega.items():
            each, width = sets.boxes[number].each(), part.shape[1]
            known = self.network.layers[number - 1].activation.range(each[:, :width], -each[:, width:])
            value = down(value + Boxes.between(*known).below(part))
        return value

    def _beside_parents(self, k: int, s: int, omega: dict[int, Array]) -> Array:
        """Below a functional of near layers at k in state s, for each neighbour whose edge is there: the least over the
        sets without it; ``(others, M)``."""
        row, at = self.row(k), self.first[k] + s
        found = np.full((len(row.others), len(next(iter(omega.values())))), -np.inf)
        if not self.near.issuperset(omega) or self.states.gained[at]:
            return found
        for sets in self._by_sets(k):
            if sets.lost == self.states.lost[at]:
                values = self._of_sets(sets, omega)
                for parent in range(row.degree):
                    there = [parent in left for left in sets.kept]
                    if any(there):
                        found[parent] = values[there].min(axis=0)
        return found

    # -- Theorem A ---------------------------------------------------------------------------------

    def lower(self, i: int, directions: Array, enough: Array | float = np.inf) -> Array:
        """Below ``w · z_i`` whatever changes, ``(M, width)`` to ``(M,)``; no more than ``enough`` is looked for."""
        omega = self.network.split(directions)
        best = [self._output(i, t, omega, enough) for t in range(self.states.number[i])]
        if self.near.issuperset(self.network.readout):
            for sets in self._by_sets(i):
                best[sets.lost] = np.maximum(best[sets.lost], self._of_sets(sets, omega).min(axis=0))
        return np.min(best, axis=0)

    def _output(self, i: int, t: int, omega: dict[int, Array], enough: Array | float) -> Array:
        best, _ = self._chain(i, t, omega, None, None)
        at, last = self.first[i] + t, max(omega)
        rules = self.lines.rules(at, last)  # for the last layer, and for those below
        pairs = sorted(((top, rule) for top in rules for rule in rules if top.grouped == rule.grouped), key=_unlike)
        for patterns in sorted({1, self.choices.output}):
            chosen = self.lines.pieces_at(last, at, omega[last], patterns)
            rows = 1 if patterns == 1 < self.choices.output else self.choices.rows
            found: Array | float = -np.inf
            for top, rule in pairs:
                if (best >= enough).all():
                    return best
                constant, passed = self._chain(i, t, omega, None, rule, chosen, top)
                value = (
                    constant
                    if not passed
                    else plus(constant, self.states.least_sum(i, t, self._neighbour_values(i, t, passed, rows)))
                )
                found = np.maximum(found, value)
                best = np.maximum(best, np.reshape(found, (len(best), -1)).min(axis=1))
        return best

    def _neighbour_values(self, i: int, s: int, passed: list[Passed], patterns: int) -> Array:
        """Below all that is passed on to each neighbour in each of its states, by its ranges or its lines; of
        candidates, lines serve those that come first by their ranges."""
        row, found, inside = self.row(i), self._passed_values(i, s, passed), self.states.beside(i, s)
        asked = np.arange(len(row.others)) < row.degree
        gained = int(self.states.gained[self.first[i] + s])
        if gained and not asked.all():
            least = np.minimum.reduceat(np.where(inside[:, None], found, np.inf), row.begin, axis=0)[row.degree :]
            asked[row.degree + np.unique(np.argsort(least, axis=0)[: gained + MORE_CANDIDATES])] = True
        for at in np.flatnonzero(asked[row.owner] & inside).tolist():
            k, state = int(row.others[row.owner[at]]), at - int(row.begin[row.owner[at]])
            omega, value = dict[int, Array](), np.zeros(1)
            for each in passed:
                scale = self.states.out_in(i, s, each.term).at(at)
                beta = each.beta
                assert beta is not None
                if each.term.source == 0:
                    value = down(value + scale.times(self._of_features(each.term, k, beta)))
                else:
                    value = down(value - self._add(omega, each.term.source, scale, beta, each.residual))
            if omega:
                lines = self._below(k, state, omega, patterns)[self.states.as_parent(k, i, s)]
                found[at] = np.maximum(found[at], down(value + lines))
        return found

    def _below(self, k: int, s: int, omega: dict[int, Array], patterns: int) -> Array:
        """Below ``Σ ω · h_k`` in state s, for every state that a neighbour known to be there can be in, by lines:
        ``(states of neighbours, M)``."""
        row, at, last = self.row(k), self.first[k] + s, max(omega)
        best = self._beside_parents(k, s, omega)[row.owner]
        for number in sorted({1, patterns}):
            chosen = self.lines.pieces_at(last, at, omega[last], number)
            found: Array | float = -np.inf
            for rule in self.lines.rules(at, last):
                constant, passed = self._chain(k, s, omega, None, rule, chosen)
                value = np.broadcast_to(constant, (len(row.flat), len(constant)))
                if passed:
                    values = self._passed_values(k, s, passed)
                    value = plus(value, self.states.least_sum(k, s, values, parents=True)[row.owner], values)
                found = np.maximum(found, value)
            best = np.maximum(best, np.reshape(found, (*best.shape, chosen.patterns if chosen else 1)).min(axis=2))
        return best

    def _chain(
        self,
        i: int,
        t: int,
        omega: dict[int, Array],
        top: int | None,
        rule: Rule | None,
        chosen: Pieces | None = None,
        first: Rule | None = None,
    ) -> tuple[Array, list[Passed]]:
        """``Σ ω_l · h_i^l`` (and all channels of the pre-activations of layer ``top``, and their negatives) in state t
        is at least a constant and what is passed on to neighbours. Without a rule, outputs are bounded by ranges; the
        last layer's lines can have a rule of their own, ``first``."""
        at, waiting, passed = self.first[i] + t, dict(omega), list[Passed]()
        constant: Array = np.zeros(1)
        for number in range(len(self.network.layers), 0, -1):
            layer, slope = self.network.layers[number - 1], None
            if number == top:
                constant = np.concatenate([layer.bias, -layer.bias])
            elif number not in waiting:
                continue
            elif rule is None:
                constant = down(constant + self.outputs[number].rows(np.array([at])).below(waiting.pop(number))[0])
                continue
            else:
                pieces, used = (chosen, first or rule) if number == max(omega, default=0) else (None, rule)
                slope, value = self.lines.below(layer, number, at, waiting.pop(number), used, pieces)
                if pieces is not None:
                    waiting = {m: np.repeat(part, pieces.patterns, axis=0) for m, part in waiting.items()}
                positive, negative = np.maximum(slope, 0), np.minimum(slope, 0)
                constant = plus(constant, value, dot_below(positive, negative, layer.bias, layer.bias))
            for term in layer.terms:
                beta, residual = self._back(term, slope)
                own = self.states.scales[term.mixing][0].at(at)
                if term.source == 0:
                    if own.high > 0:
                        constant = down(constant + own.times(self._of_features(term, i, slope)))
                elif own.high > 0:
                    constant = down(constant - self._add(waiting, term.source, own, beta, residual))
                if term.mixes:
                    passed.append(Passed(term, beta, residual))
        return constant, passed

    def _back(self, term: Term, slope: Array | None) -> tuple[Array | None, Array | float]:
        """``W λ`` in floats, and above ``|W λ - β| · |h|`` for all h of its source."""
        if term.source == 0:
            return slope, 0.0
        if slope is None:
            return term.units(), 0.0
        size = self.sizes[term.source]
        reach = np.abs(term.weight) * size if term.weight.ndim == 1 else np.abs(term.weight).T @ size
        step = gamma(slope.shape[1] + 4)
        return term.back(slope), dot_above(slope, up(2 * step * up(reach * (1 + 4 * gamma(len(size)))))) + (
            4 * ETA * (slope.shape[1] + 1) * (1 + float(size.sum()))
        )

    def _add(
        self, waiting: dict[int, Array], source: int, scale: Scale, beta: Array | None, residual: Array | float
    ) -> Array:
        """Add ``scale β`` to a functional, in floats; returns what that can be off by, and the residual of β."""
        assert beta is not None
        middle, before = scale.low / 2 + scale.high / 2, waiting.get(source, np.zeros((1, 1)))
        waiting[source] = before + middle * beta
        size = self.sizes[source]
        spread = up(scale.high - scale.low) * np.abs(beta)
        moved = up(np.abs(before) + up(scale.high * np.abs(beta)))
        off = up(dot_above(up(spread + up(8 * U * moved)), size) + 4 * ETA * (1 + float(size.sum())))
        return up(off + up(scale.high * residual))

    def _of_features(self, term: Term, k: int, slope: Array | None) -> Array:
        """Below ``λ · W' x̃_k``."""
        return (self.inputs.each(term, [k]) if slope is None else self.inputs.below(term, [k], slope))[0]

    def _passed_values(self, i: int, s: int, passed: list[Passed]) -> Array:
        """Below what is passed on to each neighbour in each of its states, by ranges; exact for features."""
        row, total = self.row(i), np.zeros((len(self.row(i).flat), 1))
        for each in passed:
            if each.term.source == 0:
                known = self.inputs
                values = (
                    known.each(each.term, row.others)
                    if each.beta is None
                    else known.below(each.term, row.others, each.beta)
                )[row.owner]
            else:
                assert each.beta is not None
                values = down(self.outputs[each.term.source].rows(row.flat).below(each.beta) - each.residual)
            total = down(total + self.states.out_in(i, s, each.term).columns.times(values))
        return total


def _unlike(pair: tuple[Rule, Rule]) -> bool:
    """Pairs of one rule come first: they usually suffice."""
    return pair[0] != pair[1]
