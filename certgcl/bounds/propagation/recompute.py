"""Blocks of work that are recomputed for their gradients, instead of keeping all intermediate results."""

from collections.abc import Callable
from contextvars import copy_context
from typing import TypeVar

import torch
from torch.utils.checkpoint import checkpoint

from certgcl.bounds.propagation import limits

Result = TypeVar("Result")


def recomputed(work: Callable[[], Result], elements: int) -> Result:
    """The result of ``work``. Whatever else a gradient needs is recomputed, one block at a time, if all blocks together
    have more elements than memory should hold.

    It is recomputed by the same path: whether kernels are used is part of the context.
    """
    if not torch.is_grad_enabled() or elements <= limits.MAX_STORED:
        return work()
    return checkpoint(copy_context().run, work, use_reentrant=False, preserve_rng_state=False, determinism_check="none")
