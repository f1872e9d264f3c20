"""The paper's ranges of one layer, see :class:`certgcl.bounds.uncertified.formulas.PaperBox`, and their gradients."""

from typing import NamedTuple

import numpy as np

from certgcl.bounds.compiled.kernels.numerics import LANES, Array, compiled, larger, smaller


class Box(NamedTuple):
    start: Array  # (N + 1,)
    neighbour: Array  # (S,)
    upper: Array  # (S,) U, which is symmetric
    own_lower: Array  # (N,) its diagonal, and that of L
    own_upper: Array  # (N,)


@compiled
def ranges(part: int, parts: int, box: Box, values: Array, bias: Array, lower: Array, upper: Array) -> None:
    """``L [v]+ + U [v]- + b`` and its mirror image, for some of the columns."""
    zero, width = values.dtype.type(0), values.shape[1]
    for row in range(len(values)):
        near, far = box.own_lower[row], box.own_upper[row]
        for start in range(width * part // parts, width * (part + 1) // parts, LANES):
            here = slice(start, min(start + LANES, width * (part + 1) // parts))
            own, constant, least, most = values[row, here], bias[here], lower[row, here], upper[row, here]
            for c in range(len(own)):
                least[c] = constant[c] + near * larger(own[c], zero) + far * smaller(own[c], zero)
            for c in range(len(own)):
                most[c] = constant[c] + near * smaller(own[c], zero) + far * larger(own[c], zero)
            for slot in range(box.start[row], box.start[row + 1]):
                entry, other = box.upper[slot], values[box.neighbour[slot], here]
                for c in range(len(own)):
                    least[c] += entry * smaller(other[c], zero)
                for c in range(len(own)):
                    most[c] += entry * larger(other[c], zero)


@compiled
def gradients(
    part: int, parts: int, box: Box, values: Array, of_lower: Array, of_upper: Array, of_values: Array
) -> None:
    """Writes the gradient of the values. As U is symmetric, it is gathered from the same neighbours."""
    number_type, width = values.dtype.type, values.shape[1]
    zero, one = number_type(0), number_type(1)
    if_negative, if_positive = np.empty((2, LANES), values.dtype)
    for row in range(len(values)):
        near, far = box.own_lower[row], box.own_upper[row]
        for start in range(width * part // parts, width * (part + 1) // parts, LANES):
            here = slice(start, min(start + LANES, width * (part + 1) // parts))
            own, result, least, most = values[row, here], of_values[row, here], of_lower[row, here], of_upper[row, here]
            for c in range(len(own)):
                if_negative[c] = far * least[c] + near * most[c]
            for c in range(len(own)):
                if_positive[c] = near * least[c] + far * most[c]
            for slot in range(box.start[row], box.start[row + 1]):
                entry, other = box.upper[slot], box.neighbour[slot]
                least, most = of_lower[other, here], of_upper[other, here]
                for c in range(len(own)):
                    if_negative[c] += entry * least[c]
                for c in range(len(own)):
                    if_positive[c] += entry * most[c]
            for c in range(len(own)):
                positive = number_type(own[c] > zero)
                result[c] = positive * if_positive[c] + (one - positive) * if_negative[c]
