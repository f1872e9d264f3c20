"""The most nodes that one change can cost at once: a linear program, and a proof of its value in integer arithmetic."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

FINEST = 32  # binary digits of a multiplier after the point, at most
DIGITS = 60  # of all that is summed


@dataclass(frozen=True, eq=False)
class CollectiveProblem:
    """Which nodes can be lost by one change. A change is a set of *items*, each of which may occur several times.

    Args:
        fields: how much an item counts for a node, integers, ``(A, E)``, int64.
        needed: how much has to count for a node before it can be lost, at least 1, ``(A,)``.
        times: how often every item can occur, ``(E,)``.
        limits: how much an item counts against each limit, ``(L, E)``, int64.
        most: how much each limit allows, ``(L,)``.
    """

    fields: sp.csr_matrix
    needed: np.ndarray
    times: np.ndarray
    limits: sp.csr_matrix
    most: np.ndarray

    def most_lost(self, time_limit: float | None = None) -> int:
        """An upper bound of the number of nodes that any admissible change can cost; at most all of them.

        A change x, of which ``b_i = Σ_e F_ie x_e`` counts for i, loses i only if ``b_i >= needed_i``. So the number of
        lost nodes is at most the value of the linear program

            max Σ y_i,   needed_i y_i <= Σ_e F_ie x_e,   0 <= y <= 1,   0 <= x <= times,   Σ_e L_le x_e <= most_l.

        Its solver works in floating point; what is returned is :meth:`proved` for the multipliers that it gives. A
        program that is not solved in time only costs tightness.
        """
        count, items = self.fields.shape
        if not count or not items or not self.fields.nnz:
            return 0
        multipliers = self._solved(time_limit)
        return min(count, self.proved(*multipliers)) if multipliers is not None else count

    @cached_property
    def one(self) -> int:
        """The integer that stands for 1, chosen so that sums over all nodes stay within 64 bits."""
        largest = max(int(part.max(initial=1)) for part in (self.needed, self.fields.data, self.limits.data))
        return 1 << max(0, min(FINEST, DIGITS - (largest * (sum(self.fields.shape) + len(self.most))).bit_length()))

    def proved(self, of_nodes: np.ndarray, of_limits: np.ndarray) -> int:
        """The number of lost nodes is at most this, whatever the multipliers ``u, μ >= 0`` are.

        ``Σ y_i = Σ (1 - needed_i u_i) y_i + Σ u_i needed_i y_i <= Σ [1 - needed_i u_i]+ + Σ_e s_e x_e`` with
        ``s_e = Σ_i F_ie u_i``, and ``Σ_e s_e x_e <= Σ_l most_l μ_l + Σ_e times_e [s_e - Σ_l L_le μ_l]+``. The
        multipliers are rounded to multiples of a power of two first, so that everything after that is exact integer
        arithmetic.
        """
        u, mu = (
            np.rint(np.clip(np.nan_to_num(part), 0, largest) * self.one).astype(np.int64)
            for part, largest in ((of_nodes, 1), (of_limits, len(of_nodes)))
        )
        excess = self.fields.T @ u - self.limits.T @ mu
        value = sum(part for part in (self.one - self.needed * u).tolist() if part > 0)
        value += sum(int(times) * int(part) for times, part in zip(self.times, excess, strict=True) if part > 0)
        value += sum(int(most) * int(part) for most, part in zip(self.most, mu, strict=True) if part)
        return value // self.one

    def _solved(self, time_limit: float | None) -> tuple[np.ndarray, np.ndarray] | None:
        """The multipliers of the program's rows; None where it is not solved."""
        count, items = self.fields.shape
        binding = np.flatnonzero(self.limits @ self.times > self.most)
        rows = sp.vstack(
            [
                sp.hstack([-self.fields.astype(float), sp.diags(self.needed.astype(float))]),
                sp.hstack([self.limits[binding].astype(float), sp.csr_matrix((len(binding), count))]),
            ],
            format="csr",
        )
        right = np.concatenate([np.zeros(count), self.most[binding]])
        wanted = np.concatenate([np.zeros(items), -np.ones(count)])
        bounds = np.stack([np.zeros(items + count), np.concatenate([self.times, np.ones(count)])], axis=1)
        options = {} if time_limit is None else {"time_limit": time_limit}
        found = linprog(wanted, A_ub=rows, b_ub=right, bounds=bounds, method="highs", options=options)
        if found.status != 0:
            return None
        prices = -found.ineqlin.marginals
        of_limits = np.zeros(len(self.most))
        of_limits[binding] = prices[count:]
        return prices[:count], of_limits
