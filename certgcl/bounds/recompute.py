"""Blocks of work that are computed again for their gradients, instead of holding on to all they computed."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch.utils.checkpoint import checkpoint

Result = TypeVar("Result")


def recomputed(work: Callable[[], Result]) -> Result:
    """The result of ``work``; what a gradient needs of it beyond that is computed anew, one block at a time."""
    if not torch.is_grad_enabled():
        return work()
    return checkpoint(work, use_reentrant=False, preserve_rng_state=False, determinism_check="none")
