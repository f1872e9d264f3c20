"""Reading a model by its source: its forward is followed on symbols, line by line, and no code of it is run."""

import ast
import functools
from collections.abc import Callable
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import BuiltinFunctionType, FunctionType
from typing import Any

from torch import Tensor, nn
from torch_geometric.nn import MLP, JumpingKnowledge
from torch_geometric.nn.models.basic_gnn import BasicGNN

from certgcl.errors import EncoderError
from certgcl.models.layers.formula import BatchVector, Edges, InputFeatures, Node, NodeValues, Position, tensor_name
from certgcl.models.layers.lookup import class_attribute, is_a, is_class
from certgcl.models.layers.modules import is_module, named_modules
from certgcl.models.layers.table import LEAVES
from certgcl.models.reading.activation_functions import activated
from certgcl.models.reading.arithmetic import values_of
from certgcl.models.reading.attributes import unwrapped
from certgcl.models.reading.binding import bind
from certgcl.models.reading.builtins import BUILTINS
from certgcl.models.reading.frame import Frame
from certgcl.models.reading.known import FUNCTIONS, METHODS, Handler, handle, on_what
from certgcl.models.reading.leaves import call_module
from certgcl.models.reading.refusals import BUILD, PARTS, READABLE, refusal
from certgcl.models.reading.source import source_of
from certgcl.models.reading.values import Bound, Built, Method, Stream, Symbol
from certgcl.models.registry import OWN

_MOST_STEPS, _MOST_CALLS = 100_000, 64
_LAZY = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR
_LIBRARIES = ("torch", "torch_geometric", "torch_sparse", "torch_scatter")
# Library functions that are followed like a user's own; the others raise an error that names them.
_FOLLOWED = {
    BasicGNN.forward,
    MLP.forward,
    JumpingKnowledge.forward,
    *(leaf.forward for leaf in LEAVES if leaf.__module__.startswith("torch.nn.")),
}
_KNOWN: dict[int, tuple[Any, Handler]] = {
    id(function): (function, handler) for function, handler in (*FUNCTIONS, *BUILTINS)
}


class Tracer:
    """Follows one run of a model. Anything unknown raises an error."""

    def __init__(self, model: nn.Module) -> None:
        self.paths = {id(module): path for path, module in named_modules(model)}
        self.like: Tensor | None = None  # the first tensor of the model that was met
        self.steps = self.depth = 0

    def step(self, place: Callable[[Any], Position], node: ast.AST) -> None:
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise refusal(f"more than {_MOST_STEPS} steps", place(node))

    def call(self, called: Any, arguments: list[Any], keywords: dict[str, Any], place: Position) -> Any:
        """The result of calling a known function, a module, or a function that is followed in turn."""
        called = unwrapped(called)
        if type(called) is Method:
            return self._call_method(called, arguments, keywords, place)
        if type(called) is Bound:
            return self.call(called.function, [called.owner, *arguments], keywords, place)
        if id(called) in _KNOWN:
            return handle(_KNOWN[id(called)][1], self, arguments, keywords, place)
        if type(called) is functools.partial:
            return self.call(called.func, [*called.args, *arguments], {**called.keywords, **keywords}, place)
        if is_a(called, FunctionType, BuiltinFunctionType) and called in OWN:
            return handle(activated, self, [*arguments, OWN[called]], keywords, place)
        if is_module(called):
            return call_module(self, called, arguments, keywords, place)
        if type(called) is FunctionType:
            return self._call_function(called, arguments, keywords, place)
        if is_class(called):
            raise refusal(f"a {called.__name__} made in forward", place, remedy="Make it in __init__")
        name = called.__name__ if type(called) is BuiltinFunctionType else f"a call of a {type(called).__name__}"
        raise self.unknown(name, arguments, place)

    def _call_method(self, method: Method, arguments: list[Any], keywords: dict[str, Any], place: Position) -> Any:
        owner, name = method.owner, method.name
        if type(owner) is Symbol and name in METHODS:
            return handle(METHODS[name], self, [owner, *arguments], keywords, place)
        if type(owner) is Built and name == "append" and len(arguments) == 1 and not keywords:
            return owner.append(arguments[0])
        if type(owner) is dict and not arguments and not keywords:
            return Stream(iter(tuple(getattr(owner, name)())))
        raise self.unknown(name, [owner, *arguments], place)

    def _call_function(
        self, function: FunctionType, arguments: list[Any], keywords: dict[str, Any], place: Position
    ) -> Any:
        owner: Any = arguments[0] if arguments else None
        if is_module(owner) and is_a(owner, *LEAVES) and function is class_attribute(type(owner), "forward"):
            return call_module(self, owner, arguments[1:], keywords, place)
        if not self.follows(function):
            raise self.unknown(f"{function.__globals__['__name__']}.{function.__name__}", arguments, place)
        return self.follow(function, arguments, keywords, place)

    def follows(self, function: FunctionType) -> bool:
        """Whether a function is followed into its source: a user's, and a few of the libraries'."""
        library = str(function.__globals__.get("__name__")).split(".")[0] in _LIBRARIES
        return not library or function in _FOLLOWED

    def follow(self, function: FunctionType, arguments: list[Any], keywords: dict[str, Any], place: Position) -> Any:
        """The value a function returns, found in its source."""
        if function.__code__.co_flags & _LAZY:
            raise refusal(f"{function.__qualname__}, a generator or coroutine", place)
        if self.depth >= _MOST_CALLS:
            raise refusal(f"more than {_MOST_CALLS} calls inside each other", place)
        if not all(type(name) is str for name in function.__globals__):
            raise refusal(f"{function.__qualname__}, whose global names are not plain strings", place)
        self.depth += 1
        value = Frame(self, function, source_of(function), bind(function, arguments, keywords, place)).run()
        self.depth -= 1
        return value

    def check_changeable(self, symbol: Symbol, place: Position) -> None:
        """A tensor that is changed in place must be one created in the run, all of whose names are known."""
        if isinstance(symbol.node, (InputFeatures, Edges, BatchVector)) or symbol.view:
            raise refusal(
                f"{tensor_name(symbol.node)} changed in place",
                place,
                remedy="A forward must leave the model and its inputs as they are",
            )

    def own(self, tensor: Tensor, name: str) -> Tensor:
        """A tensor of the model itself. All have one precision, which is that of the run."""
        self.like = tensor if self.like is None else self.like
        if tensor.dtype != self.like.dtype or tensor.device != self.like.device:
            raise EncoderError(
                f"{name} in {tensor.dtype} on {tensor.device} and other weights in {self.like.dtype} on "
                f"{self.like.device}",
                "a model is run in one precision on one device",
                "Convert it with model.to(...)",
            )
        return tensor

    def values(self, called: Any, source: NodeValues, place: Position) -> NodeValues:
        """The output of another part of the model for given values."""
        return values_of(self.call(called, [Symbol(source)], {}, place), place)

    def unknown(self, name: str, arguments: list[Any], place: Position) -> EncoderError:
        """The error for a function that certgcl does not know."""
        what = on_what(arguments)
        return refusal(f"{name}{what}", place, PARTS if what else READABLE)


def trace(model: nn.Module, features: int, *more: Node) -> tuple[Node, Tensor]:
    """The expression that ``model(x, edge_index)`` computes from ``features`` features, and one of the tensors it uses;
    ``more`` arguments may follow these two.

    Sound because every value is either a symbol for a tensor of the run, which only functions that are known by their
    identity and modules that are known by their exact type may touch, or an object that the model already holds. The
    source that is followed is proved to be what runs, decisions that depend on a symbol raise an error, and so do
    stores: every run, on any graph, takes the same steps. :func:`certgcl.models.layers.trusted.check_surroundings` has
    checked before that the functions and modules of torch and PyG are unchanged.
    """
    inputs = (InputFeatures(features), Edges(), *more)
    tracer = Tracer(model)
    place = Position("certgcl", 0, f"model({', '.join(map(tensor_name, inputs))})")
    output = tracer.call(model, list(map(Symbol, inputs)), {}, place)
    if type(output) is not Symbol:
        raise EncoderError(f"a {type(output).__name__} as output", f"the model must return a tensor; {PARTS}", BUILD)
    if tracer.like is None:
        raise EncoderError(f"a {type(model).__name__} that uses no weights", "a model needs some", BUILD)
    return output.node, tracer.like
