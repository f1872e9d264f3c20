"""The objectives of a compactness regularizer, as functions of lower bounds and nominal values of ``w · z``.

``bound`` is the paper's: ``softplus(-lower)``, the binary cross-entropy of the bound against 1. A larger clean value
improves it as much as a smaller worst-case loss, and training mostly finds the former.

``kept`` separates the two: ``softplus(-nominal) + 1 - lower / nominal``. The first summand is clean compactness; the
second is the share of it that the worst case may take away, which neither scaling nor a larger clean value lowers. It
stays between 0 and 2, so that large budgets, whose bounds are far below zero, cannot make the embeddings collapse to
zero.
"""

from typing import Literal, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

Objective: TypeAlias = Literal["bound", "kept"]

LEAST_SHARE = 1e-3  # share of the mean norm: smaller nominal values are not used as denominators


def bound_loss(lower: Tensor, factor: Tensor | float) -> Tensor:
    """``mean softplus(-lower)``, of scores multiplied by a factor."""
    return functional.softplus(-lower * factor).mean()


def kept_loss(lower: Tensor, nominal: Tensor, norm: Tensor, factor: Tensor | float) -> Tensor:
    """``mean softplus(-nominal) + mean (1 - lower / nominal)``, the share between -1 and 1."""
    share = (lower / torch.maximum(nominal, LEAST_SHARE * norm)).clamp(-1, 1)
    return functional.softplus(-nominal * factor).mean() + (1 - share).mean()
