"""Numbers in words, the same wherever they are printed."""

from torch import Tensor


def percent(share: float) -> str:
    """One decimal, and never 100.0 % or 0.0 % for a share that only nearly is."""
    if 0 < share < 0.0005:
        return "< 0.1 %"
    if 0.9995 <= share < 1:
        return "> 99.9 %"
    return f"{100 * share:.1f} %"


def spread(counts: Tensor) -> str:
    """The range of integers in words."""
    low, high = int(counts.min()), int(counts.max())
    return f"{low}" if low == high else f"{low} … {high} (mean {float(counts.double().mean()):.2f})"
