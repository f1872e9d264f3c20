"""Activations by their names in files, including those that users register."""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from certgcl.arguments import items, real, shown
from certgcl.errors import EncoderError
from certgcl.models.activations import Activation
from certgcl.models.convex_pieces import ConvexPiece, Function
from certgcl.models.smooth import ELU, GELU, Sigmoid, SiLU, Smooth, Softplus, Tanh
from certgcl.models.two_piece import TwoPieceLinear

ACTIVATIONS: dict[str, Callable[..., Activation]] = {
    kind.name: kind for kind in (TwoPieceLinear, ELU, Tanh, Sigmoid, GELU, SiLU, Softplus)
}
"""The constructor of an activation from its settings and tensors, by its name."""

OWN: dict[Any, Activation] = {}
"""The activations that users registered, by what represents them in a model: a function or the class of a module."""

REMEDY = "Look at the derivative: plot it, and name every point where it turns from rising to falling or jumps"


@dataclass(frozen=True)
class OwnActivation(Smooth):
    """An activation that a user registered."""

    name: str  # type: ignore[misc]  # of the object, as all of them are of this class
    function: Function
    parts: tuple[ConvexPiece, ...] = field(repr=False)
    lipschitz: float
    increasing = False

    def __call__(self, p: Tensor) -> Tensor:
        return self.function(p)

    def gain(self) -> float:
        return self.lipschitz

    def at_zero(self) -> float:
        return abs(float(self.function(torch.zeros((), dtype=torch.float64)))) * (1 + 1e-12)

    @property
    def pieces(self) -> tuple[ConvexPiece, ...]:
        return self.parts

    def with_tensors(self, tensors: dict[str, Tensor]) -> "OwnActivation":
        return self


def register_activation(
    name: str,
    function: Function,
    derivative: Function,
    *,
    turns: Sequence[float] = (),
    convex_first: bool,
    gain: float,
    stands_for: Sequence[Any] = (),
) -> Activation:
    """Register your own activation for bounds, for reading models, and for files.

    Your statements are trusted, apart from a check at many points that rejects obvious errors: bounds are only as sound
    as these statements.

    Args:
        name: for files, which can be read wherever the same name is registered.
        function: σ, of a tensor of any shape.
        derivative: σ', computed as precisely as σ, and continuous. (An activation with kinks is a subclass of
            :class:`certgcl.models.smooth.Smooth`, whose pieces have derivatives of their own, as ELU has.)
        turns: where σ' changes from rising to falling or back, in increasing order: between them σ is alternately
            convex and concave.
        convex_first: whether σ' rises up to the first turn.
        gain: at least ``|σ'|``.
        stands_for: what else stands for σ in a model: the class of a module that takes no arguments, another function.

    Example::

        import math, torch

        certgcl.register_activation("log of cosh", lambda p: torch.logaddexp(p, -p) - math.log(2), torch.tanh,
                                    convex_first=True, gain=1.0)
    """
    if not isinstance(name, str) or not name or name in ACTIVATIONS:
        raise EncoderError(
            f"name {shown(name)}", "it is a string, and unique among the activations", "Choose another name"
        )
    rule = "they are finite numbers in rising order"
    ends = [
        -math.inf,
        *(
            real(turn, "turns", math.isfinite, rule, "Sort them", error=EncoderError)
            for turn in items(turns, "turns", rule, "Sort them", error=EncoderError)
        ),
        math.inf,
    ]
    if not all(low < high for low, high in pairwise(ends)):
        raise EncoderError(f"turns {shown(turns)}", rule, "Sort them")
    rule = "they are functions, and classes of modules"
    others = items(stands_for, "stands_for", rule, "Leave it out for none", error=EncoderError)
    if not all(isinstance(other, Hashable) and callable(other) for other in others):
        raise EncoderError(f"stands_for {shown(stands_for)}", rule, "Leave it out for none")
    gain = real(
        gain,
        "gain",
        lambda given: 0 < given < math.inf,
        "it is a finite number above zero",
        "Give the largest |derivative|",
        error=EncoderError,
    )
    parts = tuple(
        ConvexPiece(function, derivative, convex_first == (number % 2 == 0), low, high)
        for number, (low, high) in enumerate(pairwise(ends))
    )
    for part in parts:
        _look_at(part, name, gain)
    activation = OwnActivation(name, function, parts, gain)
    ACTIVATIONS[name] = lambda: activation
    OWN.update(dict.fromkeys((function, *others), activation))
    return activation


def _look_at(piece: ConvexPiece, name: str, gain: float) -> None:
    """Raise an error for a piece whose derivative is not that of the function, not monotone, or beyond the gain."""
    width = 1e-5
    p = torch.linspace(
        max(piece.start, -piece.reach) + width, min(piece.end, piece.reach) - width, 4001, dtype=torch.float64
    )
    if piece.end - piece.start <= 4 * width:
        return
    slope, rises = piece.derivative(p), 1 if piece.convex else -1
    quotient = (piece.function(p + width) - piece.function(p - width)) / (2 * width)
    where = f"activation {name!r} between {piece.start:g} and {piece.end:g}"
    if slope.shape != p.shape or not bool(((slope - quotient).abs() <= 1e-4 * gain).all()):
        raise EncoderError(where, "the derivative is that of the function", REMEDY)
    ends = torch.tensor([end for end in (piece.start, piece.end) if math.isfinite(end)], dtype=torch.float64)
    if any(
        not bool(((piece.derivative(ends + by) - piece.derivative(ends)).abs() <= 1e-3 * gain).all())
        for by in (-width, width)
    ):
        raise EncoderError(where, "the derivative does not jump at the ends", REMEDY)
    if not bool((rises * slope.diff() >= -1e-12 * gain).all()):
        raise EncoderError(where, f"the derivative {'rises' if piece.convex else 'falls'} there, as stated", REMEDY)
    if not bool((slope.abs() <= gain * (1 + 1e-9)).all()):
        raise EncoderError(where, f"the derivative is at most the gain, {gain:g}", REMEDY)
