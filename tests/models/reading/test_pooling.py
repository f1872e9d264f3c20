"""Models of whole graphs are read as their nodes' network, a pooling and a linear head; others are refused."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Batch
from torch_geometric.nn import GCNConv, global_add_pool, global_max_pool, global_mean_pool

from certgcl.certify.pooling.graph_set import GraphSet
from certgcl.errors import EncoderError
from certgcl.models.pooled_network import PooledNetwork
from certgcl.models.reading.pooling import read_pooled_network
from tests.certify.pooling.test_pooled_bounds import graphs

SET = GraphSet.of(graphs())


class Model(nn.Module):
    """Two convolutions, and what a test makes of their outputs."""

    def __init__(self, after: Callable[..., Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv1, self.conv2, self.lin, self.last = GCNConv(3, 4), GCNConv(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)
        self.norm, self.wide = nn.BatchNorm1d(4), nn.Linear(8, 2)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2)
        self.after = after

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Any:
        one = self.conv1(x, edge_index).relu()
        two = self.conv2(one, edge_index)
        return self.after(self, one, two, edge_index, batch)


def read(after: Callable[..., Any]) -> PooledNetwork:
    model = Model(after).double().eval()
    graph = SET.union.to(dtype=torch.float64)
    found = read_pooled_network(model, graph, SET.batch)
    with torch.no_grad():
        expected = model(graph.x, graph.edge_index, SET.batch)
    torch.testing.assert_close(found.to(torch.float64).embed(graph, SET.batch), expected)
    return found


def mean(model: Model, one: Tensor, two: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
    return global_mean_pool(two, batch)


def linear(model: Model, one: Tensor, two: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
    return model.last(global_add_pool(two, batch))


def several(model: Model, one: Tensor, two: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
    h = model.norm(model.lin(global_max_pool(two, batch)))
    return model.last(2 * h - 1)


def jumping(model: Model, one: Tensor, two: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
    return model.wide(torch.cat([global_mean_pool(one, batch), global_mean_pool(two, batch)], dim=1))


def side_by_side(model: Model, one: Tensor, two: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
    return torch.cat([global_add_pool(one, batch), global_add_pool(two, batch)], dim=-1)


def twice(model: Model, one: Tensor, two: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
    pooled = global_mean_pool(two, batch)
    return pooled + model.lin(pooled)


@pytest.mark.parametrize(
    ("after", "pool", "head"),
    [
        (mean, "mean", False),
        (linear, "sum", True),
        (several, "max", True),
        (jumping, "mean", True),
        (side_by_side, "sum", False),
        (twice, "mean", True),
    ],
)
def test_pooling_and_linear_layers_are_read(after: Callable[..., Any], pool: str, head: bool) -> None:
    found = read(after)
    assert (found.pool, found.head is not None) == (pool, head)


def no_pooling(model: Model, one: Tensor, two: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
    return two


def nonlinear(model: Model, one: Tensor, two: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
    return model.last(model.lin(global_mean_pool(two, batch)).relu())


def by_another_batch(model: Model, one: Tensor, two: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
    return global_mean_pool(two, None)


def with_a_size(model: Model, one: Tensor, two: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
    return global_mean_pool(two, batch, 4)


def two_kinds(model: Model, one: Tensor, two: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
    return torch.cat([global_mean_pool(two, batch), global_max_pool(two, batch)], dim=1)


def pooled_again(model: Model, one: Tensor, two: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
    return global_mean_pool(global_mean_pool(two, batch), batch)


def convolved_after(model: Model, one: Tensor, two: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
    return model.conv2(global_mean_pool(two, batch), edge_index)


def nodes_and_graphs(model: Model, one: Tensor, two: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
    return two + global_mean_pool(two, batch)


def pooled_in_between(model: Model, one: Tensor, two: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
    return global_mean_pool(two + global_mean_pool(two, batch), batch)


def indexed(model: Model, one: Tensor, two: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
    return global_mean_pool(two, batch)[batch]


def batch_itself(model: Model, one: Tensor, two: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
    return batch


def batch_changed(model: Model, one: Tensor, two: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
    batch.relu_()
    return global_mean_pool(two, batch)


@pytest.mark.parametrize(
    "after",
    [
        no_pooling,
        nonlinear,
        by_another_batch,
        with_a_size,
        two_kinds,
        pooled_again,
        convolved_after,
        nodes_and_graphs,
        pooled_in_between,
        indexed,
        batch_itself,
        batch_changed,
    ],
)
def test_all_else_is_refused(after: Callable[..., Any]) -> None:
    with pytest.raises(EncoderError):
        read_pooled_network(Model(after).eval(), SET.union, SET.batch)


def test_a_pooling_function_that_was_replaced_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch_geometric.nn.pool.glob as pooling

    monkeypatch.setattr(pooling, "scatter", lambda *given, **more: pooling.scatter(*given, **more))
    with pytest.raises(EncoderError, match="replaced"):
        read_pooled_network(Model(mean).eval(), SET.union, SET.batch)


def test_a_batch_of_one_graph_is_read() -> None:
    one = GraphSet.of(Batch.from_data_list(graphs(1)))
    assert read_pooled_network(Model(linear).eval(), one.union, one.batch).width == 2
