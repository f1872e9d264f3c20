"""Files that are whole or not there, and named arrays in them without pickle."""

import io
import json
import os
import pickle
import socket
import time
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO

import numpy as np
import torch

from certgcl.errors import CertgclError

_HOST = socket.gethostname().replace(".", "-")
_TOKEN, _COUNT = token_hex(4), count()  # the process, beyond its number; and the file within it
_FOREIGN_LEFTOVER = 24 * 3600.0  # seconds after which a temporary file of another machine counts as left over


def write_atomically(path: Path, write: Callable[[BinaryIO], object], *, replace: bool = True) -> bool:
    """Write a file beside ``path`` and move it there: whatever happens, ``path`` is the old file or the whole new one.

    Returns whether it is the new one; with ``replace=False`` a file that is there already stays.
    """
    temporary = path.with_name(f".{path.name}.{_HOST}.{os.getpid()}.{_TOKEN}-{next(_COUNT)}.tmp")
    try:
        with temporary.open("wb") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        written = _move(temporary, path, replace)
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(path.parent)
    return written


def write_json(path: Path, content: dict[str, Any]) -> None:
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    write_atomically(path, lambda stream: stream.write(text.encode()))


def _move(temporary: Path, path: Path, replace: bool) -> bool:
    if not replace:
        try:
            os.link(temporary, path)  # unlike a rename, fails when another process was first
            return True
        except FileExistsError:
            return False
        except OSError:  # a file system without links: the last one wins
            if path.exists():
                return False
    os.replace(temporary, path)
    return True


def _sync_folder(folder: Path) -> None:
    if os.name == "posix":  # elsewhere a folder cannot be opened
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of processes that ended in the middle of :func:`write_atomically`."""
    for path in folder.glob(".*.tmp"):
        *_, host, process, token, _ = ["", "", "", *path.name.split(".")]
        if not process.isdigit():
            continue
        if host != _HOST or os.name != "posix":
            stale = time.time() - _changed(path) > _FOREIGN_LEFTOVER
        elif int(process) == os.getpid():  # this process, or one that had its number before
            stale = not token.startswith(_TOKEN)
        else:
            stale = not _alive(int(process))
        if stale:
            path.unlink(missing_ok=True)


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return time.time()


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def save_arrays(path: Path, meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays and what they mean (JSON) to one ``.npz`` file."""
    members: dict[str, Any] = {"meta": np.array(json.dumps(meta)), **arrays}
    write_atomically(path, lambda stream: np.savez_compressed(stream, **members))


def load_arrays(path: Path, format: str, names: tuple[str, ...], optional: tuple[str, ...] = ()) -> tuple[
        dict[str, Any], dict[str, np.ndarray]]:
    """What :func:`save_arrays` wrote, if its meta has that format; see :func:`refusing` for what is raised."""
    arrays = read_members(path, ("meta", *names), optional)
    meta = json.loads(str(arrays.pop("meta")))
    if meta["format"] != format:
        raise ValueError(f"format {meta['format']!r}")
    return meta, arrays


def read_members(path: Path, names: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, np.ndarray]:
    """Arrays of an ``.npz`` file; each is read to its end before it is looked at, so that its checksum is compared."""
    with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as archive:
        there = [name for name in optional if f"{name}.npy" in archive.namelist()]
        return {name: np.lib.format.read_array(io.BytesIO(archive.read(f"{name}.npy")), allow_pickle=False)
                for name in (*names, *there)}


def load_tensors(path: Path) -> Any:
    """What ``torch.save`` wrote: tensors, numbers, text, lists and dicts alone, on the CPU, its checksums compared."""
    whole = path.read_bytes()
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:  # torch itself compares no checksums
        damaged = archive.testzip()
    if damaged is not None:
        raise ValueError(f"damaged at {damaged}")
    try:
        return torch.load(io.BytesIO(whole), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as reason:
        raise ValueError(f"not tensors alone: {reason}".splitlines()[0]) from reason


@contextmanager
def refusing(path: Path, error: type[CertgclError], rule: str, remedy: str) -> Iterator[None]:
    """Whatever the contents of a file can raise while it is read, as one error; a missing file stays missing."""
    try:
        yield
    except (KeyError, ValueError, TypeError, AttributeError, EOFError, RuntimeError, OverflowError, MemoryError,
            tokenize.TokenError, SyntaxError, zipfile.BadZipFile, zlib.error) as reason:
        raise error(f"{path} ({reason})", rule, remedy) from reason
