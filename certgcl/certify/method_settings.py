"""The settings of a method in few words: those that differ from the defaults of its class."""

import ast
from functools import cache

from certgcl.bounds import METHODS, SEARCHES

LONGEST = 2000  # characters of settings that are shortened


def special_settings(method: str) -> str | None:
    """What is special about a method, given by its ``repr``; None for a method that a name of ``METHODS`` or
    ``SEARCHES`` stands for."""
    if method in {repr(known) for known in (METHODS | SEARCHES).values()}:
        return None
    if len(method) > LONGEST:
        return method
    try:
        call = ast.parse(method, mode="eval").body
        return _brief(call) if isinstance(call, ast.Call) else method
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # not the repr of a dataclass
        return method


def _brief(value: ast.expr) -> str:
    if not isinstance(value, ast.Call):
        return ast.unparse(value)
    name = ast.unparse(value.func)
    usual = _defaults().get(name, {})
    settings = [(each.arg, each.value) for each in value.keywords]
    special = [f"{key}={_brief(given)}" for key, given in settings if ast.unparse(given) != usual.get(key or "")]
    return f"{name}({', '.join([*map(_brief, value.args), *special])})"


@cache
def _defaults() -> dict[str, dict[str, str]]:
    """The default settings of every class of methods."""
    found = {}
    for kind in {type(method) for method in (METHODS | SEARCHES).values()}:
        call = ast.parse(repr(kind()), mode="eval").body
        assert isinstance(call, ast.Call)
        found[kind.__name__] = {each.arg or "": ast.unparse(each.value) for each in call.keywords}
    return found
