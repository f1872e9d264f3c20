"""Modules that are two-piece linear activations, ``σ(p) = p`` for ``p >= 0`` and ``γ p`` below, by their exact type."""

import math
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from certgcl.errors import EncoderError
from certgcl.layers.gcn import parameter
from certgcl.layers.lookup import MISSING
from certgcl.layers.modules import check_call, check_unshadowed, described, held

Slope = float | Tensor
"""γ: one number for all channels, or a tensor of one or of one for each channel."""

EVAL = "Call model.eval() first"


def slope_of(module: nn.Module, name: str) -> Slope:
    """γ of an activation module, with its autograd history if it is learned."""
    if type(module) not in ACTIVATION_MODULES:
        raise EncoderError(f"activation {described(module, name)}", "its slope must be a fixed number",
                           "Use ReLU, LeakyReLU, PReLU, Identity, or RReLU in eval mode")
    check_call(module, name)
    check_unshadowed(module, name)
    return ACTIVATION_MODULES[type(module)](module, name)


def number(value: Any, words: str) -> float:
    """A finite number of Python's own."""
    if type(value) not in (int, float) or not math.isfinite(value):
        raise EncoderError(f"{words} {value!r}", "a slope is a finite number", "Give a float")
    return float(value)


def learned_slope(weight: Tensor, words: str) -> Tensor:
    """The slopes of a PReLU: one for all channels, or one for each."""
    if weight.dim() != 1:
        raise EncoderError(f"{words} of shape {tuple(weight.shape)}", "a PReLU has one slope, or one for each channel",
                           "Use nn.PReLU(channels)")
    return weight[0] if len(weight) == 1 else weight


def random_slope(lower: Any, upper: Any, training: Any, words: str) -> float:
    """An RReLU's, which is fixed in eval mode alone."""
    if training is not False:
        raise EncoderError(f"{words} in training mode", "a model must not be random", EVAL)
    return (number(lower, words) + number(upper, words)) / 2


def _field(module: nn.Module, attribute: str) -> Any:
    value = held(module, attribute)
    return None if value is MISSING else value


ACTIVATION_MODULES: dict[type[nn.Module], Callable[[nn.Module, str], Slope]] = {
    nn.ReLU: lambda module, name: 0.0,
    nn.Identity: lambda module, name: 1.0,
    nn.LeakyReLU: lambda module, name: number(_field(module, "negative_slope"), described(module, name)),
    nn.PReLU: lambda module, name: learned_slope(parameter(module, "weight", name), described(module, name)),
    nn.RReLU: lambda module, name: random_slope(_field(module, "lower"), _field(module, "upper"),
                                                _field(module, "training"), described(module, name)),
}
