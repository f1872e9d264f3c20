"""How a layer mixes a node with its neighbours: by three scales, each a function of a node's number of neighbours.

    own(n_i) v_i  +  out(n_i) Σ_{present j} in(n_j) v_j

All scales are at least zero, and monotone for ``n >= 1``; division by zero gives zero, as in PyG: a node without
neighbours has nothing to average. A new way to mix is a new class here, with its name in ``AGGREGATIONS``.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from certgcl.arguments import real
from certgcl.errors import EncoderError


@dataclass(frozen=True)
class Aggregation(ABC):
    """``own``, ``out`` and ``into`` take numbers of neighbours as a floating-point tensor, and give scales in its
    dtype and shape."""

    name: ClassVar[str]
    mixes: ClassVar[bool] = True  # whether neighbours enter at all
    counts_at_neighbours: ClassVar[bool] = False  # whether ``into`` depends on the neighbour's own number of neighbours
    weight_first: ClassVar[bool] = False  # whether the models it represents multiply by W before they mix

    @abstractmethod
    def own(self, n: Tensor) -> Tensor: ...

    @abstractmethod
    def out(self, n: Tensor) -> Tensor: ...

    @abstractmethod
    def into(self, n: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Local(Aggregation):
    """``v_i`` alone: linear layers, heads, batch norms, skips."""

    name = "local"
    mixes = False
    weight_first = True

    def own(self, n: Tensor) -> Tensor:
        return torch.ones_like(n)

    def out(self, n: Tensor) -> Tensor:
        return torch.zeros_like(n)

    def into(self, n: Tensor) -> Tensor:
        return torch.zeros_like(n)


@dataclass(frozen=True)
class SymmetricNorm(Aggregation):
    """``Σ_j (n_i + c)^(-1/2) (n_j + c)^(-1/2) v_j`` over the neighbours and, with weight c, the node itself: GCNConv.

    Args:
        loop: c, the weight of the self-loop; 1 as usual, 0 without self-loops, 2 for ``improved``.
    """

    name = "symmetric"
    counts_at_neighbours = True
    weight_first = True
    loop: float = 1.0

    def __post_init__(self) -> None:
        real(
            self.loop,
            "loop",
            lambda loop: 0 <= loop < math.inf,
            "it is the weight of a self-loop, 0 or more",
            "Leave it out for 1",
            error=EncoderError,
        )

    def own(self, n: Tensor) -> Tensor:
        return _inverse(n + self.loop) * self.loop

    def out(self, n: Tensor) -> Tensor:
        return _inverse(n + self.loop, 0.5)

    def into(self, n: Tensor) -> Tensor:
        return _inverse(n + self.loop, 0.5)


@dataclass(frozen=True)
class Diffusion(SymmetricNorm):
    """The same for rows that are multiplied by a matrix later, if at all: SGConv and APPNP. Only rounding differs."""

    name = "diffusion"
    weight_first = False


@dataclass(frozen=True)
class Mean(Aggregation):
    """``(1 / n_i) Σ_j v_j``: SAGEConv and GraphConv with ``aggr="mean"``."""

    name = "mean"

    def own(self, n: Tensor) -> Tensor:
        return torch.zeros_like(n)

    def out(self, n: Tensor) -> Tensor:
        return _inverse(n)

    def into(self, n: Tensor) -> Tensor:
        return torch.ones_like(n)


@dataclass(frozen=True)
class Sum(Aggregation):
    """``Σ_j v_j``: GraphConv and SAGEConv with sums, GINConv (which adds ``(1 + eps) v_i`` as a term of its own)."""

    name = "sum"

    def own(self, n: Tensor) -> Tensor:
        return torch.zeros_like(n)

    def out(self, n: Tensor) -> Tensor:
        return torch.ones_like(n)

    def into(self, n: Tensor) -> Tensor:
        return torch.ones_like(n)


AGGREGATIONS: dict[str, type[Aggregation]] = {kind.name: kind for kind in (Local, SymmetricNorm, Diffusion, Mean, Sum)}
"""By their names in files."""


def _inverse(n: Tensor, power: float = 1.0) -> Tensor:
    """``n^(-power)``, and zero for zero."""
    return torch.where(n > 0, n.clamp(min=torch.finfo(n.dtype).tiny) ** -power, torch.zeros_like(n))
