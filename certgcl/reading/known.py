"""The functions a forward may call, by identity: what each does to the tensors of the run."""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.utils import add_remaining_self_loops, add_self_loops, dropout_edge

from certgcl.layers.activations import EVAL, learned_slope, number, random_slope
from certgcl.layers.lookup import MISSING, class_attribute
from certgcl.layers.trusted import TRUSTED
from certgcl.reading.nodes import Activation, Place, SelfLoops, words
from certgcl.reading.refusals import refusal
from certgcl.reading.values import Opaque, Symbol

if TYPE_CHECKING:
    from certgcl.reading.tracer import Tracer

Handler = Callable[..., Any]
"""``handler(tracer, place, ...)`` with the parameters of the function it stands for."""


def handle(handler: Handler, tracer: "Tracer", arguments: list[Any], keywords: dict[str, Any], place: Place) -> Any:
    """What a known function returns."""
    try:
        bound = inspect.signature(handler).bind(tracer, place, *arguments, **keywords)
    except TypeError as error:
        raise refusal(f"a call that cannot be read ({error})", place) from error
    return handler(*bound.args, **bound.kwargs)


# -- activations -----------------------------------------------------------------------------------


def activated(tracer: "Tracer", place: Place, x: Any, slope: Any, inplace: Any = False) -> Symbol:
    """``σ(x)`` with slope γ below zero, in place or as a new tensor."""
    if type(x) is not Symbol or type(inplace) is not bool:
        raise refusal("an activation of something that is no tensor of the run", place)
    node = Activation(x.node, slope, place)
    if not inplace:
        return Symbol(node)
    tracer.check_changeable(x, place)
    x.node = node
    return x


def relu(tracer: "Tracer", place: Place, input: Any, inplace: Any = False) -> Symbol:
    return activated(tracer, place, input, 0.0, inplace)


def relu_(tracer: "Tracer", place: Place, input: Any) -> Symbol:
    return activated(tracer, place, input, 0.0, True)


def absolute(tracer: "Tracer", place: Place, input: Any) -> Symbol:
    return activated(tracer, place, input, -1.0)


def leaky_relu(tracer: "Tracer", place: Place, input: Any, negative_slope: Any = 0.01, inplace: Any = False) -> Symbol:
    return activated(tracer, place, input, number(negative_slope, f"negative_slope at {place}"), inplace)


def prelu(tracer: "Tracer", place: Place, input: Any, weight: Any) -> Symbol:
    if type(weight) not in (Tensor, torch.nn.Parameter):
        raise refusal("slopes that are no parameter", place)
    return activated(tracer, place, input, learned_slope(weight, f"slopes at {place}"))


def rrelu(tracer: "Tracer", place: Place, input: Any, lower: Any = 1.0 / 8, upper: Any = 1.0 / 3,
          training: Any = False, inplace: Any = False) -> Symbol:
    return activated(tracer, place, input, random_slope(lower, upper, training, f"rrelu at {place}"), inplace)


def clamp(tracer: "Tracer", place: Place, input: Any, min: Any = None, max: Any = None) -> Symbol:
    if max is not None or type(min) not in (int, float) or min != 0:
        raise tracer.unknown("clamp", [input], place)
    return activated(tracer, place, input, 0.0)


# -- dropout ---------------------------------------------------------------------------------------


def dropout(tracer: "Tracer", place: Place, input: Any, p: Any = 0.5, training: Any = True,
            inplace: Any = False) -> Any:
    """Nothing at all, outside training: the tensor itself."""
    if type(training) is not bool or type(p) not in (int, float):
        raise refusal("a dropout with settings that are no numbers", place)
    if training and p != 0:
        raise refusal("dropout in training mode", place, "a model must not be random",
                      f"{EVAL}; a functional dropout needs training=self.training")
    return input


def feature_dropout(tracer: "Tracer", place: Place, input: Any, p: Any = 0.5, training: Any = False,
                    inplace: Any = False) -> Any:
    return dropout(tracer, place, input, p, training)


def edge_dropout(tracer: "Tracer", place: Place, edge_index: Any, p: Any = 0.5, force_undirected: Any = False,
                 training: Any = True) -> tuple[Any, Opaque]:
    if force_undirected is not False:
        raise refusal("force_undirected", place)
    return dropout(tracer, place, edge_index, p, training), Opaque(place.text)


# -- edges and shapes ------------------------------------------------------------------------------


def loops(tracer: "Tracer", place: Place, edge_index: Any, edge_attr: Any = None, fill_value: Any = None,
          num_nodes: Any = None) -> tuple[Symbol, None]:
    """A ``GCNConv`` takes all self-loops away before it adds its own, so that any are the same to it."""
    if type(edge_index) is not Symbol or edge_attr is not None:
        raise refusal("self-loops with weights, or of other edges", place)
    return Symbol(SelfLoops(edge_index.node)), None


def measure(tracer: "Tracer", place: Place, input: Any, *which: Any) -> Opaque:
    return Opaque(place.text)


def is_scripting(tracer: "Tracer", place: Place) -> bool:
    return False


FUNCTIONS: list[tuple[Any, Handler]] = [
    (F.relu, relu), (F.relu_, relu_), (torch.relu, relu), (torch.relu_, relu_), (F.leaky_relu, leaky_relu),
    (F.prelu, prelu), (torch.prelu, prelu), (F.rrelu, rrelu), (torch.abs, absolute), (torch.clamp, clamp),
    (F.dropout, dropout), (torch.dropout, dropout), (F.alpha_dropout, feature_dropout),
    (F.feature_alpha_dropout, feature_dropout), (dropout_edge, edge_dropout), (add_self_loops, loops),
    (add_remaining_self_loops, loops), (vars(torch.jit)["is_scripting"], is_scripting),
]
METHODS: dict[str, Handler] = {
    "relu": relu, "relu_": relu_, "abs": absolute, "prelu": prelu, "clamp": clamp, "size": measure, "dim": measure,
    "numel": measure,
}
for _function, _ in FUNCTIONS:
    TRUSTED.add(_function)
for _method in METHODS:
    TRUSTED.add_attribute(Tensor, _method)
assert all(class_attribute(Tensor, name) is not MISSING for name in METHODS)


def on_what(arguments: list[Any]) -> str:
    """The first tensor of the run among some arguments, in words."""
    found = [argument for argument in arguments if type(argument) is Symbol]
    return f" on {words(found[0].node)}" if found else ""
