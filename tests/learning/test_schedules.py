"""Ramps, and the schedule of the learning rate."""

from typing import Any

import pytest

from certgcl.errors import InputError
from certgcl.learning.schedules import Ramp, share_of_rate, value_at


def test_a_ramp_waits_grows_and_stays() -> None:
    ramp = Ramp(0.4, start=10, length=20)
    assert [ramp.at(epoch) for epoch in (0, 10, 20, 30, 99)] == pytest.approx([0, 0, 0.2, 0.4, 0.4])


def test_a_warm_up_is_a_ramp_without_length() -> None:
    assert [Ramp(0.4, start=5).at(epoch) for epoch in (0, 4, 5, 6)] == [0, 0, 0.4, 0.4]


def test_a_ramp_may_fall() -> None:
    assert Ramp(0.1, length=4, first=0.5).at(2) == pytest.approx(0.3)


def test_a_number_is_its_own_schedule() -> None:
    assert value_at(0.4, 7) == 0.4
    assert value_at(Ramp(0.4), 0) == 0.4


@pytest.mark.parametrize("settings", [{"start": -1}, {"length": 1.5}, {"start": True}])
def test_epochs_are_counted(settings: dict[str, int]) -> None:
    with pytest.raises(InputError, match="of a ramp"):
        Ramp(0.4, **settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"last": float("nan")},
        {"last": float("inf")},
        {"last": True},
        {"last": "0.4"},
        {"last": None},
        {"last": 1e308},
        {"last": 0.4, "first": float("nan")},
        {"last": 0.4, "start": 2.0},
        {"last": 0.4, "length": "3"},
    ],
)
def test_a_ramp_leads_from_number_to_number(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Ramp(**settings)


@pytest.mark.parametrize("epoch", [-1, 1.0, True, None, "1", float("nan")])
def test_a_ramp_is_asked_about_epochs(epoch: Any) -> None:
    with pytest.raises(InputError, match="epoch="):
        Ramp(0.4).at(epoch)


def test_a_constant_rate_stays() -> None:
    assert {share_of_rate("constant", epoch, 20) for epoch in range(25)} == {1.0}


def test_a_cosine_rises_over_a_tenth_and_falls_to_zero() -> None:
    shares = [share_of_rate("cosine", epoch, 40) for epoch in range(41)]
    assert shares[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert shares[4:] == sorted(shares[4:], reverse=True)
    assert shares[22] == pytest.approx(0.5)  # half of the way from epoch 4 to the end
    assert shares[39] > 0 == shares[40]


@pytest.mark.parametrize("epochs", [1, 2, 3])
def test_every_epoch_of_a_short_training_has_a_rate(epochs: int) -> None:
    shares = [share_of_rate("cosine", epoch, epochs) for epoch in range(epochs)]
    assert shares[0] == 1.0
    assert min(shares) > 0
