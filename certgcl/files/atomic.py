"""Files that are written completely or not at all, and named arrays in them without pickle."""

import io
import json
import os
import socket
import time
import tokenize
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO

import numpy as np
import torch

from certgcl.errors import CertgclError, FileSizeError, InputError
from certgcl.files.sealed import check_seal, seal
from certgcl.files.strict_json import parse_json, sealed_text
from certgcl.files.untrusted import USUAL, array_in, check_tree, open_regular, packed, unpacked

_LONGEST = 32  # characters of a name kept in that of its temporary file: file systems allow 255 bytes
_HOST = socket.gethostname().replace(".", "-")[:_LONGEST]
_TOKEN, _COUNT = token_hex(4), count()  # identifies the process, in addition to its number; and the file within it
_FOREIGN_LEFTOVER = 24 * 3600.0  # seconds after which a temporary file of another machine counts as abandoned


def write_atomically(path: Path, write: Callable[[BinaryIO], object], *, replace: bool = True) -> bool:
    """Write a file next to ``path`` and move it there: whatever happens, ``path`` is the old file or the complete new
    one.

    Returns whether it is the new one; with ``replace=False`` an existing file stays.
    """
    short = path.name[:_LONGEST]  # what comes after it must fit into the name too
    temporary = path.with_name(f".{short}.{_HOST}.{os.getpid()}.{_TOKEN}-{next(_COUNT)}.tmp")
    try:
        with temporary.open("x+b") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        written = _move(temporary, path, replace)
    except OSError as error:
        if error.errno is not None and error.filename is None:  # a full disk does not say which file did not fit
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(path.parent)
    return written


def write_json(path: Path, content: dict[str, Any]) -> None:
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    # The name of a file may not be UTF-8: its bytes are then escaped as JSON does.
    write_atomically(path, lambda stream: stream.write(text.encode(errors="backslashreplace")))


def _move(temporary: Path, path: Path, replace: bool) -> bool:
    if not replace:
        try:
            os.link(temporary, path)  # unlike a rename, fails when another process was first
            return True
        except FileExistsError:
            return False
        except OSError:  # a file system without links: the last writer wins
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


# -- contents -------------------------------------------------------------------------------


def save_sealed_json(path: Path, content: dict[str, Any], *, replace: bool = True) -> None:
    """Write an object with a ``format`` and a checksum; :func:`certgcl.files.strict_json.read_sealed` compares."""
    text = sealed_text(content)
    write_atomically(path, lambda stream: stream.write(text.encode(errors="backslashreplace")), replace=replace)


def save_arrays(path: Path, meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays and what they mean (JSON) to one ``.npz`` file, sealed by a checksum."""
    try:
        members: dict[str, Any] = {"meta": np.array(json.dumps(meta, allow_nan=False)), **arrays}
    except (TypeError, ValueError) as reason:
        raise InputError(
            f"notes that are not JSON ({reason})",
            "they are written with the arrays",
            "Use finite numbers, strings, lists and dicts",
        ) from reason
    # A large file that compresses well would look like a decompression bomb when it is read.
    save = np.savez_compressed if sum(array.nbytes for array in members.values()) <= USUAL else np.savez

    def write(stream: BinaryIO) -> None:
        save(stream, **members)
        seal(stream)

    write_atomically(path, write)


def load_arrays(
    path: Path,
    formats: str | tuple[str, ...],
    names: tuple[str, ...],
    optional: tuple[str, ...] = (),
    limit: int | None = None,
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The contents of a file of :func:`save_arrays`, if its meta has one of the formats; see :func:`refusing` for what
    is raised.

    Args:
        limit: the most bytes it may unpack to; see :mod:`certgcl.files.untrusted` for the usual one.
    """
    arrays = read_members(path, ("meta", *names), optional, limit=limit, sealed=True)
    meta = parse_json(str(arrays.pop("meta")))
    if meta["format"] not in ((formats,) if isinstance(formats, str) else formats):
        raise ValueError(f"format {meta['format']!r}")
    return meta, arrays


def read_members(
    path: Path,
    names: tuple[str, ...],
    optional: tuple[str, ...] = (),
    *,
    limit: int | None = None,
    sealed: bool = False,
) -> dict[str, np.ndarray]:
    """Arrays of an ``.npz`` file; each is read to its end before it is used, so that its checksum is compared.

    Args:
        sealed: whether the file must be one of :func:`save_arrays`.
    """
    with open_regular(path) as stream:
        if sealed:
            check_seal(stream)
        members = unpacked(path, stream, limit)
    there = [name for name in optional if f"{name}.npy" in members]
    return {name: array_in(members.pop(f"{name}.npy")) for name in (*names, *there)}


def save_tensors(path: Path, content: Any) -> None:
    """Write tensors, numbers, text, lists and dicts as ``torch.save`` does, sealed by a checksum."""

    def write(stream: BinaryIO) -> None:
        torch.save(content, stream)
        seal(stream)

    write_atomically(path, write)


def load_tensors(path: Path, *, limit: int | None = None, sealed: bool = True) -> Any:
    """The contents of a file of :func:`save_tensors`, on the CPU; only tensors, numbers, text, lists and dicts are
    built.

    torch compares no checksums and parses archives in its own way, so it gets an archive of the members that were
    checked.

    Args:
        limit: the most bytes it may unpack to; see :mod:`certgcl.files.untrusted` for the usual one.
        sealed: whether it must have a checksum of its own; one that a user wrote with ``torch.save`` has none.
    """
    with open_regular(path) as stream:
        if sealed:
            check_seal(stream)
        size = stream.seek(0, io.SEEK_END)
        archive = packed(unpacked(path, stream, limit))
    try:
        content = torch.load(archive, map_location="cpu", weights_only=True)
    except Exception as reason:  # torch's weights-only reader raises any of these when it meets something else
        raise ValueError(f"not tensors alone: {type(reason).__name__} {reason}".splitlines()[0]) from reason
    check_tree(path, content, size, limit)
    return content


@contextmanager
def refusing(path: Path, error: type[CertgclError], rule: str, remedy: str) -> Iterator[None]:
    """Turns all errors that the contents of a file can cause while it is read into one error; a missing file stays
    ``FileNotFoundError``, and one that is too large is a :class:`certgcl.errors.FileSizeError`."""
    try:
        yield
    except FileSizeError:
        raise
    except (
        KeyError,
        ValueError,
        TypeError,
        AttributeError,
        IndexError,
        EOFError,
        RuntimeError,
        OverflowError,
        MemoryError,
        tokenize.TokenError,
        SyntaxError,
    ) as reason:
        raise error(f"{path} ({reason})", rule, remedy) from reason
