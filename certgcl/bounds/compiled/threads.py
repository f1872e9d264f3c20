"""Kernels on as many threads as torch has."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

WORTHWHILE = 1 << 17  # elements for each thread, below which starting it costs more


def share(kernel: Callable[..., None], elements: int, *arguments: Any) -> None:
    """Call ``kernel(part, parts, *arguments)`` for all parts, which do not get into each other's way."""
    parts = max(1, min(torch.get_num_threads(), elements // WORTHWHILE))
    if parts == 1:
        kernel(0, 1, *arguments)
        return
    with ThreadPoolExecutor(parts - 1) as pool:
        others = [pool.submit(kernel, part, parts, *arguments) for part in range(1, parts)]
        kernel(0, parts, *arguments)
        for other in others:
            other.result()
