"""Two-piece linear activations and the lines that bound them on an interval."""

from dataclasses import dataclass

import torch
from torch import Tensor

from certgcl.models.activations import Activation, Lines, SlopeRule, check_slopes


@dataclass(frozen=True, eq=False)
class TwoPieceLinear(Activation):
    """``σ(p) = p`` for ``p >= 0`` and ``γ p`` below, with one γ or one per channel.

    ReLU is γ = 0, the identity γ = 1; a learned PReLU may have any γ. σ is convex for γ <= 1 and
    concave for γ >= 1; where γ < 0 it has a valley at zero.
    """

    name = "two-piece linear"
    slope: Tensor  # γ, shape () or (channels,)

    def __call__(self, p: Tensor) -> Tensor:
        if not torch.is_grad_enabled() or not (p.requires_grad or self.slope.requires_grad):
            above = p.relu()
            return torch.addcmul(above, self.slope, p.clamp(max=0)) if bool(self.slope.any()) else above
        below = (-p).relu()
        return (p + below) - self.slope * below  # the gradient at zero is 1; clamp's gradient takes ten times as long

    def interval(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        """The range of σ on ``[l, u]``. Exact: σ is monotone on each side of 0, where it is 0."""
        at_lower, at_upper = self(lower), self(upper)
        if not bool((self.slope < 0).any()):
            return at_lower, at_upper
        least, most = torch.minimum(at_lower, at_upper), torch.maximum(at_lower, at_upper)
        valley = (self.slope < 0) & (lower < 0) & (upper > 0)
        return torch.where(valley, torch.zeros_like(least), least), most

    def lines(self, lower: Tensor, upper: Tensor, rule: SlopeRule) -> Lines:
        """Lines around σ on ``[l, u]``; ``rule`` picks the slope that is free on an interval around zero.

        Where the sign of p is known, σ is its own line. Otherwise one side is the chord ``a p + u - a u`` with
        ``a = (u - γ l) / (u - l)`` and the other any line through the origin whose slope lies between γ and 1:
        ``parallel`` takes the chord's, ``adaptive`` that of the longer piece, ``flat`` γ.

        Sound because a convex σ (γ <= 1) lies below its chord and above each line through the origin with a slope
        between its one-sided derivatives γ and 1 there; for a concave σ (γ > 1) the two change places.
        """
        check_slopes((rule,))
        gamma = self.slope
        below, above = -(-lower).relu(), upper.relu()
        # Where the sign of p is known, one of the two is zero and the chord is σ itself. If both are, the slope is set
        # to one, with finite gradients.
        width = above - below
        nothing = width == 0
        chord = (above - gamma * below + nothing) / (width + nothing)
        offset = above - chord * above
        match rule:
            case "parallel":
                free = chord
            case "adaptive":
                free = gamma + (1 - gamma) * (lower + upper >= 0)
            case _:
                free = gamma + (1 - gamma) * (lower >= 0)
        zero, convex = torch.zeros_like(offset), gamma <= 1
        if bool(convex.all()):
            return Lines(free, zero, chord, offset)
        return Lines(
            torch.where(convex, free, chord),
            torch.where(convex, zero, offset),
            torch.where(convex, chord, free),
            torch.where(convex, offset, zero),
        )

    def gain(self) -> Tensor:
        return self.slope.abs().clamp(min=1)

    def at_zero(self) -> float:
        return 0.0

    @property
    def linear(self) -> bool:
        return bool((self.slope == 1).all())

    def tensors(self) -> dict[str, Tensor]:
        return {"slope": self.slope}
