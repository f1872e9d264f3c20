"""Functionals that have come through lines, times a weight: ``W λ`` for ``λ = ± ω a - |ω| r`` at many entries, and the
least values of these over ranges.

Channels whose slope is zero, and channels whose two lines have the same slope, are left out of the products: in most
networks, these are the majority.
"""

from typing import NamedTuple

import numpy as np

from certgcl.bounds.compiled.kernels.numerics import Array, compiled, inlined


class Weighted(NamedTuple):
    """The functionals of entries."""

    line: Array  # (E,)
    slope: Array  # a, (lines, rules, outputs)
    spread: Array  # r
    omega: Array  # ω, (outputs, m)
    size: Array  # |ω|
    weight: Array  # W', (outputs, inputs)


class Chosen(NamedTuple):
    """Functionals of some channels, and their weights; the room for them."""

    spread: Array  # ω a and |ω| r, where lines have two slopes, (outputs, 2 m)
    spread_weight: Array  # (outputs, inputs)
    single: Array  # ω a, where they have one, (outputs, m)
    single_weight: Array


@inlined
def _room(given: Weighted) -> Chosen:
    outputs, number = given.omega.shape
    return Chosen(
        np.empty((outputs, 2 * number), given.omega.dtype),
        np.empty_like(given.weight),
        np.empty_like(given.omega),
        np.empty_like(given.weight),
    )


@inlined
def _both_signs(given: Weighted, line: int, rule: int, chosen: Chosen, here: Array) -> None:
    """``W λ``, ``(2 m, inputs)``: those of ω, then those of -ω."""
    number = given.omega.shape[1]
    slope, spread = given.slope[line, rule], given.spread[line, rule]
    two = one = 0
    for c in range(len(slope)):
        if spread[c] != 0:
            for m in range(number):
                chosen.spread[two, m] = slope[c] * given.omega[c, m]
                chosen.spread[two, number + m] = spread[c] * given.size[c, m]
            chosen.spread_weight[two] = given.weight[c]
            two += 1
        elif slope[c] != 0:
            for m in range(number):
                chosen.single[one, m] = slope[c] * given.omega[c, m]
            chosen.single_weight[one] = given.weight[c]
            one += 1
    lines = np.dot(chosen.spread[:two].T, chosen.spread_weight[:two])
    single = np.dot(chosen.single[:one].T, chosen.single_weight[:one])
    for m in range(number):
        for c in range(single.shape[1]):
            middle, radius = lines[m, c] + single[m, c], lines[number + m, c]
            here[m, c] = middle - radius
            here[number + m, c] = -middle - radius


@compiled
def back(part: int, parts: int, given: Weighted, out: Array) -> None:
    """``out[e, rule] = W λ``, for entries in turn."""
    chosen = _room(given)
    for entry in range(part, len(given.line), parts):
        for rule in range(given.slope.shape[1]):
            _both_signs(given, given.line[entry], rule, chosen, out[entry, rule])


@compiled
def least(
    part: int, parts: int, given: Weighted, start: Array, target: Array, middle: Array, radius: Array, out: Array
) -> None:
    """The least ``W λ · v`` over the ranges that entries meet, a row of ``out`` for each, ``(targets, rules 2 m)``.

    Args:
        start, target: entry e meets the ranges ``target[start[e]] … target[start[e + 1] - 1]``.
        middle, radius: of ranges, ``(ranges, inputs)``.
    """
    chosen = _room(given)
    number = 2 * given.omega.shape[1]
    below = np.empty((number, given.weight.shape[1]), given.weight.dtype)
    for entry in range(part, len(given.line), parts):
        first, last = start[entry], start[entry + 1]
        met = target[first:last]
        for rule in range(given.slope.shape[1]):
            _both_signs(given, given.line[entry], rule, chosen, below)
            values, falls = np.dot(middle[met], below.T), np.dot(radius[met], np.abs(below).T)
            out[first:last, rule * number : (rule + 1) * number] = values - falls
