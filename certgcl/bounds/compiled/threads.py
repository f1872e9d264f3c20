"""Kernels on as many threads as torch has."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import torch
from threadpoolctl import ThreadpoolController

WORTHWHILE = 1 << 20  # elements for each thread, below which waking it is not worth it


def share(kernel: Callable[..., None], elements: int, *arguments: Any) -> None:
    """Call ``kernel(part, parts, *arguments)`` for all parts, which are independent."""
    parts = max(1, min(torch.get_num_threads(), elements // WORTHWHILE))
    others = [_pool(parts - 1).submit(kernel, part, parts, *arguments) for part in range(1, parts)]
    kernel(0, parts, *arguments)
    for other in others:
        other.result()


def one_blas_thread() -> AbstractContextManager[Any]:
    """In this context, each matrix product of a kernel uses one thread: the kernels use the others."""
    return _controller().limit(limits=1, user_api="blas")


@cache
def _controller() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401  # numba's matrix products are SciPy's, which the controller must find loaded

    return ThreadpoolController()


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Reused: starting a thread takes as long as many a kernel."""
    return ThreadPoolExecutor(threads, thread_name_prefix="certgcl")


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork
