"""Archives and arrays that may come from anyone: what they declare is checked before anything is unpacked.

A few kilobytes can declare terabytes. So the sizes that an archive declares are first compared with a limit; then it is
unpacked piece by piece and never beyond what it declared; and an array must fill its bytes exactly.
"""

import io
import math
import os
import stat
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import psutil
import torch
from torch import Tensor

from certgcl.errors import FileSizeError

USUAL = 1 << 28  # bytes that any file may unpack to
RATIO = 100  # times its own size that a larger file may unpack to
SHARE_OF_FREE = 0.5  # of the free memory, at most
MOST_ENTRIES, DEEPEST = 1_000_000, 100  # of nested dicts and lists
_PIECE = 1 << 20
_HEADER = 1 << 14  # bytes; the header of an array is shorter
_KINDS = "biufcSU"  # booleans, numbers and text


def open_regular(path: Path) -> BinaryIO:
    """A file for reading; a folder, a pipe or a device raises an error instead of blocking."""
    try:
        stream = open(path, "rb", opener=_without_waiting)  # noqa: SIM115  (a Path knows no opener)
    except IsADirectoryError as reason:
        raise ValueError("a folder") from reason
    if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        stream.close()
        raise ValueError("no regular file")
    return stream


def _without_waiting(name: str, flags: int) -> int:
    """Opening a pipe would block until somebody writes to it."""
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))


def size_limit(size: int, limit: int | None = None) -> int:
    """The most a file of that size may unpack to, in bytes: ``limit`` if there is one."""
    if limit is not None:
        return limit
    return min(max(USUAL, RATIO * size), int(SHARE_OF_FREE * psutil.virtual_memory().available))


def check_size(path: Path, declared: int, size: int, limit: int | None = None) -> None:
    """Raise an error for a file that would take more than it may.

    Raises:
        FileSizeError: names both numbers.
    """
    allowed = size_limit(size, limit)
    if declared > allowed:
        raise FileSizeError(
            f"{path} of {size:,} bytes, which declares {declared:,}",
            f"it may take {allowed:,}: {RATIO} times its size, or {USUAL:,}, and half of the free memory at the most"
            if limit is None
            else f"it may take {allowed:,}, as requested",
            "If you trust it, pass a higher limit= to the function that reads it",
        )


# -- archives --------------------------------------------------------------------------------------


def unpacked(path: Path, stream: BinaryIO, limit: int | None = None) -> dict[str, bytearray]:
    """The members of a zip archive, each with its checksum compared.

    Raises:
        FileSizeError: they would take too much together.
        ValueError: the archive is damaged, or packed in a way that neither numpy nor torch uses.
    """
    try:
        with zipfile.ZipFile(stream) as archive:
            entries = archive.infolist()
            names = [entry.filename for entry in entries]
            if len(set(names)) < len(names):
                raise ValueError("two members of one name")
            check_size(path, sum(entry.file_size for entry in entries), stream.seek(0, io.SEEK_END), limit)
            return {entry.filename: _member(archive, entry) for entry in entries}
    except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, IndexError) as reason:
        raise ValueError(f"damaged: {reason}") from reason


def _member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytearray:
    """One member, in pieces: read at once, zlib would unpack everything before its size is compared."""
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{entry.filename} packed by method {entry.compress_type}")
    content = bytearray()
    with archive.open(entry) as member:
        while piece := member.read(_PIECE):
            content += piece
    if len(content) != entry.file_size:
        raise ValueError(f"{entry.filename} of {len(content)} bytes, declared as {entry.file_size}")
    return content


def packed(members: dict[str, bytearray]) -> io.BytesIO:
    """An archive of these members, for a reader that would otherwise parse the original in its own way."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    stream.seek(0)
    return stream


# -- arrays ----------------------------------------------------------------------------------------


def array_in(content: bytearray) -> np.ndarray:
    """The array in the bytes of an ``.npy`` file, which are not copied; it can be written to."""
    start, shape, fortran, dtype = _header(bytes(content[:_HEADER]))
    _check_filled(len(content) - start, shape, dtype)
    if math.prod(shape) == 0:
        return np.empty(shape, dtype)
    array = np.frombuffer(content, dtype, offset=start).reshape(shape, order="F" if fortran else "C")
    return array if array.flags.aligned else array.copy()


def mapped_array(path: Path) -> np.ndarray:
    """The array in an ``.npy`` file, which stays on disk."""
    with open_regular(path) as stream:
        start, shape, _, dtype = _header(stream.read(_HEADER))
        _check_filled(stream.seek(0, io.SEEK_END) - start, shape, dtype)
    return np.empty(shape, dtype) if math.prod(shape) == 0 else np.load(path, mmap_mode="r", allow_pickle=False)


def _header(head: bytes) -> tuple[int, tuple[int, ...], bool, np.dtype[Any]]:
    stream = io.BytesIO(head)
    version = np.lib.format.read_magic(stream)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"an array in version {version} of numpy's format")
    shape, fortran, dtype = readers[version](stream)
    if dtype.kind not in _KINDS or dtype.hasobject:
        raise ValueError(f"an array of {'Python objects' if dtype.hasobject else dtype}")
    return stream.tell(), shape, fortran, dtype


def _check_filled(size: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    declared = math.prod(shape) * dtype.itemsize
    if declared != size or any(length < 0 for length in shape):
        raise ValueError(f"an array of shape {shape}, which takes {declared:,} bytes, in {size:,}")


# -- tensors that torch read -------------------------------------------------------------------------------


def check_tree(path: Path, content: Any, size: int, limit: int | None = None) -> None:
    """Raise an error for tensors that spread a few bytes over a large shape, and for lists of lists that repeat
    themselves."""
    waiting, entries, declared = [(content, 0)], 0, 0
    while waiting:
        value, depth = waiting.pop()
        entries += 1
        if entries > MOST_ENTRIES or depth > DEEPEST:
            raise ValueError(f"more than {MOST_ENTRIES:,} entries, or {DEEPEST} levels of them")
        if isinstance(value, Tensor):
            declared += value.numel() * value.element_size() if value.layout == torch.strided else 0
        elif isinstance(value, dict):
            waiting += [(item, depth + 1) for item in value.values()]
        elif isinstance(value, (list, tuple, set)):
            waiting += [(item, depth + 1) for item in value]
    check_size(path, declared, size, limit)
