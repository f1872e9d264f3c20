"""Rows taken from shared tables, and tables joined from parts."""

import pytest
import torch
from torch import Tensor

from certgcl.bounds.two_layer.row_tables import Table, joined, take

INDEX = [torch.tensor([[0, 3], [3, 1]]), torch.tensor([2]), torch.tensor([3, 3, 0])]


def values() -> Tensor:
    return torch.arange(10.0, dtype=torch.float64).view(5, 2)


@pytest.mark.parametrize("index", INDEX)
def test_rows_are_those_of_the_table(index: Tensor) -> None:
    torch.testing.assert_close(Table(values()).take(index), values()[index])
    torch.testing.assert_close(take(values(), index), values()[index])


def test_gradients_of_all_that_was_taken_add_up() -> None:
    one, other = values().requires_grad_(), values().requires_grad_()
    table = Table(one * 2)
    sum((table.take(index) ** 2).sum() for index in INDEX).backward()
    sum(((other * 2)[index] ** 2).sum() for index in INDEX).backward()
    torch.testing.assert_close(one.grad, other.grad)


def test_gradients_can_be_asked_for_again() -> None:
    leaf = values().requires_grad_()
    table = Table(leaf * 2)
    total = sum((table.take(index) ** 2).sum() for index in INDEX)
    (first,) = torch.autograd.grad(total, leaf, retain_graph=True)
    (again,) = torch.autograd.grad(total, leaf)
    torch.testing.assert_close(first, again)


def test_a_table_that_nothing_is_taken_of_has_no_gradient() -> None:
    leaf = values().requires_grad_()
    table = Table(leaf * 2)
    (table.take(INDEX[0]).sum() * 0 + leaf.sum()).backward()
    torch.testing.assert_close(leaf.grad, torch.ones_like(leaf))


@pytest.mark.parametrize("tracked", [False, True])
def test_parts_are_joined_in_order_and_the_rest_is_zero(tracked: bool) -> None:
    parts = [part.clone().requires_grad_(tracked) for part in values().split([2, 0, 3])]
    table, kept = joined(iter(parts), 7)
    torch.testing.assert_close(table, torch.cat([values(), torch.zeros(2, 2, dtype=torch.float64)]))
    for part, same in zip(parts, kept, strict=True):
        torch.testing.assert_close(part, same)
    assert table.requires_grad == tracked


def test_without_gradients_the_parts_lie_in_the_table() -> None:
    table, kept = joined(iter(values().split(2)), 5)
    assert kept[1].data_ptr() == table[2:].data_ptr()
