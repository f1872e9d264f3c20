"""Functionals of the hidden layer through the lines of rows: with ranges, and with the features of neighbours.

A row meets several *entries*, each a set of M functionals ω and a set of lines. With ``λ = ω a - |ω| r`` by each rule,
results are the least ``ω · h`` and ``ω · c`` over their ranges, and ``λ · y`` for the row itself and its neighbours.
"""

from typing import NamedTuple

import numpy as np

from certgcl.bounds.compiled.kernels.numerics import Array, compiled_sums, inlined

VECTORS = 32  # that meet the features of a row at a time: they stay in the cache


class RowEntries(NamedTuple):
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
def add_gradient(
    towards: Array, vector: Array, middle: Array, radius: Array, of_vector: Array, of_middle: Array, of_radius: Array
) -> None:
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


@inlined
def eight_products(one: Array, other: Array, f0: Array, f1: Array, f2: Array, f3: Array) -> tuple[float, ...]:
    """The products of two vectors with four features: six loads for eight sums, instead of two loads for each sum."""
    zero = one.dtype.type(0)
    s0 = s1 = s2 = s3 = t0 = t1 = t2 = t3 = zero
    for c in range(len(one)):
        s0 += one[c] * f0[c]
        s1 += one[c] * f1[c]
        s2 += one[c] * f2[c]
        s3 += one[c] * f3[c]
        t0 += other[c] * f0[c]
        t1 += other[c] * f1[c]
        t2 += other[c] * f2[c]
        t3 += other[c] * f3[c]
    return s0, s1, s2, s3, t0, t1, t2, t3


@inlined
def four_products(vector: Array, f0: Array, f1: Array, f2: Array, f3: Array) -> tuple[float, ...]:
    s0 = s1 = s2 = s3 = vector.dtype.type(0)
    for c in range(len(vector)):
        s0 += vector[c] * f0[c]
        s1 += vector[c] * f1[c]
        s2 += vector[c] * f2[c]
        s3 += vector[c] * f3[c]
    return s0, s1, s2, s3


@inlined
def feature_products(vectors: Array, features: Array, targets: Array, out: Array, stride: int) -> None:
    """``out[s stride + v] = vectors[v] · features[targets[s]]``: a small matrix product."""
    whole = len(targets) - len(targets) % 4
    even = len(vectors) - len(vectors) % 2
    for slot in range(0, whole, 4):
        f0, f1, f2, f3 = (
            features[targets[slot]],
            features[targets[slot + 1]],
            features[targets[slot + 2]],
            features[targets[slot + 3]],
        )
        for v in range(0, even, 2):
            s0, s1, s2, s3, t0, t1, t2, t3 = eight_products(vectors[v], vectors[v + 1], f0, f1, f2, f3)
            at = slot * stride + v
            out[at], out[at + 1] = s0, t0
            out[at + stride], out[at + stride + 1] = s1, t1
            out[at + 2 * stride], out[at + 2 * stride + 1] = s2, t2
            out[at + 3 * stride], out[at + 3 * stride + 1] = s3, t3
        for v in range(even, len(vectors)):
            at = slot * stride + v
            out[at], out[at + stride], out[at + 2 * stride], out[at + 3 * stride] = four_products(
                vectors[v], f0, f1, f2, f3
            )
    for slot in range(whole, len(targets)):
        feature = features[targets[slot]]
        for v in range(len(vectors)):
            vector, total = vectors[v], features.dtype.type(0)
            for c in range(len(feature)):
                total += vector[c] * feature[c]
            out[slot * stride + v] = total


@compiled_sums
def products(
    part: int,
    parts: int,
    begin: int,
    end: int,
    entries: RowEntries,
    omega: Array,
    first_line: int,
    lines: Array,
    features: Array,
    out: Products,
) -> None:
    """The products of the rows from ``begin`` to ``end``: some entries at a time; parts take them in turn.

    Args:
        omega: ``(functionals, M, d1)``.
        lines: as the parts of :class:`certgcl.bounds.two_layer.layer1.Lined`, from the first line on;
            ``(lines, parts, d1)``.
        features: ``(targets, d1)``.
    """
    number, width = omega.shape[1:]
    rules = (lines.shape[1] - 2) // 4
    cell, turn = rules * number, 0
    at_once = max(1, VECTORS // cell)
    slopes = np.empty((at_once * cell, width), omega.dtype)
    for row in range(begin, end):
        here = range(entries.start[row], entries.start[row + 1])
        for first in range(here.start, here.stop, at_once):
            turn += 1
            if turn % parts != part:
                continue
            last = min(first + at_once, here.stop)
            for entry in range(first, last):
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
                        slopes_of(
                            vector,
                            line[2 + 2 * rules + rule],
                            line[2 + 3 * rules + rule],
                            slopes[(entry - first) * cell + rule * number + m],
                        )
            if entries.lined[row]:
                vectors = slopes[: (last - first) * cell]
                feature_products(vectors, features, entries.own[row : row + 1], out.own[first * cell : last * cell], 0)
                feature_products(
                    vectors,
                    features,
                    entries.target[entries.slot[row] : entries.slot[row + 1]],
                    out.leaves[(entries.place[row] + first - here.start) * cell :],
                    len(here) * cell,
                )


@compiled_sums
def gradients(
    part: int,
    parts: int,
    begin: int,
    end: int,
    entries: RowEntries,
    omega: Array,
    first_line: int,
    lines: Array,
    features: Array,
    given: Products,
    of_omega: Array,
    of_lines: Array,
    of_features: Array,
) -> None:
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
                    share = (
                        given.interval[entry * number + m]
                        if kind == 0
                        else given.constant[entry * cell + (kind - 1) * number + m]
                    )
                    if share != 0:
                        towards[:] = share
                        add_gradient(
                            towards,
                            vector,
                            line[kind, columns],
                            line[1 + rules + kind, columns],
                            of_vector,
                            of_line[kind, columns],
                            of_line[1 + rules + kind, columns],
                        )
                if not entries.lined[row]:
                    continue
                for rule in range(rules):
                    slope, spread = line[2 + 2 * rules + rule, columns], line[2 + 3 * rules + rule, columns]
                    touched = False
                    for slot in range(entries.slot[row] - 1, entries.slot[row + 1]):
                        itself = slot < entries.slot[row]
                        place = (
                            entry
                            if itself
                            else (entries.place[row] + (slot - entries.slot[row]) * len(here) + entry - here.start)
                        )
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
                        add_gradient(
                            towards,
                            vector,
                            slope,
                            spread,
                            of_vector,
                            of_line[2 + 2 * rules + rule, columns],
                            of_line[2 + 3 * rules + rule, columns],
                        )
