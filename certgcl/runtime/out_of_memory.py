"""One error for running out of memory, which names the limit in force and the way out.

Torch, numpy, numba, Python and the system each have their own error for it; torch's on a CPU is a plain
``RuntimeError``. The public functions translate it, so that the code in between need not handle it.
"""

import errno
import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch

from certgcl.errors import CertgclError, OutOfMemoryError
from certgcl.runtime.free_memory import free_memory, gigabytes

SMALLER_PARTS = (
    "Pass a smaller memory_limit= (--memory-limit), which bounds nodes in smaller parts, or fewer nodes=; "
    "certify_shards keeps what is finished, method='degree-cheap' and dtype=torch.float32 take less"
)
LESS_AT_A_TIME = "Train with a smaller batch=, fewer anchors= of the regularizer, or a smaller hidden="
SMALLER = "Free memory, or take a smaller graph"

_SIGNS = re.compile(
    r"can't allocate memory|cannot allocate memory|not enough memory: you tried to allocate|"
    r"out of memory|std::bad_alloc|_STATUS_ALLOC_FAILED|failed to map segment",
    re.IGNORECASE,
)

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out; certgcl's own errors are passed on."""
    if isinstance(error, CertgclError):
        return False
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, (RuntimeError, ImportError)) and _SIGNS.search(str(error)) is not None


@contextmanager
def out_of_memory(what: str, remedy: str = SMALLER_PARTS, memory_limit: Any = None) -> Iterator[None]:
    """In this context, running out of memory raises :class:`OutOfMemoryError`; every other error is passed on.

    The memory held by the calls in between is freed, so that it is available for another try.
    """
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        traceback.clear_frames(error.__traceback__)
        raise OutOfMemoryError(
            f"{what} without enough memory ({_reason(error)})", _limit(memory_limit), remedy
        ) from error


def told_when_out_of_memory(
    remedy: str = SMALLER_PARTS,
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """The same as a decorator of a function, with its name and its ``memory_limit``."""

    def around(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        @wraps(function)
        def told(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
            with out_of_memory(function.__name__, remedy, kwargs.get("memory_limit")):
                return function(*args, **kwargs)

        return told

    return around


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return re.sub(r"^\[enforce fail at [^\]]*\] *\.? *", "", lines[0]).rstrip(". ")


def _limit(memory_limit: Any) -> str:
    free = free_memory()
    asked = "" if memory_limit is None else f", and memory_limit={memory_limit!r} is no more than an estimate"
    return f"it must fit into {free.limit}, {gigabytes(free.bytes)} of which are free without it{asked}"
