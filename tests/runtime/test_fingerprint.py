"""Any change of a tensor's memory is noticed, and nothing else is taken for one."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from certgcl.runtime.fingerprint import Imprint


def imprint(x: Tensor) -> Imprint:
    return Imprint.of(x, x.flatten().nonzero()[:, 0])


def matrix(rows: int, columns: int, dtype: torch.dtype, seed: int) -> Tensor:
    chance = torch.Generator().manual_seed(seed)
    filled = torch.rand(rows, columns, generator=chance) < 0.1
    return torch.randn(rows, columns, generator=chance).to(dtype) * filled


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    rows=st.integers(1, 9),
    columns=st.integers(1, 9),
    seed=st.integers(0, 99),
    dtype=st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float64]),
    data=st.data(),
)
def test_an_imprint_is_of_the_same_bits_alone(
    rows: int, columns: int, seed: int, dtype: torch.dtype, data: st.DataObject
) -> None:
    x = matrix(rows, columns, dtype, seed)
    kept = imprint(x)
    assert kept.is_of(x)
    assert kept.is_of(x.clone())
    assert kept.is_of(x.T.contiguous().T)
    for _ in range(3):
        changed = x.clone()
        place = data.draw(st.integers(0, x.numel() - 1))
        value = data.draw(st.sampled_from([0.0, -0.0, 1.0, -3.0, float("nan")]))
        changed.view(-1)[place] = value
        same = torch.equal(changed.view(torch.uint8), x.view(torch.uint8))
        assert kept.is_of(changed) == same
    moved = x.flatten().roll(1).view_as(x)
    assert kept.is_of(moved) == torch.equal(moved.view(torch.uint8), x.view(torch.uint8))


def test_a_part_of_a_larger_tensor_and_zeros_with_a_sign() -> None:
    large = matrix(9, 5, torch.float32, 0)
    large[3, 1] = -0.0
    part = large.flatten()[1:41].view(8, 5)
    kept = imprint(part)
    assert kept.is_of(part.clone())
    large[3, 1] = 0.0
    assert not kept.is_of(part)


@pytest.mark.parametrize("shape", [(8, 4), (4, 5), (9, 5)])
def test_a_tensor_of_another_size_is_another(shape: tuple[int, int]) -> None:
    assert not imprint(matrix(8, 5, torch.float32, 1)).is_of(matrix(*shape, torch.float32, 1))
