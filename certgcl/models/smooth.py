"""Activations of convex and concave pieces: ELU, tanh, sigmoid, GELU, SiLU, softplus, and those of users."""

import math
from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from certgcl.errors import EncoderError
from certgcl.models.activations import Activation, Lines, SlopeRule, check_slopes
from certgcl.models.convex_pieces import ConvexPiece, Function, clamped


class Smooth(Activation):
    """An activation defined by its convex and concave pieces, from which its lines follow.

    Sound by the lemma of :mod:`certgcl.models.convex_pieces`, whatever slopes are chosen here.
    """

    turning: float = 0.0  # where f' = 0, if anywhere: a first guess
    increasing: bool = True

    @property
    @abstractmethod
    def pieces(self) -> tuple[ConvexPiece, ...]:
        """From left to right, without gaps."""

    @abstractmethod
    def gain(self) -> float: ...

    def interval(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        """The range of σ on ``[l, u]``: lines of slope zero."""
        if self.increasing:
            return self(lower), self(upper)
        flat = torch.zeros_like(lower)
        return self._intercepts(lower, upper, flat, flat, (flat + self.turning,) * 2)

    def lines(self, lower: Tensor, upper: Tensor, rule: SlopeRule) -> Lines:
        """Lines around σ on ``[l, u]`` with the best intercepts for their slopes.

        ``parallel`` takes the slope of the chord for both. Otherwise the lower line is a tangent of a convex piece with
        both ends of σ above it, and the upper one a tangent of a concave piece with both ends below it: of those, the
        one nearest to the middle of ``[l, u]`` (``adaptive``), or nearest to l below and to u above (``flat``). If
        there is no such tangent, the chord is best.
        """
        check_slopes((rule,))
        lower, upper = torch.broadcast_tensors(lower, upper)
        middle = lower + (upper - lower) / 2
        chord = self._secant(lower, upper)
        if rule == "parallel":
            below, above, near = chord, chord, (middle, middle)
        else:
            targets = (middle, middle) if rule == "adaptive" else (lower, upper)
            (below, first), (above, second) = (
                self._tangent(lower, upper, chord, target, convex)
                for target, convex in zip(targets, (True, False), strict=True)
            )
            near = (first, second)
        least, most = self._intercepts(lower, upper, below, above, near)
        return Lines(below, least, above, most)

    def _intercepts(
        self, lower: Tensor, upper: Tensor, below: Tensor, above: Tensor, near: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        parts = [piece.extremes(lower, upper, below, above, near[0 if piece.convex else 1]) for piece in self.pieces]
        least, most = parts[0]
        for smaller, larger in parts[1:]:
            least, most = torch.minimum(least, smaller), torch.maximum(most, larger)
        return least, most

    def _tangent(
        self, lower: Tensor, upper: Tensor, chord: Tensor, target: Tensor, convex: bool
    ) -> tuple[Tensor, Tensor]:
        """A slope for one of the lines, and where its tangent touches."""
        slope, touch, known = chord, target, torch.zeros_like(target, dtype=torch.bool)
        for piece in self.pieces:
            if piece.convex != convex:
                continue
            first, last, found = piece.tangent_points(
                lower.detach(), upper.detach(), self(lower.detach()), self(upper.detach())
            )
            inner = torch.where((first <= target) & (target <= last), target, clamped(target.detach(), first, last))
            # A tangent through an end has the least (or largest) slope of all chords from there: as a function of
            # the end it changes as the chord to a fixed point does.
            tangent = piece.derivative(inner.clamp(-piece.reach, piece.reach))  # no products of huge numbers
            before, after = found & (target < first) & (lower < first), found & (target > last) & (last < upper)
            if bool(before.any()):
                tangent = torch.where(before, self._secant(lower, torch.maximum(first, lower)), tangent)
            if bool(after.any()):
                tangent = torch.where(after, self._secant(torch.minimum(last, upper), upper), tangent)
            nearest = found & (~known | (target >= piece.start))
            slope, touch = torch.where(nearest, tangent, slope), torch.where(nearest, inner, touch)
            known = known | found
        return slope, touch

    def _secant(self, p: Tensor, q: Tensor) -> Tensor:
        """``(σ(q) - σ(p)) / (q - p)``; the derivative in between if rounding would dominate the quotient."""
        width, middle = q - p, p + (q - p) / 2
        narrow = width <= torch.finfo(p.dtype).eps ** (1 / 3) * (1 + middle.abs())
        slope = (self(q) - self(p)) / width.where(~narrow, 1)
        return torch.where(narrow, self._derivative(middle), slope).clamp(-self.gain(), self.gain())

    def _derivative(self, p: Tensor) -> Tensor:
        p = p.clamp(-self.pieces[0].reach, self.pieces[0].reach)
        found = self.pieces[0].derivative(p.clamp(max=self.pieces[0].end))
        for piece in self.pieces[1:]:
            found = torch.where(p >= piece.start, piece.derivative(p.clamp(piece.start, piece.end)), found)
        return found


def _positive(value: float, words: str) -> float:
    if not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
        raise EncoderError(f"{words}={value!r}", "it is a finite number above zero", "Use another activation")
    return float(value)


@dataclass(frozen=True)
class ELU(Smooth):
    """``p`` above zero and ``α (e^p - 1)`` below. Convex for α <= 1; otherwise it has a concave kink."""

    name = "elu"
    alpha: float = 1.0

    def __post_init__(self) -> None:
        _positive(self.alpha, "alpha")

    def __call__(self, p: Tensor) -> Tensor:
        return functional.elu(p, self.alpha)

    def gain(self) -> float:
        return max(1.0, self.alpha)

    def at_zero(self) -> float:
        return 0.0

    def settings(self) -> dict[str, float]:
        return {"alpha": self.alpha}

    @property
    def pieces(self) -> tuple[ConvexPiece, ...]:
        def exponential(p: Tensor) -> Tensor:
            return self.alpha * torch.exp(p.clamp(max=0))

        def root(a: Tensor) -> Tensor:
            return torch.log(a.clamp(min=torch.finfo(a.dtype).tiny) / self.alpha).clamp(max=0)

        if self.alpha == 1:
            return (ConvexPiece(self, exponential, True, root=root),)
        return (
            ConvexPiece(self, exponential, True, end=0.0, root=root),
            ConvexPiece(self, torch.ones_like, self.alpha < 1, start=0.0),
        )


@dataclass(frozen=True)
class Tanh(Smooth):
    """``tanh p``, convex below zero and concave above."""

    name = "tanh"

    def __call__(self, p: Tensor) -> Tensor:
        return torch.tanh(p)

    def gain(self) -> float:
        return 1.0

    def at_zero(self) -> float:
        return 0.0

    @property
    def pieces(self) -> tuple[ConvexPiece, ...]:
        def derivative(p: Tensor) -> Tensor:
            return 4 * torch.sigmoid(2 * p) * torch.sigmoid(-2 * p)  # accurate where tanh is almost one

        return (
            ConvexPiece(self, derivative, True, end=0.0, root=lambda a: -_sech_root(a)),
            ConvexPiece(self, derivative, False, start=0.0, root=_sech_root),
        )


@dataclass(frozen=True)
class Sigmoid(Smooth):
    """``1 / (1 + e^-p)``, convex below zero and concave above."""

    name = "sigmoid"

    def __call__(self, p: Tensor) -> Tensor:
        return torch.sigmoid(p)

    def gain(self) -> float:
        return 0.25

    def at_zero(self) -> float:
        return 0.5

    @property
    def pieces(self) -> tuple[ConvexPiece, ...]:
        def derivative(p: Tensor) -> Tensor:
            return torch.sigmoid(p) * torch.sigmoid(-p)

        return (
            ConvexPiece(self, derivative, True, end=0.0, root=lambda a: -2 * _sech_root(4 * a)),
            ConvexPiece(self, derivative, False, start=0.0, root=lambda a: 2 * _sech_root(4 * a)),
        )


def _sech_root(a: Tensor) -> Tensor:
    """``p >= 0`` with ``1 - tanh² p = a``."""
    a = a.clamp(torch.finfo(a.dtype).tiny, 1)
    return torch.log((1 + torch.sqrt(1 - a)) / torch.sqrt(a))


@dataclass(frozen=True)
class GELU(Smooth):
    """``p Φ(p)`` with the normal distribution's Φ; convex between ±√2, as ``f'' = φ(p) (2 - p²)``."""

    name = "gelu"
    turning = -0.7517915246935645
    increasing = False

    def __call__(self, p: Tensor) -> Tensor:
        return functional.gelu(p)

    def gain(self) -> float:
        return 1.129  # f'(√2) = 1.12890…

    def at_zero(self) -> float:
        return 0.0

    @property
    def pieces(self) -> tuple[ConvexPiece, ...]:
        def derivative(p: Tensor) -> Tensor:
            near = p.clamp(-40, 40)  # where e^(-p²/2) is zero
            density = torch.exp(-near * near / 2) / math.sqrt(2 * math.pi)
            return torch.erfc(-p / math.sqrt(2)) / 2 + near * density

        return _bowl(self, derivative, math.sqrt(2), reach=10.0)


@dataclass(frozen=True)
class SiLU(Smooth):
    """``p / (1 + e^-p)``; convex between the two p with ``p tanh(p/2) = 2``."""

    name = "silu"
    turning = -1.2784645427610738
    increasing = False

    def __call__(self, p: Tensor) -> Tensor:
        return functional.silu(p)

    def gain(self) -> float:
        return 1.1  # f'(2.3993…) = 1.09983…

    def at_zero(self) -> float:
        return 0.0

    @property
    def pieces(self) -> tuple[ConvexPiece, ...]:
        def derivative(p: Tensor) -> Tensor:
            return torch.sigmoid(p) * (1 + p.clamp(-800, 800) * torch.sigmoid(-p))

        return _bowl(self, derivative, 2.3993572805154676, reach=45.0)


def _bowl(activation: Smooth, derivative: Function, bend: float, reach: float) -> tuple[ConvexPiece, ...]:
    """Convex between ``±bend`` and concave outside."""
    return (
        ConvexPiece(activation, derivative, False, end=-bend, reach=reach),
        ConvexPiece(activation, derivative, True, start=-bend, end=bend, reach=reach),
        ConvexPiece(activation, derivative, False, start=bend, reach=reach),
    )


@dataclass(frozen=True)
class Softplus(Smooth):
    """``log(1 + e^(β p)) / β``, and p itself where ``β p`` is above a threshold, as in torch: a small jump down."""

    name = "softplus"
    increasing = False
    beta: float = 1.0
    threshold: float = 20.0

    def __post_init__(self) -> None:
        _positive(self.beta, "beta")
        _positive(self.threshold, "threshold")

    def __call__(self, p: Tensor) -> Tensor:
        return functional.softplus(p, self.beta, self.threshold)

    def gain(self) -> float:
        return 1.0

    def at_zero(self) -> float:
        return math.log(2) / self.beta

    @property
    def jump(self) -> float:
        return math.log1p(math.exp(-self.threshold)) / self.beta

    def settings(self) -> dict[str, float]:
        return {"beta": self.beta, "threshold": self.threshold}

    @property
    def pieces(self) -> tuple[ConvexPiece, ...]:
        edge = self.threshold / self.beta

        def root(a: Tensor) -> Tensor:
            return torch.logit(a.clamp(0, 1)) / self.beta

        return (
            ConvexPiece(
                lambda p: functional.softplus(p.clamp(max=edge), self.beta, 2 * self.threshold),
                lambda p: torch.sigmoid(self.beta * p),
                True,
                end=edge,
                root=root,
            ),
            ConvexPiece(lambda p: p, torch.ones_like, False, start=edge),
        )
