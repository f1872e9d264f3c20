"""How the benchmarks measure: side by side in one run, and memory in a fresh process."""

import contextlib
import multiprocessing
import platform
import resource
import statistics
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import numpy as np
import torch

GB = 1024**3


def interleaved(
    calls: Mapping[str, Callable[[], object]], repeats: int, warmups: int = 1, settle: int = 0
) -> dict[str, list[float]]:
    """Seconds of each call. Every repeat makes all of them in turn, so that a slow moment affects all of them equally.

    Args:
        settle: calls before each timed one, so that each starts with its own state of the caches and the heap.
    """
    for _ in range(warmups):
        for call in calls.values():
            call()
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            for _ in range(settle):
                call()
            seconds[name].append(timed(call)[1])
    return seconds


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = call()
    return result, time.perf_counter() - start


def cost(call: Callable[[], Any], repeats: int = 1, patience: float = 30.0) -> tuple[Any, dict[str, float]]:
    """What a call returns, and its cost: median seconds (no new run once ``patience`` seconds are spent), the peak
    memory of the process in the first run, and how much of that the call added."""
    before = _reset_peak_memory()
    result, seconds = timed(call)
    peak, runs = _memory("VmHWM"), [seconds]
    while len(runs) < repeats and sum(runs) < patience:
        runs.append(timed(call)[1])
    return result, {"seconds": statistics.median(runs), "runs": len(runs), "peak_gb": peak, "added_gb": peak - before}


def growth(sizes: list[float], seconds: list[float]) -> float | None:
    """The exponent p of ``seconds ~ sizes^p``, by least squares in the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0]) if len(sizes) > 1 else None


# -- memory and processes --------------------------------------------------------------------------


def in_fresh_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """``function(*arguments)`` in a new process with the same number of threads; MemoryError if memory does not
    suffice."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            return pool.submit(_worker, torch.get_num_threads(), function, arguments).result()
        except BrokenProcessPool as error:
            raise MemoryError("the process was killed") from error
        except RuntimeError as error:
            if "allocate memory" not in str(error):
                raise
            raise MemoryError(str(error)) from error


def _worker(threads: int, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    torch.set_num_threads(threads)
    available = proc("/proc/meminfo", "MemAvailable")
    if available is not None:  # so that too large an allocation fails here, before the machine runs out of memory
        resource.setrlimit(resource.RLIMIT_DATA, (int(available) * 1024,) * 2)
    return function(*arguments)


def _memory(kind: str) -> float:
    """``VmHWM``, the peak, or ``VmRSS``, the memory held now, in GB.

    Not ``ru_maxrss``, unless there is nothing else: a new process starts with its parent's.
    """
    found = proc("/proc/self/status", kind)
    if found is not None:
        return int(found) * 1024 / GB
    unit = 1 if platform.system() == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / GB


def _reset_peak_memory() -> float:
    """Reset the peak to the memory held now, and return it."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _memory("VmRSS")


def proc(file: str, key: str) -> str | None:
    """A value of one of the system's own files, where there are such."""
    try:
        lines = Path(file).read_text().splitlines()
    except OSError:
        return None
    return next((line.split(":")[1].removesuffix("kB").strip() for line in lines if line.startswith(key)), None)
