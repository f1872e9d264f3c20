"""Argument checks: whole numbers, numbers in a range, flags, names, paths, tensors. One check for each kind.

Each check returns the value in plain types or raises the caller's error, which names the value, the rule and the way
out. Nothing is converted silently: ``True`` is not 1, ``2.0`` not a count, ``"0.4"`` not a number, and NaN is in no
range.
"""

import os
import reprlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from certgcl.errors import InputError

Kind: TypeAlias = type[InputError]

LARGEST = (1 << 63) - 1  # whole number that torch and files can hold
WIDEST = 1 << 20  # channels of a layer, far above what memory can hold twice
INTEGERS = frozenset(
    {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64}
)
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_LONGEST = 100  # characters of a value in a message


# -- values in messages ----------------------------------------------------------------------------


class _Short(reprlib.Repr):
    """Short reprs of any value: tensors and arrays are shown by their shape, values whose own repr raises by their
    type."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = self.maxlong = _LONGEST

    def repr1(self, x: Any, level: int) -> str:
        if isinstance(x, (Tensor, np.ndarray)):
            return described(x)
        try:
            return super().repr1(x, level)
        except Exception:  # whatever a repr does: a message must not fail on the value that it is about
            return f"<{type(x).__name__}>"


def shown(value: Any) -> str:
    """A value as messages show it: its repr, cut to about a hundred characters."""
    short = _Short().repr(value)
    return short if len(short) <= 2 * _LONGEST else f"{short[: 2 * _LONGEST]}…"


def described(value: Any) -> str:
    """A tensor or an array by type, dtype and shape; anything else by its type."""
    if isinstance(value, Tensor):
        shape = "" if value.is_nested else f" of shape {tuple(value.shape)}"
        return f"<{value.dtype} tensor{shape} on {value.device}>"
    if isinstance(value, np.ndarray):
        return f"<{value.dtype} array of shape {value.shape}>"
    return f"<{type(value).__name__}>"


# -- numbers and names -----------------------------------------------------------------------------


def is_whole(value: Any) -> bool:
    """Whether a value is an integer of Python or numpy; booleans are not."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def whole(
    value: Any, name: str, least: int, rule: str, remedy: str, *, most: int = LARGEST, error: Kind = InputError
) -> int:
    """An integer from ``least`` to ``most``."""
    if not is_whole(value) or not least <= int(value) <= most:
        raise error(f"{name}={shown(value)}", rule, remedy)
    return int(value)


def seed(value: Any, name: str = "seed", error: Kind = InputError) -> int:
    """A seed that numpy and torch both accept: an integer of at least 0."""
    return whole(value, name, 0, "a seed is an int from 0 to 2**63 - 1", "Try 0", error=error)


def real(
    value: Any, name: str, inside: Callable[[float], bool], rule: str, remedy: str, *, error: Kind = InputError
) -> float:
    """A number of Python or numpy that ``inside`` accepts; NaN is refused whatever ``inside`` says."""
    number = _number(value)
    if number != number or not inside(number):
        raise error(f"{name}={shown(value)}", rule, remedy)
    return number


def _number(value: Any) -> float:
    """A real number as a float; NaN for anything else. An integer too large for a float counts as infinite."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        return float("nan")
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def flag(value: Any, name: str, error: Kind = InputError) -> bool:
    """``True`` or ``False``; not a number, nor anything else that is merely truthy or falsy."""
    if not isinstance(value, (bool, np.bool_)):
        raise error(f"{name}={shown(value)}", "it is True or False", "Pass one of the two")
    return bool(value)


def choice(value: Any, name: str, names: Iterable[str], error: Kind = InputError) -> str:
    """One of the allowed names."""
    known = tuple(names)
    if not isinstance(value, str) or value not in known:
        raise error(f"{name}={shown(value)}", f"it is one of {', '.join(known)}", "Pick one")
    return str(value)


def callback(value: Any, name: str, error: Kind = InputError) -> None:
    """None, or something that can be called."""
    if value is not None and not callable(value):
        raise error(f"{name}={shown(value)}", "it is a function, or None", "Pass a function, or leave it out")


def items(value: Any, name: str, rule: str, remedy: str, *, error: Kind = InputError) -> tuple[Any, ...]:
    """The members of a list or a tuple. A string does not count as a list of letters, nor a dict as one of its keys,
    and a generator would be empty the second time."""
    if not isinstance(value, (list, tuple)):
        raise error(f"{name}={shown(value)}", rule, remedy)
    return tuple(value)


def path(value: Any, name: str = "path", error: Kind = InputError) -> Path:
    """A path that the file system accepts. The empty one, which would mean the current folder, is refused."""
    text = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(text, str) or not text or "\0" in text or not _encodable(text):
        raise error(
            f"{name}={shown(value)}",
            "a path is a string or a pathlib.Path, not empty, in characters that the file system supports",
            "Pass the name of a file or folder",
        )
    return Path(text)


def _encodable(text: str) -> bool:
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True


# -- tensors, dtypes and devices -------------------------------------------------------------------


def dense(value: Tensor, name: str, error: Kind = InputError) -> Tensor:
    """A dense tensor with its values in memory: not sparse, nested or quantized, and not on the device ``meta``."""
    if value.is_nested or value.layout != torch.strided or value.is_quantized or value.is_meta:
        raise error(
            f"{name} as {described(value)}",
            "it must be a dense tensor that holds values",
            "Convert it, for example with .to_dense() or .dequantize(), and move it to a real device",
        )
    return value


def numbers(
    value: Any, name: str, rule: str, remedy: str, *, error: Kind = InputError, device: torch.device | None = None
) -> Tensor:
    """A tensor, an array, a number or nested lists of them as a dense tensor."""
    if isinstance(value, Tensor):
        dense(value, name, error)
    elif isinstance(value, (str, bytes, dict)):
        raise error(f"{name}={shown(value)}", rule, remedy)
    array = np.asarray(value) if isinstance(value, (np.ndarray, np.generic)) else None
    if array is not None and not array.flags.writeable:  # torch warns of arrays that are not writable
        array = array.copy()
    try:
        given = torch.as_tensor(value if array is None else array, device=device)
    except (TypeError, ValueError, RuntimeError, OverflowError) as reason:
        raise error(f"{name}={shown(value)} ({first_line(reason)})", rule, remedy) from reason
    return dense(given, name, error)


def first_line(reason: Exception) -> str:
    """The message of another library's error, cut to one line."""
    return (str(reason).splitlines() or [""])[0][:_LONGEST]


def floating(value: Any, name: str, error: Kind = InputError) -> torch.dtype | None:
    """A floating-point dtype of torch that can be computed with, or None."""
    if value is not None and not (isinstance(value, torch.dtype) and value in FLOATS):
        raise error(f"{name}={shown(value)}", f"it is one of {', '.join(map(str, FLOATS))}", "Try torch.float64")
    return value


def device(value: Any, name: str = "device", error: Kind = InputError) -> torch.device | None:
    """A device by its name, whether or not it exists here; or None. ``meta`` holds no values and is refused."""
    if value is None:
        return None
    found = None
    if isinstance(value, (str, torch.device)):
        try:
            found = torch.device(value)
        except RuntimeError:  # an unknown name
            found = None
    if found is None or found.type == "meta":
        raise error(f"{name}={shown(value)}", "it is the name of a device that holds values", "Try 'cpu' or 'cuda'")
    return found


def usable_device(value: Any, name: str = "device", error: Kind = InputError) -> torch.device | None:
    """The same, and the device must exist here."""
    found = device(value, name, error)
    if found is not None and found.type != "cpu":
        try:
            torch.zeros(1, device=found).item()  # not on "meta"
        except (RuntimeError, AssertionError, NotImplementedError, ModuleNotFoundError) as reason:
            raise error(
                f"{name}={shown(value)} ({first_line(reason)})", "the device must exist", "Use another device, or 'cpu'"
            ) from reason
    return found
