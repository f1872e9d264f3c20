"""Products with constant sparse matrices, whose gradients do not transpose again."""

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor


def csr_matrix(rowptr: Tensor, col: Tensor, values: Tensor, size: tuple[int, int]) -> Tensor:
    """A CSR tensor from parts that are known to be consistent."""
    return torch.sparse_csr_tensor(rowptr, col, values, size=size, check_invariants=False)


def slots_of_rows(rowptr: Tensor, rows: Tensor) -> Tensor:
    """The positions of all entries of some rows, one row after the other; the pointer may be on disk."""
    start = rowptr[rows]
    count = rowptr[rows + 1] - start
    pointer = torch.cat([count.new_zeros(1), count.cumsum(0)])
    return torch.arange(int(pointer[-1]), device=count.device) + torch.repeat_interleave(start - pointer[:-1], count)


def csr_rows(matrix: Tensor, rows: Tensor) -> Tensor:
    """Some rows of a CSR matrix."""
    pointer = torch.cat([rows.new_zeros(1), matrix.crow_indices().diff()[rows].cumsum(0)])
    place = slots_of_rows(matrix.crow_indices(), rows)
    return csr_matrix(pointer, matrix.col_indices()[place], matrix.values()[place], (rows.numel(), matrix.shape[1]))


def csr_transposed(matrix: Tensor) -> Tensor:
    """The transpose of a CSR matrix, as CSR: the compressed columns of the one are the compressed rows of the other."""
    columns = matrix.to_sparse_csc()
    return csr_matrix(
        columns.ccol_indices(), columns.row_indices(), columns.values(), (matrix.shape[1], matrix.shape[0])
    )


@dataclass(frozen=True, eq=False)
class ConstantMatrix:
    """A constant CSR matrix M: ``M @ V`` has the gradient ``Mᵀ G``, with a transpose that is computed once."""

    matrix: Tensor
    symmetric: bool = False

    @cached_property
    def transposed(self) -> Tensor:
        return self.matrix if self.symmetric else csr_transposed(self.matrix)

    def __matmul__(self, dense: Tensor) -> Tensor:
        if not (torch.is_grad_enabled() and dense.requires_grad):
            return self.matrix @ dense
        result: Tensor = _Product.apply(self, dense)  # type: ignore[no-untyped-call]
        return result


class _Product(torch.autograd.Function):
    """Torch's own gradient recomputes the transpose at every step, which costs more than the product."""

    @staticmethod
    def forward(ctx: Any, constant: ConstantMatrix, dense: Tensor) -> Tensor:
        ctx.constant = constant
        return constant.matrix @ dense

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
        return None, ctx.constant.transposed @ gradient.contiguous()


# Torch warns once per process that its CSR tensors are in beta. That is triggered and suppressed here, so that it does
# not appear in the user's first certificate. A filter left in place would be overruled by any later one (pytest's,
# say); a filter around every use costs time and is not thread-safe. The user's own filters are restored afterwards.
with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta", UserWarning)
    csr_matrix(torch.zeros(2, dtype=torch.long), torch.empty(0, dtype=torch.long), torch.empty(0), (1, 1))
