"""The last check of numbers before they are returned as bounds."""

import torch
from torch import Tensor

from certgcl.errors import BoundError


def check_finite(anchors: Tensor, *values: Tensor) -> None:
    """Raise ``BoundError`` at the first anchor where any of the values, ``(A,)`` or ``(A, C)``, is not finite."""
    finite = torch.stack(
        [torch.isfinite(each).flatten(1).all(dim=1) if each.dim() > 1 else torch.isfinite(each) for each in values]
    ).all(dim=0)
    if not bool(finite.all()):
        raise BoundError(
            f"a non-finite value at node {int(anchors[~finite][0])}",
            "bounds must be finite",
            "Check for weights or features so large that they overflow; float64 has a larger range",
        )
