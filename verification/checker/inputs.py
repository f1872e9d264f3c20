"""Features that may change: the least that functionals of them can be.

Features enter a network as ``W' x``, so that a functional λ of that is ``μ · x`` with ``μ = W λ``. Whatever node k has
of the admissible features, ``μ · x̃`` is at least ``μ · x`` less its *fall*,

    the off largest [μ_f x_f]+   +   the on largest [-μ_f]+ with x_f = 0   +   radius |μ|_1 :

a masked entry takes ``μ_f x_f`` off, a zero that becomes 1 adds ``μ_f``, and in a box each entry moves by itself.
"""

from collections.abc import Sequence

import numpy as np

from .arithmetic import ETA, Array, Boxes, Ints, down, gamma, product, sum_below, up
from .changes import Changes, Features
from .statement import Network, Term


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
        falls = [total(self.falls(at, units, np.zeros_like(units))) for at in range(len(self.nodes))]
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
        mu, error = back(term, functional)
        return down(found - np.array([total(self.falls(int(at), mu, error)) for at in places]))

    def places(self, nodes: Sequence[int] | Ints) -> Ints:
        return np.array([self.place[int(k)] for k in nodes], dtype=np.int64)

    def falls(self, at: int, mu: Array, error: Array) -> list[Array]:
        """Above what masks and bits take off, one by one and the largest that a node's budgets allow, ``(M, n)``; and
        what the box does, ``(M, 1)``. ``mu`` is ``(M, F)``, within ``error`` of what it stands for."""
        changed: Features | None = self.changed
        assert changed is not None
        x, k, found = self.x[at], int(self.nodes[at]), []
        if changed.masks(k):
            filled = np.flatnonzero(x)
            masked = up(np.maximum(up(mu[:, filled] * x[filled]), 0) + up(error[:, filled] * np.abs(x[filled])))
            found.append(_largest(masked, changed.masks(k)))
        if changed.on[k]:
            zeros = np.flatnonzero(x == 0)
            found.append(_largest(up(np.maximum(-mu[:, zeros], 0) + error[:, zeros]), int(changed.on[k])))
        if changed.radius[k] > 0:
            size = -sum_below(-up(np.abs(mu) + error), axis=1)
            found.append(up(size * changed.radius[k])[:, None])
        return found or [np.zeros((len(mu), 1))]


def back(term: Term, functional: Array) -> tuple[Array, Array]:
    """``W λ`` in floats, and above how far off that is, ``(M, F)`` both."""
    mu, size = term.back(functional), np.abs(functional)
    reach = size * np.abs(term.weight) if term.weight.ndim == 1 else size @ np.abs(term.weight).T
    number = functional.shape[1] + 4
    return mu, up(up(2 * gamma(number) * reach) + 4 * number * ETA)


def total(falls: list[Array]) -> Array:
    """Above their sum, ``(M,)``."""
    return -sum_below(-np.concatenate(falls, axis=1), axis=1)


def _largest(values: Array, number: int) -> Array:
    number = min(number, values.shape[1])
    return (
        np.partition(values, values.shape[1] - number, axis=1)[:, values.shape[1] - number :]
        if number
        else values[:, :0]
    )
