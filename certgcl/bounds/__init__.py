"""One file per method, all with one signature: see :class:`certgcl.bounds.problem.BoundMethod`."""

from certgcl.bounds.crown import Crown
from certgcl.bounds.degree import Degree
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


def get_method(method: "str | BoundMethod") -> BoundMethod:
    """The method of that name, or the instance itself."""
    if not isinstance(method, str):
        if callable(method) and hasattr(method, "certified") and not isinstance(method, type):
            return method
        raise MethodError(f"method {method!r}", "a method is a name or an instance from certgcl.bounds",
                          f"Names are {', '.join(METHODS)}")
    if method not in METHODS:
        raise MethodError(f"method {method!r}", f"methods are {', '.join(METHODS)}", "Pick one, or pass an instance")
    return METHODS[method]


__all__ = ["METHODS", "BoundMethod", "Crown", "Degree", "DropProblem", "Interval", "Paper", "Released", "get_method"]
