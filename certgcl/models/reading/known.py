"""The functions that a forward may call, by identity, and what each does to the tensors of the run."""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import global_add_pool, global_max_pool, global_mean_pool
from torch_geometric.nn.resolver import swish
from torch_geometric.utils import add_remaining_self_loops, add_self_loops, dropout_edge

from certgcl.models.layers.formula import Position, tensor_name
from certgcl.models.layers.lookup import MISSING, class_attribute
from certgcl.models.layers.trusted import TRUSTED
from certgcl.models.reading.activation_functions import (
    absolute,
    clamp,
    elu,
    exact_gelu,
    leaky_relu,
    prelu,
    relu,
    relu_,
    rrelu,
    selu,
    sigmoid,
    silu,
    softplus,
    tanh,
)
from certgcl.models.reading.refusals import refusal
from certgcl.models.reading.tensor_functions import (
    add,
    concatenation,
    divide,
    dropout,
    edge_dropout,
    feature_dropout,
    is_scripting,
    linear,
    log_softmax,
    loops,
    matmul,
    measure,
    multiply,
    pooling,
    softmax,
    subtract,
    tensor_log_softmax,
    tensor_softmax,
)
from certgcl.models.reading.values import Symbol

if TYPE_CHECKING:
    from certgcl.models.reading.tracer import Tracer

Handler = Callable[..., Any]
"""``handler(tracer, place, ...)`` with the parameters of the function it stands for."""


def handle(handler: Handler, tracer: "Tracer", arguments: list[Any], keywords: dict[str, Any], place: Position) -> Any:
    """The result of a known function."""
    try:
        bound = inspect.signature(handler).bind(tracer, place, *arguments, **keywords)
    except TypeError as error:
        raise refusal(f"a call with arguments that it does not take ({error})", place) from error
    return handler(*bound.args, **bound.kwargs)


FUNCTIONS: list[tuple[Any, Handler]] = [
    (F.relu, relu),
    (F.relu_, relu_),
    (torch.relu, relu),
    (torch.relu_, relu_),
    (F.leaky_relu, leaky_relu),
    (F.prelu, prelu),
    (torch.prelu, prelu),
    (F.rrelu, rrelu),
    (torch.abs, absolute),
    (torch.clamp, clamp),
    (F.elu, elu),
    (F.selu, selu),
    (torch.selu, selu),
    (F.tanh, tanh),
    (torch.tanh, tanh),
    (F.sigmoid, sigmoid),
    (torch.sigmoid, sigmoid),
    (F.gelu, exact_gelu),
    (F.silu, silu),
    (F.softplus, softplus),
    (swish, silu),
    (torch.add, add),
    (torch.sub, subtract),
    (torch.subtract, subtract),
    (torch.mul, multiply),
    (torch.multiply, multiply),
    (torch.div, divide),
    (torch.divide, divide),
    (torch.true_divide, divide),
    (torch.matmul, matmul),
    (torch.mm, matmul),
    (F.linear, linear),
    (torch.cat, concatenation),
    (torch.concat, concatenation),
    (torch.concatenate, concatenation),
    (F.softmax, softmax),
    (F.log_softmax, log_softmax),
    (torch.softmax, tensor_softmax),
    (torch.log_softmax, tensor_log_softmax),
    (F.dropout, dropout),
    (torch.dropout, dropout),
    (F.alpha_dropout, feature_dropout),
    (F.feature_alpha_dropout, feature_dropout),
    (dropout_edge, edge_dropout),
    (add_self_loops, loops),
    (add_remaining_self_loops, loops),
    (vars(torch.jit)["is_scripting"], is_scripting),
    (global_mean_pool, pooling("mean")),
    (global_add_pool, pooling("sum")),
    (global_max_pool, pooling("max")),
]
METHODS: dict[str, Handler] = {
    "relu": relu,
    "relu_": relu_,
    "abs": absolute,
    "prelu": prelu,
    "clamp": clamp,
    "tanh": tanh,
    "sigmoid": sigmoid,
    "add": add,
    "sub": subtract,
    "mul": multiply,
    "div": divide,
    "matmul": matmul,
    "mm": matmul,
    "size": measure,
    "dim": measure,
    "numel": measure,
    "softmax": tensor_softmax,
    "log_softmax": tensor_log_softmax,
}
for _function, _ in FUNCTIONS:
    TRUSTED.add(_function)
for _method in METHODS:
    TRUSTED.add_attribute(Tensor, _method)
assert all(class_attribute(Tensor, name) is not MISSING for name in METHODS)


def on_what(arguments: list[Any]) -> str:
    """The first tensor of the run among some arguments, in words."""
    found = [argument for argument in arguments if type(argument) is Symbol]
    return f" on {tensor_name(found[0].node)}" if found else ""
