"""The functions a forward may call, by identity: what each does to the tensors of the run."""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn.resolver import swish
from torch_geometric.utils import add_remaining_self_loops, add_self_loops, dropout_edge

from certgcl.layers.activations import EVAL, gelu, learned_slope, number, random_slope, two_piece
from certgcl.layers.formula import Activated, Edges, Place, words
from certgcl.layers.lookup import MISSING, class_attribute
from certgcl.layers.modules import plain_tensor
from certgcl.layers.trusted import TRUSTED
from certgcl.models.activations import Activation
from certgcl.models.smooth import ELU, Sigmoid, SiLU, Softplus, Tanh
from certgcl.reading.arithmetic import combine, concatenated, product, scaled, values_of
from certgcl.reading.iteration import iterate
from certgcl.reading.refusals import PARTS, refusal
from certgcl.reading.values import Opaque, Symbol

if TYPE_CHECKING:
    from certgcl.reading.tracer import Tracer

SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805

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


def activated(tracer: "Tracer", place: Place, x: Any, activation: Activation, inplace: Any = False) -> Symbol:
    """``σ(x)``, in place or as a new tensor."""
    source = values_of(x, place, "an activation")
    if type(inplace) is not bool:
        raise refusal("an activation that is in place or not", place)
    for name, tensor in activation.tensors().items():
        if tensor.shape not in ((), (source.width,)):
            raise refusal(f"{tensor.numel()} slopes for {source.width} channels", place, PARTS, "Use nn.PReLU()")
        if tensor.requires_grad or tensor.dim():  # one of the model's own, not a number
            tracer.own(tensor, f"{name} at {place}")
    node = Activated(source.width, source, activation, place)
    if not inplace:
        return Symbol(node)
    tracer.check_changeable(x, place)
    x.node = node
    return x


def relu(tracer: "Tracer", place: Place, input: Any, inplace: Any = False) -> Symbol:
    return activated(tracer, place, input, two_piece(0.0), inplace)


def relu_(tracer: "Tracer", place: Place, input: Any) -> Symbol:
    return activated(tracer, place, input, two_piece(0.0), True)


def absolute(tracer: "Tracer", place: Place, input: Any) -> Symbol:
    return activated(tracer, place, input, two_piece(-1.0))


def leaky_relu(tracer: "Tracer", place: Place, input: Any, negative_slope: Any = 0.01, inplace: Any = False) -> Symbol:
    slope = number(negative_slope, f"negative_slope at {place}")
    return activated(tracer, place, input, two_piece(slope), inplace)


def prelu(tracer: "Tracer", place: Place, input: Any, weight: Any) -> Symbol:
    if type(weight) not in (Tensor, torch.nn.Parameter):
        raise refusal("slopes that are no parameter", place)
    tracer.own(plain_tensor(weight, f"slopes at {place}"), f"slopes at {place}")
    return activated(tracer, place, input, two_piece(learned_slope(weight, f"slopes at {place}")))


def rrelu(tracer: "Tracer", place: Place, input: Any, lower: Any = 1.0 / 8, upper: Any = 1.0 / 3,
          training: Any = False, inplace: Any = False) -> Symbol:
    slope = random_slope(lower, upper, training, f"rrelu at {place}")
    return activated(tracer, place, input, two_piece(slope), inplace)


def clamp(tracer: "Tracer", place: Place, input: Any, min: Any = None, max: Any = None) -> Symbol:
    if max is not None or type(min) not in (int, float) or min != 0:
        raise tracer.unknown("clamp", [input], place)
    return activated(tracer, place, input, two_piece(0.0))


def elu(tracer: "Tracer", place: Place, input: Any, alpha: Any = 1.0, inplace: Any = False) -> Symbol:
    return activated(tracer, place, input, ELU(number(alpha, f"alpha at {place}")), inplace)


def selu(tracer: "Tracer", place: Place, input: Any, inplace: Any = False) -> Symbol:
    """An ELU times a number."""
    if inplace is not False:
        raise refusal("selu in place", place, remedy="Leave inplace out")
    inner = activated(tracer, place, input, ELU(SELU_ALPHA))
    return Symbol(scaled(tracer, values_of(inner, place), SELU_SCALE, place))


def tanh(tracer: "Tracer", place: Place, input: Any) -> Symbol:
    return activated(tracer, place, input, Tanh())


def sigmoid(tracer: "Tracer", place: Place, input: Any) -> Symbol:
    return activated(tracer, place, input, Sigmoid())


def exact_gelu(tracer: "Tracer", place: Place, input: Any, approximate: Any = "none") -> Symbol:
    return activated(tracer, place, input, gelu(approximate, f"gelu at {place}"))


def silu(tracer: "Tracer", place: Place, input: Any, inplace: Any = False) -> Symbol:
    return activated(tracer, place, input, SiLU(), inplace)


def softplus(tracer: "Tracer", place: Place, input: Any, beta: Any = 1.0, threshold: Any = 20.0) -> Symbol:
    return activated(tracer, place, input, Softplus(number(beta, f"beta at {place}"),
                                                    number(threshold, f"threshold at {place}")))


# -- sums and products -----------------------------------------------------------------------------


def add(tracer: "Tracer", place: Place, input: Any, other: Any, alpha: Any = 1) -> Symbol:
    return _combined(tracer, "+", input, _only(other, alpha, place), place)


def subtract(tracer: "Tracer", place: Place, input: Any, other: Any, alpha: Any = 1) -> Symbol:
    return _combined(tracer, "-", input, _only(other, alpha, place), place)


def multiply(tracer: "Tracer", place: Place, input: Any, other: Any) -> Symbol:
    return _combined(tracer, "*", input, other, place)


def divide(tracer: "Tracer", place: Place, input: Any, other: Any) -> Symbol:
    return _combined(tracer, "/", input, other, place)


def matmul(tracer: "Tracer", place: Place, input: Any, other: Any) -> Symbol:
    return _combined(tracer, "@", input, other, place)


def linear(tracer: "Tracer", place: Place, input: Any, weight: Any, bias: Any = None) -> Symbol:
    matrix = plain_tensor(weight, place.text)
    return Symbol(product(tracer, values_of(input, place), matrix.T, bias, place))


def concatenation(tracer: "Tracer", place: Place, tensors: Any, dim: Any = 0) -> Symbol:
    return Symbol(concatenated(tuple(iterate(tensors, place)), dim, place))


def _only(other: Any, alpha: Any, place: Place) -> Any:
    if type(alpha) is not int or alpha != 1:
        raise refusal(f"alpha={alpha!r}", place, remedy="Write the product out")
    return other


def _combined(tracer: "Tracer", name: str, left: Any, right: Any, place: Place) -> Symbol:
    if type(left) is not Symbol and type(right) is not Symbol:
        raise tracer.unknown(name, [left, right], place)
    return Symbol(combine(tracer, name, left, right, place))


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
    if type(edge_index) is not Symbol or not isinstance(edge_index.node, Edges) or edge_attr is not None:
        raise refusal("self-loops with weights, or of other edges", place)
    return Symbol(Edges(looped=True)), None


def measure(tracer: "Tracer", place: Place, input: Any, *which: Any) -> Opaque:
    return Opaque(place.text)


def is_scripting(tracer: "Tracer", place: Place) -> bool:
    return False


FUNCTIONS: list[tuple[Any, Handler]] = [
    (F.relu, relu), (F.relu_, relu_), (torch.relu, relu), (torch.relu_, relu_), (F.leaky_relu, leaky_relu),
    (F.prelu, prelu), (torch.prelu, prelu), (F.rrelu, rrelu), (torch.abs, absolute), (torch.clamp, clamp),
    (F.elu, elu), (F.selu, selu), (torch.selu, selu), (F.tanh, tanh), (torch.tanh, tanh), (F.sigmoid, sigmoid),
    (torch.sigmoid, sigmoid), (F.gelu, exact_gelu), (F.silu, silu), (F.softplus, softplus), (swish, silu),
    (torch.add, add), (torch.sub, subtract), (torch.subtract, subtract), (torch.mul, multiply),
    (torch.multiply, multiply), (torch.div, divide), (torch.divide, divide), (torch.true_divide, divide),
    (torch.matmul, matmul), (torch.mm, matmul), (F.linear, linear), (torch.cat, concatenation),
    (torch.concat, concatenation), (torch.concatenate, concatenation),
    (F.dropout, dropout), (torch.dropout, dropout), (F.alpha_dropout, feature_dropout),
    (F.feature_alpha_dropout, feature_dropout), (dropout_edge, edge_dropout), (add_self_loops, loops),
    (add_remaining_self_loops, loops), (vars(torch.jit)["is_scripting"], is_scripting),
]
METHODS: dict[str, Handler] = {
    "relu": relu, "relu_": relu_, "abs": absolute, "prelu": prelu, "clamp": clamp, "tanh": tanh, "sigmoid": sigmoid,
    "add": add, "sub": subtract, "mul": multiply, "div": divide, "matmul": matmul, "mm": matmul, "size": measure,
    "dim": measure, "numel": measure,
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
