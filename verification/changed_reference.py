"""The plain recursion of :mod:`verification.network_reference` with edges that are added: states are (lost, gained)."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from verification.edge_changes import ChangedCase
from verification.network_case import Array, PlainTerm
from verification.network_reference import PROTOTYPE_LEVELS, PROTOTYPE_RULES, Functional, Reference, lines, scales

State = tuple[int, int]
UNLIMITED = 1 << 30


class ChangedReference(Reference):
    """Lower bounds of ``w_i · z_i`` for all nodes of a case whose edges change."""

    def __init__(self, changed: ChangedCase) -> None:
        case = changed.case
        self.case, self.rules, self.levels, self.total = case, PROTOTYPE_RULES, PROTOTYPE_LEVELS, case.graph_budget()
        self.neighbours = [sorted(case.graph[i]) for i in range(case.nodes)]
        self._tighten()
        local, total = (case.local, case.total) if changed.flips else (changed.local, changed.total)
        limit = [UNLIMITED] * case.nodes if local is None else (
            [local] * case.nodes if isinstance(local, int) else local)
        self.added = min(len(changed.free), UNLIMITED if total is None else total)
        self.both = limit if changed.flips else [UNLIMITED] * case.nodes
        self.both_total = UNLIMITED if not changed.flips or case.total is None else case.total
        self.gain = [min(most, self.added) for most in limit]
        while True:
            self.candidates = [[u + v - i for u, v in changed.free if i in (u, v) and min(
                self.gain[u], self.gain[v]) > 0] for i in range(case.nodes)]
            usable = [min(most, len(some)) for most, some in zip(self.gain, self.candidates, strict=True)]
            if usable == self.gain:
                break
            self.gain = usable
        self.ranges: dict[Any, tuple[Array, Array]] = {}
        for number, layer in enumerate(case.layers, 1):
            for i in range(case.nodes):
                for state in self.states(i):
                    units = np.eye(layer.width)
                    self.ranges[number, i, state] = (
                        np.array([self._channel(number, i, state, unit) for unit in units]),  # type: ignore[arg-type]
                        np.array([-self._channel(number, i, state, -unit) for unit in units]))  # type: ignore[arg-type]

    def states(self, i: int) -> list[State]:
        return [(t, a) for t in range(self.most[i] + 1) for a in range(self.gain[i] + 1)
                if t + a <= min(self.both[i], self.both_total)]

    def lower(self) -> Array:
        widths = [self.case.layers[number - 1].width for number in self.case.readout]
        found = []
        for i, direction in enumerate(self.case.directions):
            parts = dict(zip(self.case.readout, np.split(direction, np.cumsum(widths)[:-1]), strict=True))
            found.append(min(max(self._best(i, state, parts, {}, None, self.levels),  # type: ignore[arg-type]
                                 self._by_ranges(i, state, parts)) for state in self.states(i)))  # type: ignore[arg-type]
        return np.array(found)

    def _beside(self, k: int, i: int, state: State, new: int) -> Iterator[State]:
        others = sum(self._can_lose(k, j) for j in self.neighbours[k] if j != i)
        for t, a in self.states(k):
            if t <= others and a >= new and t + state[0] <= self.total and a + state[1] - new <= self.added and (
                    t + a + sum(state) - new <= self.both_total):
                yield t, a

    def _value(self, i: int, t: Any, omega: Functional, pre: Functional, parent: Any, rule: str,
               levels: int) -> float:
        lost, gained = t
        omega, n, value = dict(omega), len(self.neighbours[i]) - lost + gained, 0.0
        passed: list[tuple[PlainTerm, Array]] = []
        for number in range(max((0, *omega, *pre)), 0, -1):
            layer = self.case.layers[number - 1]
            functional, weight = pre.get(number, np.zeros(layer.width)), omega.pop(number, None)
            if weight is not None and not levels:
                value += self._by_ranges(i, t, {number: weight})
            elif weight is not None:
                free, lift, chord, offset = lines(*self.ranges[number, i, t], layer.activation, rule)
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
                value += self._term(k, parent[1], i, t, passed, levels)
                continue
            least = min(self._term(k, state, i, t, passed, levels) for state in self._beside(k, i, t, 0))
            value += least
            losable += [least] if self._can_lose(i, k) else []
        for k in self.candidates[i] if gained else []:
            if parent is not None and k == parent[0]:
                value += self._term(k, parent[1], i, t, passed, levels)
                gained -= 1
            else:
                terms.append(min(self._term(k, state, i, t, passed, levels) for state in self._beside(k, i, t, 1)))
        return value - sum(sorted(losable, reverse=True)[:lost]) + sum(sorted(terms)[:gained])

    def _term(self, k: int, state: Any, i: int, t: Any, passed: list[tuple[PlainTerm, Array]], levels: int) -> float:
        omega: Functional = {}
        for term, functional in passed:
            _, _, into = scales(term, len(self.neighbours[k]) - state[0] + state[1])
            omega[term.source] = omega.get(term.source, 0.0) + into * functional
        by_ranges = self._by_ranges(k, state, omega)
        if levels <= 1 or max(omega) == 0:
            return by_ranges
        return max(by_ranges, self._best(k, state, omega, {}, (i, t), levels - 1))
