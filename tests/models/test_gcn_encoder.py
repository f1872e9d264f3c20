from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.nn import GATConv, GCNConv

from certgcl.errors import EncoderError
from certgcl.graphs.graph import Graph
from certgcl.models import GraphNetwork, gcn_network
from certgcl.models.gcn_encoder import ACTIVATIONS, GCNEncoder

SLOPES = {"relu": 0.0, "leaky_relu": 0.01, "prelu": 0.25, "rrelu": (1 / 8 + 1 / 3) / 2, "identity": 1.0}


def encoder_of(activation: str | nn.Module, out_activation: str | nn.Module | None = "same") -> GCNEncoder:
    encoder = GCNEncoder(5, 4, 3, activation, out_activation).double().eval()
    for conv in (encoder.conv1, encoder.conv2):
        nn.init.normal_(conv.bias)
    return encoder


def weights_of(encoder: GCNEncoder, slope1: torch.Tensor, slope2: torch.Tensor) -> GraphNetwork:
    return gcn_network(
        (encoder.conv1.lin.weight.T, encoder.conv1.bias, slope1.double().expand(4)),
        (encoder.conv2.lin.weight.T, encoder.conv2.bias, slope2.double().expand(3)),
    )


def assert_same(encoder: GCNEncoder, weights: GraphNetwork, graph: Graph) -> None:
    torch.testing.assert_close(weights.embed(graph), encoder(graph.x, graph.edge_index), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_forward_is_the_formula_of_the_weights(activation: str, either_graph: Graph) -> None:
    slope = torch.tensor(SLOPES[activation], dtype=torch.float64)
    encoder = encoder_of(activation)
    assert_same(encoder, weights_of(encoder, slope, slope), either_graph)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_nothing_need_follow_the_last_layer(activation: str, graph: Graph) -> None:
    encoder = encoder_of(activation, None)
    assert_same(
        encoder, weights_of(encoder, torch.tensor(SLOPES[activation], dtype=torch.float64), torch.ones(1)), graph
    )


def test_prelu_may_have_a_slope_per_channel(graph: Graph) -> None:
    encoder = encoder_of(nn.PReLU(4), nn.PReLU(3))
    slope1, slope2 = torch.tensor([-0.5, 0.0, 0.3, 2.0]), torch.tensor([1.5, -1.0, 0.1])
    encoder.activation.weight.data = slope1.double()
    encoder.out_activation.weight.data = slope2.double()
    assert_same(encoder, weights_of(encoder, slope1, slope2), graph)


def test_same_activation_shares_its_slopes() -> None:
    encoder = GCNEncoder(5, 4, 3, "prelu")
    assert encoder.out_activation is encoder.activation
    assert GCNEncoder(5, 4, 3, "prelu", "prelu").out_activation is not encoder.activation


def test_embedding_has_the_gradients_of_the_encoder(graph: Graph) -> None:
    encoder = encoder_of("prelu")
    weights = weights_of(encoder, encoder.activation.weight, encoder.activation.weight)
    parameters = list(encoder.parameters())
    ours = torch.autograd.grad(weights.embed(graph).square().sum(), parameters)
    theirs = torch.autograd.grad(encoder(graph.x, graph.edge_index).square().sum(), parameters)
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def test_weights_change_dtype_together() -> None:
    weights = weights_of(encoder_of("relu"), torch.zeros(1), torch.zeros(1)).to(torch.float32)
    assert [name for name, _ in weights.named_tensors()] == [
        f"layer{number}.{part}" for number in (1, 2) for part in ("term0", "bias", "activation.slope")
    ]
    assert {tensor.dtype for _, tensor in weights.named_tensors()} == {torch.float32}


def test_weights_know_their_activations() -> None:
    weights = weights_of(encoder_of("relu"), torch.tensor(0.5), torch.tensor(2.0))
    assert weights.layers[0].activate(torch.full((4,), -1.0)).tolist() == [-0.5] * 4
    assert weights.layers[1].activate(torch.full((3,), -1.0)).tolist() == [-2.0] * 3


def test_weights_by_hand_may_have_one_number_for_all_channels(graph: Graph) -> None:
    w1, w2 = torch.randn(5, 4).double(), torch.randn(4, 3).double()
    short = gcn_network((w1, torch.tensor(0.5, dtype=torch.float64), 0), (w2, -0.25, 1.0))
    spelled = gcn_network(
        (w1, torch.full_like(w1[0], 0.5), torch.zeros_like(w1[0])),
        (w2, torch.full_like(w2[0], -0.25), torch.ones_like(w2[0])),
    )
    for (name, one), (_, other) in zip(short.named_tensors(), spelled.named_tensors(), strict=True):
        assert one.dtype == other.dtype, name
        assert torch.equal(one.expand_as(other), other), name
    assert torch.equal(short.embed(graph), spelled.embed(graph))


def test_weights_keep_their_tensors_and_history() -> None:
    slope = torch.tensor(0.25, requires_grad=True)
    w1, b1 = torch.randn(5, 4, requires_grad=True), torch.zeros(4)
    first, second = gcn_network((w1, b1, slope), (torch.randn(4, 3), 0.0, slope)).layers
    assert first.terms[0].weight is w1
    assert first.bias.data_ptr() == b1.data_ptr()
    below = first.activate(-torch.ones(4)).sum() + second.activate(-torch.ones(3)).sum()
    assert torch.autograd.grad(below, slope) == (-7,)


# -- from layers -----------------------------------------------------------------------------------


def test_from_layers_shares_the_layers_and_ends_without_activation(graph: Graph) -> None:
    conv1, conv2 = GCNConv(5, 4).double(), GCNConv(4, 3).double()
    encoder = GCNEncoder.from_layers(conv1, conv2)
    assert encoder.conv1 is conv1
    assert encoder.conv2 is conv2
    expected = conv2(conv1(graph.x, graph.edge_index).relu(), graph.edge_index)
    assert torch.equal(encoder(graph.x, graph.edge_index), expected)


def test_from_layers_fits_its_activations_to_the_layers(graph: Graph) -> None:
    encoder = GCNEncoder.from_layers(GCNConv(5, 4).double(), GCNConv(4, 3).double(), "prelu", "prelu")
    assert encoder(graph.x, graph.edge_index).dtype == torch.float64


def test_from_layers_takes_layers_without_a_width_yet(graph: Graph) -> None:
    encoder = GCNEncoder.from_layers(GCNConv(-1, 4).double(), GCNConv(-1, 3).double())
    assert encoder(graph.x, graph.edge_index).shape == (6, 3)


def test_from_layers_refuses_other_layers() -> None:
    with pytest.raises(EncoderError, match="conv2 of type GATConv"):
        GCNEncoder.from_layers(GCNConv(5, 4), GATConv(4, 3))


def test_from_layers_refuses_layers_that_do_not_fit() -> None:
    with pytest.raises(EncoderError, match="conv1 with 4 outputs and conv2 with 7 inputs"):
        GCNEncoder.from_layers(GCNConv(5, 4), GCNConv(7, 3))


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize("widths", [(0, 4, 3), (5, -1, 3), (5, 4, 2.5), (5, True, 3), (5, 4, np.True_), ("5", 4, 3)])
def test_width_must_be_a_positive_integer(widths: tuple[Any, Any, Any]) -> None:
    with pytest.raises(EncoderError, match=r"_channels=.*positive integers"):
        GCNEncoder(*widths)


def test_width_may_be_an_integer_of_numpy(graph: Graph) -> None:
    encoder = GCNEncoder(np.int64(5), np.int32(4), np.uint8(3)).double()
    assert encoder(graph.x, graph.edge_index).shape == (6, 3)


W1, W2 = torch.ones(5, 4), torch.ones(4, 3)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ((W1.T, 0.0, 0.0, W2, 0.0, 0.0), "layer 2 with a weight for 4 inputs, of layer 1 with 5"),
        ((W1, 0.0, 0.0, W2.tolist(), 0.0, 0.0), r"weight .*floating-point matrix.*lin\.weight\.T"),
        ((W1, 0.0, 0.0, W2.long(), 0.0, 0.0), "weight .*torch.int64.*floating-point"),
        ((W1, torch.zeros(3), 0.0, W2, 0.0, 0.0), r"bias of layer 1 .*\(3,\).*each of 4"),
        ((W1, torch.zeros(1, 4), 0.0, W2, 0.0, 0.0), r"bias of layer 1 .*\(1, 4\)"),
        ((W1, 0.0, torch.zeros(1), W2, 0.0, 0.0), r"slope of layer 1 .*\(1,\)"),
        ((W1, 0.0, 0.0, W2, torch.zeros(4), 0.0), r"bias of layer 2 .*\(4,\).*each of 3"),
        ((W1, 0.0, 0.0, W2, 0.0, None), "slope of layer 2=None"),
        ((W1, torch.zeros(4).double(), 0.0, W2, 0.0, 0.0), r"layer1\.bias in torch.float64 .*float32.*one dtype"),
        ((W1, 0.0, 0.0, W2.to("meta"), 0.0, 0.0), "weight .*meta"),
    ],
)
def test_weights_must_fit_each_other(tensors: tuple[Any, ...], message: str) -> None:
    with pytest.raises(EncoderError, match=message):
        gcn_network(tensors[:3], tensors[3:])


@pytest.mark.parametrize("activation", ["gelu", 3])
def test_unknown_activation_is_refused(activation: object) -> None:
    with pytest.raises(EncoderError, match=r"activation .*relu, leaky_relu, prelu"):
        GCNEncoder(5, 4, 3, activation)


@pytest.mark.parametrize(
    ("activations", "message"),
    [
        ((nn.PReLU(4),), r"out_activation with 4 slopes.*nn\.PReLU\(3\)"),
        ((nn.PReLU(3), None), r"^activation with 3 slopes.*nn\.PReLU\(4\)"),
    ],
)
def test_prelu_must_have_as_many_slopes_as_channels(activations: tuple[nn.Module | None, ...], message: str) -> None:
    with pytest.raises(EncoderError, match=message):
        GCNEncoder(5, 4, 3, *activations)
