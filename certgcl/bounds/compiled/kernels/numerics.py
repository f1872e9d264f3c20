"""How kernels are compiled, and the larger and smaller of two numbers as processors have them."""

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

# Numba takes settings from a file in the current folder too, and unpickles what it finds where they say that compiled
# code is kept. What the environment says comes before the file: here, numba's defaults.
for _setting in ("NUMBA_CACHE_DIR", "NUMBA_CACHE_LOCATOR_CLASSES"):
    os.environ.setdefault(_setting, "")

import numba  # noqa: E402
from numba.core import config  # noqa: E402
from numba.extending import intrinsic  # noqa: E402

config.reload_config()  # type: ignore[no-untyped-call]  # if it was imported before

Array = np.ndarray[Any, Any]
Kernel = TypeVar("Kernel", bound=Callable[..., Any])

LANES = 64  # columns treated at a time: a few vector registers each, so that what is done to them stays in the cache


def forget_stale(folder: Path) -> None:
    """Remove what numba kept of kernels before any of their files was changed. Numba looks at a kernel's own file
    alone, and parts of it may come from the others."""
    with suppress(OSError):  # a folder that cannot be written to holds nothing that this process could have kept
        changed = max(file.stat().st_mtime for file in folder.glob("*.py"))
        for kept in (folder / "__pycache__").glob("*.nbi"):
            if kept.stat().st_mtime < changed:
                kept.unlink(missing_ok=True)


forget_stale(Path(__file__).parent)


def compiled(kernel: Kernel) -> Kernel:
    """Compiled when first called, and kept on disk. Products may be fused with sums; NaN and infinity stay what they
    are, so that they reach the certificate and are refused there."""
    return _made(kernel, {"contract", "nsz"})


def compiled_sums(kernel: Kernel) -> Kernel:
    """The same for sums that may be taken in any order."""
    return _made(kernel, {"contract", "nsz", "reassoc"})


def _made(kernel: Kernel, freedoms: set[str]) -> Kernel:
    make = partial(numba.njit, nogil=True, fastmath=freedoms, error_model="numpy")
    try:
        return cast(Kernel, make(cache=True)(kernel))
    except RuntimeError:  # no folder to keep it in can be written to: it is compiled anew in every process
        return cast(Kernel, make()(kernel))


def inlined(function: Kernel) -> Kernel:
    """A part of kernels. As a call of its own it would cost more than what it does."""
    return cast(Kernel, numba.njit(inline="always")(function))


def _of_two(relation: str) -> Any:
    # Python's max and min become stores under a mask, which take five times as long; LLVM's own look for NaN.
    @intrinsic
    def operation(typing_context: Any, one: Any, other: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.select(builder.fcmp_ordered(relation, *arguments), *arguments)

        return one(one, one), generate

    return operation


larger = _of_two(">")
smaller = _of_two("<")
"""Of a number and NaN, the second."""
