"""One file per method, all with one signature: see :class:`certgcl.bounds.problem.BoundMethod`."""

from dataclasses import replace

from certgcl.bounds.crown import Crown
from certgcl.bounds.degree import Degree
from certgcl.bounds.exact import BranchAndBound
from certgcl.bounds.interval import Interval
from certgcl.bounds.paper import Paper
from certgcl.bounds.problem import BoundMethod, DropProblem
from certgcl.bounds.released import Released
from certgcl.errors import MethodError

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
    "optimized": BranchAndBound(branch_limit=16),
    "exact": BranchAndBound(),
}
"""Methods that bound many branches of each anchor: tighter, slower, with upper bounds and witnesses, no gradients."""


def get_method(method: "str | BoundMethod", time_limit: float | None = None) -> BoundMethod:
    """The method of that name, or the instance itself; searches may be limited to so many seconds."""
    found = _named(method)
    if time_limit is None:
        return found
    if not isinstance(found, BranchAndBound):
        raise MethodError(f"time_limit={time_limit!r} with method {found.name!r}", "only a search can be cut short",
                          f"Use {' or '.join(SEARCHES)}, or leave it out")
    return replace(found, time_limit=time_limit)


def _named(method: "str | BoundMethod") -> BoundMethod:
    if not isinstance(method, str):
        if callable(method) and hasattr(method, "certified") and not isinstance(method, type):
            return method
        raise MethodError(f"method {method!r}", "a method is a name or an instance from certgcl.bounds",
                          f"Names are {', '.join(METHODS)}")
    known = METHODS | SEARCHES
    if method not in known:
        raise MethodError(f"method {method!r}", f"methods are {', '.join(known)}", "Pick one, or pass an instance")
    return known[method]


__all__ = ["METHODS", "SEARCHES", "BoundMethod", "BranchAndBound", "Crown", "Degree", "DropProblem", "Interval",
           "Paper", "Released", "get_method"]
