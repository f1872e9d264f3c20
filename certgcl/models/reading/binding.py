"""Binds the arguments of a call to a function's parameters."""

from collections.abc import Sequence
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import FunctionType
from typing import Any

from certgcl.models.layers.formula import Position
from certgcl.models.reading.attributes import unwrapped
from certgcl.models.reading.refusals import CALLED, WRAP, refusal


def bind(function: FunctionType, arguments: Sequence[Any], keywords: dict[str, Any], place: Position) -> dict[str, Any]:
    """The parameters of a function by name, as Python fills them for this call."""
    code = function.__code__
    count, only = code.co_argcount, code.co_kwonlyargcount
    names = code.co_varnames
    positional, by_name = names[:count], names[count : count + only]
    bound = dict(zip(positional, arguments, strict=False))
    extra, rest = tuple(arguments[count:]), {}
    for name, value in keywords.items():
        if name in bound:
            raise refusal(f"{name} given twice to {function.__qualname__}", place)
        if name in positional[code.co_posonlyargcount :] or name in by_name:
            bound[name] = value
        else:
            rest[name] = value
    after = count + only
    if code.co_flags & CO_VARARGS:
        bound[names[after]] = extra
        extra, after = (), after + 1
    if code.co_flags & CO_VARKEYWORDS:
        bound[names[after]] = rest
        rest = {}
    if extra or rest:
        raise refusal(f"{function.__qualname__} with arguments it does not take", place, CALLED, WRAP)
    defaults = dict(zip(reversed(positional), reversed(function.__defaults__ or ()), strict=False))
    defaults |= function.__kwdefaults__ or {}
    for name in (*positional, *by_name):
        if name not in bound:
            if name not in defaults:
                raise refusal(f"{function.__qualname__} without a value for {name}", place, CALLED, WRAP)
            bound[name] = unwrapped(defaults[name])
    return bound
