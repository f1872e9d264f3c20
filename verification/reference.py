"""The bounds ``degree`` and ``degree-cheap`` implemented a second time, from the formulas of ``docs/theory.md`` and in
its symbols.

One node, case, functional and count at a time: slow, and meant to be read together with the theory. It does not use
certgcl.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, pairwise, product
from math import floor
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from verification.case import Case
from verification.oracle import enumerated_minimum

Rule = Literal["adaptive", "flat", "parallel"]
Vector = NDArray[np.float64]


def degree_reference(
    case: Case,
    slopes: Sequence[Rule] = ("adaptive", "flat", "parallel"),
    resolution: int = 6,
    preactivations: Literal["functional", "interval"] = "functional",
    lines: Literal["by-count", "mixed", "shared"] = "by-count",
    few: int = 16,
    patterns: tuple[int, int] = (1, 1),
) -> Tensor:
    """``lower_i <= w_i · z_i(S)`` for every admissible S, ``(n,)``.

    Args:
        patterns: how many sign patterns are tried at the output, and at the neighbours of up to 16 edges.
        preactivations: ``"functional"`` is ``degree``, ``"interval"`` is ``degree-cheap``.
        lines: ``"shared"`` gives all cases of a row the union of their layer-1 intervals, and so the same lines;
            ``"mixed"`` does so at nodes of more than ``few`` edges.
    """
    if min(case.graph_budget(), len(case.edges)) == 1:  # section 15: one edge in all is enumerated
        return enumerated_minimum(case)
    most = {"by-count": case.nodes, "mixed": few, "shared": -1}[lines]
    bound = _Bound(case, slopes, resolution, preactivations == "functional", most, *patterns)
    return torch.tensor([bound.lower(i) for i in range(case.nodes)], dtype=torch.float64)


def least(low: float, high: float, v: float) -> float:
    """``least([lo, hi], v) = min(lo v, hi v)``."""
    return min(low * v, high * v)


class Drops:
    """What may be dropped, and the scales that are left (sections 1, 4 and 5)."""

    def __init__(self, case: Case) -> None:
        """``q_i <- min(q_i, d_i, Q)``, then ``q_i <- min(q_i, droppable edges at i)`` until nothing changes."""
        self.neighbours: list[list[int]] = [sorted(case.graph[i]) for i in range(case.nodes)]
        self.big_d = [len(neighbours) + 1 for neighbours in self.neighbours]
        self.q = [min(q, d - 1, case.graph_budget()) for q, d in zip(case.node_budgets(), self.big_d, strict=True)]
        before: list[int] = []
        while self.q != before:
            before = self.q
            self.q = [min(q, self.droppable_edges(i)) for i, q in enumerate(before)]
        droppable = sum(self.droppable(u, v) for u, v in case.edges)
        self.total = case.graph_budget() if case.graph_budget() < droppable else 2 * len(case.edges)  # no limit
        # What k can lose while (j, k) is kept: min(q_k, droppable edges of k other than (j, k)).
        self.most_drops = {
            (j, k): min(self.q[k], self.droppable_edges(k) - self.droppable(j, k))
            for k, neighbours in enumerate(self.neighbours)
            for j in neighbours
        }

    def droppable(self, i: int, j: int) -> bool:
        return self.q[i] >= 1 and self.q[j] >= 1

    def droppable_edges(self, i: int) -> int:
        return sum(self.droppable(i, j) for j in self.neighbours[i])

    def s(self, j: int, t: int) -> float:
        """``s_j(t) = (D_j - t)^(-1/2)``."""
        return float((self.big_d[j] - t) ** -0.5)

    def scaled(self, j: int, k: int, v: float) -> float:
        """``least([low, high], v)``: the least ``s_k v`` while (j, k) is kept."""
        return least(self.s(k, 0), self.s(k, self.most_drops[j, k]), v)

    def box_row(self, i: int, v: Vector) -> float:
        """``Σ_j least([L_ij, U_ij], v_j)``, i itself included (section 4)."""
        total = least(1 / self.big_d[i], 1 / (self.big_d[i] - self.q[i]), v[i])
        for j in self.neighbours[i]:
            lower = 0.0 if self.droppable(i, j) else self.s(i, 0) * self.s(j, 0)
            total += least(lower, self.s(i, self.most_drops[j, i]) * self.s(j, self.most_drops[i, j]), v[j])
        return total

    def row_lemma(
        self,
        j: int,
        counts: range,
        own: Callable[[float], float],
        g: Mapping[int, float],
        density: Mapping[int, float] | None = None,
        more: int = 0,
    ) -> float:
        """``min_t s_j(t) ( own(s_j(t)) + Σ_k g_k - top_(t + more) - gain_t )`` over the counts (sections 5, 15)."""
        total, largest = sum(g.values()), sorted((g[k] for k in g if self.droppable(j, k)), reverse=True)
        gain = [self.gain(j, t, density or {}) for t in counts]
        return min(
            self.s(j, t) * (own(self.s(j, t)) + total - sum(largest[: t + more]) - gained)
            for t, gained in zip(counts, gain, strict=True)
        )

    def gain(self, j: int, t: int, density: Mapping[int, float]) -> float:
        """``max Σ_k x_k ρ_k`` with ``0 <= x_k <= most_drops(j, k)`` and ``Σ_k x_k <= U_t`` (section 15)."""
        left = max(0, self.total - t)
        pairs = combinations(self.neighbours[j], 2)
        between = sum(self.droppable(k, other) for k, other in pairs if other in self.neighbours[k])
        units, gain = left + min(left, between), 0.0
        for k in sorted(density, key=lambda k: -density[k]):
            taken = min(units, self.most_drops[j, k])
            units, gain = units - taken, gain + taken * density[k]
        return gain

    def ways(self, j: int, v: Vector) -> list[tuple[dict[int, float], dict[int, float]]]:
        """The terms of ``s_k v_k``: each at its least; or all clean, with what a drop can gain at each (section 15)."""
        worst = {k: self.scaled(j, k, v[k]) for k in self.neighbours[j]}
        clean = {k: self.s(k, 0) * v[k] for k in self.neighbours[j]}
        return [(worst, {}), (clean, {k: (clean[k] - worst[k]) / max(1, self.most_drops[j, k]) for k in clean})]

    def groups(self, j: int, resolution: int) -> list[range]:
        """The counts ``0 … q``: one by one below ``resolution``, otherwise in that many groups (section 6).

        Group k starts at ``D (1 - ((D - q) / D)^(k / (resolution - 1)))``, rounded down, but early enough to leave a
        count to each group after it; the last is q alone. The starts get closer and closer, so no group is empty.
        """
        q, big_d, last = self.q[j], self.big_d[j], resolution - 1
        if q < resolution:
            return [range(t, t + 1) for t in range(q + 1)]
        if last == 0:
            return [range(q + 1)]
        starts = [floor(big_d * (1 - ((big_d - q) / big_d) ** (k / last))) for k in range(last)]
        starts = [min(start, q - (last - k)) for k, start in enumerate(starts)]
        return [range(start, end) for start, end in pairwise([*starts, q, q + 1])]


@dataclass(frozen=True, eq=False)
class Activated:
    """``σ(p)`` for ``l <= p <= u``, channel by channel (section 3)."""

    lower: Vector
    upper: Vector
    gamma: Vector

    def least(self, omega: Vector) -> float:
        """``ω+ · σ_lo + ω- · σ_up``."""
        ends = [np.where(p >= 0, p, self.gamma * p) for p in (self.lower, self.upper)]
        valley = (self.gamma < 0) & (self.lower < 0) & (self.upper > 0)
        low, high = np.where(valley, 0.0, np.minimum(*ends)), np.maximum(*ends)
        return float(omega @ np.where(omega >= 0, low, high))

    def line(self, omega: Vector, rule: Rule) -> tuple[Vector, float]:
        """``λ = ω+ a_lo + ω- a_up`` and ``c = Σ (ω+ c_lo + ω- c_up)``, so that ``ω · σ(p) >= λ · p + c``."""
        slope, intercept = np.array([self._lines(m, rule)[0 if omega[m] >= 0 else 1] for m in range(len(omega))]).T
        return omega * slope, float(omega @ intercept)

    def by_pattern(self, omega: Vector, rule: Rule, patterns: int) -> list[tuple[Vector, float]]:
        """Lines ``λ^α, c`` whose minimum is below ``ω · σ(p)``: on the channels with the costliest relaxations a piece
        of σ replaces the line, at no cost (section 6)."""
        slope, constant = self.line(omega, rule)
        pay = {m: -omega[m] * self._lines(m, rule)[0 if omega[m] >= 0 else 1][1] for m in range(len(omega))}
        number = patterns.bit_length() - 1
        dearest = [m for m in sorted(pay, key=lambda m: -pay[m])[:number] if pay[m] > 0]
        found = []
        for pieces in product(*((float(self.gamma[m]), 1.0) for m in dearest)):
            changed = slope.copy()
            changed[dearest] = omega[dearest] * np.array(pieces)
            found.append((changed, constant + sum(pay[m] for m in dearest)))
        return found

    def _lines(self, m: int, rule: Rule) -> tuple[tuple[float, float], tuple[float, float]]:
        """``(a_lo, c_lo)`` and ``(a_up, c_up)`` of channel m."""
        low, up, gamma = float(self.lower[m]), float(self.upper[m]), float(self.gamma[m])
        if low >= 0 or up <= 0:
            itself = (1.0 if low >= 0 else gamma, 0.0)
            return itself, itself
        a = (up - gamma * low) / (up - low)
        f = {"parallel": a, "adaptive": 1.0 if up >= -low else gamma, "flat": gamma}[rule]
        chord, free = (a, up - a * up), (f, 0.0)
        return (free, chord) if gamma <= 1 else (chord, free)


@dataclass(frozen=True, eq=False)
class Row:
    """A node in one of its cases: it loses one of ``counts``, its scale lies in ``[low, high]``."""

    node: int
    counts: range
    low: float
    high: float
    hidden: Activated


class _Bound:
    def __init__(
        self,
        case: Case,
        rules: Sequence[Rule],
        resolution: int,
        refine: bool,
        few: int,
        patterns: int,
        row_patterns: int,
    ) -> None:
        self.patterns, self.row_patterns = patterns, row_patterns
        self.drops, self.rules, self.refine = Drops(case), rules, refine
        self.y = (case.x @ case.w1).numpy()
        self.b1, self.slope1, self.w2, self.b2, self.slope2, self.w = (
            tensor.numpy() for tensor in (case.b1, case.slope1, case.w2, case.b2, case.slope2, case.directions)
        )
        self.box = [self.layer1(partial(self.drops.box_row, j)) for j in range(case.nodes)]
        self.rows = [
            self.cases(j, self.drops.groups(j, resolution), shared=len(self.drops.neighbours[j]) > few)
            for j in range(case.nodes)
        ]

    def layer1(self, minimum: Callable[[Vector], float]) -> Activated:
        """``l1, u1`` from the least ``Σ_k Â_jk y_k``, y the columns of Y and of -Y."""
        return Activated(
            self.b1 + np.array([minimum(y) for y in self.y.T]),
            self.b1 - np.array([minimum(-y) for y in self.y.T]),
            self.slope1,
        )

    def layer1_by_degree(self, j: int, counts: range, y: Vector) -> float:
        """The row lemma with ``g_k = least([low, high], y_k)`` and ``own(s) = s y_j`` (section 5)."""
        return max(self.drops.row_lemma(j, counts, lambda s: s * y[j], *way) for way in self.drops.ways(j, y))

    def cases(self, j: int, groups: list[range], shared: bool) -> list[Row]:
        """The cases of j, each with ``l1, u1`` of its own, or all with those over all counts."""
        alike = [range(groups[-1][-1] + 1)] * len(groups) if shared else groups
        hidden = [self.layer1(partial(self.layer1_by_degree, j, counts)) for counts in alike]
        return [
            Row(j, counts, self.drops.s(j, counts[0]), self.drops.s(j, counts[-1]), h)
            for counts, h in zip(groups, hidden, strict=True)
        ]

    def in_reach(self, i: int, j: int) -> list[Row]:
        """The cases of j that start at or below ``most_drops(i, j)``."""
        return [row for row in self.rows[j] if row.counts[0] <= self.drops.most_drops[i, j]]

    def lower(self, i: int) -> float:
        """``min_g max( w+ · σ_lo + w- · σ_up,  max_ρ ( F_i(g; W2 Λ_ρ) + Λ_ρ · b2 + const_ρ ) )`` (section 7)."""
        return min(self.output(anchor) for anchor in self.rows[i])

    def output(self, anchor: Row) -> float:
        """The maximum in :meth:`lower`, for one case of the anchor."""
        w, z = self.w[anchor.node], self.layer2(anchor)

        def value(slope: Vector, constant: float, patterns: int = 1) -> float:
            return self.functional(anchor, self.w2 @ slope, patterns) + float(slope @ self.b2) + constant

        by_rule = {rule: value(*z.line(w, rule)) for rule in self.rules}
        lines = z.by_pattern(w, max(by_rule, key=lambda rule: by_rule[rule]), self.patterns)
        return max(z.least(w), *by_rule.values(), min(value(*line, self.row_patterns) for line in lines))

    def layer2(self, anchor: Row) -> Activated:
        """``l2, u2`` from the best lower bounds of ``ω · Σ_j Â_ij h_j``, ``ω = ±W2[:, m]`` (sections 5 and 7)."""
        ways = [self.on_box, self.by_degree, *([self.functional] if self.refine else [])]
        least_sum = np.array([max(way(anchor, column) for way in ways) for column in self.w2.T])
        negative_most = np.array([max(way(anchor, -column) for way in ways) for column in self.w2.T])
        return Activated(self.b2 + least_sum, self.b2 - negative_most, self.slope2)

    def on_box(self, anchor: Row, omega: Vector) -> float:
        """``Σ_j least([L_ij, U_ij], v_j)``, v_j the interval value of ``ω · h_j`` on the box (section 4)."""
        return self.drops.box_row(anchor.node, np.array([hidden.least(omega) for hidden in self.box]))

    def by_degree(self, anchor: Row, omega: Vector) -> float:
        """The row lemma with ``g_j`` the least ``s_j V_j`` over j's counts in reach, ``own(s) = s V_i`` (section 5)."""
        i, own = anchor.node, anchor.hidden.least(omega)
        g = {
            j: min(
                least(row.low, min(row.high, self.drops.s(j, self.drops.most_drops[i, j])), row.hidden.least(omega))
                for row in self.in_reach(i, j)
            )
            for j in self.drops.neighbours[i]
        }
        return self.drops.row_lemma(i, anchor.counts, lambda s: s * own, g)

    def functional(self, anchor: Row, omega: Vector, patterns: int = 1) -> float:
        """``F_i(g)``, with the best rule for the anchor's own line (section 6)."""
        best = {
            j: [(row, self.best(anchor, row, omega, patterns)) for row in self.in_reach(anchor.node, j)]
            for j in self.drops.neighbours[anchor.node]
        }
        return max(self.anchor_minimum(anchor, *self.terms(anchor, omega, rule), best) for rule in self.rules)

    def anchor_minimum(self, anchor: Row, c: Vector, e: float, best: Mapping[int, list[tuple[Row, float]]]) -> float:
        """``min_t τ ( τ (τ² C_ii + e_i) + Σ_j φ_ij - (the t largest φ_ij) )`` with
        ``φ_ij = min_g' least( [lo, hi],  best + least([τ_lo², τ_hi²], C_ij) )``."""
        left = self.drops.total - anchor.counts[0]  # what j can lose in addition to the anchor's own (section 15)
        terms = {
            j: [
                (row.counts[0], least(row.low, row.high, value + least(anchor.low**2, anchor.high**2, c[j])))
                for row, value in best[j]
                if row.counts[0] <= left
            ]
            for j in best
        }
        phi = {j: min(term for _, term in terms[j]) for j in terms}
        clean = {j: terms[j][0][1] for j in terms}
        density = {j: max([0.0, *((clean[j] - term) / lost for lost, term in terms[j] if lost)]) for j in terms}
        minimum = partial(
            self.drops.row_lemma, anchor.node, anchor.counts, lambda tau: tau * (tau**2 * c[anchor.node] + e)
        )
        return max(minimum(phi), minimum(clean, density))

    def best(self, anchor: Row, row: Row, omega: Vector, patterns: int) -> float:
        """``max( interval_j,  max_rules line_j,  min_α max_rules line_j^α )``, the last in rows of up to 16 edges."""

        def line(slope: Vector, constant: float) -> float:
            c, e = self.y @ slope, float(slope @ self.b1) + constant
            back = least(row.low * anchor.low, row.high * anchor.high, c[anchor.node])
            return self.without(anchor.node, row, c) + e + back

        lines = [line(*row.hidden.line(omega, rule)) for rule in self.rules]
        if len(self.drops.neighbours[row.node]) <= 16:
            by_rule = [row.hidden.by_pattern(omega, rule, patterns) for rule in self.rules]
            lines.append(min(max(line(*pattern) for pattern in alike) for alike in zip(*by_rule, strict=True)))
        return max(row.hidden.least(omega), *lines)

    def without(self, i: int, row: Row, c: Vector) -> float:
        """``s_j (s_j C_jj + rest_ij(t'))`` for a single count t'. For a group of counts

            max( min_t' s (s C_jj + Σ_k g_k - top_t') - max(lo g_i, hi g_i),
                 min_t' s (s C_jj + Σ_k g_k - top_(t'+1)) ),

        the second only if (i, j) is droppable; for a single count in reach this is the same (leave-one-out identity).
        """
        j = row.node
        minimum = partial(self.drops.row_lemma, j, row.counts, lambda s: s * c[j])
        candidates = []
        for g, density in self.drops.ways(j, c):
            if len(row.counts) == 1:
                candidates.append(minimum({k: g[k] for k in g if k != i}, density))
            else:
                candidates.append(minimum(g, density) - max(row.low * g[i], row.high * g[i]))
                if self.drops.droppable(i, j):
                    candidates.append(minimum(g, density, more=1))
        return max(candidates)

    def terms(self, row: Row, omega: Vector, rule: Rule) -> tuple[Vector, float]:
        """``C_jk = y_k · λ_j`` for all nodes k, and ``e_j = λ_j · b1 + c_j`` (section 4)."""
        slope, constant = row.hidden.line(omega, rule)
        return self.y @ slope, float(slope @ self.b1) + constant
