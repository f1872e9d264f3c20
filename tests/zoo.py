"""Models of many kinds as users have them, small: factories of the numbers of features and of hidden channels."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch_geometric.nn import GCN, GIN, GraphSAGE, SGConv

from certgcl.graphs.graph import Graph
from certgcl.models import GraphNetwork
from certgcl.models.reading import read_network


def sage(features: int, hidden: int) -> nn.Module:
    return GraphSAGE(features, hidden, 3, 3)


def gin(features: int, hidden: int) -> nn.Module:
    return GIN(features, hidden, 2, 3, norm="batch_norm")


def jumping(features: int, hidden: int) -> nn.Module:
    return GCN(features, hidden, 2, act="elu", jk="cat", dropout=0.5)


class Residual(nn.Module):
    """A skip around a convolution of two hops, and what is read out of two layers side by side."""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(features, hidden), SGConv(hidden, hidden, K=2)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = self.first(x).relu()
        return torch.cat([hidden, hidden + self.second(hidden, edge_index)], dim=1)


FACTORIES: dict[str, Callable[[int, int], nn.Module]] = {
    "SAGE": sage,
    "GIN with BatchNorm": gin,
    "jumping knowledge, ELU, dropout": jumping,
    "residual": Residual,
}


def model_of(kind: str, features: int = 3, hidden: int = 4, seed: int = 0) -> nn.Module:
    """In float64 and eval mode, with statistics that a training could have left."""
    torch.manual_seed(seed)
    model = FACTORIES[kind](features, hidden).double()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d):
            nn.init.normal_(module.running_mean)
            nn.init.uniform_(module.running_var, 0.5, 2.0)
    return model.eval()


def network_of(kind: str, graph: Graph, seed: int = 0) -> GraphNetwork:
    return read_network(model_of(kind, graph.num_features, seed=seed), graph).copied()
