"""Blocks of work that are recomputed for their gradients, instead of keeping all intermediate results."""

from collections.abc import Callable, Hashable
from contextvars import copy_context
from typing import TypeVar

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from certgcl.bounds.propagation import limits

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")


def recomputed(work: Callable[[], Result], elements: int) -> Result:
    """The result of ``work``. Whatever else a gradient needs is recomputed, one block at a time, if all blocks together
    have more elements than memory should hold.

    It is recomputed by the same path: whether kernels are used is part of the context.
    """
    if not torch.is_grad_enabled() or elements <= limits.MAX_STORED:
        return work()
    return checkpoint(copy_context().run, work, use_reentrant=False, preserve_rng_state=False, determinism_check="none")


def once(cache: dict[Key, Result], key: Key, make: Callable[[], Result]) -> Result:
    """The value of a cache, computed when it is first needed.

    What its gradient needs is stored even if a recomputed block is the first to need it. Otherwise that block would
    store it the first time and, finding the value in the cache, not the second time, and torch rejects a block that
    stores less than before.
    """
    if key not in cache:
        with saved_tensors_hooks(_as_it_is, _as_it_is):
            cache[key] = make()
    return cache[key]


def _as_it_is(tensor: Tensor) -> Tensor:
    return tensor
