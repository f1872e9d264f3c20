"""``φ`` of pairs of an anchor and a neighbour, see :class:`certgcl.bounds.degree.DegreeMinimum`, and its gradients.

A *visit* is a pair (i, j) in one of the cases of the anchor i. Tables are flat and cut into cells as in
:mod:`certgcl.bounds.compiled.kernels.row_lemma`; a cell has the M values of each rule, one rule after the other.
"""

from typing import NamedTuple

import numpy as np

from certgcl.bounds.compiled.kernels.numerics import LANES, Array, compiled, inlined, larger, smaller


class VisitArrays(NamedTuple):
    """For each of V visits."""

    row: Array  # j
    low: Array  # the scale of i as a neighbour, in its case
    high: Array
    least: Array  # and while the edge is kept, in any case
    most: Array
    own_low: Array  # what C_ij is multiplied by
    own_high: Array
    reach: Array  # how many edges j can lose while this one is kept
    droppable: Array
    column: Array  # the cell among those of the row's functionals
    leaf: Array  # the cell of C_ji in the first case of j,
    term: Array  # and that of what the row lemma has in its place
    pair: Array  # the cell of C_ij


class Neighbours(NamedTuple):
    """The rows j in their cases, and where their values stand."""

    case: Array  # (R + 1,)
    first: Array  # (F,) the least number of edges lost
    low: Array  # (F,) the scale of j as a neighbour
    high: Array  # (F,)
    out_low: Array  # (F,) and of the sum over its own neighbours
    out_high: Array  # (F,)
    out: Array  # (F,) the first cell of the row lemma
    own: Array  # (F,) that of the constants and intervals
    step: Array  # (R,) how many cells it is from C_ji in one case to the next,
    term_step: Array  # (R,) and for the term of the row lemma
    lined: Array  # (R,) whether there are lines, or intervals alone


class Values(NamedTuple):
    """Flat tables; there are as many of their gradients."""

    without: Array  # the row lemma
    following: Array  # the same with one more term dropped
    constant: Array
    interval: Array  # of M values a cell
    leaves: Array  # C_jk
    terms: Array  # of the row lemma, before they are multiplied by the least or largest scale
    pairs: Array  # C_ij


@inlined
def _scales(visit: int, case: int, visits: VisitArrays, rows: Neighbours) -> tuple[float, ...]:
    """Middle and radius of ``out_j``, of ``out_j in_i``, of the factor of ``C_ij`` and of ``in_j``."""
    low, high, half = rows.out_low[case], rows.out_high[case], rows.low.dtype.type(0.5)
    near, far = visits.low[visit], visits.high[visit]
    least, most = visits.own_low[visit], visits.own_high[visit]
    into, reach = rows.low[case], rows.high[case]
    return (
        half * (low + high),
        half * (high - low),
        half * (low * near + high * far),
        half * (high * far - low * near),
        half * (least + most),
        half * (most - least),
        half * (into + reach),
        half * (reach - into),
    )


@inlined
def _scale_kept(visit: int, visits: VisitArrays) -> tuple[float, float]:
    """Middle and radius of the scale of i while the edge is kept."""
    least, most, half = visits.least[visit], visits.most[visit], visits.least.dtype.type(0.5)
    return half * (least + most), half * (most - least)


@inlined
def _kept(without: float, term: float, middle: float, radius: float, scale: float, spread: float) -> float:
    """The row lemma at j less the term of i, which is not dropped."""
    least = middle * term - radius * abs(term)
    return without - (scale * least + spread * abs(least))


@inlined
def _lined(
    without: float,
    following: float,
    leaf: float,
    term: float,
    constant: float,
    droppable: bool,
    middle: float,
    radius: float,
    scale: float,
    spread: float,
    product: float,
    product_spread: float,
) -> float:
    """``out_j (in_i C_ji + rest_ij) + e_j``, with what the row lemma has of j itself."""
    kept = _kept(without, term, middle, radius, scale, spread)
    kept = larger(kept, following) if droppable else kept
    return kept + constant + (product * leaf - product_spread * abs(leaf))


@inlined
def _line(
    visit: int,
    case: int,
    at: int,
    w: int,
    rule: int,
    number: int,
    visits: VisitArrays,
    rows: Neighbours,
    tables: Values,
    rules: int,
    track: bool,
    chosen: Array,
    line: Array,
) -> None:
    """``out_j (in_i C_ji + rest_ij) + e_j`` by one rule; if to be tracked, one where i is not dropped."""
    row, cell = visits.row[visit], rules * number
    scale, spread, product, product_spread, _, _, _, _ = _scales(visit, case, visits, rows)
    column, start = visits.column[visit], rule * number + at
    place = (visits.leaf[visit] + (case - rows.case[row]) * rows.step[row]) * cell + start
    at_term = (visits.term[visit] + (case - rows.case[row]) * rows.term_step[row]) * cell + start
    term = tables.terms[at_term : at_term + w]
    out, own = (rows.out[case] + column) * cell + start, (rows.own[case] + column) * cell + start
    without, following = tables.without[out : out + w], tables.following[out : out + w]
    leaf, constant = tables.leaves[place : place + w], tables.constant[own : own + w]
    middle, radius = _scale_kept(visit, visits)
    droppable = visits.droppable[visit]
    if track:
        for c in range(w):
            kept = _kept(without[c], term[c], middle, radius, scale, spread)
            chosen[c] = line.dtype.type(kept >= following[c] or not droppable)
    for c in range(w):
        line[c] = _lined(
            without[c],
            following[c],
            leaf[c],
            term[c],
            constant[c],
            droppable,
            middle,
            radius,
            scale,
            spread,
            product,
            product_spread,
        )


@inlined
def _value(
    visit: int,
    case: int,
    at: int,
    w: int,
    number: int,
    visits: VisitArrays,
    rows: Neighbours,
    tables: Values,
    rules: int,
    track: bool,
    value: Array,
    best: Array,
    chosen: Array,
    line: Array,
) -> None:
    """The interval or the best line, whichever is larger; if to be tracked, which one, minus one for the interval."""
    own = (rows.own[case] + visits.column[visit]) * number + at
    interval = tables.interval[own : own + w]
    for c in range(w):
        value[c] = interval[c]
    if track:
        for c in range(w):
            best[c] = -1
    if rows.lined[visits.row[visit]]:
        for rule in range(rules):
            _line(visit, case, at, w, rule, number, visits, rows, tables, rules, track, chosen, line)
            if track:
                name, none = value.dtype.type(rule), value.dtype.type(-1)
                for c in range(w):
                    best[c] = larger(best[c], name if line[c] > value[c] else none)
            for c in range(w):  # NaN where the line is not finite
                value[c] = larger(value[c], line[c]) + (line[c] - line[c])


@compiled
def minima(
    part: int, parts: int, visits: VisitArrays, rows: Neighbours, tables: Values, rules: int, number: int, phi: Array
) -> None:
    """``phi``, ``(V, rules M)`` flat.

    Args:
        part, parts: the share of the visits to treat.
        number: M.
    """
    value, cell = np.empty(number, phi.dtype), rules * number
    for visit in range(len(visits.row) * part // parts, len(visits.row) * (part + 1) // parts):
        row, column, droppable = visits.row[visit], visits.column[visit], visits.droppable[visit]
        middle, radius = _scale_kept(visit, visits)
        pairs = tables.pairs[visits.pair[visit] * cell : (visits.pair[visit] + 1) * cell]
        out = phi[visit * cell : (visit + 1) * cell]
        for case in range(rows.case[row], rows.case[row + 1]):
            if rows.first[case] > visits.reach[visit]:
                break
            scale, spread, product, product_spread, square, square_spread, into, reach = _scales(
                visit, case, visits, rows
            )
            own = rows.own[case] + column
            interval = tables.interval[own * number : (own + 1) * number]
            if not rows.lined[row]:
                for c in range(number):
                    value[c] = interval[c]
            else:
                place = visits.leaf[visit] + (case - rows.case[row]) * rows.step[row]
                place_of_term = visits.term[visit] + (case - rows.case[row]) * rows.term_step[row]
                for rule in range(rules):
                    at = (rows.out[case] + column) * cell + rule * number
                    without, following = tables.without[at : at + number], tables.following[at : at + number]
                    at = place * cell + rule * number
                    leaf = tables.leaves[at : at + number]
                    at = place_of_term * cell + rule * number
                    term = tables.terms[at : at + number]
                    at = own * cell + rule * number
                    constant, others = tables.constant[at : at + number], value if rule else interval
                    for c in range(number):
                        line = _lined(
                            without[c],
                            following[c],
                            leaf[c],
                            term[c],
                            constant[c],
                            droppable,
                            middle,
                            radius,
                            scale,
                            spread,
                            product,
                            product_spread,
                        )
                        value[c] = larger(others[c], line) + (line - line)  # NaN where the line is not finite
            for rule in range(rules):
                pair, here = pairs[rule * number : (rule + 1) * number], out[rule * number : (rule + 1) * number]
                if case == rows.case[row]:
                    for c in range(number):
                        total = value[c] + (square * pair[c] - square_spread * abs(pair[c]))
                        here[c] = into * total - reach * abs(total)
                else:
                    for c in range(number):
                        total = value[c] + (square * pair[c] - square_spread * abs(pair[c]))
                        known = here[c]  # NaN for good where anything was not finite
                        least = smaller(known, into * total - reach * abs(total))
                        here[c] = least + ((total - total) + (known - known))


@compiled
def gradients(
    part: int,
    parts: int,
    visits: VisitArrays,
    rows: Neighbours,
    tables: Values,
    rules: int,
    number: int,
    gradient: Array,
    of: Values,
) -> None:
    """Adds the gradients of the tables to those in ``of``. Of equal cases the first has it, of equal bounds the
    interval, then the first rule."""
    value, best, chosen, line, change, share, term = np.empty((7, LANES), gradient.dtype)
    least, where = np.empty((rules, LANES), gradient.dtype), np.empty((rules, LANES), gradient.dtype)
    number_type = gradient.dtype.type
    one, zero = number_type(1), number_type(0)
    for visit in range(len(visits.row)):
        row = visits.row[visit]
        middle, radius = _scale_kept(visit, visits)
        for at in range(number * part // parts, number * (part + 1) // parts, LANES):
            w = min(LANES, number * (part + 1) // parts - at)
            something = False
            for rule in range(rules):
                place = (visit * rules + rule) * number + at
                given = gradient[place : place + w]
                for c in range(w):
                    something |= given[c] != zero
            if not something:  # as in all cases of an anchor but the one that decides
                continue
            # In which case the minimum is taken.
            for case in range(rows.case[row], rows.case[row + 1]):
                if rows.first[case] > visits.reach[visit]:
                    break
                name = number_type(case - rows.case[row])
                several = rows.case[row + 1] - rows.case[row] > 1
                if several:
                    _value(visit, case, at, w, number, visits, rows, tables, rules, False, value, best, chosen, line)
                _, _, _, _, square, square_spread, into, reach = _scales(visit, case, visits, rows)
                for rule in range(rules):
                    if name == zero:
                        for c in range(w):
                            where[rule, c] = zero
                    if several:
                        place = (visits.pair[visit] * rules + rule) * number + at
                        pair = tables.pairs[place : place + w]
                        for c in range(w):
                            line[c] = value[c] + (square * pair[c] - square_spread * abs(pair[c]))
                        for c in range(w):
                            term[c] = into * line[c] - reach * abs(line[c])
                        if name == zero:
                            for c in range(w):
                                least[rule, c] = term[c]
                        else:
                            for c in range(w):
                                where[rule, c] = larger(where[rule, c], name if term[c] < least[rule, c] else zero)
                            for c in range(w):
                                least[rule, c] = smaller(least[rule, c], term[c])
            for case in range(rows.case[row], rows.case[row + 1]):
                if rows.first[case] > visits.reach[visit]:
                    break
                name = number_type(case - rows.case[row])
                _value(visit, case, at, w, number, visits, rows, tables, rules, True, value, best, chosen, line)
                scale, spread, product, product_spread, square, square_spread, into, reach = _scales(
                    visit, case, visits, rows
                )
                for c in range(w):
                    change[c] = zero
                for rule in range(rules):
                    place = (visits.pair[visit] * rules + rule) * number + at
                    pair, of_pair = tables.pairs[place : place + w], of.pairs[place : place + w]
                    place = (visit * rules + rule) * number + at
                    given = gradient[place : place + w]
                    for c in range(w):
                        line[c] = value[c] + (square * pair[c] - square_spread * abs(pair[c]))
                    for c in range(w):
                        direction = number_type(line[c] > zero) - number_type(line[c] < zero)
                        share[c] = (into - reach * direction) * number_type(where[rule, c] == name)
                    for c in range(w):
                        share[c] *= given[c]
                    for c in range(w):
                        change[c] += share[c]
                    for c in range(w):
                        direction = number_type(pair[c] > zero) - number_type(pair[c] < zero)
                        of_pair[c] += share[c] * (square - square_spread * direction)
                something = False
                for c in range(w):
                    something |= change[c] != zero
                if not something:
                    continue
                column = visits.column[visit]
                place = (rows.own[case] + column) * number + at
                of_interval = of.interval[place : place + w]
                for c in range(w):
                    of_interval[c] += change[c] * number_type(best[c] < zero)
                if not rows.lined[row]:
                    continue
                for rule in range(rules):
                    name = number_type(rule)
                    for c in range(w):
                        share[c] = change[c] * number_type(best[c] == name)
                    _line(visit, case, at, w, rule, number, visits, rows, tables, rules, True, chosen, line)
                    start = rule * number + at
                    place = (rows.own[case] + column) * rules * number + start
                    of_constant = of.constant[place : place + w]
                    for c in range(w):
                        of_constant[c] += share[c]
                    place = (rows.out[case] + column) * rules * number + start
                    of_without, of_following = of.without[place : place + w], of.following[place : place + w]
                    for c in range(w):
                        of_without[c] += share[c] * chosen[c]
                    for c in range(w):
                        of_following[c] += share[c] * (one - chosen[c])
                    place = (visits.leaf[visit] + (case - rows.case[row]) * rows.step[row]) * rules * number + start
                    leaf, of_leaf = tables.leaves[place : place + w], of.leaves[place : place + w]
                    for c in range(w):
                        direction = number_type(leaf[c] > zero) - number_type(leaf[c] < zero)
                        of_leaf[c] += share[c] * (product - product_spread * direction)
                    place = visits.term[visit] + (case - rows.case[row]) * rows.term_step[row]
                    place = place * rules * number + start
                    dropped, of_dropped = tables.terms[place : place + w], of.terms[place : place + w]
                    for c in range(w):
                        value_here = middle * dropped[c] - radius * abs(dropped[c])
                        direction = number_type(value_here > zero) - number_type(value_here < zero)
                        chosen[c] *= scale + spread * direction
                    for c in range(w):
                        direction = number_type(dropped[c] > zero) - number_type(dropped[c] < zero)
                        of_dropped[c] -= share[c] * chosen[c] * (middle - radius * direction)
