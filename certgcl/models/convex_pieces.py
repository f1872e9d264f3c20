"""Lines around any function with convex and concave pieces: any slope, with the exact intercept for it.

For every slope a, ``c_lo = min_{[l, u]} f(p) - a p`` and ``c_up = max_{[l, u]} f(p) - a p`` are the best intercepts, so
a rule only chooses slopes, and every slope is sound. On a concave piece the minimum is at an end. On a convex one it is
where ``f'(p) = a``, and a root that is slightly off would give an intercept that is too large. Hence the

**Lemma.** Let f be convex on [A, B]. For every a and every x in [A, B],

    f(p) - a p  >=  f(x) - a x - max( (f'(x) - a) (x - A),  (a - f'(x)) (B - x) )      for all p in [A, B].

*Proof.* f lies above its tangent at x, so ``f(p) - a p >= f(x) - a x + (f'(x) - a)(p - x)``, which is linear in p and
smallest at A or at B. ∎ (With a one-sided derivative at a kink or an end, that of the piece, the tangent is as good.)

So soundness does not depend on the precision of the root finder below: its error is subtracted. Maxima are minima of
-f. What we assume about floating point is that f is computed to within ``4 eps (gain |p| + |f(0)|)`` and f' to within
``4 eps gain``; then lines are off by the same number of eps of ``gain max(|l|, |u|) + |f(0)|``, which the rounding
slack covers.

Gradients are those of the lines as functions of l and u: x is a constant to them by the envelope theorem.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Function = Callable[[Tensor], Tensor]

SEARCH_STEPS = 12  # steps of the root finder, which usually reaches the last digits by then


@dataclass(frozen=True)
class ConvexPiece:
    """A part of the line on which f is convex, or concave.

    Args:
        function: f there. Pieces may have different ones, so that kinks (and jumps) are where pieces meet.
        derivative: f' there; at an end of the piece, the derivative from within.
        convex: whether f' rises; else it falls.
        start, end: both belong to the piece. Rounding them does no harm where f'' passes through zero: f bends by no
            more than the third power of the error in between.
        root: where ``f'(p) = a``, for a between the values of f' on the piece; searched numerically if there is no
            formula.
        reach: roots are searched where ``|p|`` is at most this. Beyond, f' should hardly change.
    """

    function: Function
    derivative: Function
    convex: bool
    start: float = -math.inf
    end: float = math.inf
    root: Function | None = None
    reach: float = 50.0

    def within(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The part [A, B] of [l, u] in the piece, and where there is one; elsewhere A = B is an end of the piece."""
        met = (lower <= self.end) & (upper >= self.start)
        return lower.clamp(self.start, self.end), upper.clamp(self.start, self.end), met

    def extremes(
        self, lower: Tensor, upper: Tensor, low_slope: Tensor, up_slope: Tensor, near: Tensor
    ) -> tuple[Tensor, Tensor]:
        """At most ``min f(p) - a_lo p``, at least ``max f(p) - a_up p`` over the part of [l, u] in the piece; infinite
        where there is none. ``near`` is the first guess of the root."""
        a, b, met = self.within(lower, upper)
        slope, other = (low_slope, up_slope) if self.convex else (up_slope, low_slope)
        x, missed = self._stationary(slope.detach(), a.detach(), b.detach(), near.detach(), met)
        x = torch.where(x == a, a, torch.where(x == b, b, x))  # an end moves with the interval; a root need not
        inner = self.function(x) - slope * x
        at_a, at_b = (self.function(end) - other * end for end in (a, b))
        if self.convex:
            least, most = inner - missed, torch.maximum(at_a, at_b)
        else:
            least, most = torch.minimum(at_a, at_b), inner + missed
        return least.where(met, torch.inf), most.where(met, -torch.inf)

    @torch.no_grad()
    def _stationary(self, slope: Tensor, a: Tensor, b: Tensor, near: Tensor, met: Tensor) -> tuple[Tensor, Tensor]:
        """x in [A, B], a root of ``f'(p) = a`` if there is one, and what the lemma subtracts for it."""
        sign = 1 if self.convex else -1

        def residual(p: Tensor, slope: Tensor) -> Tensor:
            return sign * (self.derivative(p) - slope)

        if self.root is not None:
            x = clamped(self.root(slope).nan_to_num(0.0), a, b)
        else:
            at_a, at_b = residual(a, slope), residual(b, slope)
            x = torch.where(at_a >= 0, a, torch.where(at_b <= 0, b, clamped(near, a, b)))
            enough = 16 * torch.finfo(slope.dtype).eps
            search = met & (at_a < 0) & (at_b > 0) & (residual(x, slope).abs() > enough)
            if bool(search.any()):
                low, high, wanted = a[search], b[search], slope[search]
                found = increasing_root(
                    lambda p: residual(p, wanted),
                    low.clamp(-self.reach, self.reach),
                    high.clamp(-self.reach, self.reach),
                    enough,
                )
                x[search] = clamped(found, low, high)
        rest = residual(x, slope)
        return x, torch.maximum(rest * (x - a), rest * (x - b)).clamp(min=0)

    @torch.no_grad()
    def tangent_points(
        self, lower: Tensor, upper: Tensor, at_lower: Tensor, at_upper: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The first and the last point in the part [A, B] of [l, u] at which a tangent has both ends of f on its far
        side, and where there are such points. At them, unless they are A or B, it goes through one of the ends."""
        sign = 1 if self.convex else -1
        a, b, met = self.within(lower, upper)

        def height(t: Tensor, end: Tensor, value: Tensor) -> Tensor:
            """The height of f at an end above the tangent at t (below it for a concave piece)."""
            return sign * (value - self.function(t) - self.derivative(t) * (end - t))

        # A slope that is off by δ costs no more than δ². Good first guesses save repeated root searches.
        eps = torch.finfo(lower.dtype).eps
        enough = eps**0.5 if self.root is not None else 4 * eps
        first, last = a.clone(), b.clone()
        left = met & (lower < self.start) & (height(a, lower, at_lower) < 0)  # the height of σ(l) rises with t
        found = met & ~(left & (height(b, lower, at_lower) < 0))
        if bool((left & found).any()):
            low, high, end, value = (part[left & found] for part in (a, b, lower, at_lower))
            first[left & found] = increasing_root(lambda t: height(t, end, value), low, high, enough)
        right = found & (upper > self.end) & (height(b, upper, at_upper) < 0)  # that of σ(u) falls
        found &= ~(right & (height(a, upper, at_upper) < 0))
        if bool((right & found).any()):
            low, high, end, value = (part[right & found] for part in (a, b, upper, at_upper))
            last[right & found] = increasing_root(lambda t: -height(t, end, value), low, high, enough)
        return first, last, found & (first <= last)


def clamped(p: Tensor, low: Tensor, high: Tensor) -> Tensor:
    return torch.minimum(torch.maximum(p, low), high)


def increasing_root(function: Function, low: Tensor, high: Tensor, enough: float = 0.0) -> Tensor:
    """Nearly a root of a function that rises from ``function(low) <= 0`` to ``function(high) >= 0``.

    Bisection alone gains one digit in three steps; the secant alone may keep one end forever. Alternating avoids both.
    ``enough`` is a value of the function that need not be improved on.
    """
    at_low, at_high = function(low), function(high)
    best, least = low, at_low.abs()
    for _ in range(SEARCH_STEPS):
        if float(least.max()) <= enough:
            break
        for halving in (False, True):
            middle = (low + high) / 2
            if not halving:
                rise = at_high - at_low
                share = torch.where(rise > 0, -at_low / rise.where(rise > 0, 1), 0.5)
                middle = (low + share.clamp(0, 1) * (high - low)).clamp(low, high)
            value = function(middle)
            best, least = torch.where(value.abs() < least, middle, best), torch.minimum(value.abs(), least)
            below = value < 0
            low, at_low = torch.where(below, middle, low), torch.where(below, value, at_low)
            high, at_high = torch.where(below, high, middle), torch.where(below, at_high, value)
    return best
