"""The bounds by kernels that numba compiles for the processor: the same formulas, several times as fast.

``kernels`` has the loops, each on flat arrays and with its gradient. ``flat_tables`` and ``anchor_chunks`` hold the
positions of rows, cases and pairs in those arrays; ``lines``, ``channels``, ``entries`` and ``minima`` wrap them as
functions of tensors, and ``degree`` and ``paper_formulas`` as the steps of the bounds.

They are used for tensors on a CPU if numba is installed (``pip install "certgcl[fast]"``) and are never required: torch
does the same work without them, and on other devices. The first call on a machine compiles them, which takes up to a
minute; after that they are cached on disk. For small graphs (:func:`for_work`) nothing is compiled.
"""

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

import torch

from certgcl.errors import InputError

SETTING = "CERTGCL_KERNELS"
SETTINGS = ("auto", "always", "never")
WORTHWHILE = 1 << 21  # edges times channels: with fewer, torch takes about a second, and compiling takes ten

_wanted: ContextVar[bool | None] = ContextVar("kernels wanted", default=None)


@cache
def _installed() -> bool:
    return importlib.util.find_spec("numba") is not None


def setting() -> str:
    """When kernels are used, by the environment variable ``CERTGCL_KERNELS``: ``auto`` unless it says otherwise."""
    found = os.environ.get(SETTING) or "auto"
    if found not in SETTINGS:
        raise InputError(f"{SETTING}={found!r} in the environment", f"it is one of {', '.join(SETTINGS)}", "Unset it")
    return found


def usable(device: torch.device) -> bool:
    """Whether kernels can be used for tensors there."""
    return device.type == "cpu" and _wanted.get() is not False and setting() != "never" and _installed()


@contextmanager
def for_work(values: int) -> Iterator[bool]:
    """In this context, kernels are used only if a bound of this size is worth their compilation. Yields True if it is
    not, because the work is small. An outer choice takes precedence, so that all parts of one question take the same
    path.

    Args:
        values: the directed edges of the graph times the channels of all layers.
    """
    if setting() == "always" or _wanted.get() is not None:
        yield False
        return
    with _chosen(values >= WORTHWHILE):
        yield values < WORTHWHILE


@contextmanager
def switched_off() -> Iterator[None]:
    """In this context, torch does all the work."""
    with _chosen(False):
        yield


@contextmanager
def _chosen(kernels: bool) -> Iterator[None]:
    before = _wanted.set(kernels)
    try:
        yield
    finally:
        _wanted.reset(before)
