"""The possible values of a name while a model is read: symbols for tensors, and the model's own objects as they are."""

from collections.abc import Iterator
from types import FunctionType
from typing import Any

from certgcl.models.layers.formula import Node
from certgcl.models.layers.lookup import is_a

PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...))
NUMBERS = (bool, int, float)


class Symbol:
    """A tensor of the run. Names that share a tensor share the symbol, so that in-place changes reach all of them.

    Args:
        view: whether it may share memory with another tensor, and so must not be changed in place.
    """

    def __init__(self, node: Node, view: bool = False) -> None:
        self.node, self.view = node, view


class Opaque:
    """Something that depends on the inputs, such as a shape or a mask, and is otherwise unknown."""

    def __init__(self, text: str) -> None:
        self.text = text


class Built(list[Any]):
    """A list created in the run, which it may change."""


class Stream:
    """An iterator created in the run, as lazy as Python's: each item can be taken only once."""

    def __init__(self, items: Iterator[Any]) -> None:
        self.items = items


class Bound:
    """A function with its first argument."""

    def __init__(self, owner: Any, function: FunctionType) -> None:
        self.owner, self.function = owner, function


class Method:
    """A method of a tensor, a list or a dict, by its name."""

    def __init__(self, owner: Any, name: str) -> None:
        self.owner, self.name = owner, name


class Super:
    """``super()``: the attributes of an object from the bases that come after a class."""

    def __init__(self, after: type, owner: Any) -> None:
        self.after, self.owner = after, owner


def is_plain(value: Any) -> bool:
    """Whether comparing and combining it runs only Python's own code."""
    if is_a(value, tuple, list, Built):
        return all(map(is_plain, value))
    return is_a(value, *PLAIN)


def depends_on_inputs(value: Any) -> bool:
    return is_a(value, Symbol, Opaque) or (is_a(value, tuple, Built) and any(map(depends_on_inputs, value)))
