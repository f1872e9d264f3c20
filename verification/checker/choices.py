"""The choices of the prover: nothing in this file can make a proof wrong, and none of it needs to be trusted.

Slopes of lines, whose intercepts are found elsewhere for any slopes; the rules for these; and what the library's trace
says about them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from flint import arb
from numpy.typing import NDArray

from .core.activations import Activation, Smooth, TwoPiece, each_number
from .core.arithmetic import Array
from .core.network import Network

TIE = 1e-9  # of the width of a range: where both slopes of the adaptive rule are tried


@dataclass(frozen=True)
class Choices:
    """What the prover may choose. Nothing here can make a bound wrong, only smaller or larger.

    Args:
        rules: for the slopes of lines.
        starts: for some nodes, the states at which groups begin; the states of a group also try common slopes.
        output, rows: numbers of sign patterns at the anchor and at its neighbours, powers of two.
        functional: whether ranges of channels are found by lines, or by ranges below alone.
        deep: whether these lines continue at neighbours that several layers lead to.
    """

    rules: tuple[str, ...] = ("adaptive",)
    starts: dict[int, tuple[int, ...]] = field(default_factory=dict)
    output: int = 1
    rows: int = 1
    functional: bool = True
    deep: bool = False


EVERY = Choices(("adaptive", "flat", "parallel"), output=4, rows=4)  # for those who were told nothing


def ways(network: Network, choices: Choices) -> list[Choices]:
    """The given choices; and all that there are, for bounds that these do not prove."""
    every = replace(EVERY, starts=choices.starts)
    smooth = any(isinstance(layer.activation, Smooth) for layer in network.layers)
    more = replace(every, rules=(*every.rules, "steep", *(("early", "late") if smooth else ())), deep=True)
    return [choices, *([every] if choices != every else []), more]


@dataclass(frozen=True)
class Rule:
    name: str
    grouped: bool


PARALLEL = Rule("parallel", False)


def rules_for(choices: Choices, ranges: Sequence[tuple[Array, Array]], grouped: bool) -> list[Rule]:
    """Each rule by the range of the state, and by that of its group; where an adaptive slope is a tie, both ways."""
    found = [Rule(name, False) for name in choices.rules]
    if "adaptive" in choices.rules and any((np.abs(low + high) <= TIE * (high - low)).any() for low, high in ranges):
        found.append(Rule("adaptive, ties below", False))
    if grouped:
        found += [Rule(name, True) for name in choices.rules]
    return found or [Rule("adaptive", False)]


def groups(
    choices: Choices, first: dict[int, int], number: dict[int, int], gained: NDArray[np.int64]
) -> dict[int, slice]:
    """The group of every state that is not alone in it; the states of a node stand together, as many as ``number``."""
    found = {}
    for i, starts in choices.starts.items():
        if i not in first or list(starts) != sorted({0, *starts}):
            continue
        here = gained[first[i] : first[i] + number[i]]
        for level in np.unique(here):  # the states with as many new edges stand together, in the order of losses
            at, count = first[i] + int((here < level).sum()), int((here == level).sum())
            for begin, end in pairwise(min(start, count) for start in (*starts, count)):
                if end - begin > 1:
                    found.update(dict.fromkeys(range(at + begin, at + end), slice(at + begin, at + end)))
    return found


def chord_cost(omega: Array, low: Array, high: Array, least: Array, most: Array) -> Array:
    """What the chord of an activation costs a functional, ``(M, d)``."""
    open_ = (low < 0) & (high > 0)  # elsewhere its cost is but rounding
    found: Array = np.where(open_, -np.where(omega > 0, least, most) * omega, 0.0)
    return found


def dearest(costs: Array, number: int) -> list[NDArray[np.int64]]:
    """The channels that cost the most, for every functional."""
    first = np.argsort(-costs, axis=1, kind="stable")[:, :number]
    return [some[cost[some] > 0] for some, cost in zip(first, costs, strict=True)]


def slopes(activation: Activation, low: Array, high: Array, rule: str) -> tuple[Array, Array]:
    """Of a line below an activation and of one above, on ``[low, high]``."""
    if isinstance(activation, Smooth):
        return each_number(lambda a, b: _of_smooth(activation, a, b, rule), low, high)
    assert isinstance(activation, TwoPiece)
    return _of_two_pieces(activation, low, high, rule)


def _of_two_pieces(activation: TwoPiece, low: Array, high: Array, rule: str) -> tuple[Array, Array]:
    gamma = np.broadcast_to(activation.gamma, low.shape)
    below, above = np.minimum(low, 0), np.maximum(high, 0)
    width = above - below
    chord = np.where(width > 0, (above - gamma * below) / np.where(width > 0, width, 1), 1.0)
    tie = {"adaptive": -TIE, "adaptive, ties below": TIE}.get(rule, 0.0) * width
    free = np.where(
        high <= 0,
        gamma,
        np.where(
            low >= 0,
            1.0,
            {"parallel": chord, "flat": gamma, "steep": np.ones_like(gamma)}.get(
                rule, np.where(low + high >= tie, 1.0, gamma)
            ),
        ),
    )
    return np.where(gamma <= 1, free, chord), np.where(gamma <= 1, chord, free)


def _at(smooth: Smooth, p: float) -> tuple[float, float, bool]:
    """About σ and σ', and whether it is convex there."""
    for piece, value, derivative in smooth.pieces:
        if p <= piece.end[1]:
            return float(value(arb(p)).mid()), float(derivative(arb(p)).mid()), piece.convex
    raise AssertionError("the pieces leave no gap")


def _of_smooth(smooth: Smooth, low: float, high: float, rule: str) -> tuple[float, float]:
    """The chord's; or tangents of a convex piece below and of a concave one above that leave both ends on the
    right side, at the point nearest to the middle, or by other rules to an end or to a quarter."""
    width = high - low
    share = {"flat": (0.0, 1.0), "steep": (1.0, 0.0), "early": (0.25, 0.25), "late": (0.75, 0.75)}.get(rule, (0.5, 0.5))
    at_low, at_high = _at(smooth, low), _at(smooth, high)
    narrow = width <= 1e-6 * (1 + abs(low))
    chord = _at(smooth, low + width / 2)[1] if narrow else (at_high[0] - at_low[0]) / width
    if rule == "parallel" or narrow:
        return chord, chord
    below, above = (
        _tangent(smooth, low, high, chord, target, convex)
        for target, convex in zip((low + share[0] * width, low + share[1] * width), (True, False), strict=True)
    )
    return below, above


def _tangent(smooth: Smooth, low: float, high: float, chord: float, target: float, convex: bool) -> float:
    sign = 1 if convex else -1

    def outside(p: float) -> tuple[bool, bool]:
        value, slope, _ = _at(smooth, p)
        return tuple(
            sign * (_at(smooth, end)[0] - value - slope * (end - p)) < -1e-12 * (1 + abs(value)) for end in (low, high)
        )  # type: ignore[return-value]

    slope, known = chord, False
    for piece, _, _ in smooth.pieces:
        a, b = max(low, piece.start[1]), min(high, piece.end[0])
        if piece.convex != convex or a > b or (known and target < piece.start[1]):
            continue
        touch = min(max(target, a), b)
        left, right = outside(touch)
        if left or right:  # away from the end that is beyond the tangent, which turns it towards that end
            other, which = (b, 0) if left else (a, 1)
            if outside(other)[which]:
                continue
            for _ in range(45):
                middle = (touch + other) / 2
                touch, other = (middle, other) if outside(middle)[which] else (touch, middle)
            touch = other
            if any(outside(touch)):
                continue
        # At a kink there are many tangents; the steepest allowed goes through the end.
        through = low if low < touch and target < touch else high if touch < high and touch < target else touch
        known, slope = True, _at(smooth, touch)[1]
        if abs(through - touch) > 1e-6 * (1 + abs(touch)):
            slope = (_at(smooth, through)[0] - _at(smooth, touch)[0]) / (through - touch)
    return slope
