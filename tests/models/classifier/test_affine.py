"""What rounding can do to affine maps one after the other, against runs in coarse precision."""

from collections.abc import Iterator

import pytest
import torch

from certgcl.models.classifier.affine import Affine, composed, composition_error
from tests.toys import random_tensor


def steps(seed: int, dtype: torch.dtype) -> Iterator[Affine]:
    for number, (rows, width) in enumerate([(6, 4), (5, 6), (3, 5)]):
        scale = 10.0 ** random_tensor(rows, 1, seed=seed + 7 * number)
        yield Affine.of(
            (scale * random_tensor(rows, width, seed=seed + 20 + number)).to(dtype),
            (scale[:, 0] * random_tensor(rows, seed=seed + 30 + number)).to(dtype),
        )


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_error_covers_a_run_in_coarse_precision(seed: int, dtype: torch.dtype) -> None:
    maps = list(steps(100 * seed, dtype))
    x = random_tensor(64, 4, seed=seed)
    exact, run = x, x.to(dtype)
    for step in maps:
        exact = exact @ step.matrix.T + step.shift
        products = run[:, None] * step.matrix.to(dtype)
        total = torch.zeros_like(products[..., 0])
        for column in products.unbind(-1):  # each sum rounded
            total = total + column
        run = total + step.shift.to(dtype)
    error = composition_error(maps, x.abs(), dtype)
    matrix, shift = composed(maps)
    assert torch.allclose(x @ matrix.T + shift, exact, rtol=1e-10)
    assert bool(((run.double() - exact).abs() <= error).all())
    if dtype == torch.float32:
        assert bool((error < 1e-3 * exact.abs().max()).all())
