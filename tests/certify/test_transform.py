"""Compactness attached to a ``Data`` by a transform."""

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.transforms import Compose, ToUndirected

import certgcl
from certgcl.errors import GraphError
from tests.toys import random_graph, toy_network

GRAPH = random_graph()


@pytest.fixture
def data() -> Data:
    return Data(x=GRAPH.x, edge_index=GRAPH.edge_index)


def test_bounds_are_attached_to_a_copy(data: Data) -> None:
    found = Compose([ToUndirected(), certgcl.AttachCompactness(toy_network(), 1)])(data)
    expected = certgcl.node_compactness(toy_network(), data, 1)
    assert torch.equal(found.lower, expected.lower)
    assert torch.equal(found.positive, expected.positive)
    assert "upper" not in found
    assert "lower" not in data


def test_a_search_attaches_upper_values_and_other_nodes_have_none(data: Data) -> None:
    transform = certgcl.AttachCompactness(toy_network(), 1, method="exact", nodes=[3, 1])
    found, expected = transform(data), certgcl.node_compactness(toy_network(), data, 1, method="exact", nodes=[3, 1])
    assert found.upper[[3, 1]].tolist() == expected.upper.tolist()
    assert torch.isfinite(found.lower).nonzero()[:, 0].tolist() == [1, 3]
    assert not found.positive[[0, 2]].any()
    assert repr(transform) == "AttachCompactness(GraphNetwork, budgets=1, method='exact', nodes=[3, 1])"


def test_what_is_no_data_is_refused() -> None:
    with pytest.raises(GraphError, match="PyG Data"):
        certgcl.AttachCompactness(toy_network(), 1)(GRAPH)
