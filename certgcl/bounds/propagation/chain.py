"""Passes functionals down through the layers of one node.

``Σ_l ω_l · h^l_i`` is at least

    constant  +  Σ_mixes  out(n_i) Σ_{kept k} in(n_k)  β · h^m_k

in a cell of node i: at each layer, from the last one down, lines take ``ω · h`` to ``λ · p + c``, and ``λ · p`` is the
sum of its terms: those of the node itself go to ``ω`` of lower layers (a local term by ``W λ``, an aggregated one by
``own(n_i) W λ``), those of its neighbours are the mixes, ``β = W λ``, and biases and features are numbers. Each step
replaces a functional by something no larger, whichever lines are taken; so the *rules* for their slopes are
alternatives, and the best one is taken.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

from certgcl.bounds.propagation.balls import Ball
from certgcl.bounds.propagation.drop_counts import Scale
from certgcl.bounds.propagation.functionals import Functionals
from certgcl.bounds.propagation.recompute import once
from certgcl.models.activations import SlopeRule
from certgcl.models.layer import Term

if TYPE_CHECKING:
    from certgcl.bounds.propagation.ranges import NetworkRanges


@dataclass(frozen=True, eq=False)
class Mix:
    """Functionals of the neighbours, by one aggregated term.

    Args:
        functionals: of the outputs of the term's source; where that is the features, of ``W' x``.
    """

    term: Term
    functionals: Functionals


class Descent(NamedTuple):
    """The result for a functional: numbers ``(E or 1, R or 1, M)``, and functionals of neighbours."""

    constant: Tensor
    mixes: list[Mix]


class Cells(NamedTuple):
    """Some cells of a ball."""

    ball: Ball
    place: Tensor  # (E,)

    @property
    def row(self) -> Tensor:
        return self.ball.cells.row[self.place]

    @property
    def node(self) -> Tensor:
        return self.ball.nodes[self.row]

    def states_in(self, other: Ball) -> Tensor:
        """Their cells in a wider ball."""
        return self.place if other is self.ball else self.ball.cells_in(other, self.place)


def descend(
    ranges: "NetworkRanges",
    cells: Cells,
    rules: Sequence[SlopeRule],
    omega: Mapping[int, Functionals],
    top: tuple[int, Functionals] | None = None,
) -> Descent:
    """Take functionals ``ω_l`` of layers' outputs down to the features.

    Args:
        cells: E cells, one for each entry.
        omega: by layer.
        top: a layer, above all of these, and functionals of its pre-activations.
    """
    network, waiting, mixes = ranges.network, dict(omega), []
    constant: Tensor | None = None
    for number in range(len(network.layers), 0, -1):
        layer = network.layers[number - 1]
        if top is not None and number == top[0]:
            here, value = top[1], layer.bias.new_zeros(())
        elif number in waiting:
            here, value = ranges.lines_below(number, cells, rules, waiting.pop(number))
        else:
            continue
        value = value + here.dot(layer.bias)
        passed: dict[int, Functionals] = {}  # terms may share their weight, as those of a GIN do
        for term in layer.terms:
            below = here if term.source == 0 else once(passed, id(term.weight), partial(here.back, term))
            own: Scale | None = None
            if term.aggregation.mixes:
                mixes.append(Mix(term, below))
                own = cells.ball.cells.extent(term.aggregation.own, layer.bias.dtype).take(cells.place)
                if not bool((own.low if own.high is None else own.high).any()):
                    continue  # the node itself is not part of the sum
            if layer.mixes and term.source and ranges.settings.brief:
                value = value + _own_range(ranges, term.source, cells, below, own)
                continue
            if term.source == 0:
                product = ranges.features_below(term, below, ranges.widest.place[cells.node])
                value = value + (product if own is None else own.at(slice(None), None, None).least(product))
                continue
            if own is not None and own.high is not None:
                # own(n) v = middle v + (own(n) - middle) v, the last part by the range of v.
                value = value - _spread_products(ranges, term.source, cells, below, (own.high - own.low) / 2)
                own = Scale((own.low + own.high) / 2, None)
            below = below if own is None else below.scaled(own.low)
            waiting[term.source] = below.plus(waiting.get(term.source))
        constant = value if constant is None else constant + value
    assert constant is not None
    return Descent(constant, mixes)


def _own_range(
    ranges: "NetworkRanges", source: int, cells: Cells, functionals: Functionals, own: Scale | None
) -> Tensor:
    """The least ``own(n_i) β · h_i`` by the range of ``h_i``."""
    least = ranges.interval_below(source, cells, functionals)
    return least if own is None else own.at(slice(None), None, None).least(least)


def _spread_products(
    ranges: "NetworkRanges", source: int, cells: Cells, functionals: Functionals, spread: Tensor
) -> Tensor:
    """The largest ``spread |β · h|``, ``(E, R or 1, M)``; only where there is a spread, at nodes of many states."""
    some = spread.nonzero()[:, 0]
    largest = ranges.largest_product(source, Cells(cells.ball, cells.place[some]), functionals.some(some))
    found = largest.new_zeros(len(spread), *largest.shape[1:])
    return found.index_copy(0, some, spread[some, None, None] * largest)
