"""Looks up attributes of objects and classes as Python does, but without running any of their code."""

from collections.abc import Mapping
from types import GetSetDescriptorType
from typing import Any, Final, TypeVar

from certgcl.errors import EncoderError

_Entry = TypeVar("_Entry")
MISSING: Final = object()
_MRO, _DICT = type.__dict__["__mro__"], type.__dict__["__dict__"]  # which no metaclass can override


def bases(cls: type) -> tuple[type, ...]:
    """The class and its bases, in the order of lookup."""
    found: tuple[type, ...] = _MRO.__get__(cls)
    return found


def class_dict(cls: type) -> Mapping[str, Any]:
    """The attributes of the class itself: a live view."""
    found: Mapping[str, Any] = _DICT.__get__(cls)
    return found


def class_attribute(cls: type, name: str) -> Any:
    """The attribute that the class or the first of its bases stores under a name; ``MISSING`` if there is none."""
    for base in bases(cls):
        if name in class_dict(base):
            return class_dict(base)[name]
    return MISSING


def instance_dict(value: Any) -> dict[str, Any]:
    """The attributes stored in an object itself; none if it has no ``__dict__``."""
    slot = class_attribute(type(value), "__dict__")
    if slot is MISSING:
        return {}
    held = slot.__get__(value) if type(slot) is GetSetDescriptorType else None
    if type(held) is not dict or not all(type(name) is str for name in held):
        raise EncoderError(
            f"a {type(value).__name__} whose attributes are not kept in a plain __dict__",
            "what a model holds must be readable without running its code",
            "Remove the __dict__ property or the custom attribute store",
        )
    return held


def is_a(value: Any, *kinds: type) -> bool:
    """Whether its type is one of these: by identity, as a metaclass may define its own equality."""
    own = type(value)
    return any(own is kind for kind in kinds)


def entry(table: Mapping[Any, _Entry], key: Any) -> _Entry | None:
    """The entry of a table for the identical key."""
    return next((value for known, value in table.items() if known is key), None)


def is_class(value: Any) -> bool:
    """Whether it is a class by its type, whatever its ``__class__`` says."""
    return issubclass(type(value), type)


def is_data_descriptor(value: Any) -> bool:
    """Whether a class attribute takes precedence over what an object holds, as a property does."""
    return any(class_attribute(type(value), name) is not MISSING for name in ("__set__", "__delete__"))


def is_descriptor(value: Any) -> bool:
    """Whether reading the class attribute through an object runs code."""
    return class_attribute(type(value), "__get__") is not MISSING
