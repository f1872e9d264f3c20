"""Lines around activations, and pieces of them: ``ω · σ(p) >= λ · p + c``, for any choice of slopes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..choices import PARALLEL, Choices, Rule, chord_cost, dearest, groups, rules_for, slopes
from .activations import TwoPiece
from .arithmetic import ETA, Array, U, dot_above, dot_below, down, up
from .network import Layer, Network
from .rows import States


@dataclass(frozen=True, eq=False)
class Pieces:
    there: NDArray[np.bool_]  # (M, d)
    slopes: Array  # (M, patterns, d)

    @property
    def patterns(self) -> int:
        return self.slopes.shape[1]


class Lines:
    """Of all layers in all states, for ranges ``low <= p <= high`` of pre-activations, ``(states, d)`` by layer."""

    def __init__(self, network: Network, states: States, choices: Choices) -> None:
        self.network, self.states, self.choices = network, states, choices
        self.low: dict[int, Array] = {}
        self.high: dict[int, Array] = {}
        self.known: dict[tuple[int, int, str, bool], tuple[Array, ...]] = {}
        self.group = groups(choices, states.first, states.number, states.gained)  # of states that may share slopes

    def rules(self, at: int, last: int) -> list[Rule]:
        """The ways to choose slopes in a state of which the ranges up to a layer are known."""
        ranges = [
            (self.low[m][at], self.high[m][at])
            for m in range(1, last + 1)
            if m in self.low and not self.network.layers[m - 1].activation.linear
        ]
        return rules_for(self.choices, ranges, at in self.group)

    def _line(self, layer: Layer, number: int, at: int, rule: Rule) -> tuple[Array, ...]:
        """Slopes and intercepts around an activation in a state, and above all ``|p|`` there."""
        key = number, at, rule.name, rule.grouped
        if key not in self.known:
            low, high = self.low[number], self.high[number]
            across = self.group[at] if rule.grouped else slice(at, at + 1)
            chosen = slopes(layer.activation, low[across].min(axis=0), high[across].max(axis=0), rule.name)
            self.known[key] = (
                *chosen,
                *layer.activation.intercepts(low[at], high[at], *chosen),
                np.maximum(np.abs(low[at]), np.abs(high[at])),
            )
        return self.known[key]

    def below(
        self, layer: Layer, number: int, at: int, omega: Array, rule: Rule, pieces: Pieces | None
    ) -> tuple[Array, Array]:
        """``ω · σ(p) >= λ · p + c`` in a state: λ and c; the least over the patterns where pieces are chosen."""
        if layer.activation.linear and pieces is None:
            return omega, np.zeros(len(omega))
        below, above, least, most, size = self._line(layer, number, at, rule)
        by_line = omega if pieces is None else np.where(pieces.there, 0.0, omega)
        positive, negative = np.maximum(by_line, 0), np.minimum(by_line, 0)
        slope, constant = positive * below + negative * above, dot_below(positive, negative, least, most)
        if pieces is not None:
            slope = (slope[:, None] + pieces.slopes).reshape(-1, omega.shape[1])
            constant = np.repeat(constant, pieces.patterns)
        # λ in floats is off by u |λ|: the line is that of the exact one.
        return slope, down(constant - up(dot_above(slope, up(4 * U * size)) + 4 * ETA * (1 + float(size.sum()))))

    def pieces(self, number: int, states: Sequence[int], omega: Array, patterns: int) -> list[Pieces] | None:
        """For some channels of several nodes together, each in a state, the pieces of σ in the place of a line, ω is
        ``(nodes, M, d)``: ``ω σ(p)`` is the smaller of ``ω p`` and ``ω γ p`` if ω < 0 and γ <= 1, or ω > 0 and γ >= 1,
        whatever p is. In one of the patterns all of these channels are on their pieces."""
        activation, (nodes, functionals, width) = self.network.layers[number - 1].activation, omega.shape
        if patterns == 1 or not isinstance(activation, TwoPiece) or activation.linear:
            return None
        gamma = np.broadcast_to(activation.gamma, (width,))
        smaller = ((omega < 0) & (gamma <= 1)) | ((omega > 0) & (gamma >= 1))
        cost = np.zeros(omega.shape)
        for place, at in enumerate(states):
            if omega[place].any():
                _, _, least, most, _ = self._line(self.network.layers[number - 1], number, at, PARALLEL)
                cost[place] = chord_cost(omega[place], self.low[number][at], self.high[number][at], least, most)
        bits = min(patterns.bit_length() - 1, nodes * width)
        on = (np.arange(1 << bits)[:, None] >> np.arange(bits) & 1).astype(bool)
        there = np.zeros((nodes, functionals, width), dtype=bool)
        slopes = np.zeros((nodes, functionals, 1 << bits, width))
        costs = np.where(smaller, cost, 0.0).transpose(1, 0, 2).reshape(functionals, -1)
        for m, some in enumerate(dearest(costs, bits)):
            for bit, each in enumerate(some):
                place, channel = divmod(int(each), width)
                if smaller[place, m, channel]:
                    there[place, m, channel], weight = True, omega[place, m, channel]
                    slopes[place, m, :, channel] = np.where(on[:, bit], weight, weight * gamma[channel])
        return [Pieces(*parts) for parts in zip(there, slopes, strict=True)]

    def pieces_at(self, number: int, at: int, omega: Array, patterns: int) -> Pieces | None:
        """The same in one state."""
        found = self.pieces(number, [at], omega[None], patterns)
        return None if found is None else found[0]
