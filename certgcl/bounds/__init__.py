"""One file per method, all with one signature: see :class:`certgcl.bounds.problem.BoundMethod`."""

from dataclasses import replace
from typing import Any

from certgcl.bounds.crown import Crown
from certgcl.bounds.degree import Degree
from certgcl.bounds.exact import BranchAndBound
from certgcl.bounds.interval import Interval
from certgcl.bounds.paper import Paper
from certgcl.bounds.problem import BoundMethod, DropProblem
from certgcl.bounds.released import Released
from certgcl.errors import MethodError
from certgcl.values import flag, shown

METHODS: dict[str, BoundMethod] = {
    "interval": Interval(),
    "crown": Crown(),
    "degree": Degree(),
    "degree-fast": Degree(slopes=("adaptive",), lines="shared", resolution=1, hubs=256),
    "degree-cheap": Degree(preactivations="interval", slopes=("adaptive",), lines="by-count", hubs=256),
    "paper": Paper(),
    "released": Released(),
}
"""The methods by name, in their default settings; an instance with other settings can be passed instead of a name."""


SEARCHES: dict[str, BoundMethod] = {
    "optimized": BranchAndBound(branch_limit=128),
    "exact": BranchAndBound(),
}
"""Methods that bound many branches of each anchor: tighter, slower, with upper bounds and witnesses, no gradients."""


def get_method(method: "str | BoundMethod", **limits: Any) -> BoundMethod:
    """The method of that name, or the instance itself; a search with the settings of :class:`BranchAndBound` given."""
    found, given = _named(method), {name: limit for name, limit in limits.items() if limit is not None}
    if not given:
        return found
    if not isinstance(found, BranchAndBound):
        listed = ", ".join(f"{name}={shown(limit)}" for name, limit in given.items())
        raise MethodError(f"{listed} with method {found.name!r}", "only a search can be cut short",
                          f"Use {' or '.join(SEARCHES)}, or leave it out")
    return replace(found, **given)


def _named(method: "str | BoundMethod") -> BoundMethod:
    if not isinstance(method, str):
        parts = ("name", "certified", "resolution", "supports", "line_resolution", "rules")
        if not callable(method) or isinstance(method, type) or not all(hasattr(method, part) for part in parts):
            raise MethodError(f"method {shown(method)}", "a method is a name, an instance from certgcl.bounds, or "
                              f"one's own with {', '.join(parts)}", f"Names are {', '.join(METHODS)}")
        flag(method.certified, "certified", MethodError)
        return method
    known = METHODS | SEARCHES
    if method not in known:
        raise MethodError(f"method {shown(method)}", f"methods are {', '.join(known)}", "Pick one, or pass an instance")
    return known[method]


__all__ = ["METHODS", "SEARCHES", "BoundMethod", "BranchAndBound", "Crown", "Degree", "DropProblem", "Interval",
           "Paper", "Released", "get_method"]
