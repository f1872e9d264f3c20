"""COSTA: contrast random projections of the nodes, not the nodes."""

from dataclasses import dataclass

import torch
from torch import Tensor

from certgcl import arguments
from certgcl.learning.methods.base import ContrastiveMethod
from certgcl.learning.methods.infonce import info_nce
from certgcl.learning.methods.session import ContrastiveSession, check_contrast


@dataclass(kw_only=True, eq=False)
class COSTA(ContrastiveMethod):
    """Covariance-preserving feature augmentation (Zhang et al. 2022), with two views.

    ``Z' = P Z`` with ``P = randn(k, N) / sqrt(k)``, the same for both views and new at every step, keeps
    ``ZᵀZ`` in expectation. Rows of Z' are contrasted only with those of the other view.

    Rows of P have random sums. Where the embeddings share a large mean μ, row r of Z' is nearly ``(Σ_j P_rj) μ`` in
    both views: its sum distinguishes it from the other rows, so the loss falls while all nodes become alike. Centred
    rows remove the mean, and what is preserved is the covariance.

    Args:
        ratio: ``k / N``.
        centred: subtract its mean from every row of P; False is COSTA as published.
    """

    weight_decay: float = 0.0
    ratio: float = 0.5
    centred: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.ratio = arguments.real(
            self.ratio,
            "ratio",
            lambda ratio: 0 < ratio <= 1,
            "it is a share of the nodes, above 0 and at most 1",
            "Try 0.5",
        )
        self.centred = arguments.flag(self.centred, "centred")

    def contrast(self, session: ContrastiveSession, z1: Tensor, z2: Tensor, epoch: int) -> Tensor:
        check_contrast(session, ContrastiveSession, z1, z2, epoch)
        rows = max(2, round(self.ratio * len(z1)))
        mixing = torch.randn(rows, len(z1), dtype=z1.dtype, device=z1.device, generator=session.generator) / rows**0.5
        if self.centred:
            mixing = mixing - mixing.mean(dim=1, keepdim=True)
        p, q = (session.projector(mixing @ z) for z in (z1, z2))
        return info_nce(p, q, self.temperature, intra=False).mean()
