"""What certgcl takes for granted of torch and PyG: their functions as they were when certgcl was imported."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product, repeat
from operator import is_not
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import MessagePassing

from certgcl.errors import EncoderError
from certgcl.models.layers.lookup import MISSING, bases, class_attribute, class_dict

_LIBRARIES = ("torch_geometric", "torch.nn")  # whose functions are followed into what they call
_ENTRANCES = ("__call__", "forward", "__getattr__", "__getattribute__")
_OPERATORS = (
    "__add__",
    "__radd__",
    "__iadd__",
    "__sub__",
    "__rsub__",
    "__isub__",
    "__mul__",
    "__rmul__",
    "__imul__",
    "__truediv__",
    "__rtruediv__",
    "__itruediv__",
    "__neg__",
    "__pos__",
    "__matmul__",
    "__rmatmul__",
    "__getitem__",
    "__eq__",
    "__ne__",
    "__torch_function__",
)
# Written by PyG when the first convolution of a class is made, which may be after certgcl is imported.
_GENERATED = ("propagate", "collect")


@dataclass(eq=False)
class _Table:
    """Some names of a module or a class, and what they meant."""

    held: Mapping[str, Any]
    label: str
    meaning: dict[str, Any] = field(default_factory=dict)

    def changed(self) -> str | None:
        found = tuple(map(self.held.get, self.meaning, repeat(MISSING)))
        if tuple(map(id, found)) == tuple(map(id, self.meaning.values())):
            return None
        return next(
            f"{self.label}.{name}"
            for (name, value), now in zip(self.meaning.items(), found, strict=True)
            if now is not value
        )


@dataclass(eq=False)
class Snapshot:
    """Functions, what they are made of, and all that they look up by name: in modules, in classes, in tensors.

    A function that calls another by name does something else once that name is patched, or the code or the defaults of
    the function are replaced. Names are followed through PyG and ``torch.nn``; compiled code is not looked into.
    """

    functions: dict[FunctionType, tuple[Any, ...]] = field(default_factory=dict)
    tables: dict[int, _Table] = field(default_factory=dict)
    generated: list[type] = field(default_factory=list)
    _attributes: set[tuple[type, str]] = field(default_factory=set)

    def add_class(self, cls: type, generated: bool = False) -> None:
        """What is run when an instance is called; for a convolution, with the methods that PyG writes for it."""
        if generated:
            self.generated.append(cls)
        for name in _ENTRANCES:
            self.add_attribute(cls, name)

    def add_attribute(self, cls: type, name: str) -> None:
        """What a class or its bases hold under a name, and that none before them in the order holds it."""
        if (cls, name) in self._attributes or (cls in self.generated and name in _GENERATED):
            return
        self._attributes.add((cls, name))
        for base in bases(cls):
            self._note(base, class_dict(base), base.__name__, name)
            if name in class_dict(base):
                self.add(class_dict(base)[name], cls)
                return

    def add(self, function: Any, cls: type | None = None) -> None:
        """A function, as it runs on an instance of ``cls`` if one is given."""
        function = getattr(function, "__func__", function)
        if not isinstance(function, FunctionType):
            return
        names = set(_names(function.__code__))
        if function not in self.functions:
            self.functions[function] = _parts(function)
            self._add_names(function, names)
        if cls is not None:
            for name in sorted(names):
                self.add_attribute(cls, name)

    def _add_names(self, function: FunctionType, names: set[str]) -> None:
        found = function.__globals__
        spaces: list[dict[str, Any]] = [found]
        for held in spaces:  # which grows by the modules that are found: torch, torch._C, torch._C._nn
            for name in names & held.keys():
                value = held[name]
                if isinstance(value, ModuleType) and all(vars(value) is not space for space in spaces):
                    spaces.append(vars(value))
                if callable(value) or isinstance(value, ModuleType):
                    self._note(held, held, held.get("__name__", "a module"), name)
                    self._follow(value)
        for cell in function.__closure__ or ():
            self._follow(cell.cell_contents)
        for name in names:
            if class_attribute(Tensor, name) is not MISSING:
                self.add_attribute(Tensor, name)

    def _note(self, owner: Any, held: Mapping[str, Any], label: str, name: str) -> None:
        table = self.tables.setdefault(id(owner), _Table(held, label))
        table.meaning.setdefault(name, held.get(name, MISSING))

    def _follow(self, value: Any) -> None:
        if isinstance(value, FunctionType) and value.__module__.startswith(_LIBRARIES):
            self.add(value)

    def changed(self) -> str | None:
        """The first thing that is no longer what it was, in words."""
        for function, parts in self.functions.items():
            if any(map(is_not, _parts(function), parts)):
                return f"{function.__module__}.{function.__qualname__}"
        return next(filter(None, (table.changed() for table in self.tables.values())), None) or self._generated()

    def _generated(self) -> str | None:
        """PyG's generated methods: of the module that PyG made for them, and from then on the same."""
        for cls, name in product(self.generated, _GENERATED):
            value = class_attribute(cls, name)
            module = sys.modules.get(f"{cls.__module__}_{cls.__name__}_propagate", torch)
            if (value is not vars(module).get(name) or not isinstance(value, FunctionType)) and (
                value is not class_attribute(MessagePassing, name)
            ):
                return f"{cls.__name__}.{name}"
            if name in class_dict(cls) and (cls, name) not in self._attributes:
                self._attributes.add((cls, name))
                self._note(cls, class_dict(cls), cls.__name__, name)
                self.add(value, cls)
        return None


def _parts(function: FunctionType) -> tuple[Any, ...]:
    return function.__code__, function.__defaults__, function.__kwdefaults__


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


TRUSTED = Snapshot()
for _operator in _OPERATORS:
    TRUSTED.add_attribute(Tensor, _operator)


def check_surroundings() -> None:
    """Refuse to read a model while torch or PyG are not what they were, or something stands between them and it."""
    changed = TRUSTED.changed()
    if changed is not None:
        raise EncoderError(
            f"{changed} replaced since certgcl was imported",
            "the layers a model calls must be those of torch and PyG",
            "Undo the patch",
        )
    modes = [torch._C._get_function_stack_at(place) for place in range(torch._C._len_torch_function_stack())]
    modes = [mode for mode in modes if type(mode) is not torch.utils._device.DeviceContext]
    modes += [
        mode
        for place in range(torch._C._len_torch_dispatch_stack())
        for mode in [torch._C._get_dispatch_stack_at(place)]
    ]
    if modes:
        raise EncoderError(
            f"an active {type(modes[0]).__name__}", "no torch mode may change what functions do", "Certify outside it"
        )
    hooks = torch.nn.modules.module
    if hooks._global_forward_hooks or hooks._global_forward_pre_hooks:
        raise EncoderError(
            "a forward hook on all modules",
            "nothing may run between a module and its forward",
            "Remove it with its handle",
        )
