"""No file that certgcl writes can be damaged without notice: it is refused, or what is read is the same."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

import certgcl
from certgcl.certify.certificate import Certificate
from certgcl.certify.sharding.manifest import Manifest
from certgcl.cli.run_folders import GraphSource
from certgcl.files.digest import digest
from certgcl.graphs.storage import load_data
from certgcl.learning.training import train
from certgcl.learning.training.checkpoint import Checkpoint, leaves
from certgcl.learning.training.run_config import read_config
from certgcl.learning.training.run_folder import read_history
from tests.learning.training.tiny_session import CONFIG, seeded
from tests.mutations import ROUNDS, tally
from tests.toys import random_graph, toy_network

GRAPH, WEIGHTS = random_graph(nodes=12, density=0.3), toy_network()
Case = tuple[Path, Callable[[], Any]]


def graph_data() -> Data:
    return Data(x=GRAPH.x, edge_index=GRAPH.edge_index, y=torch.arange(12) % 3)


def as_read(data: Data) -> dict[str, str]:
    """Everything a graph holds, by digest."""
    return {name: digest(value.clone()) if isinstance(value, Tensor) else repr(value) for name, value in data}


def in_words(state: Any) -> dict[str, Any]:
    return {
        name: digest(leaf) if isinstance(leaf, Tensor) else (type(leaf), repr(leaf)) for name, leaf in leaves(state)
    }


def folder_case(tmp_path: Path, name: str) -> Case:
    folder = certgcl.save_graph(tmp_path / "graph", graph_data())
    return folder / name, lambda: as_read(load_data(folder))


def npz_case(tmp_path: Path) -> Case:
    data, path = graph_data(), tmp_path / "graph.npz"
    np.savez(path, x=data.x.numpy(), edge_index=data.edge_index.numpy(), y=data.y.numpy())
    return path, lambda: as_read(load_data(path))


def compressed_case(tmp_path: Path) -> Case:
    data, path = graph_data(), tmp_path / "graph.npz"
    np.savez_compressed(path, x=data.x.numpy(), edge_index=data.edge_index.numpy(), y=data.y.numpy())
    return path, lambda: as_read(load_data(path))


def torch_case(tmp_path: Path, kind: Any) -> Case:
    data, path = graph_data(), tmp_path / "graph.pt"
    torch.save(kind(x=data.x, edge_index=data.edge_index, y=data.y), path)
    return path, lambda: as_read(load_data(path))


def run_case(tmp_path: Path, name: str) -> Case:
    train(seeded(), 8, folder=tmp_path, config=CONFIG)
    loads: dict[str, Callable[[], Any]] = {
        "history.jsonl": lambda: read_history(tmp_path).records,
        "config.json": lambda: read_config(tmp_path / "config.json"),
        "checkpoint.pt": lambda: in_words(vars(Checkpoint.load(tmp_path / "checkpoint.pt"))),
    }
    return tmp_path / name, loads[name]


def method_case(tmp_path: Path) -> Case:
    method = certgcl.GRACE(hidden=4, epochs=1, regularizer=certgcl.CompactnessRegularizer()).fit(graph_data())
    path = method.save(tmp_path / "method.pt")

    def load() -> Any:
        read = certgcl.GRACE.load(path)
        return in_words(read.settings()), in_words(dict(read.fitted_encoder().state_dict()))

    return path, load


def weights_case(tmp_path: Path) -> Case:
    path = WEIGHTS.save(tmp_path / "encoder.npz")
    return path, lambda: {name: digest(tensor) for name, tensor in certgcl.GraphNetwork.load(path).named_tensors()}


def certificate_case(tmp_path: Path) -> Case:
    path = certgcl.node_compactness(WEIGHTS, GRAPH, 1).save(tmp_path / "certificate.npz", {"note": [1, 2]})

    def load() -> Any:
        certificate, notes = Certificate.load_with_notes(path)
        return in_words(vars(certificate)), notes

    return path, load


def source_case(tmp_path: Path) -> Case:
    GraphSource(dataset="Cora").save(tmp_path, graph_data())
    return tmp_path / "source.json", lambda: GraphSource.of_run(tmp_path)


def shards_case(tmp_path: Path, name: str) -> Case:
    certgcl.certify_shards(WEIGHTS, GRAPH, 1, tmp_path, shards=2)
    certgcl.merge_shards(tmp_path)

    def merged() -> Any:
        manifest = Manifest.read(tmp_path)
        return manifest, in_words(vars(certgcl.merge_shards(tmp_path)))

    return tmp_path / name, merged


CASES: dict[str, Callable[[Path], Case]] = {
    "graph/x.npy": lambda tmp: folder_case(tmp, "x.npy"),
    "graph/edge_index.npy": lambda tmp: folder_case(tmp, "edge_index.npy"),
    "graph/y.npy": lambda tmp: folder_case(tmp, "y.npy"),
    "graph/graph.json": lambda tmp: folder_case(tmp, "graph.json"),
    "graph.npz": npz_case,
    "graph.npz, compressed": compressed_case,
    "graph.pt, Data": lambda tmp: torch_case(tmp, Data),
    "graph.pt, dict": lambda tmp: torch_case(tmp, dict),
    "history.jsonl": lambda tmp: run_case(tmp, "history.jsonl"),
    "config.json": lambda tmp: run_case(tmp, "config.json"),
    "checkpoint.pt": lambda tmp: run_case(tmp, "checkpoint.pt"),
    "method.pt": method_case,
    "encoder.npz": weights_case,
    "certificate.npz": certificate_case,
    "source.json": source_case,
    "manifest.json": lambda tmp: shards_case(tmp, "manifest.json"),
    "nodes.npy": lambda tmp: shards_case(tmp, "nodes.npy"),
    "shard": lambda tmp: shards_case(tmp, "shard-00001-of-00002.npz"),
}


SEALED = {
    "graph/x.npy",
    "graph/edge_index.npy",
    "graph/y.npy",
    "checkpoint.pt",
    "method.pt",
    "encoder.npz",
    "certificate.npz",
    "shard",
}  # in whole: no byte of them may change


@pytest.mark.parametrize("kind", CASES)
def test_damage_is_never_silent(kind: str, tmp_path: Path) -> None:
    path, load = CASES[kind](tmp_path)
    found = tally(path, load)
    assert found.silent == ()
    assert found.refused + found.harmless == ROUNDS
    assert found.refused >= (ROUNDS if kind in SEALED else 0.7 * ROUNDS)
