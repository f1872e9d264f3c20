"""Ranges and lines of an activation on intervals, and their gradients.

:func:`certgcl.bounds.two_layer.layer1.line_parts` has the formulas.
"""

from certgcl.bounds.compiled.kernels.numerics import Array, compiled, inlined, larger, smaller

PARALLEL, ADAPTIVE, FLAT = range(3)


@inlined
def slopes(low: float, high: float, gamma: float, kind: int, zero: float, one: float) -> tuple[float, ...]:
    """The ends, the chord and its width, the slope that is free and whether it is one; minus one where the two lines
    change places, else one."""
    below, above = smaller(low, zero), larger(high, zero)
    width = above - below
    nothing = one if width == zero else zero
    chord = (above - gamma * below + nothing) / (width + nothing)
    on = low + high >= zero if kind == ADAPTIVE else low >= zero
    free = chord if kind == PARALLEL else one if on else gamma
    return below, above, width + nothing, chord, free, on, one if gamma <= one else -one


@inlined
def chord_gradient(
    low: float, high: float, gamma: float, of_chord: float, of_offset: float, zero: float, one: float
) -> tuple[float, ...]:
    """The gradients of both ends and of γ, from those of the chord and of its intercept ``above - chord above``."""
    below, above, width, chord, _, _, _ = slopes(low, high, gamma, PARALLEL, zero, one)
    of_top = (of_chord - of_offset * above) / width
    of_width = -of_top * chord
    of_above = of_offset * (one - chord) + of_top + of_width
    of_below = -gamma * of_top - of_width
    return of_below if low < zero else zero, of_above if high > zero else zero, -of_top * below


@compiled
def parts_of(lower: Array, upper: Array, bias: Array, gamma: Array, rules: Array, out: Array) -> None:
    """``out`` is ``(lines, 2 + 4 rules, d1)``; NaN where a bound is not finite."""
    number_type, count = out.dtype.type, len(rules)
    zero, half, one = number_type(0), number_type(0.5), number_type(1)
    for line in range(len(lower)):
        low_row, high_row = lower[line], upper[line]
        middle, radius = out[line, 0], out[line, 1 + count]
        for c in range(len(bias)):
            low, high, g = low_row[c], high_row[c], gamma[c]
            at_low = larger(low, zero) + g * smaller(low, zero)
            at_high = larger(high, zero) + g * smaller(high, zero)
            # A valley at zero, where γ is negative and zero inside.
            least = zero if g < zero and low < zero and high > zero else smaller(at_low, at_high)
            most = larger(at_low, at_high)
            ordered = g >= zero
            least, most = at_low if ordered else least, at_high if ordered else most
            middle[c] = half * (least + most) + ((low - low) + (high - high))  # zero, or NaN
            radius[c] = half * (most - least)
        for rule in range(count):
            constant, constant_spread = out[line, 1 + rule], out[line, 2 + count + rule]
            slope, slope_spread = out[line, 2 + 2 * count + rule], out[line, 2 + 3 * count + rule]
            kind = rules[rule]
            for c in range(len(bias)):
                _, above, _, chord, free, _, convex = slopes(low_row[c], high_row[c], gamma[c], kind, zero, one)
                offset = above - chord * above
                low, high = low_row[c], high_row[c]
                slope[c] = half * (free + chord) + ((low - low) + (high - high))
                slope_spread[c] = half * convex * (chord - free)
                constant[c] = slope[c] * bias[c] + half * offset
                constant_spread[c] = slope_spread[c] * bias[c] + half * convex * offset


@compiled
def gradients(
    lower: Array,
    upper: Array,
    bias: Array,
    gamma: Array,
    rules: Array,
    given: Array,
    of_lower: Array,
    of_upper: Array,
    of_bias: Array,
    of_gamma: Array,
) -> None:
    """Adds the gradients to the last four. At a kink where torch has none, there is none here either; two ends that are
    equal because of a valley get half each."""
    number_type, count = given.dtype.type, len(rules)
    zero, half, one = number_type(0), number_type(0.5), number_type(1)
    for line in range(len(lower)):
        low_row, high_row = lower[line], upper[line]
        of_low, of_high = of_lower[line], of_upper[line]
        middle, radius = given[line, 0], given[line, 1 + count]
        for c in range(len(bias)):
            low, high, g = low_row[c], high_row[c], gamma[c]
            of_least, of_most = half * (middle[c] - radius[c]), half * (middle[c] + radius[c])
            of_at_low, of_at_high = of_least, of_most
            if g < zero:
                at_low = larger(low, zero) + g * smaller(low, zero)
                at_high = larger(high, zero) + g * smaller(high, zero)
                if low < zero and high > zero:
                    of_least = zero
                first = one if at_low < at_high else half if at_low == at_high else zero
                of_at_low = of_least * first + of_most * (one - first)
                of_at_high = of_most * first + of_least * (one - first)
            of_low[c] += of_at_low * (one if low >= zero else g)
            of_high[c] += of_at_high * (one if high >= zero else g)
            of_gamma[c] += of_at_low * smaller(low, zero) + of_at_high * smaller(high, zero)
        for rule in range(count):
            constant, constant_spread = given[line, 1 + rule], given[line, 2 + count + rule]
            slope, slope_spread = given[line, 2 + 2 * count + rule], given[line, 2 + 3 * count + rule]
            kind = rules[rule]
            for c in range(len(bias)):
                low, high, g = low_row[c], high_row[c], gamma[c]
                _, _, _, chord, free, on, convex = slopes(low, high, g, kind, zero, one)
                of_bias[c] += half * (constant[c] * (free + chord) + constant_spread[c] * convex * (chord - free))
                plain = slope[c] + constant[c] * bias[c]
                spread = convex * (slope_spread[c] + constant_spread[c] * bias[c])
                of_free, of_chord = half * (plain - spread), half * (plain + spread)
                of_offset = half * (constant[c] + convex * constant_spread[c])
                if kind == PARALLEL:
                    of_chord += of_free
                elif not on:
                    of_gamma[c] += of_free
                to_low, to_high, to_gamma = chord_gradient(low, high, g, of_chord, of_offset, zero, one)
                of_low[c] += to_low
                of_high[c] += to_high
                of_gamma[c] += to_gamma
