from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import (
    GAT,
    GCN,
    ChebConv,
    GATConv,
    GATv2Conv,
    GCNConv,
    GINConv,
    GraphConv,
    SAGEConv,
    SGConv,
    TransformerConv,
)
from torch_geometric.utils import add_self_loops

from certgcl.graphs.graph import Graph
from certgcl.models.gcn_encoder import GCNEncoder
from certgcl.models.reading import read_network
from tests.encoders import Layers, Net, assert_reads, prepared, refusal

# -- what cannot be read ---------------------------------------------------------------------------


@pytest.mark.parametrize("model", [None, "gcn", lambda x, edge_index: x])
def test_refuses_what_is_no_module(model: Any, graph: Graph) -> None:
    assert "torch.nn.Module" in refusal(model, graph)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Layers(lambda net, x, e: net.a(x).relu(), a=nn.Linear(5, 3)), "a model without message passing"),
        (Layers(lambda net, x, e: e, a=nn.Linear(5, 3)), "uses no weights"),
        (Layers(lambda net, x, e: [net.a(x, e), e][1], a=GCNConv(5, 3)), "edge_index as output"),
        (GAT(5, 4, 2, 3), "convs.0 (GATConv) in the model at basic_gnn.py"),
    ],
)
def test_refuses_what_is_no_network_over_the_edges(model: nn.Module, message: str, graph: Graph) -> None:
    assert message in refusal(prepared(model), graph)


def test_a_layer_alone_is_named_by_the_call_that_it_does_not_take(graph: Graph) -> None:
    message = refusal(nn.Linear(5, 3), graph)
    assert "arguments that it does not take (too many positional arguments) at `model(x, edge_index)`" in message


@pytest.mark.parametrize("layer", [GATConv(4, 4), GATv2Conv(4, 4), TransformerConv(4, 4)])
def test_refuses_attention_by_name(layer: nn.Module, graph: Graph) -> None:
    model = Layers(lambda net, x, e: net.c(net.b(net.a(x, e), e).relu(), e), a=GCNConv(5, 4), b=layer, c=GCNConv(4, 3))
    message = refusal(prepared(model), graph)
    assert f"b ({type(layer).__name__}) in the model" in message
    assert "weights depend on the features" in message
    assert "GCNConv, SAGEConv, GraphConv, GINConv, SGConv and APPNP" in message


def test_refuses_other_message_passing(graph: Graph) -> None:
    model = Layers(lambda net, x, e: net.b(net.a(x, e), e), a=GCNConv(5, 4), b=ChebConv(4, 3, 2))
    assert "b (ChebConv) in the model" in refusal(prepared(model), graph)


@pytest.mark.parametrize(
    ("layer", "found"),
    [
        (GCNConv(5, 3, normalize=False), "normalize=False"),
        (GCNConv(5, 3, cached=True), "cached=True"),
        (GCNConv(5, 3, aggr="mean"), "aggr='mean'"),
        (GCNConv(5, 3, flow="target_to_source"), "flow='target_to_source'"),
        (SAGEConv(5, 3, aggr="max"), "aggr='max'"),
        (SAGEConv(5, 3, normalize=True), "normalize=True"),
        (SAGEConv(5, 3, project=True), "project=True"),
        (GraphConv(5, 3, aggr="max"), "aggr='max'"),
        (GINConv(nn.Linear(5, 3), aggr="mean"), "aggr='mean'"),
        (SGConv(5, 3, cached=True), "cached=True"),
        (SGConv(5, 3, K=0), "K=0"),
        (GCNConv(5, 3, decomposed_layers=2), "_decomposed_layers=2"),
        (SAGEConv(5, 3, aggr=["mean", "sum"]), "aggr=['mean', 'sum']"),
    ],
)
def test_refuses_other_settings_of_a_layer(layer: nn.Module, found: str, graph: Graph) -> None:
    assert f"{found} in {layer.__class__.__name__}" in refusal(layer.double().eval(), graph)


WEIGHTS = torch.ones(10, dtype=torch.float64)


@pytest.mark.parametrize(
    "call",
    [
        lambda conv, x, e: conv(x, e, WEIGHTS),
        lambda conv, x, e: conv(x, e, edge_weight=WEIGHTS),
    ],
)
def test_refuses_edge_weights(call: Callable[..., Tensor], graph: Graph) -> None:
    model = Layers(lambda net, x, e: net.b(call(net.a, x, e).relu(), e), a=GCNConv(5, 4), b=GCNConv(4, 3))
    assert "edge weights or sizes passed to a" in refusal(prepared(model), graph)


@pytest.mark.parametrize(
    "model",
    [
        GCN(5, 4, num_layers=2, out_channels=3, dropout=0.5),
        Net(between=nn.Sequential(nn.ReLU(), nn.Dropout(0.1))),
        GCNEncoder(5, 4, 3, "rrelu"),
    ],
    ids=["PyG dropout", "nn.Dropout", "RReLU"],
)
def test_refuses_randomness_in_training_mode_and_reads_it_in_eval_mode(model: nn.Module, graph: Graph) -> None:
    message = refusal(model.double().train(), graph)
    assert "in training mode" in message
    assert "a model must not be random. Call model.eval()" in message
    assert_reads(prepared(model), graph)


@pytest.mark.parametrize("place", ["before", "between", "after"])
def test_refuses_a_functional_dropout(place: str, graph: Graph) -> None:
    message = refusal(prepared(Net(**{place: lambda p: F.dropout(p, 0.5)})), graph)
    assert "dropout in training mode at test_refusals.py" in message
    assert "training=self.training" in message


@pytest.mark.parametrize("norm", ["layer_norm", "graph_norm", "pair_norm", "instance_norm"])
def test_refuses_normalization_by_name(norm: str, graph: Graph) -> None:
    message = refusal(prepared(GCN(5, 4, num_layers=2, out_channels=3, norm=norm)), graph)
    assert "norms.0" in message
    assert "BatchNorm in eval mode is the only normalization" in message


def test_refuses_a_batch_norm_that_looks_at_the_graph(graph: Graph) -> None:
    training = prepared(GCN(5, 4, num_layers=2, out_channels=3, norm="batch_norm")).train()
    assert "norms.0.module (BatchNorm1d) in training mode" in refusal(training, graph)
    untracked = Layers(
        lambda net, x, e: net.b(net.a(x, e)), a=GCNConv(5, 3), b=nn.BatchNorm1d(3, track_running_stats=False)
    )
    assert "b (BatchNorm1d) without running statistics" in refusal(prepared(untracked), graph)


@pytest.mark.parametrize(
    "activation",
    [
        F.relu6,
        F.hardtanh,
        F.softshrink,
        torch.tanh_,
        lambda p: p.clamp(min=-10),
        lambda p: F.hardshrink(p, 0.01),
        lambda p: p - p.mean(0),
        F.normalize,
        lambda p: p.flip(0),
        lambda p: p.roll(1, 1),
        lambda p: p * torch.nan,
        lambda p: p * p,
        lambda p: p / p,
        lambda p: 1 / p,
        lambda p: p / 0,
        lambda p: p**2,
        lambda p: p @ p.T,
        lambda p: p * True,
        lambda p: p + torch.ones(6, 1).double(),
        lambda p: p * torch.ones(6, 4).double(),
    ],
)
@pytest.mark.parametrize("place", ["between", "after"])
def test_refuses_other_operations(place: str, activation: Callable[[Tensor], Tensor], graph: Graph) -> None:
    message = refusal(prepared(Net(**{place: activation})), graph)
    assert "first" in message or "second" in message or "`" in message
    assert "certgcl.models.GraphNetwork" in message
    assert 'reading="probed"' in message


@pytest.mark.parametrize("softmax", [F.log_softmax, lambda z, dim: z.softmax(dim), torch.softmax])
def test_refuses_softmax_and_says_what_to_do(softmax: Callable[..., Tensor], graph: Graph) -> None:
    message = refusal(prepared(Net(after=lambda z: softmax(z, dim=1))), graph)
    assert "softmax on the output of second" in message
    assert "Certify the model without it" in message


def test_refuses_the_approximate_gelu(graph: Graph) -> None:
    assert "approximate='tanh'" in refusal(prepared(Net(between=nn.GELU("tanh"))), graph)
    assert "approximate='tanh'" in refusal(prepared(Net(between=lambda p: F.gelu(p, approximate="tanh"))), graph)


def test_refusal_of_an_activation_names_it_with_its_place(graph: Graph) -> None:
    message = refusal(prepared(Net(between=nn.ReLU6())), graph)
    assert "between (ReLU6) on the output of first at encoders.py:" in message
    assert "`self.between(self.first(self.before(x), edge_index))`" in message


def test_refuses_one_wrong_channel_among_many(graph: Graph) -> None:
    def wrong_in_one(p: Tensor) -> Tensor:
        return torch.stack([p[:, 0].relu(), p[:, 1].relu(), F.elu(p[:, 2])], dim=1)

    assert "[] on the output of second" in refusal(prepared(Net(after=wrong_in_one)), graph)


@pytest.mark.parametrize("jk", ["max", "lstm"])
def test_refuses_other_jumping_knowledge(jk: str, graph: Graph) -> None:
    message = refusal(prepared(GCN(5, 4, num_layers=2, out_channels=4, jk=jk)), graph)
    assert f"jk (JumpingKnowledge) with mode '{jk}'" in message
    assert 'Use jk="cat" or "last"' in message


@pytest.mark.parametrize("width", [1, 4])
def test_refuses_a_residual_of_another_width_by_its_name(width: int, graph: Graph) -> None:
    model = Layers(lambda net, x, e: net.a(x, e).relu() + x, a=GCNConv(5, width))
    message = refusal(prepared(model), graph)
    assert f"a residual connection or other sum of the activation of the output of a with {width} channels and x" in (
        message
    )


@pytest.mark.parametrize(("dim", "words"), [(0, "dim=0"), (-2, "dim=-2"), (None, "dim=None")])
def test_refuses_to_put_nodes_side_by_side(dim: int | None, words: str, graph: Graph) -> None:
    model = Layers(lambda net, x, e: torch.cat([net.a(x, e), x], dim), a=GCNConv(5, 5))
    assert f"a concatenation along {words}" in refusal(prepared(model), graph)


@pytest.mark.parametrize(
    ("after", "found"),
    [
        (nn.Linear(4, 3), "the output of second with 3 channels"),
        (lambda z: (z, z), "a tuple as output"),
        (lambda z: z.mean(0), "mean on the output of second"),
        (lambda z: None, "a NoneType as output"),
        (nn.LayerNorm(3), "after (LayerNorm) in the model"),
    ],
)
def test_refuses_a_head(after: Callable[[Tensor], Any], found: str, graph: Graph) -> None:
    assert found in refusal(prepared(Net(after=after)), graph)


def test_refuses_features_that_depend_on_each_other(graph: Graph) -> None:
    assert "normalize on x" in refusal(prepared(Net(before=F.normalize)), graph)


@pytest.mark.parametrize(
    "layer",
    [
        GCNConv(5, 3, add_self_loops=False),
        SAGEConv(5, 3),
        GraphConv(5, 3),
        SGConv(5, 3, add_self_loops=False),
        GINConv(nn.Linear(5, 3)),
    ],
)
def test_refuses_self_loops_that_a_layer_would_take_for_neighbours(layer: nn.Module, graph: Graph) -> None:
    model = Layers(lambda net, x, e: net.a(x, add_self_loops(e, num_nodes=len(x))[0]), a=layer)
    assert "with the edges edge_index with self-loops" in refusal(prepared(model), graph)


def test_refuses_weights_of_several_precisions(graph: Graph) -> None:
    model = prepared(Layers(lambda net, x, e: net.b(net.a(x, e)), a=GCNConv(5, 4), b=nn.Linear(4, 3)))
    model.b.float()
    assert "b.weight in torch.float32 on cpu and other weights in torch.float64" in refusal(model, graph)


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
    assert "5 features per node: conv1.lin takes 7" in refusal(GCNEncoder(7, 4, 3), graph)
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
        weights.layers[1].bias[1] = torch.nan
    assert "1 NaN or infinite value(s) in layer2.bias" in refusal(weights, graph)


def test_refuses_parameters_without_a_shape(graph: Graph) -> None:
    model = GCN(-1, 4, num_layers=2, out_channels=3).double()
    assert "convs.0.lin.weight without a shape" in refusal(model, graph)
    model(graph.x, graph.edge_index)
    assert_reads(model, graph)
