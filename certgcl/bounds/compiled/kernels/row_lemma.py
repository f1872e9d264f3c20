"""The row lemma on flat tables: least values, and their gradients.

    min_{t in the case}  out(t) ( Σ_k g_k - top_t ) + of_own(t) own + of_squared(t) squared

with tables of the three scales: for a GCN they are s, s² and s⁴ with ``s = (d + 1 - t)^(-1/2)``.

Tables are one list of numbers, cut into *cells* of equal length; what belongs to a row or a neighbour is one
cell, or several in a sequence. Columns are independent of each other, so that threads share them.
"""

from typing import NamedTuple

import numpy as np

from certgcl.bounds.compiled.kernels.numerics import LANES, Array, compiled, inlined, larger, smaller


class Rows(NamedTuple):
    """Rows r with slots ``start[r] … start[r + 1] - 1`` and cases ``case[r] … case[r + 1] - 1``."""

    start: Array  # (R + 1,)
    droppable: Array  # (S,)
    degree: Array  # (R,)
    case: Array  # (R + 1,)
    first: Array  # (F,) counts of edges lost in every case
    last: Array  # (F,)
    width: Array  # (R,) in cells
    scale: Array  # (R,) where the scales of the row begin: those with t edges lost are t places further
    out: Array  # what the sum over neighbours is multiplied by,
    of_own: Array  # the row's own value,
    of_squared: Array  # and its second one


class TermArrays(NamedTuple):
    """``g = least s v`` for the values v of the neighbours, with scales from ``low`` to ``high``."""

    place: Array  # (S,) the first cell of every slot
    step: Array  # (R,) how many cells it is from case to case; zero where all cases share their values
    low: Array  # (S,) or empty where values are multiplied already
    high: Array
    own: Array  # (F,) the first cell of the row's own value
    out: Array  # (F,) where results go
    sign: int  # -1 to treat -v instead


@inlined
def scale_of(terms: TermArrays, slot: int, number_type: type) -> tuple[float, float]:
    """The middle and the radius, with the sign."""
    half, sign = number_type(0.5), number_type(terms.sign)
    if terms.low.size:
        return sign * half * (terms.low[slot] + terms.high[slot]), half * (terms.high[slot] - terms.low[slot])
    return sign, number_type(0)


@inlined
def least_term(
    terms: TermArrays, slot: int, row: int, rank: int, cell: int, start: int, w: int, values: Array, term: Array
) -> None:
    at = (terms.place[slot] + rank * terms.step[row]) * cell + start
    here = values[at : at + w]
    middle, radius = scale_of(terms, slot, values.dtype.type)
    for c in range(w):
        value = here[c]
        term[c] = middle * value - radius * abs(value)


@inlined
def inserted(wanted: int, droppable: int) -> bool:
    """Whether this many of the largest are found faster by insertion than by sorting all."""
    exponent = np.log2(droppable + 1.0)
    return 3 * wanted <= exponent * exponent


@inlined
def exchange(top: Array, one: int, other: int, w: int) -> None:
    """The larger first."""
    for c in range(w):
        held, coming = top[one, c], top[other, c]
        top[one, c] = larger(held, coming)
        top[other, c] = smaller(held, coming)


@inlined
def sort(
    row: int,
    rank: int,
    wanted: int,
    w: int,
    start: int,
    rows: Rows,
    terms: TermArrays,
    cell: int,
    values: Array,
    top: Array,
    total: Array,
    term: Array,
) -> int:
    """The largest droppable terms of a row in ``top``, and the sum of all in ``total``; how many are found."""
    filled, droppable = 0, 0
    for slot in range(rows.start[row], rows.start[row + 1]):
        droppable += rows.droppable[slot]
    insert = inserted(wanted, droppable)
    for c in range(w):
        total[c] = 0
    for slot in range(rows.start[row], rows.start[row + 1]):
        least_term(terms, slot, row, rank, cell, start, w, values, term)
        for c in range(w):
            total[c] += term[c]
        if rows.droppable[slot]:
            if insert:
                for place in range(filled):
                    for c in range(w):
                        held, coming = top[place, c], term[c]
                        top[place, c] = larger(held, coming)
                        term[c] = smaller(held, coming)
            if filled < wanted or not insert:
                for c in range(w):
                    top[filled, c] = term[c]
                filled += 1
    if not insert:  # Batcher's odd-even merge sort
        exponent = 0
        while 1 << exponent < filled:
            length = step = 1 << exponent
            exponent += 1
            while step:
                for first in range(step & (length - 1), filled - step, 2 * step):
                    for place in range(first, min(first + step, filled - step)):
                        if place >> exponent == (place + step) >> exponent:
                            exchange(top, place, place + step, w)
                step >>= 1
    return min(filled, wanted)


@compiled
def minima(
    part: int,
    parts: int,
    rows: Rows,
    terms: TermArrays,
    cell: int,
    values: Array,
    own: Array,
    squared: Array,
    least: Array,
    count: Array,
    dropped: Array,
) -> None:
    """``least[shift, ...]``: over the counts t of every case, with ``top_(t + shift)`` dropped.

    Args:
        part, parts: the share of the columns to treat.
        values, own, squared: flat tables; the last two may be empty.
        least, count, dropped: ``(shifts, cells)``; the last two say where the minimum is taken, and may be empty.
    """
    number_type = values.dtype.type
    zero = number_type(0)  # a plain 0 would turn single precision into double
    sign, limit = number_type(terms.sign), number_type(np.finfo(values.dtype).max)
    shifts, where = len(least), count.size > 0
    most = 0
    for row in range(len(rows.degree)):
        most = max(most, rows.degree[row])
    top = np.empty((most + 1, LANES), values.dtype)
    term, total, rest, new, best, gone, edge, mark, nothing = np.zeros((9, LANES), values.dtype)
    for row in range(len(rows.degree)):
        width, alike = rows.width[row] * cell, terms.step[row] == 0
        for start in range(width * part // parts, width * (part + 1) // parts, LANES):
            w = min(LANES, width * (part + 1) // parts - start)
            filled = 0
            for case in range(rows.case[row], rows.case[row + 1]):
                rank = case - rows.case[row]
                if rank == 0 or not alike:
                    wanted = rows.last[rows.case[row + 1] - 1 if alike else case] + shifts - 1
                    filled = sort(row, rank, wanted, w, start, rows, terms, cell, values, top, total, term)
                at = terms.own[case] * cell + start
                own_here = own[at : at + w] if own.size else nothing[:w]
                squared_here = squared[at : at + w] if squared.size else nothing[:w]
                for shift in range(shifts):
                    first = rows.first[case]
                    for c in range(w):
                        rest[c] = total[c]
                    for lost in range(min(first + shift, filled)):
                        for c in range(w):
                            rest[c] -= top[lost, c]
                    for t in range(first, rows.last[case] + 1):
                        lost = t + shift
                        lost_now = top[lost - 1] if t > first and lost <= filled else nothing
                        scales = rows.scale[row] + t
                        scale, of_own = rows.out[scales], sign * rows.of_own[scales]
                        of_squared = rows.of_squared[scales]
                        for c in range(w):
                            left = rest[c] - lost_now[c]
                            rest[c] = left
                            new[c] = scale * left + of_own * own_here[c] + of_squared * squared_here[c]
                        if where:
                            reached, as_number = 0 < lost <= filled, number_type(lost)
                            if not reached:
                                for c in range(w):
                                    term[c] = limit if lost == 0 else -limit
                            dropped_here = top[lost - 1] if reached else term
                            if t == first:
                                for c in range(w):
                                    gone[c] = as_number
                                for c in range(w):
                                    edge[c] = dropped_here[c]
                            else:
                                # Later counts drop smaller terms: so the last one that improved has the largest count,
                                # and the smallest dropped term.
                                for c in range(w):
                                    mark[c] = -limit if new[c] < best[c] else limit
                                for c in range(w):
                                    gone[c] = larger(gone[c], as_number if mark[c] < zero else zero)
                                for c in range(w):
                                    edge[c] = smaller(edge[c], larger(dropped_here[c], mark[c]))
                        if t == first:
                            for c in range(w):
                                best[c] = new[c]
                        else:
                            for c in range(w):
                                best[c] = smaller(best[c], new[c])
                    at_out = terms.out[case] * cell + start
                    out = least[shift, at_out : at_out + w]
                    for c in range(w):  # rest - rest is zero, or NaN where anything was not finite
                        out[c] = best[c] + (rest[c] - rest[c])
                    if where:
                        count_here, edge_here = count[shift, at_out : at_out + w], dropped[shift, at_out : at_out + w]
                        for c in range(w):
                            count_here[c] = gone[c]
                        for c in range(w):
                            edge_here[c] = edge[c]


@compiled
def gradients(
    part: int,
    parts: int,
    rows: Rows,
    terms: TermArrays,
    cell: int,
    values: Array,
    count: Array,
    dropped: Array,
    gradient: Array,
    of_values: Array,
    of_own: Array,
    of_squared: Array,
) -> None:
    """Adds the gradients of the tables to the last three: ``out(t)`` at the terms that are kept where the minimum is
    taken. Terms that tie with the smallest dropped one share what is left to drop."""
    number_type = values.dtype.type
    sign, one, zero = number_type(terms.sign), number_type(1), number_type(0)
    change, kept, tied, weight, term = np.empty((5, LANES), values.dtype)
    for row in range(len(rows.degree)):
        width = rows.width[row] * cell
        slots = range(rows.start[row], rows.start[row + 1])
        droppable = 0
        for slot in slots:
            droppable += rows.droppable[slot]
        all_terms, all_droppable = number_type(len(slots)), number_type(droppable)
        for start in range(width * part // parts, width * (part + 1) // parts, LANES):
            w = min(LANES, width * (part + 1) // parts - start)
            for case in range(rows.case[row], rows.case[row + 1]):
                rank, own, at = case - rows.case[row], terms.own[case] * cell + start, terms.out[case] * cell + start
                for shift in range(len(gradient)):
                    given, gone = gradient[shift, at : at + w], count[shift, at : at + w]
                    edge = dropped[shift, at : at + w]
                    something = False
                    for c in range(w):
                        something |= given[c] != zero
                    if not something:
                        continue
                    scales = rows.scale[row] - shift
                    for c in range(w):
                        change[c] = given[c] * rows.out[scales + int(gone[c])]
                    if of_own.size:
                        own_here = of_own[own : own + w]
                        for c in range(w):
                            own_here[c] += sign * given[c] * rows.of_own[scales + int(gone[c])]
                    if of_squared.size:
                        squared_here = of_squared[own : own + w]
                        for c in range(w):
                            squared_here[c] += given[c] * rows.of_squared[scales + int(gone[c])]
                    for c in range(w):
                        kept[c] = all_terms - all_droppable
                        tied[c] = zero
                    for slot in slots:
                        if rows.droppable[slot]:
                            least_term(terms, slot, row, rank, cell, start, w, values, term)
                            for c in range(w):
                                kept[c] += number_type(term[c] < edge[c])
                            for c in range(w):
                                tied[c] += number_type(term[c] == edge[c])
                    for c in range(w):  # the share of each of those that are tied
                        left = all_terms - smaller(gone[c], all_droppable) - kept[c]
                        tied[c] = left / larger(tied[c], one)
                    for slot in slots:
                        if rows.droppable[slot]:
                            least_term(terms, slot, row, rank, cell, start, w, values, term)
                            for c in range(w):
                                weight[c] = number_type(term[c] < edge[c]) + number_type(term[c] == edge[c]) * tied[c]
                            for c in range(w):
                                weight[c] *= change[c]
                        else:
                            for c in range(w):
                                weight[c] = change[c]
                        place = (terms.place[slot] + rank * terms.step[row]) * cell + start
                        here, of_here = values[place : place + w], of_values[place : place + w]
                        middle, radius = scale_of(terms, slot, number_type)
                        for c in range(w):
                            direction = number_type(here[c] > zero) - number_type(here[c] < zero)
                            of_here[c] += weight[c] * (middle - radius * direction)
