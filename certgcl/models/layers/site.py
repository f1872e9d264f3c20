"""A call of a module while a model is read, with what its reader may need."""

from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor, nn

from certgcl.errors import EncoderError
from certgcl.models.layers.formula import Combination, NodeValues, Position, Summand
from certgcl.models.layers.lookup import is_a
from certgcl.models.layers.modules import check_call, check_unshadowed, held, parameter


class ReadingRun(Protocol):
    """The run that a call belongs to."""

    def own(self, tensor: Tensor, name: str) -> Tensor:
        """A tensor of the model itself, which must be in the model's single precision."""

    def values(self, called: Any, source: NodeValues, place: Position) -> NodeValues:
        """The output of another part of the model for given values."""


@dataclass(frozen=True, eq=False)
class CallSite:
    """One call of a module.

    Args:
        module: the module.
        name: its name for users.
        place: the place of the call.
        run: the run it belongs to.
    """

    module: nn.Module
    name: str
    place: Position
    run: ReadingRun

    def setting(self, name: str) -> Any:
        return held(self.module, name)

    def parameter(self, name: str) -> Tensor:
        return self.run.own(parameter(self.module, name, self.name), f"{self.name}.{name}")

    def optional(self, name: str) -> Tensor | None:
        """A parameter that may be left out, such as a bias."""
        return None if held(self.module, name) is None else self.parameter(name)

    def part(self, name: str, *kinds: type[nn.Module]) -> "CallSite":
        """A module inside this one, which must be of exactly one of the types and do what its class says."""
        inner = CallSite(
            check_type(held(self.module, name), f"{self.name}.{name}", *kinds),
            f"{self.name}.{name}",
            self.place,
            self.run,
        )
        check_call(inner.module, inner.name)
        check_unshadowed(inner.module, inner.name)
        return inner

    def combined(self, parts: list[Summand], width: int, bias: Tensor | None = None) -> Combination:
        return Combination(width, self.name, tuple(parts), bias, self.place)


def check_type(module: Any, name: str, *kinds: type[nn.Module]) -> nn.Module:
    """The module, if its type is exactly one of these: subclasses and parametrizations do not count."""
    if not is_a(module, *kinds):
        expected = " or ".join(kind.__name__ for kind in kinds)
        raise EncoderError(
            f"{name} of type {type(module).__name__}",
            f"it must be {expected} itself, without parametrizations",
            "Build the layer with its defaults",
        )
    found: nn.Module = module
    return found
