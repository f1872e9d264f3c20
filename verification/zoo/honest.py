"""Two-layer GCNs as people write them. Each computes ``σ2(Â σ1(Â X W1 + b1) W2 + b2)`` and must be accepted."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GCN, GCNConv, Sequential

import certgcl
from verification.case import Case
from verification.zoo.base import Layers, honest, layer, prelu


@honest
class FunctionalRelu(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = F.relu(self.conv1(x, edge_index))
        return self.conv2(x, edge_index)


@honest
class MethodRelu(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index)


@honest
class TorchReluOnBothLayers(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = torch.relu(self.conv1(x, edge_index))
        return torch.relu(self.conv2(hidden, edge_index))


@honest
class ReluInPlace(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(F.relu(self.conv1(x, edge_index), inplace=True), edge_index)


@honest
class ReluModule(Layers):
    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.act = nn.ReLU()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.act(self.conv2(self.act(self.conv1(x, edge_index)), edge_index))


@honest
class PReluPerChannel(Layers):
    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.act1, self.act2 = prelu(case.slope1), prelu(case.slope2)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = self.act1(self.conv1(x, edge_index))
        return self.act2(self.conv2(hidden, edge_index))


@honest
class OnePReluForBothLayers(Layers):
    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.act = prelu(case.slope1[:1])

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.act(self.conv2(self.act(self.conv1(x, edge_index)), edge_index))


@honest
class LeakyReluModule(Layers):
    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.act = nn.LeakyReLU(0.3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(self.act(self.conv1(x, edge_index)), edge_index)


@honest
class FunctionalLeakyRelu(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = F.leaky_relu(self.conv1(x, edge_index), negative_slope=0.2)
        return F.leaky_relu(self.conv2(x, edge_index))


@honest
class NoActivation(Layers):
    """Linear, as SGC is."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(self.conv1(x, edge_index), edge_index)


@honest
class IdentityModule(Layers):
    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.act, self.last = nn.ReLU(), nn.Identity()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.last(self.conv2(self.act(self.conv1(x, edge_index)), edge_index))


@honest
class RandomReluInEvalMode(Layers):
    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.act = nn.RReLU(0.1, 0.3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(self.act(self.conv1(x, edge_index)), edge_index)


@honest
class DropoutInEvalMode(Layers):
    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.dropout(x)
        x = F.relu(self.conv1(x, edge_index))
        x = F.dropout(x, p=0.5, training=self.training)
        return self.conv2(x, edge_index)


@honest
class LoopOverModuleList(nn.Module):
    def __init__(self, case: Case) -> None:
        super().__init__()
        self.convs = nn.ModuleList([layer(case.w1, case.b1), layer(case.w2, case.b2)])

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for i, conv in enumerate(self.convs):
            x = conv(x, edge_index)
            if i < len(self.convs) - 1:
                x = F.relu(x)
        return x


@honest
class LayersAndActivationsInPairs(nn.Module):
    """As the encoders of GRACE's relatives are written."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.layers = nn.ModuleList([layer(case.w1, case.b1), layer(case.w2, case.b2)])
        self.activations = nn.ModuleList([prelu(case.slope1), prelu(case.slope2)])

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        z = x
        for conv, act in zip(self.layers, self.activations, strict=True):
            z = act(conv(z, edge_index, edge_weight))
        return z


@honest
class OptionalEdgeWeight(Layers):
    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        x = F.relu(self.conv1(x, edge_index, edge_weight))
        return self.conv2(x, edge_index, edge_weight=edge_weight)


@honest
class KeywordArguments(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = self.conv1(x=x, edge_index=edge_index)
        return self.conv2(x=F.relu(input=hidden), edge_index=edge_index)


@honest
class HelperMethods(Layers):
    def hidden(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.activate(self.conv1(x, edge_index))

    def activate(self, p: Tensor) -> Tensor:
        return F.relu(p)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(self.hidden(x, edge_index), edge_index)


@honest
class HeadsThatAreNotCalled(Layers):
    def __init__(self, case: Case) -> None:
        super().__init__(case)
        width = case.w2.shape[1]
        self.projector = nn.Sequential(nn.Linear(width, 8), nn.BatchNorm1d(8), nn.ELU(), nn.Linear(8, width)).double()
        self.target = GCNConv(width, width).double()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(torch.relu(self.conv1(x, edge_index)), edge_index)

    def project(self, z: Tensor) -> Tensor:
        return self.projector(z)


@honest
class Inherited(HeadsThatAreNotCalled):
    """A subclass that changes nothing of what is run."""


@honest
class ActivationByName(Layers):
    """The function is an attribute, as many repositories have it."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        choices: dict[str, Callable[..., Tensor]] = {"relu": F.relu, "leaky": F.leaky_relu}
        self.activation = choices["relu"]

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.activation(self.conv2(self.activation(self.conv1(x, edge_index)), edge_index))


@honest
class NestedEncoder(nn.Module):
    def __init__(self, case: Case) -> None:
        super().__init__()
        self.encoder = FunctionalRelu(case)
        self.act = prelu(case.slope2)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.act(self.encoder(x, edge_index))


@honest
class WithoutBiases(nn.Module):
    def __init__(self, case: Case) -> None:
        super().__init__()
        self.conv1, self.conv2 = layer(case.w1, None), layer(case.w2, None)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)


@honest
class Float32(FunctionalRelu):
    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.float()


def _encoder(case: Case, activation: str | nn.Module, out_activation: str | nn.Module | None) -> nn.Module:
    return certgcl.GCNEncoder.from_layers(layer(case.w1, case.b1), layer(case.w2, case.b2), activation, out_activation)


@honest
def relu_encoder(case: Case) -> nn.Module:
    return _encoder(case, "relu", "same")


@honest
def leaky_relu_encoder(case: Case) -> nn.Module:
    return _encoder(case, "leaky_relu", None)


@honest
def prelu_encoder(case: Case) -> nn.Module:
    return _encoder(case, prelu(case.slope1), prelu(case.slope2))


@honest
def rrelu_encoder(case: Case) -> nn.Module:
    return _encoder(case, "rrelu", "identity")


def _pyg(case: Case, **options: Any) -> nn.Module:
    d0, d1, d2 = *case.w1.shape, case.w2.shape[1]
    model = GCN(d0, d1, num_layers=2, out_channels=d2, **options).double()
    for conv, weight, bias in zip(model.convs, (case.w1, case.w2), (case.b1, case.b2), strict=True):
        conv.lin.weight.data.copy_(weight.T)
        conv.bias.data.copy_(bias)
    return model


@honest
def pyg_gcn(case: Case) -> nn.Module:
    return _pyg(case)


@honest
def pyg_gcn_with_prelu_and_dropout(case: Case) -> nn.Module:
    return _pyg(case, act="PReLU", dropout=0.5)


@honest
def pyg_gcn_with_leaky_relu(case: Case) -> nn.Module:
    return _pyg(case, act="leaky_relu", act_kwargs={"negative_slope": 0.2})


@honest
def pyg_gcn_in_float32(case: Case) -> nn.Module:
    return _pyg(case).float()


@honest
def pyg_sequential(case: Case) -> nn.Module:
    return Sequential(
        "x, edge_index",
        [(layer(case.w1, case.b1), "x, edge_index -> x"), nn.ReLU(), (layer(case.w2, case.b2), "x, edge_index -> x")],
    )
