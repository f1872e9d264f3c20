"""Float64 with a proof: every function here returns numbers that are certainly below (or above) the exact ones.

IEEE 754 binary64, round to nearest, with ``u = 2^-53`` and ``η = 2^-1074``, the smallest number. NumPy's ``+ - * /``
and ``sqrt`` are correctly rounded: the exact result lies within the two floats next to the computed one, subnormal or
not, which is what :func:`down` and :func:`up` return. A sum of n numbers, in any order, with or without fused
operations, is off by at most ``γ_n Σ|v|`` with ``γ_n = n u / (1 - n u)``, and a sum of n products by ``γ_n Σ|a b| +
n η``, as a product that underflows is off by at most η / 2 (N. Higham, Accuracy and Stability of Numerical Algorithms,
sections 3.1 and 4.2). An overflow ends in an infinity or NaN, neither of which proves anything.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
U, ETA = 2.0**-53, 2.0**-1074


def check_processor() -> None:
    """Check that subnormal numbers are kept and sums are rounded to nearest, which other code in the process may have
    switched off."""
    one, small = np.array([1.0, 1.0]), np.array([ETA, 2.0**-1022])
    if not (
        (small * one == small).all()
        and (small / 2 * 2 == [0.0, 2.0**-1022]).all()
        and (np.diag(small) @ np.eye(2) == np.diag(small)).all()
        and (one + U == one).all()
        and (one + 1.5 * U == 1 + 2 * U).all()
        and (one - U / 2 == one).all()
    ):
        raise ArithmeticError("this process does not round to nearest, or flushes small numbers to zero")


def down(value: Array) -> Array:
    return np.nextafter(value, -np.inf)


def up(value: Array) -> Array:
    return np.nextafter(value, np.inf)


def gamma(number: int) -> float:
    """At least γ_n; 2 n u is, for n u <= 1/2, and is a float."""
    assert number < 2**50
    return 2.0 * (number + 1) * U


def sum_below(values: Array, axis: int = 0) -> Array:
    """Below the exact sum along an axis."""
    number = values.shape[axis]
    size = np.abs(values).sum(axis=axis)  # off by γ_n of itself, which twice the factor covers
    return down(values.sum(axis=axis) - up(2 * gamma(number) * size))


def plus(*parts: Array) -> Array:
    """Below the exact sum of a few arrays."""
    total = parts[0]
    for part in parts[1:]:
        total = down(total + part)
    return total


def point(value: Array) -> Array:
    """The range of numbers that are known: ranges are below them, and below their negatives, ``(2, ...)``."""
    return np.array([value, -value])


def times(one: Array, other: Array) -> Array:
    """The range of a product."""
    ends = [a * b for a in (one[0], -one[1]) for b in (other[0], -other[1])]
    return down(np.array([np.minimum.reduce(ends), -np.maximum.reduce(ends)]))


@dataclass(frozen=True, eq=False)
class Scale:
    """A nonnegative number between two floats; or an array of them."""

    low: Array
    high: Array

    def times(self, value: Array) -> Array:
        """Below the product with anything that is at least ``value``."""
        return down(np.where(value >= 0, self.low, self.high) * value)

    def by(self, other: "Scale") -> "Scale":
        return Scale(np.maximum(down(self.low * other.low), 0), up(self.high * other.high))

    def at(self, index: "int | Ints") -> "Scale":
        return Scale(self.low[index], self.high[index])

    @property
    def columns(self) -> "Scale":
        return Scale(self.low[:, None], self.high[:, None])


@dataclass(frozen=True, eq=False)
class Boxes:
    """Vectors of which each number is within a radius of a middle, ``(n, d)``. ``reach`` is the radius plus what
    rounding a product with these middles can cost, so that :meth:`below` needs only two products."""

    middle: Array
    reach: Array

    @classmethod
    def between(cls, low: Array, high: Array) -> "Boxes":
        middle = low + (high - low) / 2  # any float would do
        radius = up(np.maximum(up(middle - low), up(high - middle)))
        step = gamma(low.shape[-1] + 4)
        # fl(|ω| · reach) >= (1 - γ) |ω| · reach - d η >= |ω| · (radius + γ |middle|): the factor 1 + 2 step pays for
        # the product itself and for the roundings of this line.
        return cls(middle, up(up(radius + up(step * np.abs(middle))) * (1 + 2 * step) + ETA))

    def rows(self, index: Ints) -> "Boxes":
        return Boxes(self.middle[index], self.reach[index])

    def below(self, omega: Array) -> Array:
        """Below ``ω · v`` for all v in the boxes: M functionals ``(M, d)`` to ``(n, M)``."""
        tiny, value = 4 * (omega.shape[1] + 2) * ETA, self.middle @ omega.T
        # A sum that overflowed carries no information, although `down` would turn it into a number.
        value = np.where(np.isfinite(value), value, np.nan)
        return down(down(value - self.reach @ np.abs(omega).T) - tiny)

    def each(self) -> Array:
        """Below every ``v_c``, and every ``-v_c``: ``(n, 2 d)``."""
        return down(np.concatenate([self.middle - self.reach, -self.middle - self.reach], axis=1))

    def ranges(self) -> Array:
        """The same, ``(2, n, d)``."""
        return np.array(np.split(self.each(), 2, axis=1))

    @property
    def size(self) -> Array:
        """Above all ``|v|``, ``(d,)``."""
        return up(np.abs(self.middle) + self.reach).max(axis=0, initial=0.0)


def product(values: Boxes, weight: Array) -> Boxes:
    """``W' v``: a matrix ``(d, d')``, or the diagonal of one ``(d,)``."""
    if weight.ndim == 1:
        ends = [down(values.middle - values.reach) * weight, up(values.middle + values.reach) * weight]
        return Boxes.between(down(np.minimum(*ends)), up(np.maximum(*ends)))
    return Boxes.between(values.below(weight.T), -values.below(-weight.T))


def dot_below(positive: Array, negative: Array, low: Array, high: Array) -> Array:
    """Below ``ω+ · low + ω- · high``: ``(M, d)`` twice and ``(d,)`` twice to ``(M,)``."""
    number = low.shape[0]
    size = np.maximum(np.abs(low), np.abs(high))
    slack = (positive - negative) @ size
    return down(down(positive @ low + negative @ high - up(4 * gamma(2 * number + 2) * slack)) - 4 * (number + 2) * ETA)


def dot_above(sizes: Array, values: Array) -> Array:
    """Above ``|s| · v`` for ``v >= 0``: ``(M, d)`` and ``(d,)`` to ``(M,)``."""
    found = np.abs(sizes) @ values
    return up(up(found * (1 + 2 * gamma(len(values)))) + 2 * (len(values) + 1) * ETA)
