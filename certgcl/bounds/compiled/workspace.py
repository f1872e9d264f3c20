"""Memory for the tables of kernels."""

import math

import numpy as np
import torch
from torch import Tensor


class Workspace:
    """Tables by their names. Where no gradient needs what a table held, the next one of that name is written over it:
    fresh memory takes longer to get than to fill."""

    def __init__(self) -> None:
        self._held: dict[str, Tensor] = {}

    def __call__(self, name: str, like: Tensor, *shape: int) -> Tensor:
        """A table with anything in it."""
        if torch.is_grad_enabled():
            return like.new_empty(shape)
        held, size = self._held.get(name), math.prod(shape)
        if held is None or held.numel() < size:
            self._held[name] = held = fresh(like, size)
        return held[:size].view(shape)

    def clear(self) -> None:
        """Give all of it back."""
        self._held.clear()


def fresh(like: Tensor, *shape: int) -> Tensor:
    """Of numpy's memory: it comes in huge pages, where torch's does not."""
    return torch.from_numpy(np.empty(shape, like.new_empty(0).numpy().dtype))
