"""Python's own functions that a forward may call, on values whose types are Python's own."""

import builtins
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch_geometric import EdgeIndex
from torch_geometric.typing import SparseTensor

from certgcl.models.layers.formula import Position
from certgcl.models.layers.lookup import MISSING, bases, class_attribute, is_a, is_class
from certgcl.models.layers.modules import modules_in, store
from certgcl.models.reading.activation_functions import absolute
from certgcl.models.reading.arithmetic import added, values_of
from certgcl.models.reading.attributes import attribute, unwrapped
from certgcl.models.reading.iteration import MODULE_LISTS, SEQUENCES, iterate
from certgcl.models.reading.known import Handler
from certgcl.models.reading.refusals import refusal
from certgcl.models.reading.values import Built, Opaque, Stream, Super, Symbol

if TYPE_CHECKING:
    from certgcl.models.reading.tracer import Tracer

_NO_TENSORS = (tuple, list, dict, str, int, float, SparseTensor, EdgeIndex)


def _len(tracer: "Tracer", place: Position, value: Any) -> Any:
    if is_a(value, Symbol, Opaque):
        return Opaque(place.text)
    if is_a(value, *MODULE_LISTS, nn.ModuleDict):
        return len(store(value, "_modules"))
    if is_a(value, tuple, list, dict, str, range, Built):
        return len(value)
    raise refusal(f"len of a {type(value).__name__}", place)


def _range(tracer: "Tracer", place: Position, *ends: Any) -> range:
    if not 1 <= len(ends) <= 3 or any(type(end) is not int for end in ends):
        raise refusal("a range whose ends are not known", place)
    return range(*ends)


def _zip(tracer: "Tracer", place: Position, *values: Any, strict: Any = False) -> Stream:
    if strict is not False:
        lengths = {_len(tracer, place, value) for value in values}
        if strict is not True or len(lengths) > 1:
            raise refusal("zip of different lengths", place)
    return Stream(zip(*(iterate(value, place) for value in values), strict=False))


def _enumerate(tracer: "Tracer", place: Position, iterable: Any, start: Any = 0) -> Stream:
    if type(start) is not int:
        raise refusal("enumerate from something that is not an integer", place)
    return Stream(enumerate(iterate(iterable, place), start))


def _reversed(tracer: "Tracer", place: Position, value: Any) -> Stream:
    value = modules_in(value) if is_a(value, *MODULE_LISTS) else value
    if not is_a(value, *SEQUENCES):
        raise refusal(f"reversed of a {type(value).__name__}", place)
    return Stream(reversed(value))


def _list(tracer: "Tracer", place: Position, value: Any = ()) -> Built:
    return Built(iterate(value, place))


def _tuple(tracer: "Tracer", place: Position, value: Any = ()) -> tuple[Any, ...]:
    return tuple(iterate(value, place))


def _sum(tracer: "Tracer", place: Position, values: Any, start: Any = 0) -> Any:
    """The sum starts from the first value, as the usual start of zero adds nothing."""
    items = list(iterate(values, place))
    if type(start) is not int or start != 0 or not items or any(type(item) is not Symbol for item in items):
        raise refusal("a sum of something other than tensors of the run", place)
    total = Symbol(values_of(items[0], place))
    for item in items[1:]:
        total = Symbol(added(values_of(total, place), values_of(item, place), 1.0, place))
    return total


def _isinstance(tracer: "Tracer", place: Position, value: Any, classes: Any) -> bool:
    classes = classes if type(classes) is tuple else (classes,)
    if type(value) is Symbol and all(any(cls is known for known in (Tensor, *_NO_TENSORS)) for cls in classes):
        return any(cls is Tensor for cls in classes)
    lies = class_attribute(type(value), "__class__") is not object.__dict__["__class__"]
    if (
        is_a(value, Symbol, Opaque, Super, Stream)
        or lies
        or any(not is_class(cls) or not is_a(cls, type, type(Tensor)) for cls in classes)
    ):
        raise refusal("isinstance of something that is not known here", place)
    own = bases(list if type(value) is Built else type(value))
    return any(cls is base for cls in classes for base in own)


def _hasattr(tracer: "Tracer", place: Position, value: Any, name: Any) -> bool:
    return _getattr(tracer, place, value, name, MISSING) is not MISSING


def _getattr(tracer: "Tracer", place: Position, value: Any, name: Any, default: Any = refusal) -> Any:
    if type(name) is not str:
        raise refusal("an attribute whose name is not a string", place)
    found = attribute(value, name, place)
    if found is MISSING and default is refusal:
        raise refusal(f"the attribute {name}, which does not exist", place)
    return default if found is MISSING else unwrapped(found)


def _super(tracer: "Tracer", place: Position, cls: Any, owner: Any) -> Super:
    if not is_class(cls) or not any(cls is base for base in bases(type(owner))):
        raise refusal("super of another object", place)
    return Super(cls, owner)


BUILTINS: list[tuple[Callable[..., Any], Handler]] = [
    (builtins.len, _len),
    (builtins.range, _range),
    (builtins.zip, _zip),
    (builtins.enumerate, _enumerate),
    (builtins.reversed, _reversed),
    (builtins.list, _list),
    (builtins.tuple, _tuple),
    (builtins.isinstance, _isinstance),
    (builtins.hasattr, _hasattr),
    (builtins.getattr, _getattr),
    (builtins.super, _super),
    (builtins.abs, absolute),
    (builtins.sum, _sum),
]
