"""Where the time of a call goes, by groups of torch's operators."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import measure

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
OTHER, OUTSIDE = "other operators", "outside operators (Python)"


def products_made(call: Callable[[], Any]) -> int:
    """Multiply-adds of all matrix products that a call makes; of a sparse matrix at its entries alone."""
    with FlopCounterMode(display=False, custom_mapping={torch.ops.aten.mm: _of_mm, torch.ops.aten.addmm: _of_addmm}
                         ) as counter:
        call()
    return counter.get_total_flops() // 2


def _of_mm(matrix: Tensor, other: Tensor, *_: Any, **__: Any) -> int:
    entries = matrix.numel() if matrix.layout == torch.strided else matrix.values().numel()
    return 2 * entries * other.shape[1]


def _of_addmm(_: Tensor, matrix: Tensor, other: Tensor, *__: Any, **___: Any) -> int:
    return _of_mm(matrix, other)


_of_mm._get_raw = _of_addmm._get_raw = True  # type: ignore[attr-defined]  # tensors, not their shapes


def self_times(call: Callable[[], Any]) -> tuple[dict[str, float], Counter[str]]:
    """Seconds in each group of operators, children left out; and the operators that no group names.

    What the wall clock has beyond their sum was spent outside of operators. Times are the calling thread's.
    """
    with profile(activities=[ProfilerActivity.CPU], acc_events=True) as profiler:
        _, wall = measure.timed(call)
    seconds, unnamed = dict.fromkeys([*GROUPS, OTHER], 0.0), Counter[str]()
    for event in profiler.key_averages():
        group = GROUP_OF.get(event.key.removeprefix("aten::").rstrip("_"), OTHER)
        seconds[group] += event.self_cpu_time_total / 1e6
        if group == OTHER:
            unnamed[event.key] += event.self_cpu_time_total / 1e6
    return seconds | {OUTSIDE: max(0.0, wall - sum(seconds.values()))}, unnamed
