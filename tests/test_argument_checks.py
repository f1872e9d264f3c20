"""The checks of arguments: what each takes, what it gives back, and messages that no value can break."""

import math
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import pytest
import torch

from certgcl import arguments
from certgcl.errors import BudgetError, InputError
from tests.public.fuzz import Unprintable, Whole

NO_NUMBERS = [
    True,
    np.True_,
    "1",
    b"1",
    None,
    1j,
    [1],
    (1,),
    {},
    Decimal(1),
    Fraction(1),
    datetime.now(UTC),
    int,
    torch.tensor(1),
    np.array(1),
]


def named(value: Any) -> str:
    """pytest itself cannot show all of them."""
    return type(value).__name__


def whole(value: Any, least: int = 0) -> int:
    return arguments.whole(value, "n", least, "it is an int", "Try 1")


def real(value: Any) -> float:
    return arguments.real(value, "r", lambda number: 0 <= number <= 1, "it is a share", "Try 0.5")


@pytest.mark.parametrize("value", [2, np.int8(2), np.uint64(2), Whole(2)])
def test_whole_numbers_become_plain_ones(value: Any) -> None:
    assert whole(value) == 2
    assert type(whole(value)) is int


@pytest.mark.parametrize("value", [*NO_NUMBERS, 2.0, 2.5, math.nan, np.float64(2), -1, 2**63, 10**5000], ids=named)
def test_nothing_else_is_read_as_a_count(value: Any) -> None:
    with pytest.raises(InputError, match="n="):
        whole(value)


@pytest.mark.parametrize("value", [0, 1, 0.5, -0.0, np.float16(0.5), np.int32(1)])
def test_numbers_become_floats(value: Any) -> None:
    assert real(value) == value
    assert type(real(value)) is float


@pytest.mark.parametrize(
    "value", [*NO_NUMBERS, math.nan, math.inf, -math.inf, float(np.nextafter(1, 2)), 10**5000, -(10**5000)], ids=named
)
def test_nothing_outside_a_range_is_in_it(value: Any) -> None:
    with pytest.raises(InputError, match="r="):
        real(value)


def test_nan_is_in_no_range_even_one_that_says_so() -> None:
    with pytest.raises(InputError):
        arguments.real(math.nan, "r", lambda number: not number < 0, "it is not negative", "Try 1")


def test_a_flag_is_true_or_false() -> None:
    assert arguments.flag(True, "f") is True
    assert arguments.flag(np.False_, "f") is False
    for value in (0, 1, None, "yes", "", [], torch.tensor(True)):
        with pytest.raises(InputError, match="f="):
            arguments.flag(value, "f")


def test_a_choice_is_a_name() -> None:
    assert arguments.choice("a", "c", ("a", "b")) == "a"
    for value in ("ab", "", [], {}, None, np.array(["a"]), torch.ones(2)):
        with pytest.raises(InputError, match="c="):
            arguments.choice(value, "c", ("a", "b"))


def test_a_list_is_no_string_no_dict_and_no_generator() -> None:
    assert arguments.items([1, 2], "l", "it is a list", "Pass one") == (1, 2)
    for value in ("12", {1: 2}, (number for number in "12"), {1, 2}, torch.ones(2), None):
        with pytest.raises(InputError, match="l="):
            arguments.items(value, "l", "it is a list", "Pass one")


def test_a_path_can_be_asked_about() -> None:
    assert arguments.path("a/b") == arguments.path(PurePath("a", "b")) == Path("a/b")
    assert arguments.path("caf\udce9") == Path("caf\udce9")  # bytes that are no UTF-8, as the file system gives them
    for value in ("", "a\0b", "a\ud800", b"a", 0, True, None, ["a"]):
        with pytest.raises(BudgetError, match="out="):
            arguments.path(value, "out", BudgetError)


@pytest.mark.parametrize(
    "value",
    [
        torch.ones(2, device="meta"),
        torch.eye(2).to_sparse(),
        torch.eye(2).to_sparse_csr(),
        "12",
        b"12",
        {1: 2},
        None,
        [None],
        [[1], [1, 2]],
        10**30,
        np.array(["a"]),
        np.array([None]),
        object(),
    ],
)
def test_numbers_are_those_that_a_dense_tensor_holds(value: Any) -> None:
    with pytest.raises(InputError, match="t"):
        arguments.numbers(value, "t", "it is numbers", "Pass some")


@pytest.mark.filterwarnings("ignore")  # torch says that both kinds are about to change
def test_nested_and_quantized_tensors_are_refused_and_shown() -> None:
    for value in (
        torch.nested.nested_tensor([torch.ones(1), torch.ones(2)]),
        torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
    ):
        assert "tensor" in arguments.shown(value)
        with pytest.raises(InputError, match="dense"):
            arguments.numbers(value, "t", "it is numbers", "Pass some")


def test_a_read_only_array_is_taken_without_a_warning() -> None:
    array = np.ones(3)
    array.setflags(write=False)
    given = arguments.numbers(array, "t", "it is numbers", "Pass some")
    given += 1
    assert array.sum() == 3


def test_devices_are_known_by_name_and_there_when_they_are_used() -> None:
    assert arguments.device(None) is None
    assert arguments.usable_device("cpu") == torch.device("cpu")
    assert arguments.device("cuda:99") == torch.device("cuda", 99)
    with pytest.raises(InputError, match="cuda:99"):
        arguments.usable_device("cuda:99")
    for value in ("meta", "gpu", "", 0, True, torch.device("meta")):
        with pytest.raises(InputError, match="device="):
            arguments.device(value)


@pytest.mark.parametrize(
    "value",
    [
        "x" * 10**7,
        b"x" * 10**7,
        torch.ones(2000, 2000),
        np.ones((2000, 2000)),
        list(range(10**6)),
        dict.fromkeys(range(1000), "x" * 1000),
        10**5000,
        Unprintable(),
        [Unprintable()],
    ],
    ids=named,
)
def test_a_value_is_shown_in_a_few_words(value: Any) -> None:
    assert 0 < len(arguments.shown(value)) < 250


def test_short_values_are_shown_as_they_are() -> None:
    for value in (0.4, -1, "abc", (1, 2), [True], None, "x" * 80):
        assert arguments.shown(value) == repr(value)
