from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GAT, GCN, GATConv, GCNConv, SAGEConv

from certgcl.encoder import GCNEncoder
from certgcl.graph import Graph
from certgcl.reading import read_network
from tests.encoders import Layers, Net, assert_reads, prepared, refusal

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


@pytest.mark.parametrize("layer", [GATConv(4, 4), SAGEConv(4, 4)])
def test_refuses_other_message_passing(layer: nn.Module, graph: Graph) -> None:
    model = Layers(lambda net, x, e: net.c(net.b(net.a(x, e), e).relu(), e), a=GCNConv(5, 4), b=layer, c=GCNConv(4, 3))
    message = refusal(prepared(model), graph)
    assert f"b ({type(layer).__name__}) in the model" in message
    assert "GCNConv must be its only message passing" in message


@pytest.mark.parametrize(("settings", "found"), [
    ({"improved": True}, "improved=True"), ({"normalize": False}, "normalize=False"),
    ({"add_self_loops": False}, "add_self_loops=False"), ({"cached": True}, "cached=True"),
    ({"aggr": "mean"}, "aggr='mean'"), ({"flow": "target_to_source"}, "flow='target_to_source'"),
])
def test_refuses_other_settings_before_running(settings: dict[str, Any], found: str, graph: Graph) -> None:
    model = prepared(Net(before=lambda x: pytest.fail("the model was run"), **settings))
    assert f"{found} in second" in refusal(model, graph)


WEIGHTS = torch.ones(10, dtype=torch.float64)


@pytest.mark.parametrize("call", [
    lambda conv, x, e: conv(x, e, WEIGHTS), lambda conv, x, e: conv(x, e, edge_weight=WEIGHTS),
])
def test_refuses_edge_weights(call: Callable[..., Tensor], graph: Graph) -> None:
    model = Layers(lambda net, x, e: net.b(call(net.a, x, e).relu(), e), a=GCNConv(5, 4), b=GCNConv(4, 3))
    assert "edge weights passed to a" in refusal(prepared(model), graph)


@pytest.mark.parametrize("model", [
    GCN(5, 4, num_layers=2, out_channels=3, dropout=0.5), Net(between=nn.Sequential(nn.ReLU(), nn.Dropout(0.1))),
    GCNEncoder(5, 4, 3, "rrelu"),
], ids=["PyG dropout", "nn.Dropout", "RReLU"])
def test_refuses_randomness_in_training_mode_and_reads_it_in_eval_mode(model: nn.Module, graph: Graph) -> None:
    message = refusal(model.double().train(), graph)
    assert "in training mode" in message
    assert "a model must not be random. Call model.eval()" in message
    assert_reads(prepared(model), graph)


@pytest.mark.parametrize("place", ["before", "between", "after"])
def test_refuses_a_functional_dropout(place: str, graph: Graph) -> None:
    message = refusal(prepared(Net(**{place: lambda p: F.dropout(p, 0.5)})), graph)
    assert "dropout in training mode at test_reading_refusals.py" in message
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
    assert "may follow a layer" in message
    assert "GCNEncoder.from_layers" in message
    assert 'reading="probed"' in message


def test_refusal_of_an_activation_names_it_with_its_place(graph: Graph) -> None:
    message = refusal(prepared(Net(between=nn.ReLU6())), graph)
    assert "between (ReLU6) on the output of first at encoders.py:" in message
    assert "`self.between(self.first(self.before(x), edge_index))`" in message


def test_refuses_one_wrong_channel_among_many(graph: Graph) -> None:
    def wrong_in_one(p: Tensor) -> Tensor:
        return torch.stack([p[:, 0].relu(), p[:, 1].relu(), F.elu(p[:, 2])], dim=1)

    assert "elu on `p[:, 2]`" in refusal(prepared(Net(after=wrong_in_one)), graph)


@pytest.mark.parametrize("jk", ["cat", "max", "last"])
def test_refuses_jumping_knowledge(jk: str, graph: Graph) -> None:
    message = refusal(prepared(GCN(5, 4, num_layers=2, out_channels=4, jk=jk)), graph)
    assert "jumping knowledge" in message
    assert ("lin (Linear)" if jk == "last" else "jk (JumpingKnowledge)") in message


def test_refuses_residuals(graph: Graph) -> None:
    def forward(net: Layers, x: Tensor, edge_index: Tensor) -> Tensor:
        return net.b(net.a(x, edge_index).relu() + x, edge_index)

    message = refusal(prepared(Layers(forward, a=GCNConv(5, 5), b=GCNConv(5, 3))), graph)
    assert "a residual connection or other sum of the activation of the output of a and x" in message


def test_refuses_layers_side_by_side(graph: Graph) -> None:
    model = Layers(lambda net, x, e: net.a(x, e) + net.b(x, e), a=GCNConv(5, 3), b=GCNConv(5, 3))
    assert "sum of the output of a and the output of b" in refusal(prepared(model), graph)


@pytest.mark.parametrize(("after", "found"), [
    (nn.Linear(3, 3), "after (Linear) on the output of second"), (lambda z: (z, z), "a tuple as output"),
    (lambda z: z.mean(0), "mean on the output of second"), (lambda z: None, "a NoneType as output"),
])
def test_refuses_a_head(after: Callable[[Tensor], Any], found: str, graph: Graph) -> None:
    assert found in refusal(prepared(Net(after=after)), graph)


@pytest.mark.parametrize(("before", "found"), [
    (torch.relu, "first layer (first) that does not get the features x as they are but the activation of x"),
    (lambda x: x + 1, "first layer (first) that does not get the features"), (F.normalize, "normalize on x"),
])
def test_refuses_prepared_features(before: Callable[[Tensor], Tensor], found: str, graph: Graph) -> None:
    assert found in refusal(prepared(Net(before=before)), graph)


def test_refuses_a_forward_with_other_arguments(graph: Graph) -> None:
    class TakesData(Net):
        def forward(self, data: Any) -> Tensor:
            return super().forward(data.x, data.edge_index)

    message = refusal(prepared(TakesData()), graph)
    assert "TakesData.forward with arguments it does not take" in message
    assert "the model must run as model(x, edge_index)" in message


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
    assert "a (Doubled), a subclass of GCNConv" in refusal(prepared(model), graph)


def test_refuses_an_effect_that_only_the_real_graph_shows(graph: Graph) -> None:
    def forward(net: Layers, x: Tensor, edge_index: Tensor) -> Tensor:
        kept = edge_index[:, 1:-1] if len(x) == 6 else edge_index
        return net.b(net.a(x, kept).relu(), kept)

    model = Layers(forward, a=GCNConv(5, 4), b=GCNConv(4, 3))
    assert "a decision on the inputs" in refusal(prepared(model), graph)


def test_refuses_another_number_of_features(graph: Graph) -> None:
    assert "5 features per node: the model's layers take 7" in refusal(GCNEncoder(7, 4, 3), graph)
    weights = read_network(GCNEncoder(5, 4, 3), graph)
    assert "2 features per node" in refusal(weights, graph.with_features(torch.ones(6, 2)))


def test_refuses_another_device(graph: Graph) -> None:
    message = refusal(GCNEncoder(5, 4, 3).to("meta"), graph)
    assert "on meta" in message


@pytest.mark.parametrize("name", ["first.lin.weight", "second.bias", "between.weight"])
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_refuses_weights_that_are_not_finite(name: str, value: float, graph: Graph) -> None:
    model = prepared(Net(between=nn.PReLU()))
    model.get_parameter(name).data.view(-1)[0] = value
    assert f"1 NaN or infinite value(s) in {name}" in refusal(model, graph)


def test_refuses_given_weights_that_are_not_finite(graph: Graph) -> None:
    weights = read_network(GCNEncoder(5, 4, 3), graph)
    with torch.no_grad():
        weights.b2[1] = torch.nan
    assert "1 NaN or infinite value(s) in b2" in refusal(weights, graph)


def test_refuses_parameters_without_a_shape(graph: Graph) -> None:
    model = GCN(-1, 4, num_layers=2, out_channels=3).double()
    assert "convs.0.lin.weight without a shape" in refusal(model, graph)
    model(graph.x, graph.edge_index)
    assert_reads(model, graph)
