"""Products of functionals at *entries*: each entry has M functionals ω of one table, and lines or ranges of another.

With the middle v and the radius r of a range by each rule, ``least`` is ``ω · v - |ω| · r``. With slopes, middle a and
radius s, ``through`` is ``λ · y`` for ``λ = ω a - |ω| s`` and the vectors y that an entry meets, and ``back`` is
``W λ``. No array of entries times channels is held but that result.
"""

from typing import NamedTuple

import numpy as np

from certgcl.bounds.compiled.kernels.line_products import add_gradient, feature_products, least_product, slopes_of
from certgcl.bounds.compiled.kernels.numerics import Array, compiled_sums

ROWS = 128  # multiplied by a weight at a time: they stay in the cache
MANY = 16  # functionals of an entry from which on a matrix product is faster


class Entries(NamedTuple):
    """For each of E entries."""

    functional: Array  # (E,) its place among the functionals
    line: Array  # (E,) and among the lines


class Met(NamedTuple):
    """The vectors that entries meet: those at ``target[start[e]] … target[start[e + 1] - 1]``."""

    start: Array  # (E + 1,)
    target: Array  # (n,)


@compiled_sums
def least(part: int, parts: int, entries: Entries, omega: Array, middle: Array, radius: Array, out: Array) -> None:
    """``out[e, rule M + m]``, for a share of the entries.

    Args:
        omega: ``(functionals, M, d)``.
        middle, radius: ``(lines, rules, d)``.
    """
    number, rules, every = omega.shape[1], middle.shape[1], len(entries.line)
    for entry in range(every * part // parts, every * (part + 1) // parts):
        functional, line = entries.functional[entry], entries.line[entry]
        for rule in range(rules):
            for m in range(number):
                out[entry, rule * number + m] = least_product(
                    omega[functional, m], middle[line, rule], radius[line, rule]
                )


@compiled_sums
def least_gradients(
    part: int,
    parts: int,
    entries: Entries,
    omega: Array,
    middle: Array,
    radius: Array,
    given: Array,
    of_omega: Array,
    of_middle: Array,
    of_radius: Array,
) -> None:
    """Adds the gradients, for a share of the channels: ``v - sgn(ω) r``, ``ω`` and ``-|ω|`` times what is given."""
    number, rules, width = omega.shape[1], middle.shape[1], omega.shape[2]
    columns = slice(width * part // parts, width * (part + 1) // parts)
    towards = np.empty(columns.stop - columns.start, omega.dtype)
    for entry in range(len(entries.line)):
        functional, line = entries.functional[entry], entries.line[entry]
        for rule in range(rules):
            for m in range(number):
                share = given[entry, rule * number + m]
                if share != 0:
                    towards[:] = share
                    add_gradient(
                        towards,
                        omega[functional, m, columns],
                        middle[line, rule, columns],
                        radius[line, rule, columns],
                        of_omega[functional, m, columns],
                        of_middle[line, rule, columns],
                        of_radius[line, rule, columns],
                    )


@compiled_sums
def through(
    part: int,
    parts: int,
    entries: Entries,
    met: Met,
    omega: Array,
    slope: Array,
    spread: Array,
    values: Array,
    out: Array,
) -> None:
    """``out``, flat, with a cell of ``rules M`` for each vector that is met; for a share of the entries.

    Args:
        omega: ``(functionals, M, d)``.
        slope, spread: ``(lines, rules, d)``.
        values: ``(targets, d)``.
    """
    number, rules, every = omega.shape[1], slope.shape[1], len(entries.line)
    cell = rules * number
    slopes = np.empty((cell, omega.shape[2]), omega.dtype)
    for entry in range(every * part // parts, every * (part + 1) // parts):
        functional, line = entries.functional[entry], entries.line[entry]
        for rule in range(rules):
            for m in range(number):
                slopes_of(omega[functional, m], slope[line, rule], spread[line, rule], slopes[rule * number + m])
        first, last = met.start[entry], met.start[entry + 1]
        here = out[first * cell : last * cell]
        if cell < MANY:
            feature_products(slopes, values, met.target[first:last], here, cell)
        else:
            here.reshape(last - first, cell)[:] = np.dot(values[met.target[first:last]], slopes.T)


@compiled_sums
def back(
    part: int,
    parts: int,
    entries: Entries,
    omega: Array,
    slope: Array,
    spread: Array,
    weight: Array,
    out: Array,
) -> None:
    """``out``, ``(E rules M, inputs)``, for a share of the entries.

    Args:
        omega: ``(functionals, M, d)``.
        slope, spread: ``(lines, rules, d)``.
        weight: ``W'``, ``(d, inputs)``.
    """
    number, rules, every = omega.shape[1], slope.shape[1], len(entries.line)
    cell = rules * number
    slopes = np.empty((max(ROWS, cell), omega.shape[2]), omega.dtype)
    first, last = every * part // parts, every * (part + 1) // parts
    at_once = max(1, ROWS // cell)
    for start in range(first, last, at_once):
        end = min(last, start + at_once)
        for entry in range(start, end):
            functional, line = entries.functional[entry], entries.line[entry]
            for which in range(cell):
                rule, m = divmod(which, number)
                here = slopes[(entry - start) * cell + which]
                slopes_of(omega[functional, m], slope[line, rule], spread[line, rule], here)
        np.dot(slopes[: (end - start) * cell], weight, out[start * cell : end * cell])


@compiled_sums
def through_gradients(
    part: int,
    parts: int,
    entries: Entries,
    met: Met,
    omega: Array,
    slope: Array,
    spread: Array,
    values: Array,
    given: Array,
    of_omega: Array,
    of_slope: Array,
    of_spread: Array,
    of_values: Array,
) -> None:
    """Adds the gradients, for a share of the channels. With ``D = Σ_y g y`` for gradients g of ``λ · y``: for ω it is
    ``D a - sgn(ω) D s``, for y it is ``g λ``, for a and s they are ``ω D`` and ``-|ω| D``."""
    number, rules, width = omega.shape[1], slope.shape[1], omega.shape[2]
    columns = slice(width * part // parts, width * (part + 1) // parts)
    cell = rules * number
    slopes, towards = np.empty((2, columns.stop - columns.start), omega.dtype)
    for entry in range(len(entries.line)):
        functional, line = entries.functional[entry], entries.line[entry]
        for which in range(cell):
            rule, m = divmod(which, number)
            vector, touched = omega[functional, m, columns], False
            for place in range(met.start[entry], met.start[entry + 1]):
                share = given[place * cell + which]
                if share == 0:
                    continue
                if not touched:
                    touched = True
                    slopes_of(vector, slope[line, rule, columns], spread[line, rule, columns], slopes)
                    towards[:] = 0
                value, of_value = values[met.target[place], columns], of_values[met.target[place], columns]
                for c in range(len(towards)):
                    towards[c] += share * value[c]
                for c in range(len(towards)):
                    of_value[c] += share * slopes[c]
            if touched:
                add_gradient(
                    towards,
                    vector,
                    slope[line, rule, columns],
                    spread[line, rule, columns],
                    of_omega[functional, m, columns],
                    of_slope[line, rule, columns],
                    of_spread[line, rule, columns],
                )
