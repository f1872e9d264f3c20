"""Files that declare more than they should: refused before memory is taken, with both numbers."""

import io
import struct
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from torch_geometric.data import Data

import certgcl
from certgcl.errors import CertgclError, FileSizeError, GraphError
from certgcl.files import untrusted
from certgcl.files.atomic import load_arrays, load_tensors, save_arrays, save_tensors
from certgcl.files.sealed import seal
from certgcl.files.untrusted import array_in, check_tree, mapped_array, size_limit, unpacked

HALF = 1 << 29  # a gigabyte


def npy(shape: str, dtype: str = "<f8", content: bytes = b"") -> bytes:
    """An array by hand, whose header says what it likes."""
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}}}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + content


def bomb(path: Path, name: str, size: int = HALF, sealed: bool = False) -> Path:
    """An archive whose one member is that many zeros."""
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open(name, "w", force_zip64=True) as member,
    ):
        for _ in range(size >> 24):
            member.write(bytes(1 << 24))
    if sealed:
        with path.open("r+b") as stream:
            seal(stream)
    return path


# -- limits ----------------------------------------------------------------------------------------


def test_the_limit_is_that_of_the_caller_or_of_the_file_and_the_machine() -> None:
    assert size_limit(1, 5) == 5
    assert size_limit(1000) == untrusted.USUAL
    free = psutil.virtual_memory().available
    assert size_limit(1 << 60) <= 0.6 * free


@pytest.mark.parametrize(("name", "member"), [("g.npz", "x.npy"), ("g.pt", "g/data/0")])
def test_a_bomb_is_refused_before_it_takes_memory(name: str, member: str, tmp_path: Path) -> None:
    path = bomb(tmp_path / name, member)
    assert path.stat().st_size < 20 << 20
    tracemalloc.start()
    with pytest.raises(FileSizeError, match=r"which declares 536,870,912: it may take [\d,]+: 100 times.*limit="):
        certgcl.load_graph(path)
    assert tracemalloc.get_traced_memory()[1] < 10 << 20
    tracemalloc.stop()
    with pytest.raises(FileSizeError, match="it may take 1,000,000, as requested"):
        certgcl.load_graph(path, limit=1_000_000)


def test_a_sealed_bomb_is_refused_too(tmp_path: Path) -> None:
    path = bomb(tmp_path / "w.npz", "meta.npy", sealed=True)
    with pytest.raises(FileSizeError, match="declares 536,870,912"):
        certgcl.GraphNetwork.load(path)
    with pytest.raises(FileSizeError, match="declares 536,870,912"):
        certgcl.GRACE.load(path)


def test_an_archive_that_lies_about_its_sizes_is_not_unpacked_beyond_them(tmp_path: Path) -> None:
    path = bomb(tmp_path / "g.npz", "x.npy", 256 << 20)
    whole = bytearray(path.read_bytes())
    true, small = struct.pack("<L", 256 << 20), struct.pack("<L", 1000)
    central = whole.rfind(b"PK\x01\x02")
    assert whole[central + 24 : central + 28] == true
    whole[central + 24 : central + 28] = small
    path.write_bytes(whole)
    tracemalloc.start()
    with pytest.raises(GraphError, match="damaged"):
        certgcl.load_graph(path)
    assert tracemalloc.get_traced_memory()[1] < 20 << 20
    tracemalloc.stop()


def test_members_that_share_their_bytes_or_names_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "g.npz", "w") as archive:
        archive.writestr("x.npy", npy("(1,)", content=bytes(8)))
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("x.npy", npy("(1,)", content=bytes(8)))
    with pytest.raises(GraphError, match="two members of one name"):
        certgcl.load_graph(tmp_path / "g.npz")
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        with zipfile.ZipFile(tmp_path / "g.npz", "w", method) as archive:
            archive.writestr("x.npy", npy("(1,)", content=bytes(8)))
        with pytest.raises(GraphError, match="packed by method"):
            certgcl.load_graph(tmp_path / "g.npz")


def test_what_certgcl_writes_is_never_taken_for_a_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (untrusted, certgcl.files.atomic):
        monkeypatch.setattr(module, "USUAL", 1000)
    zeros = {"a": np.zeros(10**6)}
    save_arrays(tmp_path / "f", {"format": "x-1"}, zeros)
    assert load_arrays(tmp_path / "f", "x-1", ("a",))[1]["a"].sum() == 0


# -- arrays ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        npy("(1000000000000,)"),
        npy("(10, 10)", content=bytes(799)),
        npy("(10, 10)", content=bytes(801)),
        npy("(-1, -100)", content=bytes(800)),
        npy("(2,)", "|O", bytes(16)),
        npy("(1,)", "<M8[s]", bytes(8)),
        b"",
        b"\x93NUMPY",
        npy("(1,)", "<f8, <f8", bytes(16)),
        npy("(((" * 1000),
        b"\x93NUMPY\x03\x00\x00\x00\x00\x00",
        npy("(1.5,)"),
        npy("(9223372036854775807, 9223372036854775807)"),
    ],
    ids=range(13),
)
def test_an_array_fills_its_bytes_with_numbers(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(content)
    np.save(tmp_path / "edge_index.npy", np.zeros((2, 0), np.int64))
    with zipfile.ZipFile(tmp_path / "g.npz", "w") as archive:
        archive.writestr("x.npy", content)
    for path in (certgcl.seal_graph(tmp_path), tmp_path / "g.npz"):
        with pytest.raises(GraphError):
            certgcl.load_graph(path)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.zeros((0, 4)),
        np.array(3.5),
        np.array("text"),
        np.ones(3, bool),
    ],
    ids=str,
)
def test_arrays_come_back_and_can_be_written_to(array: np.ndarray, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", array)
    found = array_in(bytearray((tmp_path / "a.npy").read_bytes()))
    for other in (found, mapped_array(tmp_path / "a.npy")):
        assert np.array_equal(other, array)
        assert (other.dtype, other.shape) == (array.dtype, array.shape)
    assert found.flags.writeable


# -- tensors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Data, dict])
def test_a_tensor_that_spreads_a_number_over_a_large_shape_is_refused(kind: Any, tmp_path: Path) -> None:
    x = torch.zeros(1).expand(10**5, 10**6)
    torch.save(kind(x=x, edge_index=torch.zeros(2, 0, dtype=torch.long)), tmp_path / "g.pt")
    with pytest.raises(FileSizeError, match="declares 400,000,000,000"):
        certgcl.load_graph(tmp_path / "g.pt")


def test_lists_that_repeat_themselves_are_refused(tmp_path: Path) -> None:
    laughs: list[Any] = []
    for _ in range(30):
        laughs = [laughs] * 10
    save_tensors(tmp_path / "c", laughs)
    with pytest.raises(ValueError, match="entries"):
        load_tensors(tmp_path / "c")
    deep: list[Any] = []
    for _ in range(200):
        deep = [deep]
    with pytest.raises(ValueError, match="levels"):
        check_tree(tmp_path, deep, 1)


def test_a_stream_is_unpacked_as_it_was_packed(tmp_path: Path) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", b"x" * 5_000_000)
        archive.writestr("b", b"")
    assert unpacked(tmp_path, stream) == {"a": b"x" * 5_000_000, "b": b""}
    assert issubclass(FileSizeError, CertgclError)
