"""Planetoid's files: the same graphs as PyG reads, and nothing that a hostile file asks for."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.real_graphs import data_root
from certgcl.errors import DatasetError
from certgcl.graphs.datasets import load_dataset
from certgcl.graphs.datasets.planetoid import read_planetoid
from tests.graphs.datasets.test_datasets import copy_of_cora, needs_files
from tests.mutations import mutations

RAN = "certgcl-test-ran"


class Code:
    """What a hostile file would run: it leaves a file behind."""

    def __init__(self, call: Callable[..., Any], *arguments: Any) -> None:
        self.call, self.arguments = call, arguments

    def __reduce__(self) -> Any:
        return self.call, self.arguments


@needs_files
@pytest.mark.parametrize("name", ["Cora", "CiteSeer", "PubMed"])
def test_the_graph_is_the_one_that_pyg_unpickles(name: str) -> None:
    from torch_geometric.io import read_planetoid_data

    folder = Path(str(data_root()), "Planetoid", name, "raw")
    expected, found = read_planetoid_data(str(folder), name.lower()), read_planetoid(folder, name.lower())
    assert set(found.keys()) == set(expected.keys())
    for key, value in expected:
        assert torch.equal(found[key], value), key
        assert found[key].dtype == value.dtype


@needs_files
@pytest.mark.parametrize("part", ["x", "tx", "allx", "y", "ty", "ally", "graph"])
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_no_file_can_run_code(part: str, protocol: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = copy_of_cora(tmp_path)
    monkeypatch.chdir(tmp_path)
    for hostile in (
        Code(Path(RAN).touch),
        Code(eval, f"open({RAN!r}, 'w')"),
        Code(np.save, RAN, 1),
        Code(np.load, RAN),
        Code(__import__, "antigravity"),
    ):
        (raw / f"ind.cora.{part}").write_bytes(pickle.dumps([hostile], protocol))
        with pytest.raises(DatasetError, match="must hold Cora"):
            load_dataset("Cora", tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["Planetoid"]


@needs_files
@pytest.mark.parametrize(
    ("part", "content"),
    [
        ("allx", b"\x80\x02r\xff\xff\xff\x7f."),
        ("allx", b"\x80\x02]r\xff\xff\xff\x7f."),  # a memo of 16 GB
        ("graph", b"\x80\x02ccollections\ndefaultdict\nq\x01c__builtin__\nlist\nq\x02\x85Rq\x03}b."),
        ("graph", b"\x80\x02cnumpy\nndarray\n}b."),
        ("graph", b"\x80\x02c__builtin__\neval\n."),
        ("graph", b"\x80\x02}K\x00]K\x01as."),
        ("graph", b"\x80\x02}K\x00]J\xff\xff\xff\xffas."),
    ],
)
def test_pickles_written_by_hand_are_refused(part: str, content: bytes, tmp_path: Path) -> None:
    (copy_of_cora(tmp_path) / f"ind.cora.{part}").write_bytes(content)
    if content == b"\x80\x02}K\x00]K\x01as.":
        assert load_dataset("Cora", tmp_path).num_edges == 2  # a graph with one edge is one
        return
    with pytest.raises(DatasetError, match="must hold Cora"):
        load_dataset("Cora", tmp_path)


@needs_files
@pytest.mark.parametrize("part", ["ty", "graph"])
def test_damage_ends_in_one_error_or_numbers(part: str, tmp_path: Path) -> None:
    """There is no checksum in these files: damage to a number is noticed by the digests of a run alone."""
    raw = copy_of_cora(tmp_path)
    path, ended = raw / f"ind.cora.{part}", 0
    for _, changed in mutations(path.read_bytes(), 30):
        path.write_bytes(changed)
        try:
            load_dataset("Cora", tmp_path)
        except DatasetError:
            ended += 1
    assert ended > 0
