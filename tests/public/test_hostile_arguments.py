"""Values that used to be read as something else: each public call says what it may be given."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import certgcl
from certgcl.errors import (
    CertificateError,
    DatasetError,
    DirectionError,
    EncoderError,
    EvaluationError,
    InputError,
    ShardError,
)
from certgcl.learning import presets
from certgcl.learning.schedules import Ramp
from certgcl.models import gcn_network
from certgcl.models.gcn_encoder import GCNEncoder
from tests.toys import random_graph, toy_network

W1, W2 = torch.ones(3, 4), torch.ones(4, 2)
EMBEDDINGS, LABELS = np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2


@pytest.mark.parametrize("width", [True, 4.0, "4", 0, -1, 2**40, np.array(4), torch.tensor(4), None])
def test_a_width_is_a_whole_number_that_memory_can_hold(width: Any) -> None:
    with pytest.raises(EncoderError, match="hidden_channels="):
        GCNEncoder(3, width, 2)


@pytest.mark.parametrize("activation", ["", "Relu", 0, [], np.array(["relu"]), torch.nn.ReLU, len])
def test_an_activation_is_a_name_or_a_module(activation: Any) -> None:
    for settings in ({"activation": activation}, {"out_activation": activation}):
        with pytest.raises(EncoderError, match="activation"):
            GCNEncoder(3, 4, 2, **settings)


@pytest.mark.parametrize(
    "bias",
    [
        True,
        float("nan"),
        float("inf"),
        1j,
        "0",
        None,
        torch.ones(3),
        torch.ones(4).long(),
        torch.ones(4, device="meta"),
        torch.ones(4).to_sparse(),
        np.ones(4),
    ],
)
def test_a_bias_is_a_finite_number_or_one_for_each_channel(bias: Any) -> None:
    with pytest.raises(EncoderError, match="bias"):
        gcn_network((W1, bias, 0.0), (W2, 0.0, 1.0))


@pytest.mark.parametrize("matrix", [W1.to("meta"), W1.to_sparse(), W1[:, :0], W1.to(torch.float8_e4m3fn), W1.tolist()])
def test_weights_are_matrices_that_hold_values(matrix: Any) -> None:
    with pytest.raises(EncoderError, match="weight"):
        gcn_network((matrix, 0.0, 0.0), (W2, 0.0, 1.0))


def test_weights_meet_a_graph_with_their_features() -> None:
    weights = gcn_network((W1, 0.0, 0.0), (W2, 0.0, 1.0))
    with pytest.raises(EncoderError, match="5 features per node"):
        weights.embed((torch.ones(2, 5), torch.tensor([[0, 1], [1, 0]])))
    with pytest.raises(EncoderError, match="dtype="):
        weights.to(torch.long)


@pytest.mark.parametrize(
    "embeddings", [torch.ones(4), torch.ones(4, 2).long(), torch.ones(4, 2, device="meta"), [[1.0], [2.0]], None]
)
def test_directions_come_from_a_matrix(embeddings: Any) -> None:
    with pytest.raises(DirectionError):
        certgcl.compactness_directions(embeddings)


@pytest.mark.parametrize(
    "seeds",
    [
        True,
        0,
        -1,
        2.0,
        "5",
        "01",
        [0, 0],
        [-1],
        [True],
        [0.0],
        [],
        {0: 1},
        2**70,
        None,
        range(2**40),
        torch.tensor([0.0]),
        np.array([[0]]),
        (number for number in "01"),
    ],
)
def test_seeds_are_a_number_of_them_or_a_list(seeds: Any) -> None:
    with pytest.raises(EvaluationError, match="seeds"):
        certgcl.evaluate(EMBEDDINGS, LABELS, seeds=seeds)


@pytest.mark.parametrize("seeds", [2, np.int64(2), [0, 1], (0, 1), range(2), np.array([0, 1]), torch.tensor([0, 1])])
def test_seeds_of_any_integer_type_are_the_same(seeds: Any) -> None:
    assert certgcl.evaluate(EMBEDDINGS, LABELS, seeds=seeds) == certgcl.evaluate(EMBEDDINGS, LABELS, seeds=[0, 1])


@pytest.mark.parametrize("values", [("0.5",), (float("nan"),), (1.5,), (), 0.5, "0.5", (True,), {0.5: 1}])
def test_an_evaluation_has_shares(values: Any) -> None:
    with pytest.raises(EvaluationError):
        certgcl.Evaluation("public", values, values)


@pytest.mark.parametrize("name", [None, 0, "", ["Cora"], b"Cora", Path("Cora"), "x" * 10**6])
def test_a_dataset_is_known_by_its_name(name: Any) -> None:
    with pytest.raises(DatasetError, match="dataset") as caught:
        certgcl.load_dataset(name)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("root", ["", 0, True, b"data", ["data"], "a\0b", "\ud800"])
def test_a_root_is_a_path_even_where_none_is_needed(root: Any) -> None:
    with pytest.raises(DatasetError, match="root="):
        certgcl.load_dataset("karate", root)


@pytest.mark.parametrize("asked", [("grace", "Cora", 1), (None, "Cora", True), (["grace"], "Cora", True)])
def test_a_preset_is_known_by_names(asked: tuple[Any, Any, Any]) -> None:
    method, dataset, fast = asked
    with pytest.raises(InputError):
        presets.get(method, dataset, fast=fast)


# -- questions and certificates --------------------------------------------------------------------

GRAPH, WEIGHTS = random_graph(nodes=8), toy_network()


@pytest.fixture(scope="module")
def certificate() -> certgcl.Certificate:
    return certgcl.node_compactness(WEIGHTS, GRAPH, 1, method="optimized", branch_limit=2)


@pytest.mark.parametrize(
    "nodes",
    [
        "01",
        b"01",
        {0: 1},
        {0, 1},
        [True, False],
        [0.0],
        [[0]],
        [],
        0,
        True,
        [8],
        [-1],
        [0, 0],
        torch.ones(7, dtype=torch.bool),
        torch.zeros(8, dtype=torch.bool),
        np.array([2**64 - 1], dtype=np.uint64),
        torch.tensor([0], device="meta"),
    ],
)
def test_nodes_are_distinct_numbers_or_a_mask(nodes: Any) -> None:
    with pytest.raises(InputError):
        certgcl.node_compactness(WEIGHTS, GRAPH, 1, method="interval", nodes=nodes)


@pytest.mark.parametrize(
    "settings",
    [
        {"dtype": "float64"},
        {"dtype": np.float64},
        {"dtype": torch.float16},
        {"views": None},
        {"views": ["one"]},
        {"memory_limit": True},
        {"memory_limit": float("nan")},
        {"memory_limit": "1GB"},
        {"memory_limit": 0},
        {"time_limit": True, "method": "exact"},
        {"branch_limit": 1.0, "method": "exact"},
    ],
)
def test_settings_of_a_question_are_what_they_say(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(settings))):
        certgcl.node_compactness(WEIGHTS, GRAPH, 1, **settings)


@pytest.mark.parametrize("node", [True, 1.0, "1", None, -1, 99, torch.tensor(1), np.array([1, 2])])
def test_a_witness_is_that_of_an_anchor(certificate: certgcl.Certificate, node: Any) -> None:
    assert certificate.witness(np.int64(1)).shape[0] == 2
    with pytest.raises(CertificateError):
        certificate.witness(node)


@pytest.mark.parametrize(
    "positions", [[-1], [8], [0, 0], [], [0.0], 0, "0", None, slice(2), torch.ones(7, dtype=bool), [True]]
)
def test_positions_are_places_of_anchors(certificate: certgcl.Certificate, positions: Any) -> None:
    with pytest.raises(CertificateError, match="positions"):
        certificate.at(positions)


@pytest.mark.parametrize("parts", [[], None, "parts", [None], (part for part in ())])
def test_certificates_alone_are_joined(parts: Any) -> None:
    with pytest.raises(CertificateError, match="parts"):
        certgcl.Certificate.joined(parts)


@pytest.mark.parametrize("notes", [[], "a", {"a": torch.ones(2)}, {"a": float("nan")}, {(1, 2): 3}])
def test_notes_are_what_json_can_hold(certificate: certgcl.Certificate, tmp_path: Path, notes: Any) -> None:
    with pytest.raises(CertificateError, match="notes"):
        certificate.save(tmp_path / "certificate.npz", notes)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "settings",
    [
        {"shards": True},
        {"shards": 2.0},
        {"shards": 0},
        {"only": "0"},
        {"only": [True]},
        {"only": [0, 0]},
        {"only": {0: 1}},
        {"worker": "01"},
        {"worker": (0, 1, 2)},
        {"worker": (False, True)},
        {"worker": (0.0, 1)},
        {"worker": (1, 1)},
        {"order": ["near"]},
        {"progress": 1},
    ],
)
def test_shards_are_counted(tmp_path: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        certgcl.certify_shards(WEIGHTS, GRAPH, 1, tmp_path / "out", **{"shards": 2, **settings})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", ["", 0, b"out", None, "a\0b"])
def test_the_folder_of_shards_is_a_path(path: Any) -> None:
    with pytest.raises(ShardError, match="out="):
        certgcl.merge_shards(path)
    with pytest.raises(ShardError, match="out="):
        certgcl.certify_shards(WEIGHTS, GRAPH, 1, path)


@pytest.mark.parametrize(
    "settings",
    [
        {"kappa": True},
        {"kappa": float("nan")},
        {"kappa": float(np.nextafter(1, 2))},
        {"kappa": "0.4"},
        {"kappa": Ramp(1.5)},
        {"anchors": 2.0},
        {"anchors": True},
        {"anchors": 0},
        {"anchors": -2},
        {"scale": True},
        {"scale": float("inf")},
        {"every": 0},
        {"every": 1.0},
        {"budget": Ramp(2.0)},
        {"budget": Ramp(-0.1)},
        {"budget": True},
        {"budget": "0.4"},
        {"method": None},
    ],
)
def test_settings_of_a_regularizer_are_what_they_say(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        certgcl.CompactnessRegularizer(**settings)


@pytest.mark.parametrize(
    "settings",
    [
        None,
        [],
        "kappa",
        {"kapa": 0.4},
        {1: 2},
        {"kappa": {}},
        {"kappa": {"ramp": 1}},
        {"kappa": {"ramp": {}}},
        {"kappa": {"ramp": {"last": "a"}}},
    ],
)
def test_a_regularizer_is_made_of_its_settings(settings: Any) -> None:
    with pytest.raises(InputError):
        certgcl.CompactnessRegularizer.from_dict(settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"search": 1},
        {"y": "01010101"},
        {"y": [True, False] * 4},
        {"y": torch.zeros(8)},
        {"classifier": "svm"},
        {"classifier": torch.full((2, 3), torch.nan)},
        {"classifier": (torch.eye(3), torch.zeros(3), 1)},
        {"classifier": torch.eye(3).bool()},
        {"classifier": torch.eye(3, device="meta")},
    ],
)
def test_an_accuracy_is_that_of_a_linear_classifier(settings: dict[str, Any]) -> None:
    asked = {"classifier": torch.eye(3), "y": torch.arange(8) % 3, "search": False, **settings}
    with pytest.raises(InputError):
        certgcl.certified_accuracy(WEIGHTS, asked["classifier"], GRAPH, asked["y"], 1, search=asked["search"])
