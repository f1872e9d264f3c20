"""Checks that modules do what their class says: no hooks, nothing replaced on the instance."""

from collections import OrderedDict
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from certgcl.errors import EncoderError
from certgcl.models.layers.lookup import MISSING, bases, class_attribute, class_dict, instance_dict, is_a

_Store = dict[str, Any]
_STORES = ("_parameters", "_buffers", "_modules")
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
# The entry points of a module and everything they access there, which no class may replace.
_MACHINERY = ("__call__", "_call_impl", "_wrapped_call_impl", "__getattr__", "__getattribute__", *_STORES)
_LOOKED_AT = {
    name
    for method in (nn.Module._call_impl, nn.Module._wrapped_call_impl)
    for name in method.__code__.co_names
    if name.startswith("_")
}
_OWN = {name: class_attribute(nn.Module, name) for name in sorted({*_MACHINERY, *_LOOKED_AT})}
_WRAPPERS = {
    "OptimizedModule": "model._orig_mod",
    "DataParallel": "model.module",
    "DistributedDataParallel": "model.module",
}


def is_module(value: Any) -> bool:
    """Whether it is one by its type, whatever its ``__class__`` says."""
    return issubclass(type(value), nn.Module)


def held(module: nn.Module, name: str) -> Any:
    """The value of ``module.name`` if the instance stores such an attribute; ``MISSING`` if it does not."""
    attributes = instance_dict(module)
    if name in attributes:
        return attributes[name]
    for part in _STORES:
        found = store(module, part)
        if name in found:
            return found[name]
    return MISSING


def store(module: nn.Module, name: str) -> _Store:
    """One of the dicts in which a module keeps its parts and hooks: a plain Python dict, whose behaviour is known."""
    found: Any = instance_dict(module).get(name)
    if not is_a(found, dict, OrderedDict) or not all(type(key) is str for key in found):
        raise EncoderError(
            f"{name} of a {type(module).__name__} of type {type(found).__name__}",
            "it must be a plain dict of names, as torch makes it",
            "Call super().__init__() first",
        )
    plain: _Store = found
    return plain


def modules_in(container: nn.Module) -> tuple[nn.Module, ...]:
    """The modules of a ``Sequential`` or ``ModuleList`` in their order."""
    return tuple(store(container, "_modules").values())


def named_modules(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The model and all modules in it by their paths, each once, without calling the model's own methods."""
    seen: set[int] = set()
    waiting = [("", model)]
    while waiting:
        path, module = waiting.pop(0)
        if id(module) in seen or not is_module(module):
            continue
        seen.add(id(module))
        yield path, module
        children = store(module, "_modules")
        waiting[:0] = [(f"{path}.{name}" if path else name, child) for name, child in children.items()]


def named_parameters(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Every parameter by its path."""
    for path, module in named_modules(model):
        for name, parameter in store(module, "_parameters").items():
            if parameter is not None:
                yield f"{path}.{name}" if path else name, parameter


def parameter(module: nn.Module, attribute: str, name: str) -> Tensor:
    """A tensor of a module, if it is a plain one: a subclass could change what functions do with it."""
    return plain_tensor(held(module, attribute), f"{name}.{attribute}" if name else attribute)


def plain_tensor(value: Any, name: str) -> Tensor:
    """The value, if it is a dense floating-point tensor of torch's own classes."""
    if not is_a(value, Tensor, nn.Parameter):
        if isinstance(value, Tensor) and is_lazy(value):
            raise EncoderError(
                f"{name} without a shape yet", "parameters must be initialized", "Run the model once on your data"
            )
        raise EncoderError(
            f"{name} of type {type(value).__name__}",
            "parameters must be plain torch tensors",
            "Convert with nn.Parameter(value.data)",
        )
    if value.layout != torch.strided or not value.dtype.is_floating_point:
        raise EncoderError(
            f"{name} of dtype {value.dtype} and layout {value.layout}",
            "parameters must be dense floating-point tensors",
            "Convert it",
        )
    found: Tensor = value
    return found


def check_call(module: nn.Module, name: str) -> None:
    """Calling the module must run its class's forward on the arguments as given, and return what that returns."""
    cls, attributes = type(module), instance_dict(module)
    if not all(type(key) is str for base in bases(cls) for key in class_dict(base)):
        raise EncoderError(
            f"{described(module, name)}, a class with names that are not plain strings",
            "the attributes of a class must be stored under plain names",
            "Write a plain class",
        )
    for part, own in _OWN.items():
        if class_attribute(cls, part) is not own:
            remedy = f"Pass {_WRAPPERS[cls.__name__]}" if cls.__name__ in _WRAPPERS else "Write a forward instead"
            raise EncoderError(
                f"{described(module, name)} with its own {part}",
                "a module must be called and hold its parts as torch.nn.Module does",
                remedy,
            )
        if part in attributes and own is not MISSING and part != "_compiled_call_impl":
            raise EncoderError(
                f"{part} replaced on {described(module, name)}",
                "an instance must do what its class says",
                "Write it into the class",
            )
    if attributes.get("_compiled_call_impl") is not None:
        raise EncoderError(
            f"{described(module, name)} compiled in place",
            "what runs must be what is read",
            "Certify a model on which compile() was not called",
        )
    for hooks in _HOOKS:
        if store(module, hooks) and hooks.startswith("_forward"):  # others only change gradients
            raise EncoderError(
                f"a forward hook on {described(module, name)}",
                "nothing may run between a module and its forward",
                "Remove it with its handle; spectral and weight norms by torch.nn.utils.remove_*",
            )


def check_unshadowed(module: nn.Module, name: str, allowed: tuple[str, ...] = ()) -> None:
    """No method of the class may be replaced on the instance."""
    for attribute in instance_dict(module):
        if attribute not in allowed and type(class_attribute(type(module), attribute)) is FunctionType:
            raise EncoderError(
                f"{attribute} replaced on {described(module, name)}",
                "an instance must do what its class says",
                "Write it into a class of your own",
            )


def described(module: nn.Module, name: str) -> str:
    return f"{name or 'model'} ({type(module).__name__})"
