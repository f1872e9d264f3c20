"""The paper's graphs, where their files are at hand (``CERTGCL_DATA``)."""

import pytest
import torch

import certgcl
from benchmarks.real_graphs import data_root, load

pytestmark = pytest.mark.skipif(data_root() is None, reason="CERTGCL_DATA does not name a folder with the real graphs")

SIZES = {"Cora": (2708, 5278), "CiteSeer": (3327, 4552), "Flickr": (7575, 239738), "Photo": (7650, 119081)}


@pytest.mark.parametrize("name", SIZES)
def test_anchors_of_a_real_graph_can_be_certified(name: str) -> None:
    graph = certgcl.Graph.of(load(name))
    assert (graph.num_nodes, graph.num_edges) == SIZES[name]
    encoder = certgcl.GCNEncoder(graph.num_features, 8, 4).eval()
    anchors = graph.degree.argsort()[:: graph.num_nodes // 6][:6]  # from the smallest degrees up
    certificate = certgcl.node_compactness(encoder, graph, 0.4, nodes=anchors)
    assert (certificate.lower <= certificate.nominal + certificate.rounding).all()
    view = certgcl.EdgeDropBudget.from_drop_rate(0.4).on(graph)
    assert torch.equal(certificate.local_budget, view.local)
