"""Functionals on their way down through the layers of one node.

``Σ_l ω_l · h^l_i`` is at least

    constant  +  Σ_mixes  out(n_i) Σ_{kept k} in(n_k)  β · h^m_k

in a cell of node i: at each layer, from the last one down, lines take ``ω · h`` to ``λ · p + c``, and ``λ · p`` is the
sum of its terms: those of the node itself go to ``ω`` of lower layers (a local term by ``W λ``, an aggregated one by
``own(n_i) W λ``), those of its neighbours are the mixes, ``β = W λ``, and biases and features are numbers. Each step
replaces a functional by something no larger, whichever lines are taken; so the *rules* for their slopes are
alternatives, of which the best one counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from certgcl.bounds.box import signed_parts
from certgcl.bounds.propagation.balls import Ball
from certgcl.models.activations import SlopeRule
from certgcl.models.network import Term

if TYPE_CHECKING:
    from certgcl.bounds.propagation.ranges import NetworkRanges


@dataclass(frozen=True, eq=False)
class Mix:
    """Functionals of the neighbours, by one aggregated term.

    Args:
        vector: β, functionals of the outputs of the term's source, ``(E or 1, R or 1, M, d)``; of features, λ,
            functionals of ``W' x``.
    """

    term: Term
    vector: Tensor

    @property
    def shared(self) -> bool:
        """Whether all entries have the same functionals."""
        return self.vector.shape[0] == 1


class Descent(NamedTuple):
    """What a functional comes down to: numbers ``(E or 1, R or 1, M)``, and functionals of neighbours."""

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


def descend(ranges: "NetworkRanges", cells: Cells, rules: Sequence[SlopeRule], omega: Mapping[int, Tensor],
            top: tuple[int, Tensor] | None = None) -> Descent:
    """Take functionals ``ω_l`` of layers' outputs down to the features.

    Args:
        cells: E cells, one for each entry.
        omega: by layer, ``(E or 1, R or 1, M, d_l)``.
        top: a layer, above all of these, and a functional λ of its pre-activations.
    """
    network, waiting, mixes = ranges.network, dict(omega), []
    constant = None
    for number in range(len(network.layers), 0, -1):
        layer = network.layers[number - 1]
        if top is not None and number == top[0]:
            slope, here = top[1], top[1].new_zeros(())
        elif number in waiting:
            slope, here = ranges.lines_below(number, cells, rules, waiting.pop(number))
        else:
            continue
        here = here + slope @ layer.bias
        for term in layer.terms:
            aggregation = term.aggregation
            own = None
            if aggregation.mixes:
                own = cells.ball.cells.extent(aggregation.own, slope.dtype).rows(cells.place).column
                mixes.append(Mix(term, slope if term.source == 0 else term.back(slope)))
                if not bool((own.low if own.high is None else own.high).any()):
                    continue  # the node itself is no part of the sum
            if term.source == 0:
                value = (slope @ ranges.features_of(term, cells.node)[:, None, :, None])[..., 0]
                here = here + (value if own is None else own.least(value))
                continue
            back = mixes[-1].vector if aggregation.mixes else term.back(slope)
            if own is not None:
                if own.high is not None:
                    # own(n) v = middle v + (own(n) - middle) v, the last part by the range of v.
                    spread = (own.high - own.low) / 2
                    here = here - spread * ranges.largest_product(term.source, cells, back)
                back = (own.low if own.high is None else (own.low + own.high) / 2)[..., None] * back
            waiting[term.source] = waiting[term.source] + back if term.source in waiting else back
        constant = here if constant is None else constant + here
    assert constant is not None
    return Descent(constant, mixes)


def lowest(omega: Tensor, middle: Tensor, radius: Tensor) -> Tensor:
    """The least ``ω · h`` for h within a radius of the middle: ``(E or 1, R or 1, M, d)`` and ``(E, d)`` to
    ``(E, R or 1, M)``."""
    if omega.shape[0] == 1:
        flat = omega.flatten(0, -2)
        return (middle @ flat.T - radius @ flat.abs().T).unflatten(1, omega.shape[1:3])
    return (omega @ middle[:, None, :, None] - omega.abs() @ radius[:, None, :, None])[..., 0]


def line_below(omega: Tensor, lines: Sequence[tuple[Tensor, ...]]) -> tuple[Tensor, Tensor]:
    """``ω · σ(p) >= λ · p + c`` by the lines of each rule: λ ``(E, R, M, d)`` and c ``(E, R, M)``."""
    lower_slope, lower, upper_slope, upper = (torch.stack(part, dim=1)[:, :, None] for part in
                                              zip(*lines, strict=True))
    positive, negative = signed_parts(omega)
    slope = positive * lower_slope + negative * upper_slope
    return slope, (positive * lower + negative * upper).sum(dim=-1)
