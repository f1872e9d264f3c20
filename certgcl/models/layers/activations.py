"""Modules that are activations, by their exact type: two-piece linear ones with slope γ below zero, and smooth ones."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from certgcl.errors import EncoderError
from certgcl.models.activations import Activation
from certgcl.models.layers.lookup import MISSING, entry, is_a
from certgcl.models.layers.modules import check_call, check_unshadowed, described, held, parameter
from certgcl.models.smooth import ELU, GELU, Sigmoid, SiLU, Softplus, Tanh
from certgcl.models.two_piece import TwoPieceLinear

Slope = float | Tensor
"""γ: one number for all channels, or a tensor of one or of one for each channel."""

EVAL = "Call model.eval() first"


def slope_of(module: nn.Module, name: str) -> Slope:
    """γ of an activation module, with its autograd history if it is learned."""
    read = entry(SLOPES, type(module))
    if read is None:
        raise EncoderError(
            f"activation {described(module, name)}",
            "its slope must be a fixed number",
            "Use ReLU, LeakyReLU, PReLU, Identity, or RReLU in eval mode",
        )
    check_call(module, name)
    check_unshadowed(module, name)
    return read(module, name)


def activation_of(module: nn.Module, name: str) -> Activation:
    """The function that an activation module computes."""
    smooth = entry(SMOOTH, type(module))
    if smooth is None:
        return two_piece(slope_of(module, name))
    check_call(module, name)
    check_unshadowed(module, name)
    return smooth(module, name)


def two_piece(slope: Slope) -> TwoPieceLinear:
    return TwoPieceLinear(slope if isinstance(slope, Tensor) else torch.tensor(slope, dtype=torch.float64))


def number(value: Any, words: str) -> float:
    """A finite number of Python's own."""
    if not is_a(value, int, float) or not math.isfinite(value):
        raise EncoderError(f"{words} {value!r}", "it is a finite number", "Give a float")
    return float(value)


def learned_slope(weight: Tensor, words: str) -> Tensor:
    """The slopes of a PReLU: one for all channels, or one for each."""
    if weight.dim() != 1:
        raise EncoderError(
            f"{words} of shape {tuple(weight.shape)}",
            "a PReLU has one slope, or one for each channel",
            "Use nn.PReLU(channels)",
        )
    return weight[0] if len(weight) == 1 else weight


def random_slope(lower: Any, upper: Any, training: Any, words: str) -> float:
    """The slope of an RReLU, which is fixed only in eval mode."""
    if training is not False:
        raise EncoderError(f"{words} in training mode", "a model must not be random", EVAL)
    return (number(lower, words) + number(upper, words)) / 2


def gelu(approximate: Any, words: str) -> GELU:
    if type(approximate) is not str or approximate != "none":
        raise EncoderError(
            f"{words} with approximate={approximate!r}", "GELU is the exact one", 'Use approximate="none"'
        )
    return GELU()


def _field(module: nn.Module, attribute: str) -> Any:
    value = held(module, attribute)
    return None if value is MISSING else value


SLOPES: dict[type[nn.Module], Callable[[nn.Module, str], Slope]] = {
    nn.ReLU: lambda module, name: 0.0,
    nn.Identity: lambda module, name: 1.0,
    nn.LeakyReLU: lambda module, name: number(_field(module, "negative_slope"), described(module, name)),
    nn.PReLU: lambda module, name: learned_slope(parameter(module, "weight", name), described(module, name)),
    nn.RReLU: lambda module, name: random_slope(
        _field(module, "lower"), _field(module, "upper"), _field(module, "training"), described(module, name)
    ),
}

SMOOTH: dict[type[nn.Module], Callable[[nn.Module, str], Activation]] = {
    nn.ELU: lambda module, name: ELU(number(_field(module, "alpha"), described(module, name))),
    nn.Tanh: lambda module, name: Tanh(),
    nn.Sigmoid: lambda module, name: Sigmoid(),
    nn.GELU: lambda module, name: gelu(_field(module, "approximate"), described(module, name)),
    nn.SiLU: lambda module, name: SiLU(),
    nn.Softplus: lambda module, name: Softplus(
        number(_field(module, "beta"), described(module, name)),
        number(_field(module, "threshold"), described(module, name)),
    ),
}
