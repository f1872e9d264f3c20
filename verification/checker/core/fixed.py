"""Theorem B: features alone change. All edges stay, so that the paths to a node's features are known and can be merged.

With the graph as it is, layer l is ``p^l = Σ_terms A W' h + b`` with matrices A of numbers. Lines take a functional of
a layer's outputs to one of its pre-activations, at every node and from the top down; and all paths to node k end in
one functional ``μ_k`` of its features,

    Σ_l ω_l · h^l_i  >=  c + Σ_k μ_k · x̃_k    for every admissible X̃,

if the lines hold on the ranges of the pre-activations, which are such bounds of channels, layer by layer. The right
side is linear in X̃. Its fall is at most the sum of the nodes' falls (``inputs.py``); with a total, the largest of all
single falls that it allows; and for columns, the largest ``[Σ_k μ_kf x_kf]+``, as a masked column takes that sum off.
"""

from collections.abc import Sequence
from itertools import product as product_of

import numpy as np

from ..choices import Choices, Rule
from .arithmetic import ETA, Array, Boxes, Ints, U, dot_below, down, gamma, plus, product, sum_below, up
from .changes import Changes
from .inputs import Inputs, coefficients, total
from .lines import Lines, Pieces
from .network import Mixing, Network, Term
from .rows import States


class Fixed:
    """Ranges of all layers around some anchors over changed features, and lower bounds of functionals."""

    def __init__(self, network: Network, changes: Changes, anchors: Sequence[int], choices: Choices) -> None:
        assert changes.features is not None
        self.network, self.changes, self.features, self.choices = network, changes, changes.features, choices
        self.states = States(network, changes, anchors)
        assert not self.states.edges_change
        self.lines = Lines(network, self.states, choices)
        self.first, self.nodes = self.states.first, self.states.balls[-2]
        self.inputs = Inputs(network, changes, self.nodes)
        self.outputs: dict[int, Boxes] = {}
        self.sizes: dict[int, Array] = {}  # (nodes, d), above |h|
        self._matrices: dict[tuple[int, Mixing], tuple[Array, Array]] = {}
        self._fields: dict[int, Ints] = {}
        for number in range(1, len(network.layers) + 1):
            self._find_ranges(number)

    # -- ranges ------------------------------------------------------------------------------------

    def _find_ranges(self, number: int) -> None:
        layer, width = self.network.layers[number - 1], self.network.width(number)
        low, high = (np.full((len(self.states.lost), width), np.nan) for _ in range(2))
        lines = self.choices.functional or all(term.source == 0 for term in layer.terms)
        for i in self.states.balls[self.network.hops[number]].tolist():
            value = self._by_ranges(i, number)
            for rule in self._rules(i, number - 1) if lines else ():
                value = np.maximum(value, self._least(i, {}, rule, number))
            low[self.first[i]], high[self.first[i]] = value[:width], -value[width:]
        self.lines.low[number], self.lines.high[number] = low, high
        middle, reach, size = (np.full_like(low, np.nan) for _ in range(3))
        there = ~np.isnan(low[:, 0])
        known = Boxes.between(*layer.activation.range(low[there], high[there]))
        middle[there], reach[there] = known.middle, known.reach
        size[there] = up(np.abs(known.middle) + known.reach)
        self.outputs[number], self.sizes[number] = Boxes(middle, reach), size

    def _rules(self, i: int, last: int) -> list[Rule]:
        """One for all nodes of a field; ties are broken both ways."""
        found = [Rule(name, False) for name in self.choices.rules] or [Rule("adaptive", False)]
        return [*found, Rule("adaptive, ties below", False)] if "adaptive" in self.choices.rules and last else found

    def _by_ranges(self, i: int, number: int) -> Array:
        """Below all ``±p_c`` of a layer, by the ranges of what it takes."""
        layer = self.network.layers[number - 1]
        found = np.concatenate([layer.bias, -layer.bias])
        for term in layer.terms:
            around = [i, *self.changes.graph.neighbours[i].tolist()] if term.mixes else [i]
            at = np.array([self.first[k] for k in around])
            if term.source == 0:
                values = self.inputs.each(term, around)
            else:
                values = product(self.outputs[term.source].rows(at), term.weight).each()
            own, out, into = self.states.scales[term.mixing]
            scaled = own.at(int(at[0])).times(values[0])
            if term.mixes:
                by = out.at(int(at[0])).by(into.at(at[1:]))
                scaled = down(scaled + sum_below(by.columns.times(values[1:])))
            found = down(found + scaled)
        return found

    # -- merged paths ------------------------------------------------------------------------------

    def lower(self, i: int, directions: Array, enough: Array | float = np.inf) -> Array:
        """Below ``w · z_i`` whatever features are there, ``(M, width)`` to ``(M,)``."""
        omega = self.network.split(directions)
        at = np.array([self.first[i]])
        best = plus(*(self.outputs[number].rows(at).below(part)[0] for number, part in omega.items()))
        pieces = self.choices.output, self.choices.rows
        for rule, patterns in product_of(self._rules(i, max(omega)), dict.fromkeys([(1, 1), pieces])):
            if (best >= enough).all():
                break
            best = np.maximum(best, self._least(i, omega, rule, patterns=patterns))
        return best

    def _field(self, i: int) -> Ints:
        """The nodes that a node depends on, itself first."""
        if i not in self._fields:
            ring = {i}
            for _ in range(max(self.network.hops)):
                ring |= {int(k) for j in ring for k in self.changes.graph.neighbours[j]}
            self._fields[i] = np.array([i, *sorted(ring & set(self.inputs.place) - {i})], dtype=np.int64)
        return self._fields[i]

    def _matrix(self, i: int, mixing: Mixing) -> tuple[Array, Array]:
        """About A between the nodes of a field, and above how far that is off; NaN in rows that lead out of it."""
        if (i, mixing) not in self._matrices:
            field = self._field(i)
            place = {int(k): at for at, k in enumerate(field)}
            own, out, into = (
                scale.at(np.array([self.first[int(k)] for k in field])) for scale in self.states.scales[mixing]
            )
            low, high = np.diag(own.low), np.diag(own.high)
            for at, k in enumerate(field):
                around = self.changes.graph.neighbours[k].tolist()
                if not all(j in place for j in around):
                    low[at], high[at] = np.nan, np.nan
                elif around:
                    to = np.array([place[j] for j in around])
                    entry = out.at(at).by(into.at(to))
                    low[at, to], high[at, to] = entry.low, entry.high
            middle = low / 2 + high / 2
            off = up(np.maximum(high - middle, middle - low))
            self._matrices[i, mixing] = middle, np.where(high == 0, 0.0, up(off))
        return self._matrices[i, mixing]

    def _least(
        self,
        i: int,
        omega: dict[int, Array],
        rule: Rule,
        top: int | None = None,
        patterns: tuple[int, int] = (1, 1),
    ) -> Array:
        """Below functionals of the outputs of node i (or all ``±p_c`` of layer ``top``), by one rule for lines, or the
        least over pieces of the costliest activations of two layers, the channels of all nodes together."""
        field, left = self._field(i), [number for number in patterns if number > 1]
        waiting = {number: self._at_first(part, len(field)) for number, part in omega.items()}
        features: list[tuple[Term, Array]] = []
        constant: Array = np.zeros(1)
        for number in range(len(self.network.layers), 0, -1):
            layer = self.network.layers[number - 1]
            if number == top:
                eye = np.eye(len(layer.bias))
                here = self._at_first(np.concatenate([eye, -eye]), len(field))
            elif number in waiting:
                given, pieces = waiting.pop(number), None
                if left:
                    states = [self.first[int(k)] for k in field]
                    pieces = self.lines.pieces(number, states, given, left[0])
                here, values = self._through_lines(number, field, given, rule, pieces)
                if pieces is not None:
                    left, ways = left[1:], pieces[0].patterns
                    waiting = {m: np.repeat(part, ways, axis=1) for m, part in waiting.items()}
                    features = [(term, np.repeat(part, ways, axis=1)) for term, part in features]
                    constant = np.repeat(constant, ways) if len(constant) > 1 else constant
                constant = down(constant + sum_below(values))
            else:
                continue
            constant = down(constant + sum_below(self._of_bias(here, layer.bias)))
            for term in layer.terms:
                below, off = self._spread(i, term, here)
                if term.source == 0:
                    features.append((term, below))
                    size = self.inputs.size(term)[self.inputs.places(field)]
                else:
                    size = self.sizes[term.source][[self.first[int(k)] for k in field]]
                    below, off = self._back(term, below, off, waiting.get(term.source))
                    waiting[term.source] = below
                constant = down(constant - _products(off, size))
        for term, functional in features:
            boxes = self.inputs.clean[id(term)].rows(self.inputs.places(field))
            each = [boxes.rows(np.array([at])).below(part)[0] for at, part in enumerate(functional)]
            constant = down(constant + sum_below(np.array(each)))
        found = down(constant - self._fall(field, features)) if features else constant
        return found.reshape(len(next(iter(omega.values()))), -1).min(axis=1) if top is None else found

    @staticmethod
    def _at_first(functional: Array, nodes: int) -> Array:
        return np.concatenate([functional[None], np.zeros((nodes - 1, *functional.shape))])

    def _through_lines(
        self, number: int, field: Ints, omega: Array, rule: Rule, pieces: list[Pieces] | None
    ) -> tuple[Array, Array]:
        """``ω · h >= λ · p + c`` at every node that has a functional: λ, and c ``(nodes, M)``; in the order of
        functionals, and then of patterns."""
        layer, ways = self.network.layers[number - 1], 1 if pieces is None else pieces[0].patterns
        nodes, functionals, width = omega.shape
        slopes, values = np.zeros((nodes, functionals * ways, width)), np.zeros((nodes, functionals * ways))
        for at, k in enumerate(field.tolist()):
            if omega[at].any():
                chosen = None if pieces is None else pieces[at]
                slopes[at], values[at] = self.lines.below(layer, number, self.first[k], omega[at], rule, chosen)
        return slopes, values

    @staticmethod
    def _of_bias(functional: Array, bias: Array) -> Array:
        """Below ``λ · b`` at every node, ``(nodes, M)``."""
        parts = functional.reshape(-1, len(bias))
        return dot_below(np.maximum(parts, 0), np.minimum(parts, 0), bias, bias).reshape(functional.shape[:2])

    def _spread(self, i: int, term: Term, functional: Array) -> tuple[Array, Array]:
        """``A' λ`` in floats, and above how far that is off, ``(nodes, M, d)`` both."""
        some = functional.any(axis=(1, 2))
        if not term.mixes or not some.any():
            return functional, np.zeros_like(functional)
        middle, off_of_a = (part[some] for part in self._matrix(i, term.mixing))
        flat, number = functional[some].reshape(len(middle), -1), len(middle) + 4
        error = np.where(middle == 0, off_of_a, up(off_of_a + up(2 * gamma(number) * middle)))
        off = up(up((error.T @ np.abs(flat)) * (1 + 4 * gamma(number))) + 8 * number * ETA)
        reached = ((middle != 0) | (off_of_a != 0)).any(axis=0)[:, None]  # where A is zero, so is the product
        return (middle.T @ flat).reshape(functional.shape), np.where(reached, off, 0.0).reshape(functional.shape)

    @staticmethod
    def _back(term: Term, below: Array, off: Array, before: Array | None) -> tuple[Array, Array]:
        """``W λ`` added to a functional in floats, and above how far that is off."""
        some, step = (below != 0).any(axis=(1, 2)) | (off != 0).any(axis=(1, 2)), gamma(below.shape[2] + 4)
        weight = np.abs(term.weight)
        width = len(weight)
        found = np.zeros((*below.shape[:2], width)) if before is None else before.copy()
        error = np.zeros((*below.shape[:2], width))
        size = up(2 * step * np.abs(below[some])) + off[some]
        size = size * weight if weight.ndim == 1 else size @ weight.T
        beta = below[some] * term.weight if weight.ndim == 1 else below[some] @ term.weight.T
        error[some] = up(size * (1 + 4 * step)) + up(8 * U * (np.abs(found[some]) + np.abs(beta))) + 8 * width * ETA
        error[some] = up(error[some] * (1 + 8 * U))
        found[some] += beta
        return found, error

    def _fall(self, field: Ints, parts: list[tuple[Term, Array]]) -> Array:
        """Above how far ``Σ_k μ_k · x̃_k`` can fall, ``(M,)``; functionals of ``W' x``, ``(nodes, M, d)``."""
        falls: list[Array] = []
        columns = np.zeros((parts[0][1].shape[1], self.inputs.x.shape[1]))
        for at, place in enumerate(self.inputs.places(field).tolist()):
            mu = coefficients([(term, functional[at]) for term, functional in parts])
            if self.features.columns is None:
                falls += self.inputs.falls(place, mu)
            else:
                filled = np.flatnonzero(self.inputs.x[place])
                columns[:, filled] = up(columns[:, filled] + self.inputs.shares(place, mu))
        if self.features.columns is not None:
            return total([np.sort(np.maximum(columns, 0), axis=1)[:, ::-1][:, : self.features.columns]])
        if self.features.radius.any():
            return total(falls)
        return total([np.sort(np.concatenate(falls, axis=1), axis=1)[:, ::-1][:, : self.features.total]])


def _products(error: Array, size: Array) -> Array:
    """Above ``Σ_k e_k · s_k``, ``(nodes, M, d)`` and ``(nodes, d)`` to ``(M,)``; sizes that are unknown must not be
    needed."""
    some = error.any(axis=(1, 2))
    found = np.einsum("kmd,kd->m", error[some], size[some])
    number = error.shape[0] * error.shape[2]
    return up(up(found * (1 + 4 * gamma(number + 4))) + 4 * (number + 1) * ETA)
