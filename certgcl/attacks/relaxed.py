"""Gradients on relaxed edge masks, then rounding.

Every droppable edge has a share ``x_e`` in [0, 1] that is dropped, and numbers of neighbours are sums of what is left:
``w · z`` is then a smooth function on the polytope ``Σ_{e ∋ i} x_e <= q_i``, ``Σ x_e <= Q``, whose integer points are
the admissible drops.
"""

import torch
from torch import Tensor

from certgcl.attacks.batch import FieldBatch
from certgcl.attacks.changes import filled

THRESHOLDS = (0.75, 0.5, 0.25, 0.05)  # of the shares that are dropped as a whole


def by_relaxation(batch: FieldBatch, start: Tensor, steps: int) -> Tensor:
    """Admissible drops with a low ``w · z``, from others, ``(B, E)`` to ``(B, E)``.

    Conditional gradients (Frank and Wolfe): the gradient at x says which admissible drops look best, and x moves
    towards them in ever smaller steps. No projection is needed, as x is always a mean of admissible drops. The result
    is the best of these drops and of x rounded at the end.
    """
    fast, shares = batch.single(), start.float()
    best, lowest = start, fast.values(shares)

    def offer(drops: Tensor) -> None:
        nonlocal best, lowest
        values = fast.values(drops)
        better = values < lowest
        best, lowest = torch.where(better[:, None], drops, best), torch.where(better, values, lowest)

    for step in range(steps):
        _, slopes = fast.slopes(shares)
        corner = filled(batch, torch.zeros_like(start), slopes, slopes < 0)
        offer(corner)
        # 2 / (t + 2), the usual steps; if the drops are known to be good, the first step does not go all the way.
        shares += 2 / (step + 2 + start.any(dim=1, keepdim=True)) * (corner.float() - shares)
    for threshold in THRESHOLDS:
        offer(filled(batch, torch.zeros_like(start), -shares, shares > threshold))
    return best
