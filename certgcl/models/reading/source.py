"""The syntax tree of a function, proved to be the code that runs: its file, compiled again, gives identical code."""

import __future__

import ast
import linecache
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

from certgcl.errors import EncoderError
from certgcl.models.layers.formula import Position
from certgcl.models.reading.refusals import BUILD, PROBED

_FUTURES = 0
for _name in __future__.all_feature_names:
    _FUTURES |= getattr(__future__, _name).compiler_flag

_COMPARED = (
    "co_code",
    "co_names",
    "co_varnames",
    "co_freevars",
    "co_cellvars",
    "co_flags",
    "co_argcount",
    "co_posonlyargcount",
    "co_kwonlyargcount",
    "co_name",
    "co_firstlineno",
    "co_linetable",
    "co_exceptiontable",
)


# By identity and not by equality, which ignores parts of a code object; the code is kept alive, so that its id stays
# unique.
_PROVED: dict[int, tuple[CodeType, "FunctionSource"]] = {}


@dataclass(frozen=True, eq=False)
class FunctionSource:
    """The definition of a function, its file, and the places of its parts that were needed."""

    node: ast.FunctionDef | ast.Lambda
    file: str
    places: dict[ast.AST, Position] = field(default_factory=dict, repr=False)


def source_of(function: FunctionType) -> FunctionSource:
    """The definition of a function.

    Sound because the text is parsed and compiled as a whole, and the function's own bytecode, constants, names, flags,
    exception table and positions are found in the result, nested code included. Then it does not matter where the text
    came from, nor whether the file was changed since: any difference raises an error.
    """
    code = function.__code__
    found = f"{function.__qualname__} in {code.co_filename}, line {code.co_firstlineno}"
    if id(code) in _PROVED:
        return _PROVED[id(code)][1]
    try:
        source = _proved(code.co_filename, code)
    except _UnprovedError as reason:
        raise EncoderError(
            f"{found}: {reason}",
            "a model is read from its source, which must exist and be the code that runs",
            f"Put the class in a file, unedited since it was imported. {BUILD}. {PROBED}",
        ) from None
    _PROVED[id(code)] = code, source
    return source


class _UnprovedError(Exception):
    pass


def _proved(file: str, code: CodeType) -> FunctionSource:
    linecache.checkcache(file)
    text = "".join(linecache.getlines(file))
    if not text:
        raise _UnprovedError("no source")
    try:
        tree = ast.parse(text, file)
        whole = compile(text, file, "exec", flags=code.co_flags & _FUTURES, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _UnprovedError("a source that cannot be parsed") from None
    if not any(_same(code, other) for other in _nested(whole)):
        raise _UnprovedError("a source that is not what runs")
    nodes = [node for node in ast.walk(tree) if _defines(node, code)]
    if len(nodes) != 1 or not isinstance(nodes[0], (ast.FunctionDef, ast.Lambda)):
        raise _UnprovedError("no single definition that gives this code")
    return FunctionSource(nodes[0], file)


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


def _same(one: CodeType, other: CodeType) -> bool:
    return all(getattr(one, part) == getattr(other, part) for part in _COMPARED) and _same_constants(
        one.co_consts, other.co_consts
    )


def _same_constants(one: Any, other: Any) -> bool:
    """Equal in type and value: 1 is not True, and 0.0 not -0.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, CodeType):
        return _same(one, other)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(_same_constants, one, other))
    return repr(one) == repr(other) if isinstance(one, (float, complex)) else one == other


def _defines(node: ast.AST, code: CodeType) -> bool:
    """Whether a definition is that of a code object: by name and first line, which are unique in a file, or for a
    lambda by the position of its body, which is that of the value it returns."""
    if isinstance(node, ast.FunctionDef):
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        return (node.name, first) == (code.co_name, code.co_firstlineno)
    if isinstance(node, ast.Lambda) and code.co_name == "<lambda>" and node.lineno == code.co_firstlineno:
        body = node.body
        return _extent(code) == (body.lineno, body.col_offset, body.end_lineno, body.end_col_offset)
    return False


def _extent(code: CodeType) -> tuple[int, int, int, int] | None:
    """The span of a lambda's instructions in the text, without those that set it up."""
    places = [
        (line, column, end_line, end_column)
        for line, end_line, column, end_column in code.co_positions()
        if line is not None
        and column is not None
        and end_line is not None
        and end_column is not None
        and (line, column) != (end_line, end_column)
    ]
    if not places:
        return None
    start, end = min(place[:2] for place in places), max(place[2:] for place in places)
    return (*start, *end)
