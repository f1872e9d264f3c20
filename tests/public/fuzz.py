"""A deterministic fuzzer: valid calls with one or two arguments replaced by hostile values, and what came of them."""

import random
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch

from certgcl.errors import CertgclError

LONGEST_MESSAGE = 2000  # characters, whatever was given
CALLABLE = ("type", "module", "raising")  # values that can be called, and raise something of their own
DOUBLES = 5  # every so many calls replace two arguments


class Whole(int):
    """An int of another class."""


class Unprintable:
    """A value that cannot even be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def odd_files(folder: Path) -> dict[str, Path]:
    """Paths that are not what a reader hopes for."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "empty.npz").write_bytes(b"")
    (folder / "text.json").write_text("[1, 2, {")
    (folder / "odd.pt").write_bytes(b"PK\x03\x04 no archive")
    np.savez(folder / "odd.npz", meta=np.array("[]"), x=np.zeros(3))
    return {
        "folder": folder,
        "missing file": folder / "nowhere" / "file.npz",
        "empty file": folder / "empty.npz",
        "odd json": folder / "text.json",
        "odd archive": folder / "odd.npz",
        "odd pt": folder / "odd.pt",
    }


def hostile_values(folder: Path) -> dict[str, Callable[[], Any]]:
    """Every value by its name, made again for each call."""
    plain: dict[str, Any] = {
        "None": None,
        "True": True,
        "False": False,
        "-1": -1,
        "0": 0,
        "1": 1,
        "3": 3,
        "2**31": 2**31,
        "2**63": 2**63,
        "2**70": 2**70,
        "-2**70": -(2**70),
        "10**5000": 10**5000,
        "1e308": 1e308,
        "1e-320": 1e-320,
        "nan": float("nan"),
        "inf": float("inf"),
        "-inf": float("-inf"),
        "-0.0": -0.0,
        "0.5": 0.5,
        "2.0": 2.0,
        "2.5": 2.5,
        "just above 1": float(np.nextafter(1, 2)),
        "complex": 1j,
        "empty string": "",
        "abc": "abc",
        "digit": "0",
        "surrogate": "a\ud800b",
        "null byte": "a\0b",
        "long string": "x" * 10_000_000,
        "bytes": b"x",
        "empty list": [],
        "list of None": [None],
        "list of strings": ["a", "b"],
        "ragged list": [[1], [1, 2]],
        "list of one": [1],
        "list of bools": [True, False],
        "empty dict": {},
        "dict": {"a": 1},
        "tuple": (1,),
        "pair of strings": ("a", "b"),
        "pair of nan": (float("nan"), float("nan")),
        "set": {1, 2},
        "range": range(3),
        "slice": slice(0, 2),
        "type": int,
        "object": object(),
        "ellipsis": ...,
        "Whole": Whole(2),
        "Unprintable": Unprintable(),
        "Decimal": Decimal("0.5"),
        "Fraction": Fraction(1, 2),
        "datetime": datetime(2024, 1, 1, tzinfo=UTC),
        "np.int64": np.int64(2),
        "np.float32": np.float32(0.5),
        "np.float64 nan": np.float64("nan"),
        "np.bool": np.True_,
        "np.str": np.str_("abc"),
        "np.uint64": np.uint64(2**64 - 1),
        "np.datetime64": np.datetime64("2024-01-01"),
        "dtype": torch.float16,
        "complex dtype": torch.complex64,
        "device": torch.device("meta"),
        "np.dtype": np.dtype("float32"),
    }
    tensors: dict[str, Callable[[], Any]] = {
        "0-d array": lambda: np.array(2),
        "0-d float array": lambda: np.array(0.5),
        "object array": lambda: np.array([object(), None]),
        "string array": lambda: np.array(["a", "b"]),
        "nan array": lambda: np.full((8, 3), np.nan),
        "uint64 array": lambda: np.array([0, 1], dtype=np.uint64),
        "empty array": lambda: np.empty((0, 3)),
        "read-only array": _read_only,
        "0-d tensor": lambda: torch.tensor(2),
        "0-d float": lambda: torch.tensor(0.5),
        "floats": lambda: torch.ones(8, 3),
        "ints": lambda: torch.arange(8),
        "wrong shape": lambda: torch.ones(7, 5),
        "bool mask": lambda: torch.ones(8, dtype=torch.bool),
        "short mask": lambda: torch.ones(3, dtype=torch.bool),
        "float16": lambda: torch.ones(8, 3).half(),
        "complex tensor": lambda: torch.ones(8, 3, dtype=torch.complex64),
        "nan tensor": lambda: torch.full((8, 3), torch.nan),
        "uint64 tensor": lambda: torch.arange(8).to(torch.uint64),
        "meta": lambda: torch.ones(8, 3, device="meta"),
        "meta ints": lambda: torch.arange(8, device="meta"),
        "sparse": lambda: torch.eye(8).to_sparse(),
        "sparse csr": lambda: torch.eye(8).to_sparse_csr(),
        "sparse ints": lambda: torch.arange(8).to_sparse(),
        "leaf": lambda: torch.ones(8, 3, requires_grad=True),
        "quantized": lambda: torch.quantize_per_tensor(torch.ones(8, 3), 0.1, 0, torch.qint8),
        "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        "large tensor": lambda: torch.ones(1000, 1000),
        "empty tensor": lambda: torch.empty(0),
        "generator": lambda: (number for number in range(3)),
        "lambda": lambda: lambda *_: None,
        "raising": lambda: _raising,
        "module": lambda: torch.nn.Linear(3, 2),
        "list of tensors": lambda: [torch.ones(2)],
        "meta parameter": lambda: torch.nn.Parameter(torch.ones(3, 4, device="meta")),
    }
    fixed = {name: (lambda value=value: value) for name, value in (plain | odd_files(folder)).items()}
    return fixed | tensors


def _read_only() -> np.ndarray:
    array = np.ones((8, 3))
    array.setflags(write=False)
    return array


def _raising(*_: object) -> None:
    raise NotImplementedError


@dataclass(frozen=True)
class Target:
    """A public call.

    Args:
        function: made again for each call, as some change what they belong to.
        arguments: valid ones, likewise.
        fuzzed: those that are replaced; all by default.
        files: whether the operating system may have a say (``OSError``).
        callbacks: arguments that are called: what they raise passes.
    """

    name: str
    function: Callable[[], Callable[..., Any]]
    arguments: Callable[[], dict[str, Any]]
    fuzzed: tuple[str, ...] | None = None
    files: bool = False
    callbacks: tuple[str, ...] = ()

    def names(self) -> tuple[str, ...]:
        return tuple(self.arguments()) if self.fuzzed is None else self.fuzzed


@dataclass(frozen=True)
class Call:
    """A call with some arguments replaced, by the names of the values."""

    target: Target
    replaced: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return f"{self.target.name}({', '.join(f'{argument}=<{value}>' for argument, value in self.replaced)})"


@dataclass
class Outcome:
    """What came of some calls."""

    answers: int = 0
    refusals: int = 0
    raw: list[str] = field(default_factory=list)

    @property
    def calls(self) -> int:
        return self.answers + self.refusals + len(self.raw)


def every_call(targets: list[Target], values: Mapping[str, Any]) -> Iterator[Call]:
    """Every value for every argument, one at a time."""
    for target in targets:
        for argument in target.names():
            for value in values:
                yield Call(target, ((argument, value),))


def chosen_calls(targets: list[Target], values: Mapping[str, Any], number: int, seed: int = 0) -> Iterator[Call]:
    """So many calls: arguments in turn, each with another value every time; some with a second one replaced too."""
    chance, names = random.Random(seed), list(values)
    places = [(target, argument) for target in targets for argument in target.names()]
    orders = {place: chance.sample(names, len(names)) for place in range(len(places))}
    for count in range(number):
        turn, place = divmod(count, len(places))
        target, argument = places[place]
        replaced = [(argument, orders[place][turn % len(names)])]
        others = [other for other in target.names() if other != argument]
        if others and count % DOUBLES == 0:
            replaced.append((chance.choice(others), chance.choice(names)))
        yield Call(target, tuple(replaced))


def run(calls: Iterator[Call], values: Mapping[str, Callable[[], Any]]) -> Outcome:
    """Make the calls and count what they do; a raw error is noted with its call."""
    outcome = Outcome()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what torch and numpy say of odd values
        for call in calls:
            given = call.target.arguments() | {argument: values[value]() for argument, value in call.replaced}
            try:
                call.target.function()(**given)
            except CertgclError as error:
                if len(str(error)) > LONGEST_MESSAGE:
                    outcome.raw.append(f"{call}: a message of {len(str(error))} characters")
                else:
                    outcome.refusals += 1
            except Exception as error:
                if _allowed(call, error):
                    outcome.refusals += 1
                else:
                    outcome.raw.append(f"{call}: {type(error).__name__}: {str(error)[:200]}")
            else:
                outcome.answers += 1
    return outcome


def _allowed(call: Call, error: Exception) -> bool:
    """The operating system's own word on files, and what a callback raises."""
    if call.target.files and isinstance(error, OSError):
        return True
    return any(argument in call.target.callbacks and value in CALLABLE for argument, value in call.replaced)
