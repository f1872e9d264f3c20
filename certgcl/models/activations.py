"""The interface of activations, which lets any bound pass through them."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal, NamedTuple, get_args

from torch import Tensor

from certgcl.arguments import items, shown
from certgcl.errors import MethodError

SlopeRule = Literal["parallel", "adaptive", "flat"]


def check_slopes(rules: Sequence[str]) -> tuple[SlopeRule, ...]:
    """The slope rules as a tuple; an empty one and unknown rules raise an error."""
    known: tuple[SlopeRule, ...] = get_args(SlopeRule)
    rule, remedy = f"it is a tuple of rules, which are {', '.join(known)}", "Name one or more"
    given = items(rules, "slopes", rule, remedy, error=MethodError)
    if not given or not all(isinstance(each, str) and each in known for each in given):
        raise MethodError(f"slopes={shown(rules)}", rule, remedy)
    return given


class Lines(NamedTuple):
    """Two lines around an activation: ``a_lo p + c_lo <= σ(p) <= a_up p + c_up`` wherever ``l <= p <= u``."""

    lower_slope: Tensor
    lower_intercept: Tensor
    upper_slope: Tensor
    upper_intercept: Tensor


class Activation(ABC):
    """An elementwise function σ, with one parameter, or one for each channel (the last axis)."""

    name: ClassVar[str]

    @abstractmethod
    def __call__(self, p: Tensor) -> Tensor: ...

    @abstractmethod
    def interval(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        """The range of σ on ``[l, u]``."""

    @abstractmethod
    def lines(self, lower: Tensor, upper: Tensor, rule: SlopeRule) -> Lines:
        """Lines around σ on ``[l, u]``; the rule chooses among slopes, each of which is sound."""

    @abstractmethod
    def gain(self) -> "Tensor | float":
        """At least ``|σ(p) - σ(q)| / |p - q|`` for all p and q: one number, or one for each channel."""

    @abstractmethod
    def at_zero(self) -> float:
        """At least ``|σ(0)|``."""

    @property
    def jump(self) -> float:
        """The largest jump of σ: ``|σ(p) - σ(q)| <= gain |p - q| + jump``."""
        return 0.0

    @property
    def linear(self) -> bool:
        """Whether σ is the identity, so that its lines are exact and no range matters."""
        return False

    def settings(self) -> dict[str, float]:
        """The arguments of its constructor other than tensors, for files."""
        return {}

    def tensors(self) -> dict[str, Tensor]:
        """Its tensors with one value per channel, by the names of its constructor's arguments."""
        return {}

    def with_tensors(self, tensors: dict[str, Tensor]) -> "Activation":
        """The same with other values of these."""
        return type(self)(**self.settings(), **tensors)
