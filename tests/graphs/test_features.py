"""Products with the features, and their gradients."""

import pytest
import torch

from certgcl.graphs.features import Features
from certgcl.graphs.sparse import ConstantMatrix, csr_rows, csr_transposed


def sparse_matrix(rows: int, columns: int) -> torch.Tensor:
    values = torch.randn(rows, columns, dtype=torch.float64)
    return values * (torch.rand(rows, columns) < 0.02)


@pytest.mark.parametrize("nodes", [None, [5, 1, 5, 30, 31, 32, 33], [2]])
def test_the_gradient_of_a_sparse_product_is_that_of_the_dense_one(nodes: list[int] | None) -> None:
    x = sparse_matrix(40, 12)
    weight = torch.randn(12, 3, dtype=torch.float64, requires_grad=True)
    index = None if nodes is None else torch.tensor(nodes)
    features = Features(x)
    assert features.sparse is not None
    found = features.project(weight, index)
    expected = (x if index is None else x[index]) @ weight
    torch.testing.assert_close(found, expected)
    upstream = torch.randn_like(expected)
    torch.testing.assert_close(
        torch.autograd.grad(found, weight, upstream), torch.autograd.grad(expected, weight, upstream)
    )


def test_rows_and_transposes_of_a_sparse_matrix() -> None:
    x = sparse_matrix(20, 7)
    rows = torch.tensor([3, 3, 0, 19])
    assert torch.equal(csr_rows(x.to_sparse_csr(), rows).to_dense(), x[rows])
    assert torch.equal(csr_transposed(x.to_sparse_csr()).to_dense(), x.T)


def test_a_product_passes_the_check_of_gradients() -> None:
    matrix = sparse_matrix(6, 5).to_sparse_csr()
    dense = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda values: ConstantMatrix(matrix) @ values, dense)


@pytest.mark.parametrize("dense", [True, False])
def test_a_product_that_is_remembered_is_right_whatever_is_written_to_later(dense: bool) -> None:
    x, nodes = torch.randn(40, 12, dtype=torch.float64) if dense else sparse_matrix(40, 12), torch.tensor([3, 3, 17])
    weight = torch.randn(12, 3, dtype=torch.float64)
    features = Features(x)
    features.remember(weight)
    features.project(weight).zero_()  # what a caller does with it is its own affair
    torch.testing.assert_close(features.project(weight, nodes), x[nodes] @ weight)
    weight.mul_(2)
    torch.testing.assert_close(features.project(weight), x @ weight)
    features.remember(weight)
    x.mul_(3)
    torch.testing.assert_close(features.project(weight, nodes), x[nodes] @ weight)
    torch.testing.assert_close(features.project(weight.abs(), absolute=True), x.abs() @ weight.abs())
