"""The activations that a forward may call as functions or methods, with the parameters that torch gives them."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from certgcl.models.activations import Activation
from certgcl.models.layers.activations import gelu, learned_slope, number, random_slope, two_piece
from certgcl.models.layers.formula import Activated, Position
from certgcl.models.layers.lookup import is_a
from certgcl.models.layers.modules import plain_tensor
from certgcl.models.reading.arithmetic import scaled, values_of
from certgcl.models.reading.refusals import PARTS, refusal
from certgcl.models.reading.values import Symbol
from certgcl.models.smooth import ELU, Sigmoid, SiLU, Softplus, Tanh

if TYPE_CHECKING:
    from certgcl.models.reading.tracer import Tracer

SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805  # those of torch


def activated(tracer: "Tracer", place: Position, x: Any, activation: Activation, inplace: Any = False) -> Symbol:
    """``σ(x)``, in place or as a new tensor."""
    source = values_of(x, place, "an activation")
    if type(inplace) is not bool:
        raise refusal("an activation that is in place or not", place)
    for tensor in activation.tensors().values():
        if tensor.shape not in ((), (source.width,)):
            raise refusal(f"{tensor.numel()} slopes for {source.width} channels", place, PARTS, "Use nn.PReLU()")
    node = Activated(source.width, source, activation, place)
    if not inplace:
        return Symbol(node)
    tracer.check_changeable(x, place)
    x.node = node
    return x


def relu(tracer: "Tracer", place: Position, input: Any, inplace: Any = False) -> Symbol:
    return activated(tracer, place, input, two_piece(0.0), inplace)


def relu_(tracer: "Tracer", place: Position, input: Any) -> Symbol:
    return activated(tracer, place, input, two_piece(0.0), True)


def absolute(tracer: "Tracer", place: Position, input: Any) -> Symbol:
    return activated(tracer, place, input, two_piece(-1.0))


def leaky_relu(
    tracer: "Tracer", place: Position, input: Any, negative_slope: Any = 0.01, inplace: Any = False
) -> Symbol:
    slope = number(negative_slope, f"negative_slope at {place}")
    return activated(tracer, place, input, two_piece(slope), inplace)


def prelu(tracer: "Tracer", place: Position, input: Any, weight: Any) -> Symbol:
    if not is_a(weight, Tensor, torch.nn.Parameter):
        raise refusal("slopes that are not a parameter", place)
    tracer.own(plain_tensor(weight, f"slopes at {place}"), f"slopes at {place}")
    return activated(tracer, place, input, two_piece(learned_slope(weight, f"slopes at {place}")))


def rrelu(
    tracer: "Tracer",
    place: Position,
    input: Any,
    lower: Any = 1.0 / 8,
    upper: Any = 1.0 / 3,
    training: Any = False,
    inplace: Any = False,
) -> Symbol:
    slope = random_slope(lower, upper, training, f"rrelu at {place}")
    return activated(tracer, place, input, two_piece(slope), inplace)


def clamp(tracer: "Tracer", place: Position, input: Any, min: Any = None, max: Any = None) -> Symbol:
    if max is not None or not is_a(min, int, float) or min != 0:
        raise tracer.unknown("clamp", [input], place)
    return activated(tracer, place, input, two_piece(0.0))


def elu(tracer: "Tracer", place: Position, input: Any, alpha: Any = 1.0, inplace: Any = False) -> Symbol:
    return activated(tracer, place, input, ELU(number(alpha, f"alpha at {place}")), inplace)


def selu(tracer: "Tracer", place: Position, input: Any, inplace: Any = False) -> Symbol:
    """An ELU times a number."""
    if inplace is not False:
        raise refusal("selu in place", place, remedy="Leave inplace out")
    inner = activated(tracer, place, input, ELU(SELU_ALPHA))
    return Symbol(scaled(tracer, values_of(inner, place), SELU_SCALE, place))


def tanh(tracer: "Tracer", place: Position, input: Any) -> Symbol:
    return activated(tracer, place, input, Tanh())


def sigmoid(tracer: "Tracer", place: Position, input: Any) -> Symbol:
    return activated(tracer, place, input, Sigmoid())


def exact_gelu(tracer: "Tracer", place: Position, input: Any, approximate: Any = "none") -> Symbol:
    return activated(tracer, place, input, gelu(approximate, f"gelu at {place}"))


def silu(tracer: "Tracer", place: Position, input: Any, inplace: Any = False) -> Symbol:
    return activated(tracer, place, input, SiLU(), inplace)


def softplus(tracer: "Tracer", place: Position, input: Any, beta: Any = 1.0, threshold: Any = 20.0) -> Symbol:
    return activated(
        tracer, place, input, Softplus(number(beta, f"beta at {place}"), number(threshold, f"threshold at {place}"))
    )
