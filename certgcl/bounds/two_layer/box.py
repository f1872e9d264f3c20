"""The box around all admissible matrices: every entry of Â varies independently between its extremes."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from certgcl.graphs.sparse import ConstantMatrix

if TYPE_CHECKING:
    from certgcl.bounds.two_layer.neighbourhood import Hop


@dataclass(frozen=True, eq=False)
class BoxRows:
    """``L <= Â <= U`` for the rows of one hop: a box that holds every admissible matrix.

    ``L_ii = 1/D_i``, ``U_ii = 1/(D_i - q_i)``; on an edge ``U_ij = s_i^hi s_j^hi``, and ``L_ij = 0`` if it can be
    dropped, else ``(D_i D_j)^(-1/2)``.
    """

    hop: "Hop"

    @cached_property
    def lower(self) -> Tensor:
        hop = self.hop
        return torch.where(hop.droppable, torch.zeros_like(hop.low), hop.low * hop.scale(0)[hop.row])

    @cached_property
    def upper(self) -> Tensor:
        hop = self.hop
        droppable = torch.zeros_like(hop.degree).index_add_(0, hop.row, hop.droppable.long())
        most = hop.budget[hop.row].minimum(droppable[hop.row] - hop.droppable.long())
        return hop.high * (hop.degree[hop.row] + 1 - most).to(hop.high.dtype).pow(-0.5)

    @cached_property
    def own_lower(self) -> Tensor:
        return self.hop.scale(0).square()

    @cached_property
    def own_upper(self) -> Tensor:
        return self.hop.scale(self.hop.budget).square()

    @cached_property
    def _matrices(self) -> tuple[ConstantMatrix, ConstantMatrix]:
        lower, upper = (self.hop.matrix(entries) for entries in (self.lower, self.upper))
        return lower, upper

    def range(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """The least and the largest ``Â v`` over the box for ``low <= v <= high``, values over the targets:
        ``L [low]+ + U [low]-`` and ``U [high]+ + L [high]-``, the row's own entry with them."""
        least = signed_parts(low)
        most = least if high is low else signed_parts(high)
        lower, upper = self._matrices
        own_lower, own_upper = self.own_lower[:, None], self.own_upper[:, None]
        own = self.hop.own
        return (
            lower @ least[0] + upper @ least[1] + own_lower * least[0][own] + own_upper * least[1][own],
            upper @ most[0] + lower @ most[1] + own_upper * most[0][own] + own_lower * most[1][own],
        )


def signed_parts(values: Tensor) -> tuple[Tensor, Tensor]:
    """``[v]+`` and ``[v]-``, with gradients that add up to one at zero too."""
    positive = values.relu()
    return positive, values - positive
