"""Sign patterns: for the channels of a row with the costliest relaxations, both pieces of the activation are tried
instead of a chord."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from certgcl.bounds.propagation.extremes import best
from certgcl.models.two_piece import TwoPieceLinear

FEW_EDGES = 16  # edges of a row next to the anchor, up to which it has patterns
MOST_AROUND = 1 << 12  # edges of all neighbours of an anchor, up to which its output has patterns
FEW_CASES = 1 << 8  # cases of all anchors, up to which searching for the decisive ones does not pay off


class Patterns(NamedTuple):
    """How many sign patterns are tried: powers of two, where one means none."""

    output: int = 1
    rows: int = 1  # next to the anchor


NONE = Patterns()


class SignPatterns(NamedTuple):
    """How lines below ``ω · σ(p)`` change with the pieces of σ chosen for some channels.

    A two-piece linear σ with slope γ <= 1 is the larger of p and γ p. So for ``ω_m < 0``

        ω_m σ(p_m)  =  min( ω_m p_m, γ_m ω_m p_m )

    without a constant, whereas the chord costs ``|ω_m| c_m``. (For γ > 1 the same holds for ``ω_m > 0``.) With lines
    ``λ · p + c`` on the other channels, and α one of the P ways to give each of k channels a piece,

        ω · σ(p)  >=  min_α ( λ^α · p ) + c + gain,     gain = Σ |ω_m| c_m over the k channels.

    Sound because for a given p one of the patterns has every channel on the piece that σ is on there.
    """

    channels: Tensor  # the costliest, (..., k)
    first: Tensor  # γ ω - λ there, (..., k)
    other: Tensor  # and how much more it is with slope 1
    gain: Tensor  # (...)

    def at(self, index: Tensor) -> "SignPatterns":
        """Those of some functionals, by their place in the first dimension."""
        return SignPatterns(*(part.index_select(0, index) for part in self))

    def slopes(self, lines: Tensor) -> Tensor:
        """``λ^α`` from λ: ``(..., d)`` to ``(..., P, d)``."""
        change = self.first[..., None, :] + self.other[..., None, :] * self._pieces
        return (
            lines[..., None, :]
            .expand(*change.shape[:-1], -1)
            .scatter_add(-1, self.channels[..., None, :].expand(change.shape), change)
        )

    def times(self, values: Tensor) -> Tensor:
        """``(λ^α - λ) · v`` for values v at the channels, ``(..., k)``, by every pattern: ``(..., P)``."""
        return (values * self.first).sum(dim=-1, keepdim=True) + (values * self.other) @ self._pieces.T

    def constant(self, bias: Tensor) -> Tensor:
        """How ``λ · b + c`` changes, ``(..., P)``, for a bias of all channels ``(d,)``."""
        return self.gain[..., None] + self.times(bias[self.channels])

    @property
    def _pieces(self) -> Tensor:
        """Which channels are on the piece of slope 1, ``(P, k)``."""
        place = torch.arange(self.channels.shape[-1], device=self.first.device)
        return (torch.arange(1 << len(place), device=place.device)[:, None] >> place & 1).to(self.first.dtype)


def dearest(omega: Tensor, lower: Tensor, upper: Tensor, slope: Tensor, patterns: int) -> SignPatterns:
    """The patterns of the channels whose chords cost the most, for ``l <= p <= u``.

    Channels whose line is not a chord, because of the sign of ω or of p, cost nothing; if one of them is among the k,
    its line does not change.

    Args:
        omega, lower, upper: ``(..., d)``.
        slope: γ, ``(d,)``.
        patterns: how many at most; a power of two.
    """
    number = min(patterns.bit_length() - 1, omega.shape[-1])
    chord, below, _, above = TwoPieceLinear(slope).lines(lower, upper, "parallel")
    cost = (-omega * (below + above)).relu()  # one of the two intercepts is zero
    weight, chord = omega.expand(cost.shape), chord.expand(cost.shape)
    cost, channels = cost.topk(number, dim=-1)
    weight, chord, gamma = weight.gather(-1, channels) * (cost > 0), chord.gather(-1, channels), slope[channels]
    return SignPatterns(channels, weight * (gamma - chord), weight * (1 - gamma), cost.sum(dim=-1))


def improved(
    bound: Tensor, row: Tensor, around: Tensor, better: Callable[[Tensor], Tensor], together: bool = False
) -> Tensor:
    """Bounds of the anchors' cases, ``(F, C)``, improved where the smallest case of each anchor depends on it.

    First the smallest case of each is improved, and then those that are now below it: no other case can become the
    smallest.

    Args:
        row: the anchor of every case, ``(F,)``.
        around: how many edges the neighbours of each case's anchor have in all.
        better: another bound of some cases, given by their places.
        together: whether it is available only for all cases or none.
    """

    def take_better(chosen: Tensor) -> Tensor:
        value = better(chosen).masked_fill(done[chosen, None], -torch.inf)
        return bound.index_copy(0, chosen, best([bound.index_select(0, chosen), value]))

    done = around > MOST_AROUND
    if together or len(bound) <= FEW_CASES:
        return take_better(torch.arange(len(bound), device=bound.device))
    for _ in range(2):
        chosen = _deciding(bound.detach(), row, done)
        if len(chosen):
            bound = take_better(chosen)
            done[chosen] = True
    return bound


def _deciding(bound: Tensor, row: Tensor, done: Tensor) -> Tensor:
    """The remaining cases that are no larger than any finished one (or than any other, if none is finished), for some
    direction."""
    anchors = int(row.max()) + 1

    def least_of_anchor(values: Tensor) -> Tensor:
        place = row[:, None].expand_as(values)
        least = values.new_full((anchors, values.shape[1]), torch.inf).scatter_reduce(0, place, values, "amin")
        return least.index_select(0, row)

    limit = least_of_anchor(bound.masked_fill(~done[:, None], torch.inf))
    limit = torch.where(limit.isinf(), least_of_anchor(bound), limit)
    return ((bound <= limit).any(dim=1) & ~done).nonzero()[:, 0]
