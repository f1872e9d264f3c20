"""Two-layer GCNs as users write them, for the tests of the reader."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from certgcl.errors import EncoderError
from certgcl.graphs.graph import Graph
from certgcl.models import GraphNetwork, TwoPieceLinear
from certgcl.models.reading import read_network
from certgcl.models.reading.checks import output_of, some_views


def identity(x: Tensor) -> Tensor:
    return x


class Net(nn.Module):
    """Two layers as users write them, with a function of the caller's choice in every place."""

    def __init__(
        self,
        between: Callable[[Tensor], Tensor] = torch.relu,
        after: Callable[[Tensor], Any] = identity,
        before: Callable[[Tensor], Tensor] = identity,
        **settings: Any,
    ) -> None:
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


def assert_reads(model: nn.Module, graph: Graph, tolerance: float = 1e-12, reading: Any = "traced") -> GraphNetwork:
    network = read_network(model, graph, reading)
    assert network.reading == reading
    dtype = next(model.parameters()).dtype
    assert network.precision == dtype
    for view in some_views(graph):
        output = output_of(model, view.to(dtype=dtype))
        found = network.embed(view.to(dtype=network.dtype)).to(dtype)
        torch.testing.assert_close(found, output, rtol=tolerance, atol=tolerance)
    return network


def slopes(network: GraphNetwork) -> list[list[float]]:
    """Those of the layers' two-piece linear activations, in each channel; 1 where there is none."""
    found = []
    for layer in network.layers:
        assert layer.activation is None or isinstance(layer.activation, TwoPieceLinear)
        slope = 1.0 if layer.activation is None else layer.activation.slope
        found.append((slope * torch.ones_like(layer.bias)).tolist())
    return found


def refusal(model: Any, graph: Graph, reading: Any = "traced") -> str:
    with pytest.raises(EncoderError) as caught:
        read_network(model, graph, reading)
    return str(caught.value)
