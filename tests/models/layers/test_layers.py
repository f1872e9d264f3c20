"""The checks that the reader, ``GCNEncoder.weights`` and the regularizer share."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

import certgcl
from certgcl.errors import EncoderError
from certgcl.graphs.graph import Graph
from certgcl.models import GraphNetwork
from certgcl.models.gcn_encoder import GCNEncoder
from certgcl.models.layers.gcn import gcn_parameters


def with_layer(**settings: Any) -> GCNEncoder:
    return GCNEncoder.from_layers(GCNConv(5, 4), GCNConv(4, 3, **settings)).double()


def hooked() -> GCNEncoder:
    encoder = GCNEncoder(5, 4, 3).double()
    encoder.conv1.register_forward_hook(lambda module, given, output: 2 * output)
    return encoder


def shadowed() -> GCNEncoder:
    encoder = GCNEncoder(5, 4, 3).double()
    encoder.conv1.message = lambda x_j, edge_weight: x_j
    return encoder


def replaced() -> GCNEncoder:
    encoder = GCNEncoder(5, 4, 3).double()
    encoder.forward = lambda x, edge_index: x  # type: ignore[method-assign]
    return encoder


@pytest.mark.parametrize(
    "encoder",
    [
        lambda: with_layer(normalize=False),
        lambda: with_layer(aggr="mean"),
        lambda: with_layer(cached=True),
        hooked,
        shadowed,
        replaced,
        lambda: GCNEncoder(5, 4, 3, nn.Softsign()).double(),
    ],
)
def test_what_is_not_certified_is_not_trained_on(encoder: Callable[[], GCNEncoder], graph: Graph) -> None:
    model, regularizer = encoder(), certgcl.CompactnessRegularizer(budget=1)
    for call in (
        model.network,
        lambda: certgcl.node_compactness(model, graph, 1),
        lambda: regularizer(model, graph, graph, graph),
    ):
        with pytest.raises(EncoderError):
            call()


def test_the_regularizer_reads_a_users_own_module_by_its_program(graph: Graph) -> None:
    encoder = GCNEncoder(5, 4, 3).double()

    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = encoder

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return self.inner(x, edge_index)

    terms = [certgcl.CompactnessRegularizer(budget=1)(model, graph, graph, graph) for model in (encoder, Own())]
    assert torch.equal(*terms)
    terms[1].backward()
    assert all(parameter.grad is not None for parameter in encoder.conv2.parameters())


def test_an_encoder_without_biases_has_weights(graph: Graph) -> None:
    encoder = GCNEncoder.from_layers(GCNConv(5, 4, bias=False), GCNConv(4, 3, bias=False)).double()
    assert encoder.network().layers[0].bias.tolist() == [0.0] * 4


def test_a_layer_whose_explanation_has_ended_is_a_layer_again() -> None:
    conv = GCNConv(5, 4)
    conv.explain = True
    with pytest.raises(EncoderError):
        gcn_parameters(conv, "conv")
    conv.explain = False
    gcn_parameters(conv, "conv")


# -- how weights were read -------------------------------------------------------------------------


def test_weights_say_how_they_were_read(graph: Graph, tmp_path: Any) -> None:
    encoder = GCNEncoder(5, 4, 3).double()
    given = replace(encoder.network(), reading="given")
    assert given.reading == "given"
    assert encoder.network().reading == "traced"
    probed = certgcl.read_network(encoder, graph, "probed")
    assert probed.to(torch.float32).reading == "probed"
    for weights in (given, encoder.network(), probed):
        assert GraphNetwork.load(weights.save(tmp_path / "w.npz")).reading == weights.reading
        assert certgcl.read_network(weights, graph).reading == weights.reading


def test_weights_refuse_other_readings() -> None:
    encoder = GCNEncoder(5, 4, 3)
    with pytest.raises(EncoderError, match=r"reading='proved'.*given, traced, probed"):
        replace(encoder.network(), reading="proved")
