from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GAT, GCN, GATConv, GCNConv, SAGEConv, Sequential
from torch_geometric.utils import add_self_loops

from certgcl.encoder import ACTIVATIONS, GCNEncoder, GCNWeights
from certgcl.errors import EncoderError
from certgcl.graph import Graph
from certgcl.reading import read_encoder


def identity(x: Tensor) -> Tensor:
    return x


class Net(nn.Module):
    """Two layers as users write them, with a function of the caller's choice in every place."""

    def __init__(self, between: Callable[[Tensor], Tensor] = torch.relu, after: Callable[[Tensor], Any] = identity,
                 before: Callable[[Tensor], Tensor] = identity, **settings: Any) -> None:
        super().__init__()
        self.second = GCNConv(4, 3, **settings)  # registered before the first on purpose
        self.first = GCNConv(5, 4, **settings)
        self.before, self.between, self.after = before, between, after

    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        hidden = self.between(self.first(self.before(x), edge_index))
        return self.after(self.second(hidden, edge_index))


class Layers(nn.Module):
    """Named layers and a forward given as a function of them."""

    def __init__(self, forward: Callable[..., Any], **layers: nn.Module) -> None:
        super().__init__()
        for name, layer in layers.items():
            self.add_module(name, layer)
        self.run = forward

    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        return self.run(self, x, edge_index)


def prepared(model: nn.Module) -> nn.Module:
    """The model in float64 and eval mode, with biases that are not zero."""
    for module in model.modules():
        if isinstance(module, GCNConv) and module.bias is not None:
            nn.init.normal_(module.bias)
    return model.double().eval()


def assert_reads(model: nn.Module, graph: Graph, tolerance: float = 1e-12) -> GCNWeights:
    weights = read_encoder(model, graph)
    dtype = next(model.parameters()).dtype
    output = model(graph.x.to(dtype), graph.edge_index)
    assert {tensor.dtype for _, tensor in weights.named_tensors()} == {dtype}
    torch.testing.assert_close(weights.embed(graph), output, rtol=tolerance, atol=tolerance)
    return weights


def refusal(model: Any, graph: Graph) -> str:
    with pytest.raises(EncoderError) as caught:
        read_encoder(model, graph)
    return str(caught.value)


# -- what can be read ------------------------------------------------------------------------------


@pytest.mark.parametrize("out_activation", ["same", None])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_reads_every_encoder_of_ours(activation: str, out_activation: str | None, either_graph: Graph) -> None:
    assert_reads(prepared(GCNEncoder(5, 4, 3, activation, out_activation)), either_graph)


def test_reads_a_slope_per_channel(graph: Graph) -> None:
    model = prepared(GCNEncoder(5, 4, 3, nn.PReLU(4), nn.PReLU(3)))
    model.activation.weight.data = torch.tensor([-0.5, 0.0, 0.3, 2.0], dtype=torch.float64)
    model.out_activation.weight.data = torch.tensor([1.5, -1.0, 0.1], dtype=torch.float64)
    weights = assert_reads(model, graph)
    assert torch.equal(weights.slope1, model.activation.weight)
    assert torch.equal(weights.slope2, model.out_activation.weight)


@pytest.mark.parametrize("options", [{}, {"act": "leaky_relu"}, {"act": "PReLU"}, {"act": None}, {"bias": False},
                                     {"dropout": 0.5}])
def test_reads_a_pyg_gcn(options: dict[str, Any], either_graph: Graph) -> None:
    weights = assert_reads(prepared(GCN(5, 4, num_layers=2, out_channels=3, **options)), either_graph)
    assert (weights.slope2 == 1).all()


@pytest.mark.parametrize(("activation", "slope"), [
    (torch.relu, 0.0), (F.leaky_relu, 0.01), (nn.ReLU(inplace=True), 0.0), (nn.LeakyReLU(0.5, inplace=True), 0.5),
    (identity, 1.0), (torch.abs, -1.0), (lambda p: 0.6 * p + 0.4 * p.abs(), 0.2), (nn.RReLU(0.1, 0.3), 0.2),
])
def test_reads_activations_whatever_they_are_written_in(activation: Callable[[Tensor], Tensor], slope: float,
                                                        graph: Graph) -> None:
    between = assert_reads(prepared(Net(between=activation)), graph)
    after = assert_reads(prepared(Net(after=activation)), graph)
    assert between.slope1.tolist() == pytest.approx([slope] * 4)
    assert after.slope2.tolist() == pytest.approx([slope] * 3)
    assert after.slope1.tolist() == [0.0] * 4


def test_uses_the_order_of_calls_not_of_registration(graph: Graph) -> None:
    model = prepared(Net())
    weights = read_encoder(model, graph)
    assert torch.equal(weights.w1, model.first.lin.weight.T)
    assert torch.equal(weights.w2, model.second.lin.weight.T)


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


def test_zero_bias_stands_for_none(graph: Graph) -> None:
    weights = assert_reads(prepared(Net(bias=False)), graph)
    assert weights.b1.tolist() == [0.0] * 4
    assert weights.b2.tolist() == [0.0] * 3


@pytest.mark.parametrize("nodes", [1, 2])
def test_graphs_may_be_smaller_than_the_probes(nodes: int) -> None:
    edges = torch.tensor([[0, 1], [1, 0]]) if nodes == 2 else torch.empty(2, 0, dtype=torch.long)
    assert_reads(prepared(GCNEncoder(5, 40, 30, "prelu")), Graph.of((torch.randn(nodes, 5).double(), edges)))


@pytest.mark.parametrize("model_dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("graph_dtype", [torch.float32, torch.float64])
def test_model_and_graph_may_differ_in_dtype(model_dtype: torch.dtype, graph_dtype: torch.dtype,
                                             either_graph: Graph) -> None:
    assert_reads(GCNEncoder(5, 4, 3).to(model_dtype), either_graph.to(dtype=graph_dtype), tolerance=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_reads_half_precision(dtype: torch.dtype, graph: Graph) -> None:
    weights = read_encoder(GCNEncoder(5, 4, 3, "prelu").to(dtype), graph)
    assert weights.w1.dtype == dtype
    assert weights.slope1.tolist() == [0.25] * 4


def test_rounding_at_real_sizes_is_no_reason_to_refuse() -> None:
    star = torch.stack([torch.zeros(3000, dtype=torch.long), torch.arange(1, 3001)])
    graph = Graph.of((torch.randn(3001, 300), torch.cat([star, star.flip(0)], dim=1)))
    read_encoder(GCNEncoder(300, 64, 32, "relu"), graph)


def test_cancellation_is_no_reason_to_refuse(graph: Graph) -> None:
    model = GCNEncoder(5, 4, 3, "relu", None)
    with torch.no_grad():  # pairs of equal hidden channels with opposite weights: the true embedding is zero
        model.conv1.lin.weight[2:] = model.conv1.lin.weight[:2] * (1 + 2**-20)
        model.conv2.lin.weight[:, 2:] = -1e4
        model.conv2.lin.weight[:, :2] = 1e4
    read_encoder(model, graph)


def test_weights_are_returned_as_they_are(graph: Graph) -> None:
    weights = read_encoder(GCNEncoder(5, 4, 3), graph)
    assert read_encoder(weights, graph) is weights


def test_weights_and_slopes_can_be_trained(graph: Graph) -> None:
    model = prepared(GCNEncoder(5, 4, 3, nn.PReLU(4), "prelu"))
    parameters = list(model.parameters())
    ours = torch.autograd.grad(read_encoder(model, graph).embed(graph).square().sum(), parameters)
    theirs = torch.autograd.grad(model(graph.x, graph.edge_index).square().sum(), parameters)
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def test_weights_have_no_history_without_grad_mode(graph: Graph) -> None:
    with torch.no_grad():
        weights = read_encoder(GCNEncoder(5, 4, 3, "prelu"), graph)
    assert all(tensor.grad_fn is None for _, tensor in weights.named_tensors())


# -- no side effects -------------------------------------------------------------------------------


def state_of(model: nn.Module) -> tuple[Any, ...]:
    return ({name: value.clone() for name, value in model.state_dict().items()}, torch.get_rng_state(),
            [module.training for module in model.modules()], [p.grad for p in model.parameters()],
            sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()))


def assert_untouched(before: tuple[Any, ...], model: nn.Module) -> None:
    torch.testing.assert_close(state_of(model), before, rtol=0, atol=0)


def test_reading_leaves_the_model_as_it_was(graph: Graph) -> None:
    model = GCN(5, 4, num_layers=2, out_channels=3).double().train()
    x, before = graph.x.clone(), state_of(model)
    read_encoder(model, graph)
    assert_untouched(before, model)
    assert torch.equal(graph.x, x)


@pytest.mark.parametrize("model", [
    GCN(5, 4, num_layers=2, out_channels=3, norm="batch_norm", dropout=0.5),
    Net(between=lambda p: F.dropout(p)),
    Net(between=lambda p: p / 0 + p[:, :2]),
], ids=["batch norm", "dropout", "forward fails"])
def test_refusing_leaves_the_model_as_it_was(model: nn.Module, graph: Graph) -> None:
    model.double().train()
    before = state_of(model)
    refusal(model, graph)
    assert_untouched(before, model)


def test_a_model_that_works_in_place_does_not_reach_the_graph(graph: Graph) -> None:
    x = graph.x.clone()
    assert "does not get the features" in refusal(prepared(Net(before=lambda x: x.mul_(2))), graph)
    assert torch.equal(graph.x, x)


# -- what cannot be read ---------------------------------------------------------------------------


@pytest.mark.parametrize("model", [None, "gcn", lambda x, edge_index: x])
def test_refuses_what_is_no_module(model: Any, graph: Graph) -> None:
    assert "torch.nn.Module" in refusal(model, graph)


@pytest.mark.parametrize(("model", "message"), [
    (nn.Linear(5, 3), "Linear with no message passing and no GCNConv"),
    (GAT(5, 4, 2, 3), "GAT with GATConv and no GCNConv"),
    (GCNConv(5, 3), "1 GCNConv call"),
    (GCN(5, 4, num_layers=3, out_channels=3), "3 GCNConv call(s) in forward: convs.0, convs.1, convs.2"),
])
def test_refuses_another_number_of_layers(model: nn.Module, message: str, graph: Graph) -> None:
    assert message in refusal(prepared(model), graph)


def test_refuses_a_layer_used_twice(graph: Graph) -> None:
    model = Layers(lambda net, x, e: net.conv(net.conv(x, e).relu(), e), conv=GCNConv(5, 5))
    assert "conv, conv: two different layers" in refusal(prepared(model), graph)


@pytest.mark.parametrize("layer", [GATConv(4, 4), SAGEConv(4, 4)])
def test_refuses_other_message_passing(layer: nn.Module, graph: Graph) -> None:
    model = Layers(lambda net, x, e: net.c(net.b(net.a(x, e), e).relu(), e), a=GCNConv(5, 4), b=layer, c=GCNConv(4, 3))
    assert f"b ({type(layer).__name__}) in the model: GCNConv must be its only" in refusal(prepared(model), graph)


@pytest.mark.parametrize(("settings", "found"), [
    ({"improved": True}, "improved=True"), ({"normalize": False}, "normalize=False"),
    ({"add_self_loops": False}, "add_self_loops=False"), ({"cached": True}, "cached=True"),
    ({"aggr": "mean"}, "aggr='mean'"), ({"flow": "target_to_source"}, "flow='target_to_source'"),
])
def test_refuses_other_settings_before_running(settings: dict[str, Any], found: str, graph: Graph) -> None:
    model = prepared(Net(before=lambda x: pytest.fail("the model was run"), **settings))
    assert f"{found} in second" in refusal(model, graph)


@pytest.mark.parametrize("call", [
    lambda conv, x, e: conv(x, e, torch.ones(e.shape[1], dtype=x.dtype)),
    lambda conv, x, e: conv(x, e, edge_weight=torch.ones(e.shape[1], dtype=x.dtype)),
])
def test_refuses_edge_weights(call: Callable[..., Tensor], graph: Graph) -> None:
    model = Layers(lambda net, x, e: net.b(call(net.a, x, e).relu(), e), a=GCNConv(5, 4), b=GCNConv(4, 3))
    assert "edge weights passed to a" in refusal(prepared(model), graph)


@pytest.mark.parametrize("model", [
    GCN(5, 4, num_layers=2, out_channels=3, dropout=0.5), Net(between=nn.Sequential(nn.ReLU(), nn.Dropout(0.1))),
    GCNEncoder(5, 4, 3, "rrelu"),
], ids=["PyG dropout", "nn.Dropout", "RReLU"])
def test_refuses_randomness_in_training_mode_and_reads_it_in_eval_mode(model: nn.Module, graph: Graph) -> None:
    assert "in training mode: a model must not be random. Call model.eval()" in refusal(model.double().train(), graph)
    assert_reads(prepared(model), graph)


@pytest.mark.parametrize("place", ["before", "between", "after"])
def test_refuses_a_functional_dropout(place: str, graph: Graph) -> None:
    message = refusal(prepared(Net(**{place: lambda p: F.dropout(p, 0.5)})), graph)
    assert "two runs of the model on the same input that differ" in message
    assert "training=self.training" in message


@pytest.mark.parametrize("norm", ["batch_norm", "layer_norm", "graph_norm", "pair_norm"])
def test_refuses_normalization_by_name(norm: str, graph: Graph) -> None:
    message = refusal(prepared(GCN(5, 4, num_layers=2, out_channels=3, norm=norm)), graph)
    assert "norms.0" in message
    assert "without normalization" in message
    assert "GCNEncoder.from_layers" in message


@pytest.mark.parametrize("activation", [
    F.elu, torch.tanh, F.gelu, F.silu, F.softplus, torch.sigmoid, F.relu6, F.hardtanh, F.softshrink,
    torch.tanh_, lambda p: p.clamp(min=-10), lambda p: F.hardshrink(p, 0.01),
    lambda p: p + 1, lambda p: 2 * p, lambda p: p - p.mean(0), F.normalize, lambda p: p.log_softmax(-1),
    lambda p: p.flip(0), lambda p: p.roll(1, 1), lambda p: p * torch.nan,
])
@pytest.mark.parametrize("place", ["between", "after"])
def test_refuses_other_activations(place: str, activation: Callable[[Tensor], Tensor], graph: Graph) -> None:
    message = refusal(prepared(Net(**{place: activation})), graph)
    assert ("between first and second" if place == "between" else "after second") in message
    assert "GCNEncoder.from_layers" in message


def test_refusal_of_an_activation_says_what_was_measured(graph: Graph) -> None:
    message = refusal(prepared(Net(between=nn.ReLU6())), graph)
    assert "between first and second turns 16384 into 6 (and -1 into 0)" in message
    assert "the model calls between (ReLU6)" in message


def test_refuses_one_wrong_channel_among_many(graph: Graph) -> None:
    def wrong_in_one(p: Tensor) -> Tensor:
        return torch.stack([p[:, 0].relu(), p[:, 1].relu(), F.elu(p[:, 2])], dim=1)

    assert "channel 2 after second" in refusal(prepared(Net(after=wrong_in_one)), graph)


@pytest.mark.parametrize("jk", ["cat", "max", "last"])
def test_refuses_jumping_knowledge(jk: str, graph: Graph) -> None:
    message = refusal(prepared(GCN(5, 4, num_layers=2, out_channels=4, jk=jk)), graph)
    assert "jumping knowledge" in message
    assert "lin (Linear)" in message


def test_refuses_residuals(graph: Graph) -> None:
    def forward(net: Layers, x: Tensor, edge_index: Tensor) -> Tensor:
        return net.b(net.a(x, edge_index).relu() + x, edge_index)

    assert "residual" in refusal(prepared(Layers(forward, a=GCNConv(5, 5), b=GCNConv(5, 3))), graph)


def test_refuses_layers_side_by_side(graph: Graph) -> None:
    model = Layers(lambda net, x, e: net.a(x, e) + net.b(x, e), a=GCNConv(5, 3), b=GCNConv(5, 3))
    assert "between a and b" in refusal(prepared(model), graph)


@pytest.mark.parametrize(("after", "found"), [
    (nn.Linear(3, 3), "after second turns"), (nn.Linear(3, 2), "a tensor of shape (6, 2) as output"),
    (lambda z: (z, z), "a tuple as output"), (lambda z: z.mean(0), "a tensor of shape (3,) as output"),
])
def test_refuses_a_head(after: Callable[[Tensor], Any], found: str, graph: Graph) -> None:
    assert found in refusal(prepared(Net(after=after)), graph)


@pytest.mark.parametrize("before", [torch.relu, F.normalize, lambda x: x + 1])
def test_refuses_prepared_features(before: Callable[[Tensor], Tensor], graph: Graph) -> None:
    assert "first layer (first) that does not get the features" in refusal(prepared(Net(before=before)), graph)


def test_wraps_the_error_of_a_forward_with_other_arguments(graph: Graph) -> None:
    class TakesData(Net):
        def forward(self, data: Any) -> Tensor:
            return super().forward(data.x, data.edge_index)

    with pytest.raises(EncoderError, match=r"TakesData.forward failed .*TypeError.*model\(x, edge_index\)") as caught:
        read_encoder(prepared(TakesData()), graph)
    assert isinstance(caught.value.__cause__, TypeError)


@pytest.mark.parametrize("stored", [torch.tensor([[0, 1], [1, 0]]), torch.tensor([[0, 40], [40, 0]])])
def test_refuses_a_model_with_edges_of_its_own(stored: Tensor) -> None:
    def forward(net: Layers, x: Tensor, _: Tensor) -> Tensor:
        return net.b(net.a(x, stored).relu(), stored)

    graph = Graph.of((torch.randn(41, 5).double(), stored))
    refusal(prepared(Layers(forward, a=GCNConv(5, 4), b=GCNConv(4, 3))), graph)


def test_refuses_overridden_layers(graph: Graph) -> None:
    class Doubled(GCNConv):
        def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
            return 2 * super().forward(x, edge_index, edge_weight)

    model = Layers(lambda net, x, e: net.b(net.a(x, e).relu(), e), a=Doubled(5, 4), b=GCNConv(4, 3))
    message = refusal(prepared(model), graph)
    assert "embedding values" in message
    assert "overridden layers" in message


def test_refuses_an_effect_that_only_the_real_graph_shows(graph: Graph) -> None:
    def forward(net: Layers, x: Tensor, edge_index: Tensor) -> Tensor:
        kept = edge_index[:, 1:-1] if len(x) == 6 else edge_index
        return net.b(net.a(x, kept).relu(), kept)

    model = Layers(forward, a=GCNConv(5, 4), b=GCNConv(4, 3))
    assert "Graph(6 nodes, 5 edges, 5 features)" in refusal(prepared(model), graph)


def test_refuses_another_number_of_features(graph: Graph) -> None:
    assert "5 features per node: the model's layers take 4 or 7" in refusal(GCNEncoder(7, 4, 3), graph)
    weights = read_encoder(GCNEncoder(5, 4, 3), graph)
    assert "2 features per node" in refusal(weights, graph.with_features(torch.ones(6, 2)))


def test_refuses_another_device(graph: Graph) -> None:
    message = refusal(GCNEncoder(5, 4, 3).to("meta"), graph)
    assert "a model on meta and a graph on cpu" in message


@pytest.mark.parametrize("name", ["first.lin.weight", "second.bias", "between.weight"])
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_refuses_weights_that_are_not_finite(name: str, value: float, graph: Graph) -> None:
    model = prepared(Net(between=nn.PReLU()))
    model.get_parameter(name).data.view(-1)[0] = value
    assert f"1 NaN or infinite value(s) in {name}" in refusal(model, graph)


def test_refuses_given_weights_that_are_not_finite(graph: Graph) -> None:
    weights = read_encoder(GCNEncoder(5, 4, 3), graph)
    with torch.no_grad():
        weights.b2[1] = torch.nan
    assert "1 NaN or infinite value(s) in b2" in refusal(weights, graph)


def test_refuses_parameters_without_a_shape(graph: Graph) -> None:
    model = GCN(-1, 4, num_layers=2, out_channels=3).double()
    assert "convs.0.lin.weight without a shape" in refusal(model, graph)
    model(graph.x, graph.edge_index)
    assert_reads(model, graph)
