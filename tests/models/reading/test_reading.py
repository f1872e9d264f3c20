from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GCN, GCNConv, Sequential
from torch_geometric.utils import add_self_loops

from certgcl.graphs.graph import Graph
from certgcl.models.gcn_encoder import ACTIVATIONS, GCNEncoder
from certgcl.models.reading import read_network
from tests.encoders import Layers, Net, assert_reads, identity, prepared, refusal, slopes

# -- what can be read ------------------------------------------------------------------------------


@pytest.mark.parametrize("out_activation", ["same", None])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_reads_every_encoder_of_ours(activation: str, out_activation: str | None, either_graph: Graph) -> None:
    assert_reads(prepared(GCNEncoder(5, 4, 3, activation, out_activation)), either_graph)


def test_reads_a_slope_per_channel(graph: Graph) -> None:
    model = prepared(GCNEncoder(5, 4, 3, nn.PReLU(4), nn.PReLU(3)))
    model.activation.weight.data = torch.tensor([-0.5, 0.0, 0.3, 2.0], dtype=torch.float64)
    model.out_activation.weight.data = torch.tensor([1.5, -1.0, 0.1], dtype=torch.float64)
    network = assert_reads(model, graph)
    assert slopes(network) == [model.activation.weight.tolist(), model.out_activation.weight.tolist()]


@pytest.mark.parametrize(
    "options", [{}, {"act": "leaky_relu"}, {"act": "PReLU"}, {"act": None}, {"bias": False}, {"dropout": 0.5}]
)
def test_reads_a_pyg_gcn(options: dict[str, Any], either_graph: Graph) -> None:
    network = assert_reads(prepared(GCN(5, 4, num_layers=2, out_channels=3, **options)), either_graph)
    assert slopes(network)[1] == [1.0] * 3


@pytest.mark.parametrize(
    ("activation", "slope"),
    [
        (torch.relu, 0.0),
        (F.leaky_relu, 0.01),
        (nn.ReLU(inplace=True), 0.0),
        (nn.LeakyReLU(0.5, inplace=True), 0.5),
        (identity, 1.0),
        (torch.abs, -1.0),
        (lambda p: p.clamp(min=0), 0.0),
        (nn.RReLU(0.1, 0.3), 0.2),
        (partial(F.leaky_relu, negative_slope=0.5), 0.5),
        (nn.Sequential(nn.LeakyReLU(0.5), nn.ReLU()), 0.0),
    ],
)
def test_reads_activations_whatever_they_are_written_in(
    activation: Callable[[Tensor], Tensor], slope: float, graph: Graph
) -> None:
    between = assert_reads(prepared(Net(between=activation)), graph)
    after = assert_reads(prepared(Net(after=activation)), graph)
    assert slopes(between)[0] == pytest.approx([slope] * 4)
    assert slopes(after)[1] == pytest.approx([slope] * 3)
    assert slopes(after)[0] == [0.0] * 4


def test_uses_the_order_of_calls_not_of_registration(graph: Graph) -> None:
    model = prepared(Net())
    network = read_network(model, graph)
    assert torch.equal(network.layers[0].terms[0].weight, model.first.lin.weight.T)
    assert torch.equal(network.layers[1].terms[0].weight, model.second.lin.weight.T)
    assert [layer.name for layer in network.layers] == ["first", "second"]


def test_reads_a_pyg_sequential(graph: Graph) -> None:
    steps = [(GCNConv(5, 4), "x, edge_index -> x"), nn.PReLU(4), (GCNConv(4, 3), "x, edge_index -> x")]
    assert_reads(prepared(Sequential("x, edge_index", steps)), graph)


def test_layers_may_be_called_with_keywords_and_self_loops(graph: Graph) -> None:
    def forward(net: Layers, x: Tensor, edge_index: Tensor) -> Tensor:
        loops, _ = add_self_loops(edge_index, num_nodes=len(x))
        return net.b(x=net.a(x=x, edge_index=loops).relu(), edge_index=loops, edge_weight=None)

    assert_reads(prepared(Layers(forward, a=GCNConv(5, 4), b=GCNConv(4, 3))), graph)


def test_modules_that_are_not_called_do_not_matter(graph: Graph) -> None:
    model = prepared(Net())
    model.projection = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5)).double()
    model.target = GCNConv(4, 3).double()
    assert_reads(model, graph)


def test_reads_a_layer_that_is_used_twice(graph: Graph) -> None:
    model = Layers(lambda net, x, e: net.conv(net.conv(x, e).relu(), e), conv=GCNConv(5, 5))
    assert_reads(prepared(model), graph)


def test_zero_bias_stands_for_none(graph: Graph) -> None:
    network = assert_reads(prepared(Net(bias=False)), graph)
    assert [layer.bias.tolist() for layer in network.layers] == [[0.0] * 4, [0.0] * 3]


@pytest.mark.parametrize("nodes", [1, 2])
def test_graphs_may_be_smaller_than_the_probes(nodes: int) -> None:
    edges = torch.tensor([[0, 1], [1, 0]]) if nodes == 2 else torch.empty(2, 0, dtype=torch.long)
    assert_reads(prepared(GCNEncoder(5, 40, 30, "prelu")), Graph.of((torch.randn(nodes, 5).double(), edges)))


@pytest.mark.parametrize("model_dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("graph_dtype", [torch.float32, torch.float64])
def test_model_and_graph_may_differ_in_dtype(
    model_dtype: torch.dtype, graph_dtype: torch.dtype, either_graph: Graph
) -> None:
    assert_reads(GCNEncoder(5, 4, 3).to(model_dtype), either_graph.to(dtype=graph_dtype), tolerance=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_reads_half_precision(dtype: torch.dtype, graph: Graph) -> None:
    network = read_network(GCNEncoder(5, 4, 3, "prelu").to(dtype), graph)
    assert network.dtype == network.precision == dtype
    assert slopes(network)[0] == [0.25] * 4


def test_rounding_at_real_sizes_is_no_reason_to_refuse() -> None:
    star = torch.stack([torch.zeros(3000, dtype=torch.long), torch.arange(1, 3001)])
    graph = Graph.of((torch.randn(3001, 300), torch.cat([star, star.flip(0)], dim=1)))
    read_network(GCNEncoder(300, 64, 32, "relu"), graph)


def test_cancellation_is_no_reason_to_refuse(graph: Graph) -> None:
    model = GCNEncoder(5, 4, 3, "relu", None)
    with torch.no_grad():  # pairs of equal hidden channels with opposite weights: the true embedding is zero
        model.conv1.lin.weight[2:] = model.conv1.lin.weight[:2] * (1 + 2**-20)
        model.conv2.lin.weight[:, 2:] = -1e4
        model.conv2.lin.weight[:, :2] = 1e4
    read_network(model, graph)


def test_networks_are_returned_as_they_are(graph: Graph) -> None:
    network = read_network(GCNEncoder(5, 4, 3), graph)
    assert read_network(network, graph) is network


def test_weights_and_slopes_can_be_trained(graph: Graph) -> None:
    model = prepared(GCNEncoder(5, 4, 3, nn.PReLU(4), "prelu"))
    parameters = list(model.parameters())
    ours = torch.autograd.grad(read_network(model, graph).embed(graph).square().sum(), parameters)
    theirs = torch.autograd.grad(model(graph.x, graph.edge_index).square().sum(), parameters)
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def test_weights_have_no_history_without_grad_mode(graph: Graph) -> None:
    with torch.no_grad():
        network = read_network(GCNEncoder(5, 4, 3, "prelu"), graph)
    assert all(tensor.grad_fn is None for _, tensor in network.named_tensors())


# -- no side effects -------------------------------------------------------------------------------


def state_of(model: nn.Module) -> tuple[Any, ...]:
    return (
        {name: value.clone() for name, value in model.state_dict().items()},
        torch.get_rng_state(),
        [module.training for module in model.modules()],
        [p.grad for p in model.parameters()],
        sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()),
    )


def assert_untouched(before: tuple[Any, ...], model: nn.Module) -> None:
    torch.testing.assert_close(state_of(model), before, rtol=0, atol=0)


def test_reading_leaves_the_model_as_it_was(graph: Graph) -> None:
    model = GCN(5, 4, num_layers=2, out_channels=3).double().train()
    x, before = graph.x.clone(), state_of(model)
    read_network(model, graph)
    assert_untouched(before, model)
    assert torch.equal(graph.x, x)


@pytest.mark.parametrize(
    "model",
    [
        GCN(5, 4, num_layers=2, out_channels=3, norm="batch_norm", dropout=0.5),
        Net(between=lambda p: F.dropout(p)),
        Net(between=lambda p: p / 0 + p[:, :2]),
    ],
    ids=["batch norm", "dropout", "forward fails"],
)
def test_refusing_leaves_the_model_as_it_was(model: nn.Module, graph: Graph) -> None:
    model.double().train()
    before = state_of(model)
    refusal(model, graph)
    assert_untouched(before, model)


def test_a_model_that_works_in_place_does_not_reach_the_graph(graph: Graph) -> None:
    x = graph.x.clone()
    assert "mul_ on x" in refusal(prepared(Net(before=lambda x: x.mul_(2))), graph)
    assert "x changed in place" in refusal(prepared(Net(before=lambda x: x.relu_())), graph)
    assert "does not get the features" in refusal(prepared(Net(before=lambda x: x.mul_(2))), graph, "probed")
    assert torch.equal(graph.x, x)
