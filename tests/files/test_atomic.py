import errno
import os
import socket
import time
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest

from certgcl.errors import CertgclError, CertificateError
from certgcl.files import atomic
from certgcl.files.atomic import load_arrays, read_members, refusing, remove_leftovers, save_arrays, write_atomically


def writes(content: bytes) -> Any:
    return lambda stream: stream.write(content)


# -- whole or not there ----------------------------------------------------------------------------


def test_a_file_is_written_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a"
    assert write_atomically(path, writes(b"one"))
    assert write_atomically(path, writes(b"two"))
    assert path.read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["a"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_atomically(path, writes(b"old"))

    def interrupted(stream: BinaryIO) -> None:
        stream.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, interrupted)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_a_full_disk_is_named_by_the_file_that_did_not_fit(tmp_path: Path) -> None:
    def full(stream: BinaryIO) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match=r"No space left on device: '.*/a'"):
        write_atomically(tmp_path / "a", full)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("links", [True, False])
def test_of_two_first_files_one_stays(tmp_path: Path, links: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError("no links on this file system")

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "a"
    assert write_atomically(path, writes(b"first"), replace=False)
    assert not write_atomically(path, writes(b"second"), replace=False)
    assert path.read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["a"]


def test_only_what_nobody_writes_any_more_is_removed(tmp_path: Path) -> None:
    here, nobody = socket.gethostname().replace(".", "-"), 2**22 + 1  # above the largest process number
    removed = [
        tmp_path / f".a.npz.{here}.{nobody}.0123abcd-0.tmp",
        tmp_path / f".a.npz.{here}.{os.getpid()}.0-0.tmp",
        tmp_path / f".old.npz.elsewhere.{os.getpid()}.0123abcd-0.tmp",
        tmp_path / f".a.npz.{here}.{nobody}.{atomic._TOKEN}-0.tmp",
        tmp_path / f".a.npz.{here}.{10**30}.0-0.tmp",
    ]
    kept = [
        tmp_path / f".a.npz.{here}.{os.getppid()}.0123abcd-0.tmp",
        tmp_path / f".a.npz.elsewhere.{nobody}.0-0.tmp",
        tmp_path / f".a.npz.{here}.{os.getpid()}.{atomic._TOKEN}-0.tmp",
        tmp_path / ".mine.tmp",
        tmp_path / "a.npz",
    ]
    for path in removed + kept:
        path.touch()
    long_ago = time.time() - 100 * 3600
    os.utime(removed[2], (long_ago, long_ago))
    remove_leftovers(tmp_path)
    assert set(tmp_path.iterdir()) == set(kept)


# -- arrays ----------------------------------------------------------------------------------------


def test_arrays_and_their_meaning_come_back(tmp_path: Path) -> None:
    arrays = {"a": np.arange(3), "b": np.zeros((0, 2), dtype=np.float32)}
    save_arrays(tmp_path / "f", {"format": "x-1", "k": [1]}, arrays)
    meta, read = load_arrays(tmp_path / "f", "x-1", ("b", "a"))
    assert meta == {"format": "x-1", "k": [1]}
    assert all(np.array_equal(read[name], arrays[name]) and read[name].dtype == arrays[name].dtype for name in arrays)


def test_a_changed_header_is_noticed_though_fewer_bytes_are_read(tmp_path: Path) -> None:
    """The checksum of an archive that a user made covers whole members: a shape must not read as fewer values."""
    path = tmp_path / "f.npz"
    np.savez(path, a=np.arange(100))
    whole = path.read_bytes()
    assert whole.count(b"(100,)") == 1
    path.write_bytes(whole.replace(b"(100,)", b"(10,) "))
    with pytest.raises(CertificateError, match="CRC"), refusing(path, CertificateError, "rule", "remedy"):
        read_members(path, ("a",))


def test_any_changed_byte_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f.npz"
    save_arrays(path, {"format": "x-1"}, {"a": np.linspace(0, 1, 20)})
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x41]) + whole[place + 1 :])
        with pytest.raises(CertgclError, match="checksum"), refusing(path, CertgclError, "rule", "remedy"):
            load_arrays(path, "x-1", ("a",))


def test_a_missing_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), refusing(tmp_path, CertgclError, "rule", "remedy"):
        load_arrays(tmp_path / "none", "x-1", ())
