"""Node features as the bounds and encoders use them: multiplied by a matrix, at some nodes or at all."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from certgcl.chunks import row_ranges
from certgcl.sparse import ConstantMatrix, csr_rows

MOST_FILLED = 0.05  # share of non-zero features up to which they are multiplied as a sparse matrix
MAX_SEARCHED = 1 << 28  # features that are looked through for that; larger ones may lie on disk
FEW = 8  # with gradients, the product at fewer than one node in so many is made for them alone


@dataclass(frozen=True, eq=False)
class Features:
    """``X``, and its sparse form where that is faster. Every view of a graph shares them.

    Args:
        x: ``(N, F)``, dense or CSR.
    """

    x: Tensor

    @cached_property
    def sparse(self) -> Tensor | None:
        """``x`` as CSR where that makes products faster; None for features that are well filled, or large."""
        if self.x.layout != torch.strided:
            return self.x
        if self.x.numel() > MAX_SEARCHED or int(torch.count_nonzero(self.x)) > MOST_FILLED * self.x.numel():
            return None
        return self.x.detach().to_sparse_csr()

    @cached_property
    def _matrices(self) -> dict[torch.dtype, ConstantMatrix]:
        return {}

    def _matrix(self, sparse: Tensor, dtype: torch.dtype) -> ConstantMatrix:
        if dtype not in self._matrices:
            self._matrices[dtype] = ConstantMatrix(sparse.to(dtype))
        return self._matrices[dtype]

    def terms(self, nodes: Tensor) -> Tensor:
        """The number of features of some nodes that are not zero, ``(nodes,)``; stored zeros may count."""
        if self.sparse is not None:
            return self.sparse.crow_indices().diff()[nodes]
        return torch.cat([torch.count_nonzero(self.x[nodes[part]], dim=1)
                          for part in row_ranges(nodes.numel(), self.x.shape[1])])

    def project(self, weight: Tensor, nodes: Tensor | None = None, *, absolute: bool = False) -> Tensor:
        """``X W`` (or ``|X| W``) in the dtype of ``weight``, for ``nodes`` or all, ``(nodes, outputs)``.

        Dense features are taken a piece at a time, so that a memory-mapped ``x`` is never in memory as a whole.
        """
        def times_weight(x: Tensor) -> Tensor:
            x = x.to(weight.dtype)
            return (x.abs() if absolute else x) @ weight

        sparse = self.sparse
        if sparse is not None:
            trained = torch.is_grad_enabled() and weight.requires_grad and not absolute
            if trained and (nodes is None or FEW * nodes.numel() >= self.x.shape[0]):
                everywhere = self._matrix(sparse, weight.dtype) @ weight
                return everywhere if nodes is None else everywhere.index_select(0, nodes)
            return times_weight(sparse if nodes is None else csr_rows(sparse, nodes))
        ranges = row_ranges(self.x.shape[0] if nodes is None else nodes.numel(), max(weight.shape))
        products = [times_weight(self.x[part] if nodes is None else self.x[nodes[part]]) for part in ranges]
        return products[0] if len(products) == 1 else torch.cat(products)
