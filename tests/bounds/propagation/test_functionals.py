"""Functionals that have come through lines: their least values without writing them out."""

import pytest
import torch
from torch import Tensor

from certgcl.bounds.propagation.functionals import Functionals, Slopes

ENTRIES, RULES, CHANNELS, VECTORS = 6, 2, 5, 9


def through_lines(same: bool, paired: bool) -> Functionals:
    """With lines of any slopes, and factors."""
    torch.manual_seed(0)
    half = torch.randn(1 if same else ENTRIES, 1, 4, CHANNELS, dtype=torch.float64)
    middle, radius = torch.randn(2, 3, RULES, CHANNELS, dtype=torch.float64)
    return Functionals(
        torch.cat([half, -half], dim=2) if paired else half,
        slopes=Slopes(middle, radius, torch.randint(3, (ENTRIES,))),
        factor=torch.rand(ENTRIES, dtype=torch.float64),
        paired=paired,
    )


def ranges() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    middle, radius = torch.randn(2, VECTORS, CHANNELS, generator=generator, dtype=torch.float64)
    return middle, radius.abs()


def least(explicit: Tensor, middle: Tensor, radius: Tensor) -> Tensor:
    return (explicit @ middle[:, None, :, None] - explicit.abs() @ radius[:, None, :, None])[..., 0]


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("paired", [True, False])
def test_the_least_over_a_range_is_that_of_written_out_functionals(same: bool, paired: bool) -> None:
    functionals, (middle, radius), place = through_lines(same, paired), ranges(), torch.randint(VECTORS, (ENTRIES,))
    expected = least(functionals.explicit(), middle[place], radius[place])
    torch.testing.assert_close(functionals.lowest(middle, radius, place), expected)


@pytest.mark.parametrize("paired", [True, False])
def test_so_is_the_least_at_many_vectors(paired: bool) -> None:
    functionals, (middle, radius), entries = through_lines(True, paired), ranges(), torch.randint(ENTRIES, (VECTORS,))
    expected = least(functionals.explicit()[entries], middle, radius).flatten(1)
    torch.testing.assert_close(functionals.lowest_some(middle, radius, entries), expected)
