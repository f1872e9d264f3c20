"""Memory for the tables of kernels."""

import math

import numpy as np
import torch
from torch import Tensor


class Workspace:
    """Tables by name. If no gradient needs the contents of a table, the next one of that name overwrites it: allocating
    memory takes longer than filling it."""

    def __init__(self) -> None:
        self._held: dict[str, Tensor] = {}

    def __call__(self, name: str, like: Tensor, *shape: int) -> Tensor:
        """An uninitialised table."""
        if torch.is_grad_enabled():
            return like.new_empty(shape)
        held, size = self._held.get(name), math.prod(shape)
        if held is None or held.numel() < size:
            self._held[name] = held = fresh(like, size)
        return held[:size].view(shape)

    def clear(self) -> None:
        """Free all of it."""
        self._held.clear()


def fresh(like: Tensor, *shape: int) -> Tensor:
    """Allocated by numpy, which uses huge pages; torch does not."""
    return torch.from_numpy(np.empty(shape, like.new_empty(0).numpy().dtype))
