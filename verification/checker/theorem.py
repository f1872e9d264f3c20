"""Theorem A and Lemma R, for every node and state that an anchor depends on. ``__init__.py`` has their proofs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from math import comb

import numpy as np

from .activations import TIE, TwoPiece
from .arithmetic import ETA, Array, Boxes, Scale, U, dot_above, dot_below, down, gamma, plus, product, sum_below, up
from .statement import Drops, Ints, Layer, Network, Term

MOST_SETS = 64  # of edges that a node can lose, up to which layers of the node's own edges are evaluated for each


@dataclass(frozen=True)
class Choices:
    """What the prover may choose. Nothing here can make a bound wrong, only smaller or larger.

    Args:
        rules: for the slopes of lines.
        starts: for some nodes, the states at which groups begin; the states of a group also try common slopes.
        output, rows: numbers of sign patterns at the anchor and at its neighbours, powers of two.
        functional: whether ranges of channels are found by lines, or by ranges below alone.
    """

    rules: tuple[str, ...] = ("adaptive",)
    starts: dict[int, tuple[int, ...]] = field(default_factory=dict)
    output: int = 1
    rows: int = 1
    functional: bool = True


@dataclass(frozen=True, eq=False)
class Passed:
    """``β · h_k`` that a node in some state passes on to each neighbour k, up to ``residual``; ``beta`` is a functional
    of ``W' x`` where the source is the features, and None stands for all unit vectors and their negatives there."""

    term: Term
    beta: Array | None  # (M, d)
    residual: Array | float


@dataclass(frozen=True, eq=False)
class Row:
    """The neighbours of a node, and all states of all of them in one list."""

    neighbours: Ints
    flat: Ints  # where each state stands among the states of all nodes
    owner: Ints  # the neighbour of each
    begin: Ints  # the first of each neighbour
    reach: Ints  # the most edges that each neighbour loses while the edge is there


class Bound:
    def __init__(self, network: Network, drops: Drops, anchors: Sequence[int], choices: Choices) -> None:
        self.network, self.drops, self.choices = network, drops, choices
        self.balls = self._balls(anchors)
        inner, nodes = self.balls[-2:]  # the last ones' states are known, as parents, and nothing else of them
        states = drops.budget[nodes] + 1
        self.first = {int(i): int(at) for i, at in zip(nodes, np.cumsum(states) - states, strict=True)}
        self.lost = np.concatenate([np.arange(number) for number in states])
        degree = np.repeat([len(drops.graph.neighbours[i]) for i in nodes], states)
        self.scales = {term.mixing: term.mixing.scales((degree - self.lost).astype(float))
                       for layer in network.layers for term in layer.terms}
        self.place = {int(i): at for at, i in enumerate(inner)}
        inputs = Boxes.between(drops.graph.x[inner], drops.graph.x[inner])
        self.features = {id(term): product(inputs, term.weight)
                         for layer in network.layers for term in layer.terms if term.source == 0}
        self.rows: dict[int, Row] = {}
        self.limited = drops.total < sum(int(free.sum()) for free in drops.free) // 2
        self.low: dict[int, Array] = {}  # of p, by layer, for all states
        self.high: dict[int, Array] = {}
        self.outputs: dict[int, Boxes] = {}
        self.sizes: dict[int, Array] = {}
        self.known: dict[tuple[int, int, str, bool], tuple[Array, ...]] = {}
        for number in range(1, len(network.layers) + 1):
            self._find_ranges(number)

    def _balls(self, anchors: Sequence[int]) -> list[Ints]:
        """The anchors, the nodes within one hop of them, and so on."""
        balls = [np.unique(np.array(anchors, dtype=np.int64))]
        for _ in range(max(self.network.hops) + 1):
            balls.append(np.unique(np.concatenate([balls[-1], *(self.drops.graph.neighbours[i] for i in balls[-1])])))
        return balls

    def row(self, i: int) -> Row:
        if i not in self.rows:
            neighbours = self.drops.graph.neighbours[i]
            number = self.drops.budget[neighbours] + 1
            begin = np.cumsum(number) - number
            owner = np.repeat(np.arange(len(neighbours)), number)
            flat = np.array([self.first[int(k)] for k in neighbours], dtype=np.int64)[owner] + (
                np.arange(len(owner)) - begin[owner])
            self.rows[i] = Row(neighbours, flat, owner, begin, self.drops.reach(i))
        return self.rows[i]

    def scale(self, term: Term, which: int, at: int | Ints) -> Scale:
        """own (0), out (1) or in (2) in some states."""
        found = self.scales[term.mixing][which]
        return Scale(found.low[at], found.high[at])

    # -- ranges of pre-activations -----------------------------------------------------------------

    def _find_ranges(self, number: int) -> None:
        layer, width = self.network.layers[number - 1], self.network.width(number)
        low, high = (np.full((len(self.lost), width), np.nan) for _ in range(2))
        used = any(term.source == number for other in self.network.layers for term in other.terms)
        lines = self.choices.functional and (used or not layer.activation.linear) and any(
            term.source for term in layer.terms)
        tables = {id(term): self._tables(term, self.balls[self.network.hops[number] + 1])
                  for term in layer.terms if term.mixes and term.source and lines}
        near = number in self.near
        for i in self.balls[self.network.hops[number]].tolist():
            for t in range(self.drops.states(i)):
                at = self.first[i] + t
                value = self._of_channels(i, t, number, None, {})
                for rule in self._rules(at, number - 1) if lines else ():
                    value = np.maximum(value, self._of_channels(i, t, number, rule, tables))
                low[at], high[at] = value[:width], -value[width:]
            if near:
                for t, boxes in self._by_sets(i, number):
                    at, each = self.first[i] + t, boxes[number].each()
                    low[at] = np.maximum(low[at], each[:, :width].min(axis=0))
                    high[at] = np.minimum(high[at], -each[:, width:].min(axis=0))
        self.low[number], self.high[number] = low, high
        there = ~np.isnan(low[:, 0])
        boxes = Boxes.between(*layer.activation.range(low[there], high[there]))
        middle, reach = (np.full_like(low, np.nan) for _ in range(2))
        middle[there], reach[there] = boxes.middle, boxes.reach
        self.outputs[number], self.sizes[number] = Boxes(middle, reach), boxes.size

    def _of_channels(self, i: int, t: int, number: int, rule: "Rule | None", tables: dict[int, dict[int, Array]]
                     ) -> Array:
        """Below all ``p_c`` and ``-p_c`` of a layer, ``(2 d,)``: by ranges alone, or by lines of the node's own layers
        and those of its neighbours."""
        constant, passed = self._chain(i, t, {}, number, rule)
        if not passed:
            return constant
        values = self._passed_values(i, t, [each for each in passed if id(each.term) not in tables])
        for each in passed:
            if id(each.term) in tables:
                values = down(values + self._out_in(i, t, each.term).times(self._looked_up(i, t, tables[id(each.term)])))
        return plus(constant, self._least_sum(i, t, values))

    def _tables(self, term: Term, nodes: Ints) -> dict[int, Array]:
        """Below ``±(W' h_k)_c`` for every state of k, and every state that a neighbour known to be there can be in:
        ``(states of k, states of neighbours, 2 d)``."""
        units, tables = term.units(), {}
        for k in nodes.tolist():
            here = []
            for s in range(self.drops.states(k)):
                ranges = self.outputs[term.source].rows(np.array([self.first[k] + s])).below(units)
                here.append(np.maximum(ranges, self._below(k, s, {term.source: units}, 1)))
            tables[k] = np.array(here)
        return tables

    def _looked_up(self, i: int, t: int, table: dict[int, Array]) -> Array:
        """The values of all neighbours of i in all their states, while i is in state t."""
        found = [table[k][:, self._as_parent(k, i, t)] for k in self.row(i).neighbours.tolist()]
        return np.concatenate(found) if found else np.zeros((0, 1))

    def _as_parent(self, k: int, i: int, t: int) -> int:
        """Where state t of i stands among the states of the neighbours of k."""
        row = self.row(k)
        return int(row.begin[np.searchsorted(row.neighbours, i)]) + t

    # -- layers of a node's own edges --------------------------------------------------------------

    @cached_property
    def near(self) -> set[int]:
        """Layers that depend on which edges a node loses alone: terms of features whose ``in`` is one, and local terms
        of such layers."""
        near: set[int] = set()
        for number, layer in enumerate(self.network.layers, 1):
            if self.choices.functional and all(
                    (term.source == 0 and term.mixing.name in ("local", "mean", "sum"))
                    or (term.source in near and not term.mixes) for term in layer.terms):
                near.add(number)
        return near

    def _by_sets(self, i: int, last: int) -> Iterator[tuple[int, dict[int, Boxes]]]:
        """For every state, boxes around the pre-activations of near layers up to one, for each set of lost edges."""
        free, budget = np.flatnonzero(self.drops.free[i]), self.drops.states(i) - 1
        if sum(comb(len(free), t) for t in range(budget + 1)) > MOST_SETS:
            return
        neighbours, degree = self.drops.graph.neighbours[i], len(self.drops.graph.neighbours[i])
        for t in range(budget + 1):
            kept = [np.setdiff1d(np.arange(degree), gone) for gone in combinations(free, t)]
            found: dict[int, Boxes] = {}
            for number in sorted(each for each in self.near if each <= last):
                layer, parts = self.network.layers[number - 1], []
                for term in layer.terms:
                    own, out = (self.scale(term, which, self.first[i] + t) for which in (0, 1))
                    if term.source:
                        below = self.network.layers[term.source - 1].activation
                        each = found[term.source].each()
                        width = each.shape[1] // 2
                        outputs = Boxes.between(*below.range(each[:, :width], -each[:, width:]))
                        parts.append(own.times(product(outputs, term.weight).each()))
                        continue
                    values = self.features[id(term)]
                    mine = own.times(values.rows(np.array([self.place[i]])).each())
                    around = values.rows(np.array([self.place[int(k)] for k in neighbours], dtype=np.int64)).each()
                    sums = np.array([sum_below(around[left]) for left in kept])
                    parts.append(down(mine + out.times(sums)))
                bias = np.concatenate([layer.bias, -layer.bias])
                both = plus(np.broadcast_to(bias, parts[0].shape), *parts)
                found[number] = Boxes.between(both[:, : len(layer.bias)], -both[:, len(layer.bias):])
            yield t, found

    # -- Theorem A ---------------------------------------------------------------------------------

    def lower(self, i: int, directions: Array) -> Array:
        """Below ``w · z_i`` whatever admissible edges are lost, ``(M, width)`` to ``(M,)``."""
        omega: dict[int, Array] = {}
        ends = np.cumsum([0, *map(self.network.width, self.network.readout)])
        for number, first, last in zip(self.network.readout, ends[:-1], ends[1:], strict=True):
            omega[number] = directions[:, first:last]
        best = [self._output(i, t, omega) for t in range(self.drops.states(i))]
        if self.near.issuperset(self.network.readout):
            for t, boxes in self._by_sets(i, max(self.network.readout)):
                value = np.zeros(1)
                for number, part in omega.items():
                    each, width = boxes[number].each(), part.shape[1]
                    outputs = Boxes.between(*self.network.layers[number - 1].activation.range(
                        each[:, :width], -each[:, width:]))
                    value = down(value + outputs.below(part))
                best[t] = np.maximum(best[t], value.min(axis=0))
        return np.min(best, axis=0)

    def _output(self, i: int, t: int, omega: dict[int, Array]) -> Array:
        best, _ = self._chain(i, t, omega, None, None)
        at, last = self.first[i] + t, max(omega)
        for patterns in sorted({1, self.choices.output}):
            chosen = self._dearest(last, at, omega[last], patterns)
            found = -np.inf
            for rule in self._rules(at, last):
                constant, passed = self._chain(i, t, omega, None, rule, chosen)
                rows = 1 if patterns == 1 < self.choices.output else self.choices.rows
                value = constant if not passed else plus(constant, self._least_sum(i, t, self._neighbour_values(
                    i, t, passed, rows)))
                found = np.maximum(found, value)
            best = np.maximum(best, np.reshape(found, (len(best), -1)).min(axis=1))
        return best

    def _neighbour_values(self, i: int, t: int, passed: list[Passed], patterns: int) -> Array:
        """Below all that is passed on to each neighbour in each of its states, by its ranges or its lines."""
        row, found = self.row(i), []
        left = np.minimum(row.reach, self.drops.total - t)
        for place, k in enumerate(row.neighbours.tolist()):
            for s in range(self.drops.states(k)):
                if s > left[place]:
                    found.append(np.full_like(found[-1], np.nan))  # not beside state t of i
                    continue
                at, omega, value = self.first[k] + s, {}, 0.0
                for each in passed:
                    scale = self.scale(each.term, 1, self.first[i] + t).by(self.scale(each.term, 2, at))
                    beta = each.beta
                    assert beta is not None
                    if each.term.source == 0:
                        value = down(value + scale.times(self._of_features(each.term, k, beta)))
                    else:
                        value = down(value - self._add(omega, each.term.source, scale, beta, each.residual))
                if omega:
                    ranges = plus(*(self.outputs[m].rows(np.array([at])).below(part)[0] for m, part in omega.items()))
                    lines = self._below(k, s, omega, patterns)[self._as_parent(k, i, t)]
                    value = down(value + np.maximum(ranges, lines))
                found.append(value)
        return np.array(found).reshape(len(row.flat), max(len(each.beta) for each in passed if each.beta is not None))

    def _below(self, k: int, s: int, omega: dict[int, Array], patterns: int) -> Array:
        """Below ``Σ ω · h_k`` in state s, for every state that a neighbour known to be there can be in, by lines:
        ``(states of neighbours, M)``."""
        row, at, last = self.row(k), self.first[k] + s, max(omega)
        best = np.full((len(row.flat), len(omega[last])), -np.inf)
        for number in sorted({1, patterns}):
            chosen, found = self._dearest(last, at, omega[last], number), -np.inf
            for rule in self._rules(at, last):
                constant, passed = self._chain(k, s, omega, None, rule, chosen)
                value = np.broadcast_to(constant, (len(row.flat), len(constant)))
                if passed:
                    values = self._passed_values(k, s, passed)
                    value = plus(value, self._least_sum(k, s, values, parents=True)[row.owner], values)
                found = np.maximum(found, value)
            best = np.maximum(best, np.reshape(found, (*best.shape, chosen.patterns if chosen else 1)).min(axis=2))
        return best

    def _chain(self, i: int, t: int, omega: dict[int, Array], top: int | None, rule: "Rule | None",
               chosen: "Pieces | None" = None) -> tuple[Array, list[Passed]]:
        """``Σ ω_l · h_i^l`` (and all channels of the pre-activations of layer ``top``, and their negatives) in state t
        is at least a constant and what is passed on to neighbours. Without a rule, outputs are bounded by ranges."""
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
                pieces = chosen if number == max(omega, default=0) else None
                slope, value = self._lines(layer, number, at, waiting.pop(number), rule, pieces)
                if pieces is not None:
                    waiting = {m: np.repeat(part, pieces.patterns, axis=0) for m, part in waiting.items()}
                positive, negative = np.maximum(slope, 0), np.minimum(slope, 0)
                constant = plus(constant, value, dot_below(positive, negative, layer.bias, layer.bias))
            for term in layer.terms:
                beta, residual = self._back(term, slope)
                own = self.scale(term, 0, at)
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
            4 * ETA * (slope.shape[1] + 1) * (1 + float(size.sum())))

    def _add(self, waiting: dict[int, Array], source: int, scale: Scale, beta: Array | None, residual: Array | float
             ) -> Array:
        """Add ``scale β`` to a functional, in floats; returns what that can be off by, and the residual of β."""
        assert beta is not None
        middle, before = scale.low / 2 + scale.high / 2, waiting.get(source, np.zeros((1, 1)))
        waiting[source] = before + middle * beta
        share = up(up((scale.high - scale.low) / np.maximum(scale.high, ETA)) + 8 * U)
        size = self.sizes[source]
        moved = np.abs(before) + scale.high * np.abs(beta)
        return up(up(dot_above(moved, up(share * size) * (1 + 8 * U)) + 4 * ETA * (1 + float(size.sum())))
                  + up(scale.high * residual))

    def _of_features(self, term: Term, k: int, slope: Array | None) -> Array:
        """Below ``λ · W' x_k``."""
        values = self.features[id(term)].rows(np.array([self.place[k]]))
        return values.each()[0] if slope is None else values.below(slope)[0]

    def _out_in(self, i: int, t: int, term: Term) -> Scale:
        """``out(n_i) in(n_k)`` for all states of all neighbours."""
        out = self.scale(term, 1, self.first[i] + t)
        return out.by(self.scale(term, 2, self.row(i).flat)).columns

    def _passed_values(self, i: int, t: int, passed: list[Passed]) -> Array:
        """Below what is passed on to each neighbour in each of its states, by ranges; exact for features."""
        row, total = self.row(i), np.zeros((len(self.row(i).flat), 1))
        for each in passed:
            if each.term.source == 0:
                around = self.features[id(each.term)].rows(
                    np.array([self.place[int(k)] for k in row.neighbours], dtype=np.int64))
                values = (around.each() if each.beta is None else around.below(each.beta))[row.owner]
            else:
                assert each.beta is not None
                values = down(self.outputs[each.term.source].rows(row.flat).below(each.beta) - each.residual)
            total = down(total + self._out_in(i, t, each.term).times(values))
        return total

    # -- Lemma R -----------------------------------------------------------------------------------

    def _least_sum(self, i: int, t: int, values: Array, parents: bool = False) -> Array:
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
        # Section "few edges in all": neighbours start from their clean values and lose at most so much for each edge.
        clean = values[row.begin]
        rate = np.where(inside & (lost > 0)[:, None], up(up(clean[row.owner] - values) / np.maximum(lost, 1)[:, None]), 0)
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
        return sum(int((self.drops.free[k] & np.isin(self.drops.graph.neighbours[k], around)).sum())
                   for k in around) // 2

    # -- lines -------------------------------------------------------------------------------------

    def _rules(self, at: int, last: int) -> "list[Rule]":
        """The ways to choose slopes in a state: each rule by the range of the state, and by that of its group; where an
        adaptive slope is a tie, both ways."""
        found = [Rule(name, False) for name in self.choices.rules]
        if "adaptive" in self.choices.rules and any(
                (np.abs(self.low[m][at] + self.high[m][at]) <= TIE * (self.high[m][at] - self.low[m][at])).any()
                for m in range(1, last + 1) if m in self.low and not self.network.layers[m - 1].activation.linear):
            found.append(Rule("adaptive, ties below", False))
        if at in self.group:
            found += [Rule(name, True) for name in self.choices.rules]
        return found or [Rule("adaptive", False)]

    @cached_property
    def group(self) -> dict[int, slice]:
        """The group of every state that is not alone in it."""
        found = {}
        for i, starts in self.choices.starts.items():
            if i in self.first and list(starts) == sorted({0, *starts}) and starts[-1] < self.drops.states(i):
                for first, last in zip(starts, (*starts[1:], self.drops.states(i)), strict=True):
                    if last - first > 1:
                        for t in range(first, last):
                            found[self.first[i] + t] = slice(self.first[i] + first, self.first[i] + last)
        return found

    def _line(self, layer: Layer, number: int, at: int, rule: "Rule") -> tuple[Array, ...]:
        """Slopes and intercepts around an activation in a state, and above all ``|p|`` there."""
        key = number, at, rule.name, rule.grouped
        if key not in self.known:
            low, high, across = self.low[number], self.high[number], self.group[at] if rule.grouped else slice(at, at + 1)
            slopes = layer.activation.slopes(low[across].min(axis=0), high[across].max(axis=0), rule.name)
            self.known[key] = (*slopes, *layer.activation.intercepts(low[at], high[at], *slopes),
                               np.maximum(np.abs(low[at]), np.abs(high[at])))
        return self.known[key]

    def _lines(self, layer: Layer, number: int, at: int, omega: Array, rule: "Rule", pieces: "Pieces | None"
               ) -> tuple[Array, Array]:
        """``ω · σ(p) >= λ · p + c`` in a state: λ and c; the least over the patterns where pieces are chosen."""
        if layer.activation.linear and pieces is None:
            return omega, np.zeros(len(omega))
        below, above, least, most, size = self._line(layer, number, at, rule)
        by_line = omega if pieces is None else np.where(pieces.there, 0.0, omega)
        positive, negative = np.maximum(by_line, 0), np.minimum(by_line, 0)
        slope, constant = positive * below + negative * above, dot_below(positive, negative, least, most)
        if pieces is not None:
            slope = (slope[:, None] + pieces.slopes).reshape(-1, omega.shape[1])
            constant = np.repeat(constant, pieces.patterns)
        # λ in floats is off by u |λ|: the line is that of the exact one.
        return slope, down(constant - up(dot_above(slope, up(4 * U * size)) + 4 * ETA * (1 + float(size.sum()))))

    def _dearest(self, number: int, at: int, omega: Array, patterns: int) -> "Pieces | None":
        """For the channels whose chords cost the most, the pieces of σ in the place of a line: ``ω σ(p)`` is the smaller
        of ``ω p`` and ``ω γ p`` if ω < 0 and γ <= 1, or ω > 0 and γ >= 1, whatever p is."""
        activation = self.network.layers[number - 1].activation
        if patterns == 1 or not isinstance(activation, TwoPiece) or activation.linear:
            return None
        slope = np.broadcast_to(activation.gamma, omega.shape[1:])
        _, _, least, most, _ = self._line(self.network.layers[number - 1], number, at, Rule("parallel", False))
        smaller = ((omega < 0) & (slope <= 1)) | ((omega > 0) & (slope >= 1))
        cost = np.where(smaller, -np.where(omega > 0, least, most) * omega, 0.0)
        there = np.zeros_like(smaller)
        bits = min(patterns.bit_length() - 1, omega.shape[1])
        channels = np.argsort(-cost, axis=1, kind="stable")[:, :bits]
        np.put_along_axis(there, channels, np.take_along_axis(cost, channels, axis=1) > 0, axis=1)
        slopes = np.zeros((len(omega), 1 << bits, omega.shape[1]))
        for m, some in enumerate(channels):
            for bit, channel in enumerate(some):
                if there[m, channel]:
                    on = (np.arange(1 << bits) >> bit & 1).astype(bool)
                    slopes[m, :, channel] = np.where(on, omega[m, channel], omega[m, channel] * slope[channel])
        return Pieces(there, slopes)


@dataclass(frozen=True)
class Rule:
    name: str
    grouped: bool


@dataclass(frozen=True, eq=False)
class Pieces:
    there: Array  # (M, d)
    slopes: Array  # (M, patterns, d)

    @property
    def patterns(self) -> int:
        return self.slopes.shape[1]
