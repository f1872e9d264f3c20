"""The most nodes that one change can cost at once: a linear program, and a proof of its value in integer arithmetic."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

ONE = 1 << 32  # represents 1 in integer arithmetic


@dataclass(frozen=True, eq=False)
class CollectiveProblem:
    """Which nodes can be lost by one drop set.

    Args:
        fields: ones where an edge is in the receptive field of a node, ``(A, E)``, int64.
        needed: the least number of edges of its field that can cost a node, at least 1, ``(A,)``.
        ends: the two ends of each edge, ``(2, E)``.
        local: ``q_v`` of all nodes of the graph, ``(N,)``.
        total: ``Q``.
    """

    fields: sp.csr_matrix
    needed: np.ndarray
    ends: np.ndarray
    local: np.ndarray
    total: int

    def most_lost(self, time_limit: float | None = None) -> int:
        """At least the number of nodes that any admissible drop set can cost, at most all of them.

        A set x of edges, of which ``b_i`` are in the field of i, loses i only if ``b_i >= needed_i``. So the number of
        lost nodes is at most the value of the linear program

            max Σ y_i,   needed_i y_i <= Σ_{e ∈ field(i)} x_e,   0 <= x, y <= 1,   Σ x <= Q,   Σ_{e at v} x_e <= q_v.

        Its solver works in floating point; what is returned is :meth:`proved` for the multipliers that it gives. A
        program that is not solved in time only costs tightness.
        """
        count, edges = self.fields.shape
        if not count or not edges or not self.total:
            return 0
        multipliers = self._solved(time_limit)
        return min(count, self.proved(*multipliers)) if multipliers is not None else count

    def proved(self, of_nodes: np.ndarray, of_total: float, of_ends: np.ndarray) -> int:
        """The number of lost nodes is at most this, whatever the multipliers ``u, θ, μ >= 0`` are.

        ``Σ y_i = Σ (1 - needed_i u_i) y_i + Σ u_i needed_i y_i <= Σ [1 - needed_i u_i]+ + Σ_e s_e x_e`` with
        ``s_e = Σ_{i : e ∈ field(i)} u_i``, and ``Σ_e s_e x_e <= Q θ + Σ_v q_v μ_v + Σ_e [s_e - θ - μ_v - μ_w]+`` for
        the ends v, w of e. The multipliers are rounded to multiples of 2^-32 first, so that everything after that is
        exact integer arithmetic.
        """
        most = len(of_nodes)
        u, mu, theta = (
            np.rint(np.clip(np.nan_to_num(part), 0, largest) * ONE).astype(np.int64)
            for part, largest in ((of_nodes, 1), (of_ends, most), (of_total, most))
        )
        score = self.fields.T @ u
        excess = score - theta - mu[self.ends].sum(axis=0)
        parts = (ONE - self.needed * u, excess)
        value = sum(int(part) for each in parts for part in each[each > 0].tolist())
        value += self.total * int(theta) + sum(int(q) * int(m) for q, m in zip(self.local, mu, strict=True) if m)
        return value // ONE

    def _solved(self, time_limit: float | None) -> tuple[np.ndarray, float, np.ndarray] | None:
        """The multipliers of the program's rows; None where it is not solved."""
        count, edges = self.fields.shape
        limits = sp.csr_matrix(
            (np.ones(2 * edges), (self.ends.ravel(), np.tile(np.arange(edges), 2))), shape=(len(self.local), edges)
        )
        binding = np.flatnonzero((np.diff(limits.indptr) > self.local) & (self.local < self.total))
        rows = sp.vstack(
            [
                sp.hstack([-self.fields.astype(float), sp.diags(self.needed.astype(float))]),
                sp.hstack([sp.csr_matrix(np.ones((1, edges))), sp.csr_matrix((1, count))]),
                sp.hstack([limits[binding], sp.csr_matrix((len(binding), count))]),
            ],
            format="csr",
        )
        right = np.concatenate([np.zeros(count), [self.total], self.local[binding]])
        wanted = np.concatenate([np.zeros(edges), -np.ones(count)])
        options = {} if time_limit is None else {"time_limit": time_limit}
        found = linprog(wanted, A_ub=rows, b_ub=right, bounds=(0, 1), method="highs", options=options)
        if found.status != 0:
            return None
        prices = -found.ineqlin.marginals
        of_ends = np.zeros(len(self.local))
        of_ends[binding] = prices[count + 1 :]
        return prices[:count], float(prices[count]), of_ends
