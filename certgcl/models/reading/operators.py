"""Python's own operators, only on values of its own types."""

import ast
import operator
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType
from typing import Any

from certgcl.errors import EncoderError
from certgcl.models.layers.formula import Position
from certgcl.models.layers.lookup import MISSING, class_attribute, is_a
from certgcl.models.reading.refusals import refusal
from certgcl.models.reading.values import NUMBERS, PLAIN, Bound, Built, Method, Opaque, Symbol

BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.MatMult: "@",
    ast.Pow: "**",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}

_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}

COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}


def binary_on_plain(left: Any, operation: ast.operator, right: Any, place: Position) -> Any:
    """Arithmetic of numbers, and concatenation of texts or lists."""
    if is_a(left, *NUMBERS) and is_a(right, *NUMBERS) and type(operation) in _ARITHMETIC:
        return _ARITHMETIC[type(operation)](left, right)
    if isinstance(operation, ast.Add) and type(left) is type(right) and is_a(left, str, tuple, Built):
        return Built(left + right) if type(left) is Built else left + right
    raise refusal(
        f"{BINARY.get(type(operation), type(operation).__name__)} of a {type(left).__name__} and a "
        f"{type(right).__name__}",
        place,
    )


def guarded(place: Position, function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a function of Python; whatever it raises, the model would raise."""
    try:
        return function(*arguments)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        if isinstance(error, EncoderError):
            raise
        raise refusal(f"{type(error).__name__} ({error})", place) from error


def truth(value: Any, place: Position) -> bool:
    """The truth value of ``if value``, for a value that does not depend on the inputs."""
    if is_a(value, Symbol, Opaque):
        raise refusal("a decision on the inputs", place, remedy="Write a forward that does the same on every graph")
    if is_a(value, *PLAIN) or is_a(value, tuple, list, dict, Built, range):
        return bool(value)
    if is_a(value, FunctionType, BuiltinFunctionType, Bound, Method):
        return True
    if all(class_attribute(type(value), name) is MISSING for name in ("__bool__", "__len__")):
        return True
    raise refusal(f"a decision on a {type(value).__name__}", place)


def same_object(left: Any, right: Any, place: Position) -> bool:
    """``left is right``, if that is the same in every run: not for numbers and texts, nor for two tensors."""
    constants = (None, True, False, ...)
    if (
        any(one is constant for constant in constants for one in (left, right))
        and type(left) is not Opaque
        and (type(right) is not Opaque)
    ):
        return left is right
    if (
        is_a(left, Symbol, Opaque)
        or is_a(right, Symbol, Opaque)
        or (is_a(left, *PLAIN) or is_a(right, *PLAIN) or is_a(left, Bound, Method))
    ):
        raise refusal("a comparison by identity", place)
    return left is right
