"""Work on independent rows, some of them at a time."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

MAX_ELEMENTS = 1 << 17  # of the widest tensor in the work, so that intermediate results stay in the cache

Work = Callable[..., tuple[Tensor, ...]]


def rowwise(work: Work, rows: Sequence[Tensor], shared: Sequence[Tensor], width: int) -> tuple[Tensor, ...]:
    """``work(*rows, *shared)``, whose results have as many rows. If no gradient needs the intermediate results, some
    rows are done at a time.

    Args:
        rows: tensors with as many rows each.
        shared: other tensors.
        width: about how many elements each row has at most.
    """
    step = max(1, MAX_ELEMENTS // width)
    if (
        len(rows[0]) <= step
        or rows[0].device.type != "cpu"
        or (torch.is_grad_enabled() and any(value.requires_grad for value in (*rows, *shared)))
    ):
        return work(*rows, *shared)
    found: tuple[Tensor, ...] = ()
    for start in range(0, len(rows[0]), step):
        part = work(*(value[start : start + step] for value in rows), *shared)
        found = found or tuple(result.new_empty(len(rows[0]), *result.shape[1:]) for result in part)
        for whole, result in zip(found, part, strict=True):
            whole[start : start + step] = result
    return found
