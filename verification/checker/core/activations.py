"""Activations: their range, and the best intercept of a line of any slope, both with a proof.

``σ(p) = p`` for ``p >= 0`` and ``γ p`` below is done in NumPy. Of the smooth ones every number comes from a ball of
Arb. On a piece where σ is convex, ``σ(p) - a p`` is largest at an end and above its tangent at any point, which is a
line and so least at an end; on a concave piece it is the other way round. Slopes are choices, and every choice is
sound.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from flint import arb, ctx

from .arithmetic import ETA, Array, U, down, up

ctx.prec = 80


class Activation(Protocol):
    @property
    def linear(self) -> bool: ...

    def range(self, low: Array, high: Array) -> tuple[Array, Array]: ...

    def intercepts(self, low: Array, high: Array, below: Array, above: Array) -> tuple[Array, Array]:
        """Below ``min σ(p) - a p`` and above ``max σ(p) - a' p`` on ``[low, high]``."""


@dataclass(frozen=True, eq=False)
class TwoPiece:
    gamma: Array

    @property
    def linear(self) -> bool:
        return bool((self.gamma == 1).all())

    def _value(self, p: Array) -> tuple[Array, Array]:
        found = np.where(p >= 0, p, self.gamma * p)
        return np.where(p >= 0, p, down(found)), np.where(p >= 0, p, up(found))

    def range(self, low: Array, high: Array) -> tuple[Array, Array]:
        (a, b), (c, d) = self._value(low), self._value(high)
        least, most = np.minimum(a, c), np.maximum(b, d)
        inside = (low < 0) & (high > 0)  # zero, where σ turns if it does
        return np.where(inside, np.minimum(least, 0), least), np.where(inside, np.maximum(most, 0), most)

    def intercepts(self, low: Array, high: Array, below: Array, above: Array) -> tuple[Array, Array]:
        inside = (low <= 0) & (high >= 0)
        ends = [(np.where(p >= 0, 1.0, self.gamma), p) for p in (low, high)]

        def end(slope: Array, piece: Array, p: Array) -> tuple[Array, Array]:
            value, slack = (piece - slope) * p, up(4 * U * up((np.abs(piece) + np.abs(slope)) * np.abs(p))) + 4 * ETA
            return down(value - slack), up(value + slack)

        least = np.minimum(*(end(below, piece, p)[0] for piece, p in ends))
        most = np.maximum(*(end(above, piece, p)[1] for piece, p in ends))
        return np.where(inside, np.minimum(least, 0), least), np.where(inside, np.maximum(most, 0), most)


@dataclass(frozen=True)
class Piece:
    """Where σ is convex or concave: between two points, each known to lie between two floats."""

    convex: bool
    start: tuple[float, float] = (-np.inf, -np.inf)
    end: tuple[float, float] = (np.inf, np.inf)


def _half(p: arb) -> arb:
    return (-p * p / 2).exp() / (2 * arb.pi()).sqrt()


def _logistic(p: arb) -> arb:
    return 1 / (1 + (-p).exp())


@dataclass(frozen=True)
class Smooth:
    """σ and σ' as functions of balls, by pieces on which they are one formula each."""

    pieces: tuple[tuple[Piece, Callable[[arb], arb], Callable[[arb], arb]], ...]

    @property
    def linear(self) -> bool:
        return False

    def range(self, low: Array, high: Array) -> tuple[Array, Array]:
        flat = np.zeros_like(low)
        return self.intercepts(low, high, flat, flat)

    def intercepts(self, low: Array, high: Array, below: Array, above: Array) -> tuple[Array, Array]:
        return each_number(self._extremes, low, high, below, above)

    def _extremes(self, low: float, high: float, below: float, above: float) -> tuple[float, float]:
        if not -1e300 < low <= high < 1e300:
            return -np.inf, np.inf
        least, most = list[float](), list[float]()
        for piece, value, derivative in self.pieces:
            a, b = max(low, piece.start[1]), min(high, piece.end[0])
            for slope, wanted, sign in ((below, least, 1), (above, most, -1)) if a <= b else ():
                ends = [value(arb(p)) - arb(slope) * arb(p) for p in (a, b)]
                if piece.convex == (sign == 1):  # the tangent at about the best point
                    touch = self._root(derivative, slope, a, b)
                    tilt = derivative(arb(touch)) - arb(slope)
                    level = value(arb(touch)) - arb(slope) * arb(touch)
                    ends = [level + tilt * (arb(p) - arb(touch)) for p in (a, b)]
                wanted += [float((sign * end).lower()) for end in ends]
            for first, last in (piece.start, piece.end):
                if first < last and first <= high and last >= low:  # it is not known which piece it is: as a ball
                    gap = arb(first).union(arb(last))
                    least.append(float((value(gap) - arb(below) * gap).lower()))
                    most.append(float((arb(above) * gap - value(gap)).lower()))
        return float(np.nextafter(np.min(least), -np.inf)), float(-np.nextafter(np.min(most), -np.inf))

    @staticmethod
    def _root(derivative: Callable[[arb], arb], slope: float, a: float, b: float) -> float:
        """About where ``σ' = slope``, by bisection; σ' is monotone between a and b."""
        left, right = float(derivative(arb(a)).mid()), float(derivative(arb(b)).mid())
        if (left - slope) * (right - slope) >= 0:
            return a if abs(left - slope) <= abs(right - slope) else b
        for _ in range(60):
            middle = a + (b - a) / 2
            if (float(derivative(arb(middle)).mid()) - slope) * (left - slope) > 0:
                a = middle
            else:
                b = middle
        return a


def each_number(function: Callable[..., tuple[float, float]], *arrays: Array) -> tuple[Array, Array]:
    """A function of numbers, number by number."""
    found = np.array([function(*map(float, numbers)) for numbers in zip(*map(np.ravel, arrays), strict=True)])
    first, second = found.reshape(-1, 2).T
    return first.reshape(arrays[0].shape), second.reshape(arrays[0].shape)


ROOT_TWO = float(np.sqrt(2.0))
SILU_BEND = 2.3993572805154676  # p tanh(p / 2) = 2, to the last digits; the two floats around it are checked below


def _around(value: float, steps: int = 8) -> tuple[float, float]:
    return value * (1 - steps * U * 2), value * (1 + steps * U * 2)


def _bowl(bend: float, value: Callable[[arb], arb], slope: Callable[[arb], arb]) -> Smooth:
    first, last = _around(bend)
    return Smooth(
        (
            (Piece(False, end=(-last, -first)), value, slope),
            (Piece(True, (-last, -first), (first, last)), value, slope),
            (Piece(False, start=(first, last)), value, slope),
        )
    )


def activation(content: dict[str, Any] | None, tensors: dict[str, Array]) -> Activation:
    """From the file of a network."""
    content = content or {"name": "identity"}
    settings = {name: float(value) for name, value in content.items() if name != "name"}
    known = {"elu": {"alpha"}, "softplus": {"beta", "threshold"}}.get(content["name"], set())
    if set(settings) != known or not all(0 < value < np.inf for value in settings.values()):
        raise ValueError(f"{content['name']} with the settings {settings}, of which no formula is known")
    match content["name"]:
        case "identity":
            return TwoPiece(np.ones(()))
        case "two-piece linear" if tensors["activation.slope"].ndim < 2:
            return TwoPiece(tensors["activation.slope"])
        case "elu":
            alpha, zero = settings["alpha"], (0.0, 0.0)
            below = (lambda p: alpha * (p.exp() - 1)), (lambda p: alpha * p.exp())
            line = Piece(
                alpha <= 1, start=zero
            )  # a line is convex and concave; tangents above take it where it is a hull
            return Smooth(((Piece(True, end=zero), *below), (line, lambda p: p, lambda p: arb(1))))
        case "tanh":
            return _s_shape(lambda p: p.tanh(), lambda p: 1 / p.cosh() ** 2)
        case "sigmoid":
            return _s_shape(_logistic, lambda p: _logistic(p) * _logistic(-p))
        case "gelu":

            def normal(p: arb) -> arb:
                return (-p / arb(2).sqrt()).erfc() / 2

            return _bowl(ROOT_TWO, lambda p: p * normal(p), lambda p: normal(p) + p * _half(p))
        case "silu":
            first, last = _around(SILU_BEND)
            assert arb(first) * (arb(first) / 2).tanh() < 2 < arb(last) * (arb(last) / 2).tanh()
            return _bowl(SILU_BEND, lambda p: p * _logistic(p), lambda p: _logistic(p) * (1 + p * _logistic(-p)))
        case "softplus":
            beta, edge = settings["beta"], settings["threshold"] / settings["beta"]
            around = _around(edge, 1)
            return Smooth(
                (
                    (Piece(True, end=around), lambda p: (beta * p).exp().log1p() / beta, lambda p: _logistic(beta * p)),
                    (Piece(False, start=around), lambda p: p, lambda p: arb(1)),
                )
            )
        case other:
            raise ValueError(f"activation {other!r}: the checker knows none of that name")


def _s_shape(value: Callable[[arb], arb], slope: Callable[[arb], arb]) -> Smooth:
    zero = 0.0, 0.0
    return Smooth(((Piece(True, end=zero), value, slope), (Piece(False, start=zero), value, slope)))
