"""The bounds by kernels that numba compiles for the processor: the same formulas, several times as fast.

``kernels`` has the loops, each of them on flat arrays and with its gradient. ``flat_tables`` and ``anchor_chunks`` say
where rows, cases and pairs stand in those arrays; ``lines``, ``channels``, ``entries`` and ``minima`` make functions of
tensors of them, and ``degree`` and ``paper_formulas`` the steps of the bounds.

They are used for tensors on a CPU where numba is installed (``pip install "certgcl[fast]"``), and never needed: torch
does the same work without them, and on other devices. The first call on a machine takes up to a minute to compile
them; they are kept on disk then.
"""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch

_switched_off = False


@cache
def _installed() -> bool:
    return importlib.util.find_spec("numba") is not None


def usable(device: torch.device) -> bool:
    """Whether kernels can serve tensors there."""
    return device.type == "cpu" and not _switched_off and _installed()


@contextmanager
def switched_off() -> Iterator[None]:
    """Within it, torch does all the work."""
    global _switched_off
    before, _switched_off = _switched_off, True
    try:
        yield
    finally:
        _switched_off = before
