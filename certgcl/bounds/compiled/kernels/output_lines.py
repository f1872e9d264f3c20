"""Lines below ``w · σ(p)`` at the output: their slopes, their constants, and the interval value."""

import numpy as np

from certgcl.bounds.compiled.kernels.line_products import add_gradient, least_product, slopes_of
from certgcl.bounds.compiled.kernels.numerics import Array, compiled_sums


@compiled_sums
def lines_below(
    part: int, parts: int, directions: Array, lines: Array, interval: Array, constant: Array, slopes: Array
) -> None:
    """Rows ``part``, ``part + parts``, …

    Args:
        directions: ``(F, C, d2)``.
        lines: of layer 2, as the parts of :class:`certgcl.bounds.two_layer.layer1.Lined`, ``(F, parts, d2)``.
        interval: ``(F, C)``.
        constant, slopes: by each rule, ``(F, rules, C)`` and ``(F, rules, C, d2)``.
    """
    rules = constant.shape[1]
    for row in range(part, len(directions), parts):
        for m in range(directions.shape[1]):
            vector, line = directions[row, m], lines[row]
            interval[row, m] = least_product(vector, line[0], line[1 + rules])
            for rule in range(rules):
                constant[row, rule, m] = least_product(vector, line[1 + rule], line[2 + rules + rule])
                slopes_of(vector, line[2 + 2 * rules + rule], line[2 + 3 * rules + rule], slopes[row, rule, m])


@compiled_sums
def gradients(
    part: int,
    parts: int,
    directions: Array,
    lines: Array,
    interval: Array,
    constant: Array,
    slopes: Array,
    of_directions: Array,
    of_lines: Array,
) -> None:
    """Adds the gradients to the last two."""
    rules, width = constant.shape[1], directions.shape[2]
    towards = np.empty(width, directions.dtype)
    for row in range(part, len(directions), parts):
        for m in range(directions.shape[1]):
            vector, of_vector, line, of_line = directions[row, m], of_directions[row, m], lines[row], of_lines[row]
            for kind in range(1 + 2 * rules):  # the range, the constants, the slopes
                if kind <= rules:
                    middle, radius = kind, 1 + rules + kind
                    share = interval[row, m] if kind == 0 else constant[row, kind - 1, m]
                    for c in range(width):
                        towards[c] = share
                else:
                    middle, radius = 1 + rules + kind, 1 + 2 * rules + kind
                    given = slopes[row, kind - rules - 1, m]
                    for c in range(width):
                        towards[c] = given[c]
                add_gradient(towards, vector, line[middle], line[radius], of_vector, of_line[middle], of_line[radius])
