"""Lines along the chords of an activation, as the paper's formulas have them, and their gradients.

The two lines ``a p`` and ``a p + o`` around ``σ(p)`` are parallel. Below ``ω · σ(p)`` lies the one with the slopes
``ω a``, and with the least ``ω · (a b + c)`` for intercepts c between 0 and o as its constant: b is the bias in p.
The result is the slopes, or their products with one vector of features at every node.
"""

import numpy as np

from certgcl.bounds.compiled.kernels.line_parts import PARALLEL, chord_gradient, slopes
from certgcl.bounds.compiled.kernels.line_products import least_product
from certgcl.bounds.compiled.kernels.numerics import Array, compiled_sums


@compiled_sums
def lines_below(
    part: int,
    parts: int,
    omega: Array,
    lower: Array,
    upper: Array,
    bias: Array,
    gamma: Array,
    features: Array,
    constants: Array,
    out: Array,
    products: Array,
) -> None:
    """The lines of rows ``part``, ``part + parts``, …

    Args:
        omega: ``(N, C, d)``.
        lower, upper: ``(N, d)``.
        features: ``(N, d)``, or empty if slopes are wanted.
        constants: ``(N, C)``.
        out, products: slopes ``(N, C, d)`` and products ``(N, C)``; one of them is empty.
    """
    number_type = omega.dtype.type
    zero, half, one = number_type(0), number_type(0.5), number_type(1)
    chords, middle, radius = np.empty((3, len(bias)), omega.dtype)
    for row in range(part, len(omega), parts):
        low_row, high_row = lower[row], upper[row]
        for c in range(len(bias)):
            _, above, _, chord, _, _, convex = slopes(low_row[c], high_row[c], gamma[c], PARALLEL, zero, one)
            chords[c] = chord
            radius[c] = half * convex * (above - chord * above)
        for c in range(len(bias)):
            convex = one if gamma[c] <= one else -one
            middle[c] = chords[c] * bias[c] + convex * radius[c]
        for m in range(omega.shape[1]):
            vector = omega[row, m]
            constants[row, m] = least_product(vector, middle, radius)
            if features.size:
                feature, total = features[row], zero
                for c in range(len(bias)):
                    total += vector[c] * chords[c] * feature[c]
                products[row, m] = total
            else:
                slope = out[row, m]
                for c in range(len(bias)):
                    slope[c] = vector[c] * chords[c]


@compiled_sums
def gradients(
    part: int,
    parts: int,
    omega: Array,
    lower: Array,
    upper: Array,
    bias: Array,
    gamma: Array,
    features: Array,
    of_constants: Array,
    of_slopes: Array,
    of_products: Array,
    of_omega: Array,
    of_lower: Array,
    of_upper: Array,
    of_bias: Array,
    of_gamma: Array,
    of_features: Array,
) -> None:
    """Writes the gradients of ω and of the bounds, and adds to the others, for some of the channels."""
    number_type, width = omega.dtype.type, len(bias)
    zero, half, one = number_type(0), number_type(0.5), number_type(1)
    here = slice(width * part // parts, width * (part + 1) // parts)
    bias, gamma, of_bias, of_gamma = bias[here], gamma[here], of_bias[here], of_gamma[here]
    chords, offsets, of_chord, of_offset, along = np.empty((5, len(bias)), omega.dtype)
    for row in range(len(omega)):
        low_row, high_row = lower[row, here], upper[row, here]
        for c in range(len(bias)):
            _, above, _, chord, _, _, _ = slopes(low_row[c], high_row[c], gamma[c], PARALLEL, zero, one)
            chords[c] = chord
            offsets[c] = above - chord * above
        for c in range(len(bias)):
            of_chord[c] = of_offset[c] = zero
        for m in range(omega.shape[1]):
            vector, of_vector = omega[row, m, here], of_omega[row, m, here]
            constant = of_constants[row, m]
            if features.size:
                feature, of_feature, product = features[row, here], of_features[row, here], of_products[row, m]
                for c in range(len(bias)):
                    of_feature[c] += product * vector[c] * chords[c]
                for c in range(len(bias)):
                    along[c] = product * feature[c] + constant * bias[c]
            else:
                of_slope = of_slopes[row, m, here]
                for c in range(len(bias)):
                    along[c] = of_slope[c] + constant * bias[c]
            for c in range(len(bias)):
                convex = one if gamma[c] <= one else -one
                sign = number_type(vector[c] > zero) - number_type(vector[c] < zero)
                of_vector[c] = chords[c] * along[c] + constant * half * (one - sign * convex) * offsets[c]
            for c in range(len(bias)):
                of_chord[c] += vector[c] * along[c]
            for c in range(len(bias)):
                convex = one if gamma[c] <= one else -one
                of_offset[c] += constant * half * (vector[c] - convex * abs(vector[c]))
            for c in range(len(bias)):
                of_bias[c] += constant * vector[c] * chords[c]
        of_low, of_high = of_lower[row, here], of_upper[row, here]
        for c in range(len(bias)):
            low, high, of_g = chord_gradient(low_row[c], high_row[c], gamma[c], of_chord[c], of_offset[c], zero, one)
            of_low[c] = low
            of_high[c] = high
            of_gamma[c] += of_g
