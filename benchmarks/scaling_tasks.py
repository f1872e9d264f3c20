"""The tasks of workers in ``benchmarks.workers_share_one_copy``, in a separate module that they can import."""

import os
import time
from typing import Any

import psutil
from torch import Tensor


def nothing(shared: Any, number: int) -> int:
    return os.getpid()


def memory(shared: Tensor, number: int) -> tuple[int, float]:
    """The process, and the memory in GB that no other process shares, after it has read all shared data."""
    shared.sum()
    time.sleep(3.0)  # so that every worker has a piece
    return os.getpid(), psutil.Process().memory_full_info().uss / 1e9
