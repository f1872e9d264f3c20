"""Networks in files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import certgcl
from certgcl.errors import EncoderError
from certgcl.files.atomic import load_arrays, save_arrays
from certgcl.models import GraphNetwork
from certgcl.models.storage import FORMAT, meta_of
from tests.toys import random_graph, run_in, toy_network
from tests.zoo import FACTORIES, network_of

GRAPH = random_graph()


def parts(network: GraphNetwork) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    return {"format": FORMAT, **meta_of(network)}, {name: tensor.numpy() for name, tensor in network.named_tensors()}


@pytest.mark.parametrize("kind", FACTORIES)
def test_a_network_comes_back(kind: str, tmp_path: Path) -> None:
    network = network_of(kind, GRAPH)
    loaded = GraphNetwork.load(str(network.save(tmp_path / "network")))
    assert meta_of(loaded) == meta_of(network)
    assert loaded.reading == "traced"
    for (name, one), (_, other) in zip(network.named_tensors(), loaded.named_tensors(), strict=True):
        assert torch.equal(one, other), name
    assert torch.equal(network.embed(GRAPH), loaded.embed(GRAPH))


def test_the_precision_of_the_model_is_not_that_of_the_tensors(tmp_path: Path) -> None:
    network = run_in(toy_network(), torch.bfloat16).to(torch.float64)
    assert GraphNetwork.load(network.save(tmp_path / "network.npz")).precision == torch.bfloat16


CHANGES: dict[str, dict[str, Any]] = {
    "structure": {"structure": []},
    "names": {"names": ["one"]},
    "no text": {"names": [1, 2]},
    "readout": {"readout": [3]},
    "half": {"readout": [1.5]},
    "precision": {"precision": "float8"},
    "reading": {"reading": "proved"},
    "tensors": {"tensors": ["layer1.term0"]},
    "unknown": {"tensors": ["layer1.term0", "meta"]},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_is_wrong_with_a_description_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    meta, arrays = parts(toy_network())
    save_arrays(tmp_path / "network.npz", meta | change, arrays)
    with pytest.raises(EncoderError, match=r"network\.npz.*certgcl-network-1.*read_network"):
        GraphNetwork.load(tmp_path / "network.npz")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("aggregation", "median"),
        ("source", 1),
        ("source", True),
        ("loop", -1.0),
        ("loop", "1"),
        ("loop", None),
        ("power", 2.0),
    ],
)
def test_what_is_wrong_with_a_term_is_refused(place: str, value: Any, tmp_path: Path) -> None:
    meta, arrays = parts(toy_network())
    meta["structure"][0]["terms"][0][place] = value
    save_arrays(tmp_path / "network.npz", meta, arrays)
    with pytest.raises(EncoderError):
        GraphNetwork.load(tmp_path / "network.npz")


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("layer2.term0", np.ones((3, 4))),
        ("layer1.term0", np.ones((3, 4), dtype=int)),
        ("layer1.bias", np.ones(3)),
        ("layer2.bias", np.ones(3, dtype=np.float32)),
        ("layer1.activation.slope", np.ones(2)),
    ],
)
def test_what_is_wrong_with_a_tensor_is_refused(name: str, array: np.ndarray, tmp_path: Path) -> None:
    meta, arrays = parts(toy_network())
    save_arrays(tmp_path / "network.npz", meta, arrays | {name: array})
    with pytest.raises(EncoderError):
        GraphNetwork.load(tmp_path / "network.npz")


@pytest.mark.parametrize("name", ["sigma", "smooth", ""])
def test_an_activation_that_is_not_known_is_refused(name: str, tmp_path: Path) -> None:
    meta, arrays = parts(toy_network())
    meta["structure"][0]["activation"]["name"] = name
    save_arrays(tmp_path / "network.npz", meta, arrays)
    with pytest.raises(EncoderError):
        GraphNetwork.load(tmp_path / "network.npz")


def test_a_byte_that_changed_is_found(tmp_path: Path) -> None:
    path = toy_network().save(tmp_path / "network.npz")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(EncoderError):
        GraphNetwork.load(path)


def test_nothing_is_pickled(tmp_path: Path) -> None:
    path = toy_network().save(tmp_path / "network.npz")
    meta, _ = load_arrays(path, FORMAT, ())
    assert meta["structure"][0] == {
        "terms": [{"source": 0, "aggregation": "symmetric", "loop": 1.0}],
        "activation": {"name": "two-piece linear"},
    }
    with np.load(path, allow_pickle=False) as content:
        assert all(content[name].dtype.kind in "fU" for name in content.files)


def test_a_network_of_a_file_is_certified_like_the_model(tmp_path: Path) -> None:
    model = certgcl.GCNEncoder(3, 4, 2).double().eval()
    path = certgcl.read_network(model, GRAPH).save(tmp_path / "network.npz")
    one, other = (certgcl.node_compactness(each, GRAPH, 1) for each in (model, GraphNetwork.load(path)))
    assert torch.equal(one.lower, other.lower)
    assert one.evidence == other.evidence
