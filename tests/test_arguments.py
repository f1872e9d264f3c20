"""Values that used to be read as something else: each public call says what it may be given."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import certgcl
from certgcl import presets
from certgcl.encoder import GCNEncoder, GCNWeights
from certgcl.errors import DatasetError, DirectionError, EncoderError, EvaluationError, InputError

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


@pytest.mark.parametrize("bias", [True, float("nan"), float("inf"), 1j, "0", None, torch.ones(3), torch.ones(4).long(),
                                  torch.ones(4, device="meta"), torch.ones(4).to_sparse(), np.ones(4)])
def test_a_bias_is_a_finite_number_or_one_for_each_channel(bias: Any) -> None:
    with pytest.raises(EncoderError, match="b1"):
        GCNWeights(W1, bias, 0.0, W2, 0.0, 1.0)


@pytest.mark.parametrize("matrix", [W1.to("meta"), W1.to_sparse(), W1[:, :0], W1.to(torch.float8_e4m3fn), W1.tolist()])
def test_weights_are_matrices_that_hold_values(matrix: Any) -> None:
    with pytest.raises(EncoderError, match="w1"):
        GCNWeights(matrix, 0.0, 0.0, W2, 0.0, 1.0)


def test_weights_meet_a_graph_with_their_features() -> None:
    weights = GCNWeights(W1, 0.0, 0.0, W2, 0.0, 1.0)
    with pytest.raises(EncoderError, match="5 features per node"):
        weights.embed((torch.ones(2, 5), torch.tensor([[0, 1], [1, 0]])))
    with pytest.raises(EncoderError, match="dtype="):
        weights.to(torch.long)


@pytest.mark.parametrize("embeddings", [torch.ones(4), torch.ones(4, 2).long(), torch.ones(4, 2, device="meta"),
                                        [[1.0], [2.0]], None])
def test_directions_come_from_a_matrix(embeddings: Any) -> None:
    with pytest.raises(DirectionError):
        certgcl.compactness_directions(embeddings)


@pytest.mark.parametrize("seeds", [True, 0, -1, 2.0, "5", "01", [0, 0], [-1], [True], [0.0], [], {0: 1}, 2**70, None,
                                   range(2**40), torch.tensor([0.0]), np.array([[0]]), (number for number in "01")])
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
