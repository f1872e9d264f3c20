"""Private random numbers: no shared generator of torch, numpy or Python is read or advanced.

Layers initialise their weights from torch's global generator and accept no other. :class:`PrivateRandomness`
redirects that, in its own thread only, so that parallel training runs do not share random numbers.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional, init
from torch.overrides import TorchFunctionMode

# Functions that take generator=. The functions of torch.nn.init are handled as a whole, because modes do not see what
# they call.
_DRAWING: frozenset[Callable[..., Any]] = frozenset(
    {
        Tensor.uniform_,
        Tensor.normal_,
        Tensor.bernoulli_,
        Tensor.random_,
        torch.rand,
        torch.randn,
        torch.randint,
        torch.randperm,
        torch.bernoulli,
        torch.multinomial,
        torch.normal,
        init.uniform_,
        init.normal_,
        init.trunc_normal_,
        init.xavier_uniform_,
        init.xavier_normal_,
        init.kaiming_uniform_,
        init.kaiming_normal_,
        init.orthogonal_,
    }
)


def generator_on(device: torch.device | str, seed: int) -> torch.Generator:
    """A generator in the state of the global one after ``torch.manual_seed(seed)``."""
    return torch.Generator(device).manual_seed(seed)


class PrivateRandomness(TorchFunctionMode):
    """In this context, everything that this thread draws comes from ``generator``: weights of new layers, and
    dropout."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self._generator = generator

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if function is functional.dropout:
            return _dropout(self._generator, *args, **kwargs)
        if function in _DRAWING and kwargs.get("generator") is None:
            kwargs = kwargs | {"generator": self._generator}
        return function(*args, **kwargs)


def _dropout(
    generator: torch.Generator, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """``torch.nn.functional.dropout`` with a given generator, and the same factors that it would draw itself."""
    if not training or p == 0:
        return input
    factor = torch.empty_like(input, requires_grad=False).bernoulli_(1 - p, generator=generator).div_(1 - p)
    return input.mul_(factor) if inplace else input * factor
