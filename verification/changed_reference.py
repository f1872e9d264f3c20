"""The functional of networks whose edges change, by plain recursion over walks: slow, in NumPy, independent of certgcl.

A node that loses t edges and gains a is in *state* (t, a), which makes its scales numbers. In a state, a functional
``Σ_l ω_l · h^l_i`` is passed down the node's own layers by lines; the resulting functional of a neighbour is bounded in
the same way, given that the edge is present and the state of the node is known; of the neighbours' terms the t largest
are lost, of the candidates' the a smallest are gained. Ranges of pre-activations, which lines need, are such bounds of
single channels. With two levels of lines and two rules it is the bound from which the aims of
``verification.changed_audit`` come.
"""

from collections.abc import Iterator

import numpy as np

from verification.edge_changes import ChangedCase
from verification.network_case import Array, PlainActivation, PlainTerm

RULES, LEVELS = ("adaptive", "parallel"), 2
UNLIMITED = 1 << 30
Functional = dict[int, Array]  # ω by layer, 0 for the features
State = tuple[int, int]  # edges lost and gained
Parent = tuple[int, State]  # a neighbour whose edge is there, and its state


def scales(term: PlainTerm, n: int) -> tuple[float, float, float]:
    """The scales of a node with n neighbours: of itself, of the sum over neighbours, and of itself in such a sum."""
    match term.mixing:
        case "local":
            return 1.0, 0.0, 0.0
        case "sum":
            return 0.0, 1.0, 1.0
        case "mean":
            return 0.0, (1 / n if n else 0.0), 1.0
        case "symmetric":
            total = n + term.loop
            return (term.loop / total, total**-0.5, total**-0.5) if total > 0 else (0.0, 0.0, 0.0)


def apply(activation: PlainActivation | None, p: Array) -> Array:
    if activation is None:
        return p
    below = np.expm1(np.minimum(p, 0)) if activation.name == "elu" else p
    return np.where(p >= 0, p, activation.parameter * below)


def lines(low: Array, up: Array, activation: PlainActivation | None, rule: str) -> tuple[Array, Array, Array, Array]:
    """Slope and intercept of a line below an activation that is convex on ``[low, up]``, and of the chord above it."""
    if activation is None:
        return np.ones_like(low), np.zeros_like(low), np.ones_like(low), np.zeros_like(low)
    if activation.name == "elu":
        assert activation.parameter == 1.0, "another ELU has a kink"
        width, (at_low, at_up) = up - low, (apply(activation, p) for p in (low, up))
        chord = np.where(width > 1e-9, (at_up - at_low) / np.where(width > 1e-9, width, 1), np.exp(np.minimum(low, 0)))
        touch = {
            "parallel": np.clip(np.log(np.maximum(chord, 1e-300)), low, up),
            "adaptive": (low + up) / 2,
            "flat": low,
        }[rule]
        free = np.exp(np.minimum(touch, 0))  # the derivative, and the tangent of a convex function is below it
        return (
            free,
            apply(activation, touch) - free * touch,
            chord,
            np.maximum(at_low - chord * low, at_up - chord * up),
        )
    slope, below, above = activation.parameter, np.minimum(low, 0), np.maximum(up, 0)
    width = above - below
    chord = np.where(width > 0, (above - slope * below) / np.where(width > 0, width, 1), 1.0)
    free = {"parallel": chord, "adaptive": np.where(low + up >= 0, 1.0, slope), "flat": np.where(low >= 0, 1.0, slope)}
    return free[rule], np.zeros_like(low), chord, above - chord * above


class ChangedReference:
    """Lower bounds of ``w_i · z_i`` for all nodes of a case, with two-piece linear activations of slope at most one, or
    ELU."""

    def __init__(self, changed: ChangedCase) -> None:
        self.case = case = changed.case
        assert all(
            layer.activation is None or layer.activation.name in ("two-piece linear", "elu") for layer in case.layers
        )
        self.total, self.neighbours = case.graph_budget(), [sorted(case.graph[i]) for i in range(case.nodes)]
        self._tighten()
        self._tighten_gains(changed)
        self.ranges: dict[tuple[int, int, State], tuple[Array, Array]] = {}  # of p by layer, node and state
        for number, layer in enumerate(case.layers, 1):
            for i in range(case.nodes):
                for state in self.states(i):
                    units = np.eye(layer.width)
                    self.ranges[number, i, state] = (
                        np.array([self._channel(number, i, state, unit) for unit in units]),
                        np.array([-self._channel(number, i, state, -unit) for unit in units]),
                    )

    def _tighten(self) -> None:
        """The most edges that nodes can lose, and the edges that can be lost: those with some left at both ends."""
        self.most = [min(budget, self.total) for budget in self.case.node_budgets()]
        while True:
            self.droppable = {edge for edge in self.case.edges if min(self.most[edge[0]], self.most[edge[1]]) >= 1}
            usable = [min(most, sum(i in edge for edge in self.droppable)) for i, most in enumerate(self.most)]
            if usable == self.most:
                return
            self.most = usable

    def _tighten_gains(self, changed: ChangedCase) -> None:
        """The same for edges that are gained, and what both are limited to together."""
        case = changed.case
        local, total = (case.local, case.total) if changed.flips else (changed.local, changed.total)
        limit = (
            [UNLIMITED] * case.nodes if local is None else ([local] * case.nodes if isinstance(local, int) else local)
        )
        self.added = min(len(changed.free), UNLIMITED if total is None else total)
        self.both = limit if changed.flips else [UNLIMITED] * case.nodes
        self.both_total = UNLIMITED if not changed.flips or case.total is None else case.total
        self.gain = [min(most, self.added) for most in limit]
        while True:
            self.candidates = [
                [u + v - i for u, v in changed.free if i in (u, v) and min(self.gain[u], self.gain[v]) > 0]
                for i in range(case.nodes)
            ]
            usable = [min(most, len(some)) for most, some in zip(self.gain, self.candidates, strict=True)]
            if usable == self.gain:
                return
            self.gain = usable

    def states(self, i: int) -> list[State]:
        return [
            (t, a)
            for t in range(self.most[i] + 1)
            for a in range(self.gain[i] + 1)
            if t + a <= min(self.both[i], self.both_total)
        ]

    def lower(self) -> Array:
        """Over all nodes: the least over the states of the best of the rules."""
        widths = [self.case.layers[number - 1].width for number in self.case.readout]
        found = []
        for i, direction in enumerate(self.case.directions):
            parts = dict(zip(self.case.readout, np.split(direction, np.cumsum(widths)[:-1]), strict=True))
            found.append(
                min(
                    max(self._best(i, state, parts, {}, None, LEVELS), self._by_ranges(i, state, parts))
                    for state in self.states(i)
                )
            )
        return np.array(found)

    def _can_lose(self, i: int, k: int) -> bool:
        return (min(i, k), max(i, k)) in self.droppable

    def _states_with(self, k: int, i: int, state: State, new: int) -> Iterator[State]:
        """Of k while its edge to i is there, which is ``new`` (1) or not (0), and i is in a state."""
        others = sum(self._can_lose(k, j) for j in self.neighbours[k] if j != i)
        for t, a in self.states(k):
            if (
                t <= others
                and a >= new
                and t + state[0] <= self.total
                and a + state[1] - new <= self.added
                and (t + a + sum(state) - new <= self.both_total)
            ):
                yield t, a

    def _channel(self, number: int, i: int, state: State, unit: Array) -> float:
        return max(
            self._value(i, state, {}, {number: unit}, None, RULES[0], levels=0),
            self._best(i, state, {}, {number: unit}, None, LEVELS),
        )

    def _by_ranges(self, i: int, state: State, omega: Functional) -> float:
        value = 0.0
        for number, weight in omega.items():
            low = up = self.case.x[i]
            if number:
                activation, (lower, upper) = self.case.layers[number - 1].activation, self.ranges[number, i, state]
                ends = [apply(activation, p) for p in (lower, upper)]
                turns = activation is not None and activation.parameter < 0  # downwards, then upwards from zero
                valley = (lower < 0) & (upper > 0) & turns
                low, up = np.where(valley, 0.0, np.minimum(*ends)), np.maximum(*ends)
            value += float(np.maximum(weight, 0) @ low + np.minimum(weight, 0) @ up)
        return value

    def _best(
        self, i: int, state: State, omega: Functional, pre: Functional, parent: Parent | None, levels: int
    ) -> float:
        return max(self._value(i, state, omega, pre, parent, rule, levels) for rule in RULES)

    def _value(
        self, i: int, state: State, omega: Functional, pre: Functional, parent: Parent | None, rule: str, levels: int
    ) -> float:
        """At most ``Σ ω_l · h^l_i + Σ λ_l · p^l_i`` in a state; without levels, all of h is bounded by its ranges."""
        lost, gained = state
        omega, n, value = dict(omega), len(self.neighbours[i]) - lost + gained, 0.0
        passed: list[tuple[PlainTerm, Array]] = []  # to the neighbours
        for number in range(max((0, *omega, *pre)), 0, -1):
            layer = self.case.layers[number - 1]
            functional, weight = pre.get(number, np.zeros(layer.width)), omega.pop(number, None)
            if weight is not None and not levels:
                value += self._by_ranges(i, state, {number: weight})
            elif weight is not None:
                free, lift, chord, offset = lines(*self.ranges[number, i, state], layer.activation, rule)
                value += float(np.minimum(weight, 0) @ offset + np.maximum(weight, 0) @ lift)
                functional = functional + weight * np.where(weight >= 0, free, chord)
            value += float(functional @ layer.bias)
            for term in layer.terms:
                own, out, _ = scales(term, n)
                below = term.matrix() @ functional
                omega[term.source] = omega.get(term.source, 0.0) + own * below
                if term.mixing != "local":
                    passed.append((term, out * below))
        value += float(omega[0] @ self.case.x[i]) if 0 in omega else 0.0
        if not passed:
            return value
        losable, terms = [], []
        for k in self.neighbours[i]:
            if parent is not None and k == parent[0]:
                value += self._term(k, parent[1], i, state, passed, levels)
                continue
            least = min(self._term(k, other, i, state, passed, levels) for other in self._states_with(k, i, state, 0))
            value += least
            losable += [least] if self._can_lose(i, k) else []
        for k in self.candidates[i] if gained else []:
            if parent is not None and k == parent[0]:
                value += self._term(k, parent[1], i, state, passed, levels)
                gained -= 1
            else:
                terms.append(
                    min(self._term(k, other, i, state, passed, levels) for other in self._states_with(k, i, state, 1))
                )
        return value - sum(sorted(losable, reverse=True)[:lost]) + sum(sorted(terms)[:gained])

    def _term(
        self, k: int, state: State, i: int, of_i: State, passed: list[tuple[PlainTerm, Array]], levels: int
    ) -> float:
        """What is passed on from i in its state, at its neighbour k in a state."""
        omega: Functional = {}
        for term, functional in passed:
            _, _, into = scales(term, len(self.neighbours[k]) - state[0] + state[1])
            omega[term.source] = omega.get(term.source, 0.0) + into * functional
        by_ranges = self._by_ranges(k, state, omega)
        if levels <= 1 or max(omega) == 0:
            return by_ranges
        return max(by_ranges, self._best(k, state, omega, {}, (i, of_i), levels - 1))
