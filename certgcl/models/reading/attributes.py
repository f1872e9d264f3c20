"""``value.name``, without running code: as Python finds it, or an error."""

from types import FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

from torch import Tensor, nn

from certgcl.models.layers.formula import Position
from certgcl.models.layers.lookup import (
    MISSING,
    bases,
    class_attribute,
    class_dict,
    instance_dict,
    is_a,
    is_class,
    is_data_descriptor,
    is_descriptor,
)
from certgcl.models.layers.modules import held, is_module
from certgcl.models.reading.refusals import refusal
from certgcl.models.reading.values import Bound, Built, Method, Opaque, Stream, Super, Symbol

_GETATTRIBUTE = (object.__dict__["__getattribute__"], SimpleNamespace.__dict__["__getattribute__"])
_MODULE_GETATTR = class_attribute(nn.Module, "__getattr__")
_DESCRIPTIONS = ("shape", "dtype", "device", "ndim", "layout", "is_cuda", "is_sparse", "requires_grad")
_LIST_METHODS = ("append",)
_DICT_METHODS = ("items", "keys", "values")


def attribute(value: Any, name: str, place: Position) -> Any:
    """The attribute, or ``MISSING`` where Python would raise AttributeError."""
    if name.startswith("__"):
        raise refusal(f"the attribute {name}", place)
    if type(value) is Opaque:
        return Opaque(place.text)
    if type(value) is Symbol:
        if name in _DESCRIPTIONS:
            return Opaque(place.text)
        found = class_attribute(Tensor, name)
        if found is not MISSING and is_data_descriptor(found):  # such as .data or .T, which share the tensor's memory
            raise refusal(f"{name} of a tensor", place)
        return MISSING if found is MISSING else Method(value, name)
    if type(value) is Super:
        order = bases(type(value.owner))
        after = next(place for place, base in enumerate(order, 1) if base is value.after)
        for base in order[after:]:
            if name in class_dict(base):
                return _bound(value.owner, class_dict(base)[name], name, place)
        return MISSING
    if type(value) is Built and name in _LIST_METHODS:
        return Method(value, name)
    if type(value) is dict and name in _DICT_METHODS:
        return Method(value, name)
    if type(value) is ModuleType:
        return vars(value).get(name, MISSING)
    if is_class(value):
        return _of_class(value, name, place)
    if issubclass(type(value), Tensor) or is_a(value, Built, Bound, Method, Stream):
        raise refusal(f"{name} of a {type(value).__name__}", place)
    return _of_object(value, name, place)


def _of_object(value: Any, name: str, place: Position) -> Any:
    """First data descriptors of the class, then what the object holds, then the class, then a module's own stores."""
    cls = type(value)
    if cls.__module__ == "builtins":
        raise refusal(f"{name} of a {cls.__name__} that the model holds", place)
    if class_attribute(cls, "__getattribute__") not in _GETATTRIBUTE:
        raise refusal(f"an attribute of a {cls.__name__}, which has its own __getattribute__", place)
    fallback = class_attribute(cls, "__getattr__")
    if fallback is not MISSING and not (is_module(value) and fallback is _MODULE_GETATTR):
        raise refusal(f"an attribute of a {cls.__name__}, which has its own __getattr__", place)
    stored = class_attribute(cls, name)
    if stored is not MISSING and is_data_descriptor(stored):
        raise refusal(f"{name}, a {type(stored).__name__} of {cls.__name__}", place)
    own = instance_dict(value)
    if name in own:
        return own[name]
    if stored is not MISSING:
        return _bound(value, stored, name, place)
    return held(value, name) if is_module(value) else MISSING


def _bound(owner: Any, stored: Any, name: str, place: Position) -> Any:
    """A class attribute as it is read through an object."""
    if type(stored) is FunctionType:
        return Bound(owner, stored)
    if type(stored) is staticmethod:
        return stored.__func__
    if type(stored) is classmethod and type(stored.__func__) is FunctionType:
        return Bound(type(owner), stored.__func__)
    if is_descriptor(stored):
        raise refusal(f"{name}, a {type(stored).__name__} of {type(owner).__name__}", place)
    return stored


def _of_class(cls: type, name: str, place: Position) -> Any:
    if class_attribute(type(cls), "__getattribute__") is not type.__dict__["__getattribute__"] or (
        class_attribute(type(cls), name) is not MISSING
    ):
        raise refusal(f"{name} of the class {cls.__name__}", place)
    stored = class_attribute(cls, name)
    if type(stored) is FunctionType:
        return stored
    if type(stored) is staticmethod:
        return stored.__func__
    if stored is not MISSING and is_descriptor(stored):
        raise refusal(f"{name}, a {type(stored).__name__} of {cls.__name__}", place)
    return stored


def unwrapped(value: Any) -> Any:
    """A method that is stored somewhere, as a function with its first argument."""
    if type(value) is MethodType and type(value.__func__) is FunctionType:
        return Bound(value.__self__, value.__func__)
    return value
