"""ProGCL: negatives that are probably true positives count less."""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from certgcl import arguments
from certgcl.graphs.graph import Graph, GraphLike
from certgcl.learning.methods.centrality import Centrality
from certgcl.learning.methods.gca import GCA
from certgcl.learning.methods.infonce import info_nce, log_denominators
from certgcl.learning.methods.mixture import BetaMixture
from certgcl.learning.methods.session import ContrastiveSession, check_contrast
from certgcl.learning.training.processes import ALONE, Processes

PAIRS = 100  # sampled similarities a node, to which the mixture is fitted
HARDEST = 64  # negatives of a node that are mixed with each other
MOST_MIXED = 1 << 16  # combinations that a node may get


@dataclass(kw_only=True, eq=False)
class ProGCL(GCA):
    """Rethinking hard negative mining in graph contrastive learning (Xia et al. 2022), on the views of GCA.

    After some epochs with the plain loss, a mixture of two Beta distributions is fitted to ``u = (s + 1) / 2`` of the
    similarities s of sampled pairs. The hardness of a negative is ``P(low-similarity component | u) u``: similar, and
    still likely to be a true negative.

    Args:
        variant: ``weight`` multiplies the negatives by their hardness over its mean; ``mix`` adds convex combinations
            of the hardest ones.
        start: the share of the epochs with the plain loss.
        mixed: how many combinations a node gets (``mix``).
    """

    centrality: Centrality = "eigenvector"
    variant: Literal["weight", "mix"] = "weight"
    start: float = 0.4
    mixed: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.choice(self.variant, "variant", ("weight", "mix"))
        self.start = arguments.real(
            self.start,
            "start",
            lambda start: 0 <= start <= 1,
            "it is a share of the epochs, between 0 and 1",
            "Try 0.4",
        )
        self.mixed = arguments.whole(
            self.mixed, "mixed", 1, f"it is a number of negatives, from 1 to {MOST_MIXED}", "Try 32", most=MOST_MIXED
        )

    @property
    def plain_epochs(self) -> int:
        return round(self.start * self.epochs)

    def run_config(self, graph: Graph) -> dict[str, Any]:
        return super().run_config(graph) | {"plain_epochs": self.plain_epochs}

    def session(self, data: GraphLike, processes: Processes = ALONE) -> "ProGCLSession":
        return ProGCLSession(self, Graph.of(data), processes)

    def contrast(self, session: ContrastiveSession, z1: Tensor, z2: Tensor, epoch: int) -> Tensor:
        check_contrast(session, ProGCLSession, z1, z2, epoch)
        assert isinstance(session, ProGCLSession)
        p, q = (functional.normalize(session.projector(z)) for z in (z1, z2))
        if epoch < self.plain_epochs:
            return info_nce(p, q, self.temperature).mean()
        if session.mixture is None:
            sampled = sampled_similarities(p.detach(), q.detach(), session.generator)
            fitted = BetaMixture.fit((sampled + 1) / 2)
            session.mixture = BetaMixture.from_state_dict(session.processes.of_first(fitted.state_dict()))
        hardness = Hardness(session.mixture)
        if self.variant == "weight":
            return info_nce(p, q, self.temperature, weighting=hardness).mean()
        return mixed_info_nce(p, q, self.temperature, hardness, self.mixed, session.generator).mean()


class ProGCLSession(ContrastiveSession):
    """A training run that remembers its mixture."""

    mixture: BetaMixture | None = None

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"mixture": None if self.mixture is None else self.mixture.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.mixture = None if state["mixture"] is None else BetaMixture.from_state_dict(state["mixture"])


@dataclass(frozen=True)
class Hardness:
    """``P(low | u) u`` of similarities, without gradient."""

    mixture: BetaMixture

    @torch.no_grad()
    def __call__(self, similarity: Tensor) -> Tensor:
        u = (similarity + 1) / 2
        return self.mixture.posterior_low(u).mul_(u)


def sampled_similarities(p: Tensor, q: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Similarities of every node with ``PAIRS`` random others in the other view."""
    n = len(p)
    node = torch.arange(n, device=p.device)[:, None]
    other = (node + torch.randint(1, n, (n, PAIRS), device=p.device, generator=generator)) % n
    return torch.cat([(p[rows, None] * q[other[rows]]).sum(dim=2) for rows in node[:, 0].split(1024)])


def mixed_info_nce(
    p: Tensor, q: Tensor, temperature: float, hardness: Hardness, mixed: int, generator: torch.Generator | None = None
) -> Tensor:
    """InfoNCE whose denominators have ``mixed`` more negatives, combined from the hardest of the other view."""
    first, second = log_denominators(p, q, temperature)
    first = torch.logaddexp(first, _mixed_negatives(p, q, temperature, hardness, mixed, generator))
    second = torch.logaddexp(second, _mixed_negatives(q, p, temperature, hardness, mixed, generator))
    return (first + second) / 2 - (p * q).sum(dim=1) / temperature


def _mixed_negatives(
    p: Tensor, q: Tensor, temperature: float, hardness: Hardness, mixed: int, generator: torch.Generator | None = None
) -> Tensor:
    """``log Σ exp((α s_a + (1 - α) s_b) / τ)`` over random pairs a, b of a node's hardest, α by their hardness."""
    n = len(p)
    hardest = min(HARDEST, n - 1)
    sums = []
    for rows in torch.arange(n, device=p.device).split(1024):
        with torch.no_grad():
            hard = hardness(p[rows] @ q.T)
            hard[torch.arange(len(rows), device=p.device), rows] = -1.0
            value, index = hard.topk(hardest, dim=1)
            pick = torch.randint(hardest, (2, len(rows), mixed), device=p.device, generator=generator)
            value_a, value_b = value.gather(1, pick[0]), value.gather(1, pick[1])
            share = value_a / (value_a + value_b).clamp(min=1e-12)
        near = (p[rows, None] * q[index]).sum(dim=2)
        similarity = share * near.gather(1, pick[0]) + (1 - share) * near.gather(1, pick[1])
        sums.append(torch.logsumexp(similarity / temperature, dim=1))
    return torch.cat(sums)
