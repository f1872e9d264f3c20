"""Results that are the same to the last bit in every process, whatever else it computes.

The order of a sum decides its last digits. It depends on the number of rows of a matrix product, on which anchors are
bounded together (they come first in the rows of their neighbours), on the memory layout, on the number of threads, and
on the processor and the libraries. Here all of this is fixed or recorded: the anchors of a call are bounded together or
in parts that do not depend on any setting of the process, by one thread, from arrays of one layout; and
:func:`arithmetic` records the rest, so that results of a different arithmetic are recognised.
"""

import os
import platform
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import torch
from torch import Tensor

from certgcl.bounds import compiled

PART = 1 << 32  # largest estimated bytes of a part of the anchors
_CPU = Path("/proc/cpuinfo")
_FACTS = ("model name", "cpu family", "model", "stepping", "cache size")  # of it there
_VARIABLES = (
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
    "ATEN_CPU_CAPABILITY",
    "OPENBLAS_CORETYPE",
    "NUMBA_CPU_NAME",
    "NUMBA_CPU_FEATURES",
)


def packed(values: Tensor) -> Tensor:
    """The same in row-major order, in separate memory: the order in which products are summed depends on that. Zero has
    one sign."""
    return values.detach().clone(memory_format=torch.contiguous_format).add_(0.0)


def arithmetic() -> str:
    """Everything that determines the last digits of one thread."""
    kernels = "no kernels"
    if compiled.usable(torch.device("cpu")):
        kernels = f"numba {version('numba')}" + (" at every size" if compiled.setting() == "always" else "")
    subnormal = torch.tensor([1e-310], dtype=torch.float64)
    settings = [
        f"float32 products {torch.get_float32_matmul_precision()}",
        *([] if bool(subnormal + subnormal > 0) else ["subnormals are zero"]),
        *(f"{name}={os.environ[name]}" for name in _VARIABLES if os.environ.get(name)),
    ]
    return ", ".join(
        [
            f"one thread, parts of up to {PART >> 30} GB",
            f"torch {torch.__version__}",
            torch.backends.cpu.get_cpu_capability(),
            kernels,
            _processor(),
            *settings,
        ]
    )


def _processor() -> str:
    """The processor, in as much detail as libraries use to choose an order of summation."""
    with suppress(OSError, ValueError):
        first = _CPU.read_text().split("\n\n")[0]
        facts = {name.strip(): fact.strip() for name, _, fact in (line.partition(":") for line in first.splitlines())}
        named = [facts[name] for name in _FACTS if name in facts]
        if named:
            return f"{platform.machine()} {' / '.join(named)}"
    return f"{platform.machine()} {platform.processor()}".strip()
