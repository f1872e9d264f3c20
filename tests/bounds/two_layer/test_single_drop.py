"""All drops of one edge, tried at once."""

import pytest
import torch
from torch import Tensor

from certgcl.bounds.two_layer import single_drop
from certgcl.bounds.two_layer.single_drop import least_over_single_drops
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.graphs.graph import Graph
from certgcl.models import GraphNetwork
from tests.toys import (
    admissible_sets,
    changed,
    drop_problem,
    edges_of,
    gcn_weights,
    random_graph,
    random_tensor,
    tensors_of,
    toy_network,
    without,
)

LOCAL = torch.tensor([0, *[1] * 11])
BUDGET = EdgeDropBudget(LOCAL, total=1)


def one_by_one(weights: GraphNetwork, graph: Graph, directions: Tensor) -> Tensor:
    values = [
        (directions * weights.embed(without(graph, drops))[:, None]).sum(dim=2)
        for drops in admissible_sets(graph, LOCAL, total=1)
    ]
    assert len(values) > 5
    return torch.stack(values).amin(dim=0)


@pytest.mark.parametrize("anchors", [list(range(12)), [7, 2, 5]])
@pytest.mark.parametrize("at_once", [1, 1 << 12])
def test_the_least_is_that_of_graphs_built_one_by_one(
    anchors: list[int], at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(single_drop, "AT_ONCE", at_once)
    graph, weights, directions = random_graph(), toy_network(), random_tensor(12, 2, 3, seed=5)
    least, places = least_over_single_drops(gcn_weights(weights), drop_problem(graph, BUDGET, anchors), directions)
    assert places.tolist() == list(range(len(anchors)))
    torch.testing.assert_close(least, one_by_one(weights, graph, directions)[anchors], rtol=1e-12, atol=1e-12)


def test_anchors_with_too_much_around_them_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(single_drop, "MAX_SINGLE_DROPS", 40)
    graph, weights, directions = random_graph(), toy_network(), random_tensor(12, 1, 3, seed=5)
    least, places = least_over_single_drops(gcn_weights(weights), drop_problem(graph, BUDGET), directions)
    assert 0 < len(places) < 12
    torch.testing.assert_close(least, one_by_one(weights, graph, directions)[places], rtol=1e-12, atol=1e-12)


def test_it_has_gradients() -> None:
    graph, directions = random_graph(nodes=6), random_tensor(6, 1, 3, seed=5)
    network = toy_network()

    def least(w1: Tensor, w2: Tensor) -> Tensor:
        weights = gcn_weights(changed(network, w1=w1, w2=w2))
        return least_over_single_drops(weights, drop_problem(graph, EdgeDropBudget(total=1)), directions)[0]

    assert edges_of(graph)
    w1, _, _, w2, *_ = tensors_of(network)
    assert torch.autograd.gradcheck(least, (w1.clone().requires_grad_(), w2.clone().requires_grad_()))
