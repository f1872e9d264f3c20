"""Zip archives that end in the SHA-256 of all their other bytes, so that no changed byte goes unnoticed.

The checksum is in the archive's comment: numpy and torch read such a file like any other.
"""

import hashlib
import io
from typing import BinaryIO

_MARK = b"certgcl sha256 "
_DIGITS = 64
_END, _END_SIZE = b"PK\x05\x06", 22  # the last record of an archive without a comment
_PIECE = 1 << 20


def seal(stream: BinaryIO) -> None:
    """Put the checksum after an archive that was just written, and has no comment yet.

    Args:
        stream: readable and writable, containing only the archive.
    """
    stream.seek(-_END_SIZE, io.SEEK_END)
    last = stream.read()
    assert last.startswith(_END), "an archive with a comment"
    assert last.endswith(b"\0\0"), "an archive with a comment"
    stream.seek(-2, io.SEEK_END)
    stream.write((len(_MARK) + _DIGITS).to_bytes(2, "little") + _MARK)
    size = stream.tell()
    stream.seek(0)
    checksum = digest_of(stream, size)
    stream.seek(size)
    stream.write(checksum.encode())


def check_seal(stream: BinaryIO) -> None:
    """Compare the checksum; the stream is at its beginning afterwards.

    Raises:
        ValueError: there is none, or a byte has changed.
    """
    size = stream.seek(0, io.SEEK_END) - _DIGITS
    stream.seek(max(0, size - len(_MARK)))
    if stream.read(len(_MARK)) != _MARK or size <= len(_MARK):
        raise ValueError("no checksum at its end: truncated, modified, or written by another version of certgcl")
    noted = stream.read()
    stream.seek(0)
    if digest_of(stream, size).encode() != noted:
        raise ValueError("changed since it was written: its checksum does not match")
    stream.seek(0)


def digest_of(stream: BinaryIO, size: int | None = None) -> str:
    """SHA-256 of a stream to its end, or of its first bytes, a piece at a time."""
    state, left = hashlib.sha256(), size
    while piece := stream.read(_PIECE if left is None else min(_PIECE, left)):
        state.update(piece)
        left = None if left is None else left - len(piece)
    return state.hexdigest()
