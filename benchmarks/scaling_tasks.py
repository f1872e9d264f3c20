"""The tasks of workers in ``benchmarks.workers_share_one_copy``, in a separate module that they can import."""

import os
import time
from typing import Any

import psutil
from torch import Tensor


def nothing(shared: Any, number: int) -> int:
    return os.getpid()


def memory(shared: Tensor, number: int) -> tuple[int, float, float]:
    """The process, and its memory in GB after it has read all shared data: its own, and its part of the total."""
    shared.sum()
    time.sleep(3.0)  # so that every worker has a piece
    held = psutil.Process().memory_full_info()
    return os.getpid(), held.uss / 1e9, held.pss / 1e9
