"""One file per method, all with one signature: see :class:`certgcl.bounds.method.BoundMethod`."""

from typing import Any

from certgcl.arguments import flag, shown
from certgcl.bounds.crown import Crown
from certgcl.bounds.degree import Degree
from certgcl.bounds.exact import BranchAndBound
from certgcl.bounds.interval import Interval
from certgcl.bounds.method import BoundMethod, BoundResult
from certgcl.bounds.prepared import ChangeProblem
from certgcl.bounds.uncertified.paper import Paper
from certgcl.bounds.uncertified.released import Released
from certgcl.errors import MethodError

METHODS: dict[str, BoundMethod] = {
    "interval": Interval(),
    "crown": Crown(),
    "degree": Degree(),
    "degree-fast": Degree(slopes=("adaptive",), lines="shared", resolution=1, hubs=256, patterns=1),
    "degree-cheap": Degree(preactivations="interval", slopes=("adaptive",), lines="by-count", hubs=256, patterns=1),
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
    return found.limited(**given) if given else found


def _named(method: "str | BoundMethod") -> BoundMethod:
    if not isinstance(method, str):
        if not isinstance(method, BoundMethod):
            raise MethodError(
                f"method {shown(method)}",
                "a method is a name or an instance of certgcl.bounds.BoundMethod",
                f"Names are {', '.join(METHODS)}",
            )
        flag(method.certified, "certified", MethodError)
        return method
    known = METHODS | SEARCHES
    if method not in known:
        raise MethodError(f"method {shown(method)}", f"methods are {', '.join(known)}", "Pick one, or pass an instance")
    return known[method]


__all__ = [
    "METHODS",
    "SEARCHES",
    "BoundMethod",
    "BoundResult",
    "BranchAndBound",
    "ChangeProblem",
    "Crown",
    "Degree",
    "Interval",
    "Paper",
    "Released",
    "get_method",
]
