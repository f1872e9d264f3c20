"""Functionals of the hidden layer through lines with the slopes of chords, as the paper's formulas have them.

With the chord a of a node's activation, whose two lines ``a p`` and ``a p + o`` are parallel: ``ω · (a y)``, and the
least ``ω · (a b + c)`` for intercepts c between 0 and o.
"""

import numpy as np

from certgcl.bounds.compiled.kernels.line_parts import PARALLEL, chord_gradient, slopes
from certgcl.bounds.compiled.kernels.line_products import least_product
from certgcl.bounds.compiled.kernels.numerics import Array, compiled_sums


@compiled_sums
def products(part: int, parts: int, omega: Array, lower: Array, upper: Array, bias: Array, gamma: Array,
             features: Array, out: Array, constants: Array) -> None:
    """Of rows ``part``, ``part + parts``, …

    Args:
        omega: ``(N, C, d)``.
        lower, upper, features: ``(N, d)``.
        out, constants: ``(N, C)``.
    """
    number_type = omega.dtype.type
    zero, half, one = number_type(0), number_type(0.5), number_type(1)
    vector, middle, radius = np.empty((3, len(bias)), omega.dtype)
    for row in range(part, len(omega), parts):
        low_row, high_row, feature = lower[row], upper[row], features[row]
        for c in range(len(bias)):
            _, above, _, chord, _, _, convex = slopes(low_row[c], high_row[c], gamma[c], PARALLEL, zero, one)
            vector[c] = chord
            radius[c] = half * convex * (above - chord * above)
        for c in range(len(bias)):
            convex = one if gamma[c] <= one else -one
            middle[c] = vector[c] * bias[c] + convex * radius[c]
        for c in range(len(bias)):
            vector[c] *= feature[c]
        for m in range(omega.shape[1]):
            direction, total = omega[row, m], zero
            for c in range(len(bias)):
                total += direction[c] * vector[c]
            out[row, m] = total
            constants[row, m] = least_product(direction, middle, radius)


@compiled_sums
def gradients(part: int, parts: int, omega: Array, lower: Array, upper: Array, bias: Array, gamma: Array,
              features: Array, of_out: Array, of_constants: Array, of_omega: Array, of_lower: Array, of_upper: Array,
              of_bias: Array, of_gamma: Array, of_features: Array) -> None:
    """Writes the gradients of ω, bounds and features, and adds to those of bias and γ, for some of the channels."""
    number_type, width = omega.dtype.type, len(bias)
    zero, half, one = number_type(0), number_type(0.5), number_type(1)
    here = slice(width * part // parts, width * (part + 1) // parts)
    bias, gamma, of_bias, of_gamma = bias[here], gamma[here], of_bias[here], of_gamma[here]
    chords, offsets, of_chord, of_offset = np.empty((4, len(bias)), omega.dtype)
    for row in range(len(omega)):
        low_row, high_row, feature, of_feature = lower[row, here], upper[row, here], features[row, here], of_features[
            row, here]
        for c in range(len(bias)):
            _, above, _, chord, _, _, _ = slopes(low_row[c], high_row[c], gamma[c], PARALLEL, zero, one)
            chords[c] = chord
            offsets[c] = above - chord * above
        for c in range(len(bias)):
            of_chord[c] = of_offset[c] = of_feature[c] = zero
        for m in range(omega.shape[1]):
            vector, of_vector = omega[row, m, here], of_omega[row, m, here]
            product, constant = of_out[row, m], of_constants[row, m]
            for c in range(len(bias)):
                convex = one if gamma[c] <= one else -one
                sign = number_type(vector[c] > zero) - number_type(vector[c] < zero)
                of_vector[c] = (chords[c] * (product * feature[c] + constant * bias[c])
                                + constant * half * (one - sign * convex) * offsets[c])
            for c in range(len(bias)):
                of_chord[c] += vector[c] * (product * feature[c] + constant * bias[c])
            for c in range(len(bias)):
                convex = one if gamma[c] <= one else -one
                of_offset[c] += constant * half * (vector[c] - convex * abs(vector[c]))
            for c in range(len(bias)):
                of_feature[c] += product * vector[c] * chords[c]
            for c in range(len(bias)):
                of_bias[c] += constant * vector[c] * chords[c]
        of_low, of_high = of_lower[row, here], of_upper[row, here]
        for c in range(len(bias)):
            low, high, of_g = chord_gradient(low_row[c], high_row[c], gamma[c], of_chord[c], of_offset[c], zero, one)
            of_low[c] = low
            of_high[c] = high
            of_gamma[c] += of_g
