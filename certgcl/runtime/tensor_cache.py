"""Values cached with an object: computed once from its tensors, and again after one of them was written to.

Torch counts the writes to a tensor and to its views. It does not see writes through ``.data``, through a numpy array or
in a mapped file: where that matters, contents are compared (:meth:`certgcl.graphs.graph.Graph.private`).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar, overload

import torch
from torch import Tensor

T = TypeVar("T")
PRIVATE = "_private"  # in the ``__dict__`` of objects whose tensors nobody else can reach: no checks needed


def stamp(*tensors: Tensor) -> object:
    """Equal to a later stamp of the same tensors only if none was written to in between."""
    try:
        return [(_address(tensor), tensor._version) for tensor in tensors]
    except RuntimeError:
        return object()  # made in inference mode, where writes are not counted


def _address(tensor: Tensor) -> int:
    # A CSR tensor counts the writes to its parts.
    return tensor.data_ptr() if tensor.layout == torch.strided else tensor.values().data_ptr()


def kept(*sources: str) -> Callable[[Callable[[Any], T]], "Kept[T]"]:
    """``@kept("rowptr", "col")``: a property computed from these tensors of its owner, valid until one of them is
    written to.

    A value that is itself a tensor may be written to by whoever received it; it is then recomputed as well.
    """
    return partial(Kept, sources)


class Kept(Generic[T]):
    """The property that :func:`kept` creates from a function."""

    def __init__(self, sources: tuple[str, ...], make: Callable[[Any], T]) -> None:
        self._sources, self._make, self.__doc__ = sources, make, make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name, self._entry = name, f"_kept_{name}"

    @overload
    def __get__(self, owner: None, kind: type) -> "Kept[T]": ...

    @overload
    def __get__(self, owner: object, kind: type | None = None) -> T: ...

    def __get__(self, owner: Any, kind: type | None = None) -> "Kept[T] | T":
        if owner is None:
            return self
        held = vars(owner)
        if PRIVATE in held:
            value = held[self._name] = self._make(owner)  # found before this descriptor from now on
            return value
        now = stamp(*(getattr(owner, name) for name in self._sources))
        entry = held.get(self._entry)
        if entry is None or entry[0] != now or entry[1] != _own_stamp(entry[2]):
            value = self._make(owner)
            entry = held[self._entry] = now, _own_stamp(value), value
        found: T = entry[2]
        return found


def _own_stamp(value: object) -> object:
    return stamp(value) if isinstance(value, Tensor) else None
