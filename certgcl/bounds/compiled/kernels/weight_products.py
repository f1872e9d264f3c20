"""Functionals that have come through lines, times a weight: ``W λ`` for ``λ = ± ω a - |ω| r`` at many entries.

Channels whose slope is zero, and channels whose two lines have the same slope, are left out of the products: in most
networks, these are the majority.
"""

import numpy as np

from certgcl.bounds.compiled.kernels.numerics import Array, compiled, inlined


@inlined
def _picked(factor: Array, omega: Array, weight: Array, left: Array, right: Array) -> int:
    """The channels with a factor, and how many they are: their functionals times it, and their weights."""
    count = 0
    for c in range(len(factor)):
        if factor[c] != 0:
            for m in range(omega.shape[1]):
                left[count, m] = factor[c] * omega[c, m]
            right[count] = weight[c]
            count += 1
    return count


@compiled
def back(
    part: int,
    parts: int,
    line: Array,
    slope: Array,
    spread: Array,
    omega: Array,
    size: Array,
    weight: Array,
    out: Array,
) -> None:
    """``out[e, rule]``, ``(2 m, inputs)``: those of ω, then those of -ω; for entries in turn.

    Args:
        line: of every entry.
        slope, spread: ``(lines, rules, outputs)``.
        omega, size: ω and |ω|, ``(outputs, m)``.
        weight: ``W'``, ``(outputs, inputs)``.
    """
    number = omega.shape[1]
    left, right = np.empty_like(omega), np.empty_like(weight)
    for entry in range(part, len(line), parts):
        for rule in range(slope.shape[1]):
            count = _picked(slope[line[entry], rule], omega, weight, left, right)
            one = np.dot(left[:count].T, right[:count])
            count = _picked(spread[line[entry], rule], size, weight, left, right)
            other = np.dot(left[:count].T, right[:count])
            here = out[entry, rule]
            for m in range(number):
                for c in range(one.shape[1]):
                    here[m, c] = one[m, c] - other[m, c]
                    here[number + m, c] = -one[m, c] - other[m, c]
