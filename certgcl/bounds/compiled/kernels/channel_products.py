"""Functionals shared by all anchors: the ranges, constants and slopes of every row's lines times a matrix M.

A vector with middles v and radii r has the least values ``v M - r |M|``, and ``-v M - r |M|`` for the columns of -M.
"""

from typing import NamedTuple

import numpy as np

from certgcl.bounds.compiled.kernels.line_parts import parts_of
from certgcl.bounds.compiled.kernels.line_products import eight_products
from certgcl.bounds.compiled.kernels.numerics import Array, compiled_sums, inlined

VECTORS = 16  # that meet the matrix at a time: they stay in the cache


class LinedRowArrays(NamedTuple):
    """The rows of all lines, with slots ``slot[r] … slot[r + 1] - 1``."""

    row: Array  # (lines,)
    first: Array  # (R,) the first line of every row; the others follow it
    slot: Array  # (R + 1,)
    target: Array  # (S,) whose features stand in a slot
    own: Array  # (R,) and in the row itself
    leaf: Array  # (S,) the place of every slot in the first line; those in the others follow it


class Bounds(NamedTuple):
    """The data of the rows, with the activation: the input from which :func:`parts_of` makes lines."""

    lower: Array
    upper: Array
    bias: Array
    gamma: Array
    rules: Array


class ChannelValues(NamedTuple):
    """Tables of ``2 m`` values for every line and slot, the last three by each rule."""

    interval: Array  # (lines, 1, 2 m)
    constant: Array  # (lines, rules, 2 m)
    own: Array
    leaves: Array


@inlined
def signed_products(middles: Array, radii: Array, columns: Array, sizes: Array, out: Array) -> None:
    """``out[v] = (v M - r |M|, -v M - r |M|)`` for a few vectors; the last of an odd number is treated twice.

    Args:
        columns, sizes: those of M and of |M|, ``(m, d1)``.
        out: ``(vectors, 2 m)``.
    """
    number, last = len(columns), len(columns) - 1
    for m in range(0, number, 4):
        m1, m2, m3 = min(m + 1, last), min(m + 2, last), min(m + 3, last)
        c0, c1, c2, c3 = columns[m], columns[m1], columns[m2], columns[m3]
        z0, z1, z2, z3 = sizes[m], sizes[m1], sizes[m2], sizes[m3]
        for v in range(0, len(out), 2):
            u = min(v + 1, len(out) - 1)
            v0, v1, v2, v3, u0, u1, u2, u3 = eight_products(middles[v], middles[u], c0, c1, c2, c3)
            r0, r1, r2, r3, s0, s1, s2, s3 = eight_products(radii[v], radii[u], z0, z1, z2, z3)
            one, other = out[v], out[u]
            one[m], one[m1], one[m2], one[m3] = v0 - r0, v1 - r1, v2 - r2, v3 - r3
            other[m], other[m1], other[m2], other[m3] = u0 - s0, u1 - s1, u2 - s2, u3 - s3
            one[number + m], one[number + m1] = -(v0 + r0), -(v1 + r1)
            one[number + m2], one[number + m3] = -(v2 + r2), -(v3 + r3)
            other[number + m], other[number + m1] = -(u0 + s0), -(u1 + s1)
            other[number + m2], other[number + m3] = -(u2 + s2), -(u3 + s3)


@compiled_sums
def products(
    part: int,
    parts: int,
    rows: LinedRowArrays,
    bounds: Bounds,
    features: Array,
    columns: Array,
    sizes: Array,
    out: ChannelValues,
) -> None:
    """For the lines of one part; parts take lines in turn."""
    rules, width = len(bounds.rules), features.shape[1]
    lined = np.empty((1, 2 + 4 * rules, width), features.dtype)
    middles, radii = np.empty((2, VECTORS, width), features.dtype)
    found = np.empty((VECTORS, 2 * len(columns)), features.dtype)
    for line in range(part, len(rows.row), parts):
        row = rows.row[line]
        parts_of(
            bounds.lower[line : line + 1], bounds.upper[line : line + 1], bounds.bias, bounds.gamma, bounds.rules, lined
        )
        first, around = rows.slot[row], 1 + rows.slot[row + 1] - rows.slot[row]
        total = 1 + rules + rules * around
        for begin in range(0, total, VECTORS):
            end = min(begin + VECTORS, total)
            for number in range(begin, end):
                middle, radius = middles[number - begin], radii[number - begin]
                if number <= rules:  # the range, then the constants
                    for c in range(width):
                        middle[c] = lined[0, number, c]
                    for c in range(width):
                        radius[c] = lined[0, 1 + rules + number, c]
                else:  # by each rule the slopes times features: of the row itself, then of its slots
                    rule, rank = divmod(number - 1 - rules, around)
                    slope, spread = lined[0, 2 + 2 * rules + rule], lined[0, 2 + 3 * rules + rule]
                    feature = features[rows.target[first + rank - 1] if rank else rows.own[row]]
                    for c in range(width):
                        middle[c] = slope[c] * feature[c]
                    for c in range(width):
                        radius[c] = spread[c] * feature[c]
            signed_products(middles, radii, columns, sizes, found[: end - begin])
            for number in range(begin, end):
                rule, rank = divmod(number - 1 - rules, around)
                if number == 0:
                    place = out.interval[line, 0]
                elif number <= rules:
                    place = out.constant[line, number - 1]
                elif rank == 0:
                    place = out.own[line, rule]
                else:
                    place = out.leaves[rows.leaf[first + rank - 1] + line - rows.first[row], rule]
                for c in range(found.shape[1]):
                    place[c] = found[number - begin, c]
