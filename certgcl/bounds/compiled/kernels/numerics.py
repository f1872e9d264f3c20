"""How kernels are compiled, and the maximum and minimum of two numbers as processor instructions."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

# Numba also reads settings from a file in the current folder, and unpickles whatever is in the cache folder that they
# name. The environment takes precedence over that file, so it is set here, to numba's defaults.
for _setting in ("NUMBA_CACHE_DIR", "NUMBA_CACHE_LOCATOR_CLASSES"):
    os.environ.setdefault(_setting, "")

import numba  # noqa: E402
from numba.core import config, event  # noqa: E402
from numba.extending import intrinsic  # noqa: E402

from certgcl.runtime.compilation import COMPILATION  # noqa: E402

config.reload_config()  # type: ignore[no-untyped-call]  # if it was imported before


class _Listener(event.Listener):  # of every compilation; reading from disk does not count as one
    def on_start(self, event: Any) -> None:
        COMPILATION.started()

    def on_end(self, event: Any) -> None:
        COMPILATION.finished()


event.register("numba:compile", _Listener())  # type: ignore[no-untyped-call]

Array = np.ndarray[Any, Any]
Kernel = TypeVar("Kernel", bound=Callable[..., Any])

LANES = 64  # columns treated at a time: a few vector registers each, so that the work on them stays in the cache


def source_stamp(folder: Path) -> tuple[float, int]:
    """The time of the latest change of any kernel's file, and the size of all of them."""
    states = [file.stat() for file in folder.glob("*.py")]
    return max(state.st_mtime for state in states), sum(state.st_size for state in states)


STAMP = source_stamp(Path(__file__).parent)


def compiled(kernel: Kernel) -> Kernel:
    """Compiled on first call, and cached on disk. Products may be fused with sums; NaN and infinity are preserved, so
    that they reach the certificate and are refused there."""
    return _made(kernel, {"contract", "nsz"})


def compiled_sums(kernel: Kernel) -> Kernel:
    """The same for sums that may be taken in any order."""
    return _made(kernel, {"contract", "nsz", "reassoc"})


def _made(kernel: Kernel, freedoms: set[str]) -> Kernel:
    make = partial(numba.njit, nogil=True, fastmath=freedoms, error_model="numpy")
    try:
        made: Any = make(cache=True)(kernel)
        # Numba takes its cache to be current as long as the kernel's own file is unchanged, although parts of a kernel
        # may come from other files. It compares time stamps only after unpickling, which fails if a type was renamed
        # since; versions it compares before.
        file = made._cache._cache_file
        file._source_stamp, file._version = STAMP, f"{numba.__version__} {STAMP}"
    except (RuntimeError, AttributeError):  # no folder that can be written to, or another numba: compiled every time
        made = make()(kernel)
    return cast(Kernel, made)


def inlined(function: Kernel) -> Kernel:
    """A part of kernels, inlined: a call would cost more than the work it does."""
    return cast(Kernel, numba.njit(inline="always")(function))


def _of_two(relation: str) -> Any:
    # Python's max and min become masked stores, which take five times as long; LLVM's own check for NaN.
    @intrinsic
    def operation(typing_context: Any, one: Any, other: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.select(builder.fcmp_ordered(relation, *arguments), *arguments)

        return one(one, one), generate

    return operation


larger = _of_two(">")
smaller = _of_two("<")
"""The minimum or maximum; of a number and NaN, the second argument."""
