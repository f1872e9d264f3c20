"""An honest model, and functions and modules to put in the place of its parts."""

import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv


class Two(nn.Module):
    """The honest model that the others are made of."""

    def __init__(self, kind: type[GCNConv] = GCNConv) -> None:
        super().__init__()
        self.conv1, self.conv2 = kind(5, 4), kind(4, 3)
        self.act = nn.ReLU()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(self.act(self.conv1(x, edge_index)), edge_index)


def saturated(p: Tensor) -> Tensor:
    return p.relu().clamp(max=65504)


def plateau(p: Tensor) -> Tensor:
    return torch.where((p > 10) & (p < 60), 10.0, p.relu())


class Saturates(Two):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(saturated(self.conv1(x, edge_index)), edge_index)


class Pretends(nn.Module):
    """Says that it is a layer."""

    def __init__(self, layer: GCNConv) -> None:
        super().__init__()
        self.layer = layer

    @property
    def __class__(self) -> type:
        return GCNConv

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.layer(x, edge_index).abs().sqrt()
