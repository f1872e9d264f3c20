"""Lines around activations, and pieces of them: ``ω · σ(p) >= λ · p + c``, for any choice of slopes."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .activations import TwoPiece
from .arithmetic import ETA, Array, U, dot_above, dot_below, down, up
from .choices import Choices, Rule, rules_for, slopes
from .rows import States
from .statement import Layer, Network


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

    def rules(self, at: int, last: int) -> list[Rule]:
        """The ways to choose slopes in a state of which the ranges up to a layer are known."""
        ranges = [
            (self.low[m][at], self.high[m][at])
            for m in range(1, last + 1)
            if m in self.low and not self.network.layers[m - 1].activation.linear
        ]
        return rules_for(self.choices, ranges, at in self.group)

    @cached_property
    def group(self) -> dict[int, slice]:
        """The group of every state that is not alone in it."""
        found = {}
        for i, starts in self.choices.starts.items():
            if i not in self.states.first or list(starts) != sorted({0, *starts}):
                continue
            begin, number = self.states.first[i], self.states.number[i]
            gained = self.states.gained[begin : begin + number]
            for level in np.unique(gained):  # the states with as many new edges stand together, in the order of losses
                at, count = begin + int((gained < level).sum()), int((gained == level).sum())
                for first, last in pairwise(min(start, count) for start in (*starts, count)):
                    if last - first > 1:
                        found.update(dict.fromkeys(range(at + first, at + last), slice(at + first, at + last)))
        return found

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

    def dearest(self, number: int, at: int, omega: Array, patterns: int) -> Pieces | None:
        """For the channels whose chords cost the most, the pieces of σ in the place of a line: ``ω σ(p)`` is the
        smaller of ``ω p`` and ``ω γ p`` if ω < 0 and γ <= 1, or ω > 0 and γ >= 1, whatever p is."""
        found = self.dearest_of_all(number, [at], omega[None], patterns)
        return None if found is None else found[0]

    def dearest_of_all(self, number: int, states: Sequence[int], omega: Array, patterns: int) -> list[Pieces] | None:
        """The same among the channels of several nodes together, each in a state, ``(nodes, M, d)``: in one of the
        patterns all of them are on their pieces."""
        layer, (nodes, functionals, width) = self.network.layers[number - 1], omega.shape
        activation = layer.activation
        if patterns == 1 or not isinstance(activation, TwoPiece) or activation.linear:
            return None
        slope = np.broadcast_to(activation.gamma, (width,))
        cost = np.zeros(omega.shape)
        for place, at in enumerate(states):
            if omega[place].any():
                _, _, least, most, _ = self._line(layer, number, at, Rule("parallel", False))
                open_ = (self.low[number][at] < 0) & (self.high[number][at] > 0)  # elsewhere its cost is but rounding
                smaller = open_ & (((omega[place] < 0) & (slope <= 1)) | ((omega[place] > 0) & (slope >= 1)))
                cost[place] = np.where(smaller, -np.where(omega[place] > 0, least, most) * omega[place], 0.0)
        costs: Array = cost.transpose(1, 0, 2).reshape(functionals, nodes * width)
        bits = min(patterns.bit_length() - 1, nodes * width)
        channels = np.argsort(-costs, axis=1, kind="stable")[:, :bits]
        there = np.zeros((nodes, functionals, width), dtype=bool)
        slopes = np.zeros((nodes, functionals, 1 << bits, width))
        for m, some in enumerate(channels):
            for bit, each in enumerate(some):
                place, channel = divmod(int(each), width)
                if costs[m, each] > 0:
                    there[place, m, channel] = True
                    on, weight = (np.arange(1 << bits) >> bit & 1).astype(bool), omega[place, m, channel]
                    slopes[place, m, :, channel] = np.where(on, weight, weight * slope[channel])
        return [Pieces(*parts) for parts in zip(there, slopes, strict=True)]
