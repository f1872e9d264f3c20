"""Matrices in pieces, for those that are on disk and should not be in memory as a whole."""

from collections.abc import Iterator

from torch import Tensor

MAX_ELEMENTS = 1 << 24  # of one piece: 128 MB in float64


def row_ranges(rows: int, width: int) -> Iterator[slice]:
    """Consecutive ranges of rows with at most ``MAX_ELEMENTS`` at ``width`` each, or one row; at least one."""
    step = max(1, MAX_ELEMENTS // max(1, width))
    for start in range(0, max(1, rows), step):
        yield slice(start, min(start + step, rows))


def row_chunks(values: Tensor) -> Iterator[Tensor]:
    """A dense tensor in pieces along its first dimension, which are views of it."""
    for part in row_ranges(values.shape[0], values[:1].numel()):
        yield values[part]
