"""Blocks of work that are computed again for their gradients, instead of holding on to all they computed."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch.utils.checkpoint import checkpoint

from certgcl.bounds.propagation import limits

Result = TypeVar("Result")


def recomputed(work: Callable[[], Result], elements: int) -> Result:
    """The result of ``work``. What a gradient needs of it beyond that is computed anew, one block at a time, if all
    blocks together have so many elements that they would fill the memory."""
    if not torch.is_grad_enabled() or elements <= limits.MAX_STORED:
        return work()
    return checkpoint(work, use_reentrant=False, preserve_rng_state=False, determinism_check="none")
