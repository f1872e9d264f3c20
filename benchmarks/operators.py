"""The time of a call by compiled kernels and by groups of torch's operators."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from torch.profiler import ProfilerActivity, profile, record_function

from benchmarks import measure
from certgcl.bounds.compiled import threads

GROUPS = {
    "matrix products": "mm bmm addmm baddbmm mv addmv dot matmul linear einsum",
    "gathers": "index_select gather index index_put _index_put_impl index_add scatter scatter_add take "
    "repeat_interleave searchsorted bincount nonzero",
    "sorts": "topk sort argsort unique_consecutive _unique2 unique_dim",
    "reductions": "sum amin amax min max cumsum cummax _cummax_helper mean all any linalg_vector_norm",
    "copies": "copy cat clone contiguous fill zero stack constant_pad_nd",
    "elementwise": "mul add sub rsub div neg abs minimum maximum where clamp clamp_min clamp_max masked_fill pow "
    "square sqrt rsqrt reciprocal relu addcmul lerp eq ne lt le gt ge logical_and logical_or "
    "logical_not bitwise_and bitwise_or bitwise_not floor log2 isfinite",
}
"""Operators by name, those in place without their trailing underscore."""

GROUP_OF = {name: group for group, names in GROUPS.items() for name in names.split()}
KERNEL, OTHER, OUTSIDE = "kernels: ", "other operators", "outside of both (Python)"


def self_times(call: Callable[[], Any]) -> tuple[dict[str, float], Counter[str]]:
    """Seconds in each kernel and group of operators, children left out; and the operators that no group names.

    Wall-clock time beyond their sum was spent outside of operators. Times are the calling thread's.
    """
    with named_kernels(), profile(activities=[ProfilerActivity.CPU], acc_events=True) as profiler:
        _, wall = measure.timed(call)
    seconds, unnamed = dict.fromkeys([*GROUPS, OTHER], 0.0), Counter[str]()
    for event in profiler.key_averages():
        group = GROUP_OF.get(event.key.removeprefix("aten::").rstrip("_"), OTHER)
        group = event.key if event.key.startswith(KERNEL) else group
        seconds[group] = seconds.get(group, 0.0) + event.self_cpu_time_total / 1e6
        if group == OTHER:
            unnamed[event.key] += event.self_cpu_time_total / 1e6
    return seconds | {OUTSIDE: max(0.0, wall - sum(seconds.values()))}, unnamed


@contextmanager
def named_kernels() -> Iterator[None]:
    """In this context, the profiler sees kernels by the names of their modules."""

    def share(kernel: Callable[..., None], elements: int, *arguments: Any) -> None:
        with record_function(KERNEL + kernel.__module__.rpartition(".")[2].replace("_", " ")):
            threads.share(kernel, elements, *arguments)

    users = [
        module
        for name, module in sys.modules.items()
        if name.startswith("certgcl.bounds.compiled.") and module is not threads and hasattr(module, "share")
    ]
    with ExitStack() as patches:
        for module in users:
            patches.enter_context(patch.object(module, "share", share))
        yield
