"""Functionals of the hidden layer through the lines of rows: with ranges, and with the features of neighbours.

A row meets several *entries*, each a set of M functionals ω and a set of lines. With ``λ = ω a - |ω| r`` by each rule,
results are the least ``ω · h`` and ``ω · c`` over their ranges, and ``λ · y`` for the row itself and its neighbours.
"""

from typing import NamedTuple

import numpy as np

from certgcl.bounds.compiled.kernels.numerics import Array, compiled_sums, inlined


class Entries(NamedTuple):
    """Entries ``start[r] … start[r + 1] - 1`` at row r, with slots ``slot[r] … slot[r + 1] - 1``."""

    start: Array  # (R + 1,)
    functional: Array  # (E,)
    line: Array  # (E,)
    slot: Array  # (R + 1,)
    target: Array  # (S,) whose features stand in a slot
    own: Array  # (R,) and in the row itself
    place: Array  # (R,) the cell of the first slot and entry; entries follow each other, then the slots
    lined: Array  # (R,) whether products with features are wanted


class Products(NamedTuple):
    """Flat tables of entries, or of their gradients; cells have M values by each rule."""

    leaves: Array
    own: Array
    constant: Array
    interval: Array  # M values a cell


@inlined
def slopes_of(omega: Array, slope: Array, spread: Array, slopes: Array) -> None:
    """``λ = ω a - |ω| r``."""
    for c in range(len(omega)):
        slopes[c] = omega[c] * slope[c] - abs(omega[c]) * spread[c]


@inlined
def add_gradient(towards: Array, vector: Array, middle: Array, radius: Array, of_vector: Array, of_middle: Array,
                 of_radius: Array) -> None:
    """The gradients of ``Σ_c towards_c (ω_c middle_c - |ω_c| radius_c)``."""
    zero = vector.dtype.type(0)
    for c in range(len(vector)):
        sign = vector.dtype.type(vector[c] > zero) - vector.dtype.type(vector[c] < zero)
        of_vector[c] += towards[c] * (middle[c] - sign * radius[c])
    for c in range(len(vector)):
        of_middle[c] += towards[c] * vector[c]
    for c in range(len(vector)):
        of_radius[c] -= towards[c] * abs(vector[c])


@inlined
def least_product(vector: Array, middle: Array, radius: Array) -> float:
    """The least ``ω · v`` over the range of v."""
    total = vector.dtype.type(0)
    for c in range(len(vector)):
        total += vector[c] * middle[c] - abs(vector[c]) * radius[c]
    return total


@compiled_sums
def products(part: int, parts: int, begin: int, end: int, entries: Entries, omega: Array, first_line: int,
             lines: Array, features: Array, out: Products) -> None:
    """Of the rows from ``begin`` to ``end``: one in so many parts.

    Args:
        omega: ``(functionals, M, d1)``.
        lines: as the parts of :class:`certgcl.bounds.layer1.Lined`, from the first line on; ``(lines, parts, d1)``.
        features: ``(targets, d1)``.
    """
    number, width = omega.shape[1:]
    rules = (lines.shape[1] - 2) // 4
    cell = rules * number
    slopes = np.empty((cell, width), omega.dtype)
    for row in range(begin + part, end, parts):
        here = range(entries.start[row], entries.start[row + 1])
        for entry in here:
            line = lines[entries.line[entry] - first_line]
            for m in range(number):
                vector = omega[entries.functional[entry], m]
                for kind in range(1 + rules):  # the range of h, then the constants
                    total = least_product(vector, line[kind], line[1 + rules + kind])
                    if kind == 0:
                        out.interval[entry * number + m] = total
                    else:
                        out.constant[entry * cell + (kind - 1) * number + m] = total
                for rule in range(rules):
                    slopes_of(vector, line[2 + 2 * rules + rule], line[2 + 3 * rules + rule], slopes[rule * number + m])
            if not entries.lined[row]:
                continue
            for slot in range(entries.slot[row] - 1, entries.slot[row + 1]):
                itself = slot < entries.slot[row]
                feature = features[entries.own[row] if itself else entries.target[slot]]
                place = entry if itself else (entries.place[row] + (slot - entries.slot[row]) * len(here)
                                              + entry - here.start)
                table = out.own if itself else out.leaves
                for q in range(cell):
                    vector = slopes[q]
                    total = omega.dtype.type(0)
                    for c in range(width):
                        total += vector[c] * feature[c]
                    table[place * cell + q] = total


@compiled_sums
def gradients(part: int, parts: int, begin: int, end: int, entries: Entries, omega: Array, first_line: int,
              lines: Array, features: Array, given: Products, of_omega: Array, of_lines: Array,
              of_features: Array) -> None:
    """Adds the gradients to the last three, for some of the hidden channels. With ``D = Σ_k g_k y_k`` for gradients g
    of ``λ · y_k``: for ω it is ``D a - sgn(ω) D r``, for y it is ``g λ``, for a and r they are ``ω D`` and ``-|ω| D``.
    """
    number, width = omega.shape[1:]
    rules = (lines.shape[1] - 2) // 4
    cell, columns = rules * number, slice(width * part // parts, width * (part + 1) // parts)
    slopes, towards = np.empty((2, columns.stop - columns.start), omega.dtype)
    for row in range(begin, end):
        here = range(entries.start[row], entries.start[row + 1])
        for entry in here:
            place = entries.line[entry] - first_line
            line, of_line = lines[place], of_lines[place]
            for m in range(number):
                vector = omega[entries.functional[entry], m, columns]
                of_vector = of_omega[entries.functional[entry], m, columns]
                for kind in range(1 + rules):
                    share = (given.interval[entry * number + m] if kind == 0 else
                             given.constant[entry * cell + (kind - 1) * number + m])
                    if share != 0:
                        towards[:] = share
                        add_gradient(towards, vector, line[kind, columns], line[1 + rules + kind, columns], of_vector,
                                     of_line[kind, columns], of_line[1 + rules + kind, columns])
                if not entries.lined[row]:
                    continue
                for rule in range(rules):
                    slope, spread = line[2 + 2 * rules + rule, columns], line[2 + 3 * rules + rule, columns]
                    touched = False
                    for slot in range(entries.slot[row] - 1, entries.slot[row + 1]):
                        itself = slot < entries.slot[row]
                        place = entry if itself else (entries.place[row] + (slot - entries.slot[row]) * len(here)
                                                      + entry - here.start)
                        share = (given.own if itself else given.leaves)[place * cell + rule * number + m]
                        if share == 0:
                            continue
                        if not touched:
                            touched = True
                            slopes_of(vector, slope, spread, slopes)
                            towards[:] = 0
                        target = entries.own[row] if itself else entries.target[slot]
                        feature, of_feature = features[target, columns], of_features[target, columns]
                        for c in range(len(towards)):
                            towards[c] += share * feature[c]
                        for c in range(len(towards)):
                            of_feature[c] += share * slopes[c]
                    if touched:
                        add_gradient(towards, vector, slope, spread, of_vector,
                                     of_line[2 + 2 * rules + rule, columns], of_line[2 + 3 * rules + rule, columns])
