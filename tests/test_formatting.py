import pytest
import torch

from certgcl.formatting import percent, spread


@pytest.mark.parametrize(
    ("share", "shown"),
    [
        (0.0, "0.0 %"),
        (1 / 2708, "< 0.1 %"),
        (0.0005, "0.1 %"),
        (0.5, "50.0 %"),
        (0.1234, "12.3 %"),
        (0.9994, "99.9 %"),
        (0.9995, "> 99.9 %"),
        (2707 / 2708, "> 99.9 %"),
        (1.0, "100.0 %"),
    ],
)
def test_only_all_is_a_hundred_percent_and_only_none_is_nought(share: float, shown: str) -> None:
    assert percent(share) == shown


def test_counts_are_shown_by_their_range() -> None:
    assert spread(torch.tensor([2, 2])) == "2"
    assert spread(torch.tensor([0, 3])) == "0 … 3 (mean 1.50)"
