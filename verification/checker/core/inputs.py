"""Features that may change: the least values of functionals of them.

Features enter a network as ``W' x``, so that a functional λ of that is ``μ · x`` with ``μ = W λ``. Whatever node k has
of the admissible features, ``μ · x̃`` is at least ``μ · x`` minus its *fall*,

    the off largest [μ_f x_f]+   +   the on largest [-μ_f]+ with x_f = 0   +   radius |μ|_1 :

a masked entry subtracts ``μ_f x_f``, a zero that becomes 1 adds ``μ_f``, and in a box each entry moves independently.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from .arithmetic import ETA, Array, Boxes, Ints, U, down, gamma, product, sum_below, up
from .changes import Changes, Features
from .network import Network, Term

Coefficients: TypeAlias = Callable[[Ints], tuple[Array, Array]]
"""From some features to μ there, ``(M, n)``, and above how far off that is."""


class Inputs:
    """``W' x̃`` of some nodes, for every term that takes features."""

    def __init__(self, network: Network, changes: Changes, nodes: Ints) -> None:
        self.nodes, self.place = nodes, {int(i): at for at, i in enumerate(nodes)}
        self.x, self.changed = changes.graph.x[nodes], changes.features
        clean = Boxes.between(self.x, self.x)
        terms = [term for layer in network.layers for term in layer.terms if term.source == 0]
        self.clean = {id(term): product(clean, term.weight) for term in terms}
        self.channels = {id(term): self._channels(term) for term in terms}

    def _channels(self, term: Term) -> Array:
        each, units = self.clean[id(term)].each(), term.units()
        if self.changed is None:
            return each
        exact = np.zeros((len(units), 1))
        falls = [total(self.falls(at, lambda some: (units[:, some], exact))) for at in range(len(self.nodes))]
        return down(each - np.array(falls))

    def each(self, term: Term, nodes: Sequence[int] | Ints) -> Array:
        """Below every channel, and its negative: ``(n, 2 d)``."""
        found: Array = self.channels[id(term)][self.places(nodes)]
        return found

    def size(self, term: Term) -> Array:
        """Above the absolute value of every channel at each node, ``(n, d)``."""
        low, negative = np.split(-self.channels[id(term)], 2, axis=1)
        return np.maximum(np.maximum(low, negative), 0)

    def below(self, term: Term, nodes: Sequence[int] | Ints, functional: Array) -> Array:
        """Below ``λ · W' x̃``: ``(M, d)`` to ``(n, M)``."""
        places = self.places(nodes)
        found = self.clean[id(term)].rows(places).below(functional)
        if self.changed is None or not len(places):
            return found
        parts = [(term, functional)]
        return down(found - np.array([total(self.falls(int(at), coefficients(parts))) for at in places]))

    def places(self, nodes: Sequence[int] | Ints) -> Ints:
        return np.array([self.place[int(k)] for k in nodes], dtype=np.int64)

    def falls(self, at: int, mu: Coefficients) -> list[Array]:
        """Above what masks and bits take off, one by one and the largest that a node's budgets allow, ``(M, n)``; and
        what the box does, ``(M, 1)``."""
        changed: Features | None = self.changed
        assert changed is not None
        x, k, found = self.x[at], int(self.nodes[at]), []
        if changed.masks(k):
            found.append(_largest(np.maximum(self.shares(at, mu), 0), changed.masks(k)))
        if changed.on[k]:
            here, error = mu(np.flatnonzero(x == 0))
            found.append(_largest(up(np.maximum(-here, 0) + error), int(changed.on[k])))
        if changed.radius[k] > 0:
            here, error = mu(np.arange(len(x)))
            size = -sum_below(-up(np.abs(here) + error), axis=1)
            found.append(up(size * changed.radius[k])[:, None])
        return found or [mu(np.zeros(0, dtype=np.int64))[0]]

    def shares(self, at: int, mu: Coefficients) -> Array:
        """Above what every feature that is not zero adds, ``(M, filled)``."""
        x, filled = self.x[at], np.flatnonzero(self.x[at])
        here, error = mu(filled)
        return up(up(here * x[filled]) + up(error * np.abs(x[filled])))


def coefficients(parts: Sequence[tuple[Term, Array]]) -> Coefficients:
    """``Σ W λ`` over some terms at some features in floats, and above how far off that is, ``(M, n)`` both."""

    def at(some: Ints) -> tuple[Array, Array]:
        mu, error = np.zeros((1, len(some))), np.zeros((1, len(some)))
        for term, functional in parts:
            size, number = np.abs(functional), functional.shape[1] + 4
            if term.weight.ndim == 1:
                here, reach = functional[:, some] * term.weight[some], size[:, some] * np.abs(term.weight[some])
            else:
                here, reach = functional @ term.weight[some].T, size @ np.abs(term.weight[some]).T
            mu = mu + here
            error = up(up(error + up(up(2 * gamma(number) * reach) + 4 * number * ETA)) + up(4 * U * np.abs(mu)))
        return mu, error

    return at


def total(falls: list[Array]) -> Array:
    """Above their sum, ``(M,)``."""
    return -sum_below(-np.concatenate(falls, axis=1), axis=1)


def _largest(values: Array, number: int) -> Array:
    first = max(0, values.shape[1] - number)
    return np.partition(values, first, axis=1)[:, first:] if values.shape[1] else values
