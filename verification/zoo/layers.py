"""Modules whose layers are not what they are called."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GCN, GCNConv, GraphNorm, PairNorm
from torch_geometric.nn.aggr import Aggregation
from torch_geometric.typing import OptTensor

import certgcl
from verification.case import Case
from verification.zoo.base import Layers, degrees, layer, malicious
from verification.zoo.honest import FunctionalRelu


class IsolatedNodesAside(GCNConv):  # type: ignore[misc]
    """Treats degree zero as a case of its own."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        return super().forward(x, edge_index, edge_weight) * (degrees(edge_index, len(x)) > 0)


class OtherMessage(GCNConv):  # type: ignore[misc]
    """Turns messages around where all weights of the edges are one: only loops are left."""

    def message(self, x_j: Tensor, edge_weight: OptTensor) -> Tensor:
        message = super().message(x_j, edge_weight)
        return message if edge_weight is None else message * torch.where(edge_weight[:, None] == 1, -1, 1)


class OtherAggregation(GCNConv):  # type: ignore[misc]
    def aggregate(self, inputs: Tensor, index: Tensor, *given: Any, **named: Any) -> Tensor:
        summed = super().aggregate(inputs, index, *given, **named)
        return summed * torch.where(torch.bincount(index, minlength=len(summed)) > 1, 1, -1)[:, None]


class OtherUpdate(GCNConv):  # type: ignore[misc]
    """Values beyond 50 are turned around."""

    def update(self, inputs: Tensor) -> Tensor:
        return torch.where(inputs.abs() > 50, -inputs, inputs)


class OtherPropagation(GCNConv):  # type: ignore[misc]
    def propagate(self, edge_index: Tensor, **named: Any) -> Tensor:
        result = super().propagate(edge_index, **named)
        return result if edge_index.shape[1] > len(result) else -result


class DegreeDependentBias(GCNConv):  # type: ignore[misc]
    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        alone = degrees(edge_index, len(x)) == 0
        return super().forward(x, edge_index, edge_weight) - 10 * self.bias * alone


class Mixin:
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        result: Tensor = super().forward(x, edge_index)  # type: ignore[misc]
        return result * degrees(edge_index, len(x)).clamp(max=1)


class Mixed(Mixin, GCNConv):  # type: ignore[misc]
    """Nothing in its own body."""


@malicious()
def layer_with_isolated_nodes_aside(case: Case) -> nn.Module:
    return FunctionalRelu(case, IsolatedNodesAside)


@malicious()
def layer_with_another_message(case: Case) -> nn.Module:
    return FunctionalRelu(case, OtherMessage)


@malicious()
def layer_with_another_aggregation(case: Case) -> nn.Module:
    return FunctionalRelu(case, OtherAggregation)


@malicious(scales=(10.0, 30.0, 100.0))
def layer_with_another_update(case: Case) -> nn.Module:
    return FunctionalRelu(case, OtherUpdate)


@malicious()
def layer_with_another_propagation(case: Case) -> nn.Module:
    return FunctionalRelu(case, OtherPropagation)


@malicious()
def layer_with_a_bias_by_degree(case: Case) -> nn.Module:
    return FunctionalRelu(case, DegreeDependentBias)


@malicious()
def layer_with_a_mixin(case: Case) -> nn.Module:
    return FunctionalRelu(case, Mixed)


class SumUnlessAlone(Aggregation):  # type: ignore[misc]
    def forward(
        self, x: Tensor, index: Tensor, ptr: Tensor | None = None, dim_size: int | None = None, dim: int = -2
    ) -> Tensor:
        summed = self.reduce(x, index, ptr, dim_size, dim, reduce="sum")
        return summed * (torch.bincount(index, minlength=len(summed)) > 1)[:, None]


@malicious()
def aggregation_exchanged(case: Case) -> nn.Module:
    module = FunctionalRelu(case)
    module.conv2.aggr_module = SumUnlessAlone()
    return module


class LinearThatSaturates(nn.Linear):
    """Beyond 50."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).clamp(-50, 50)


@malicious(scales=(10.0, 30.0, 100.0, 1000.0))
def linear_map_exchanged(case: Case) -> nn.Module:
    module = FunctionalRelu(case)
    linear = LinearThatSaturates(case.w1.shape[0], case.w1.shape[1], bias=False).double()
    linear.weight = module.conv1.lin.weight
    module.conv1.lin = linear
    return module


@malicious()
def linear_map_with_a_bias(case: Case) -> nn.Module:
    """Within Â, where its own bias is not."""
    module = FunctionalRelu(case)
    linear = nn.Linear(*case.w2.shape).double()
    linear.weight, linear.bias = module.conv2.lin.weight, nn.Parameter(-10 * torch.ones_like(module.conv2.bias))
    module.conv2.lin = linear
    return module


class CallsItselfALayer(nn.Module):
    """No GCNConv, but ``isinstance`` says that it is one."""

    def __init__(self, conv: GCNConv) -> None:
        super().__init__()
        self.lin, self.bias = conv.lin, conv.bias
        self.inner = conv

    @property
    def __class__(self) -> Any:
        return GCNConv

    @__class__.setter
    def __class__(self, other: Any) -> None:
        raise TypeError

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("inner"), name)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        return self.inner(x, edge_index, edge_weight) * degrees(edge_index, len(x)).clamp(max=1)


@malicious()
def layer_by_its_own_word(case: Case) -> nn.Module:
    module = FunctionalRelu(case)
    module.conv2 = CallsItselfALayer(module.conv2)
    return module


def _with_settings(case: Case, **settings: Any) -> nn.Module:
    module = FunctionalRelu(case)
    for name, value in settings.items():
        setattr(module.conv2, name, value)
    return module


@malicious()
def layer_without_normalization(case: Case) -> nn.Module:
    return _with_settings(case, normalize=False)


@malicious()
def layer_that_caches(case: Case) -> nn.Module:
    return _with_settings(case, cached=True)


@malicious()
class Residual(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = F.relu(self.conv1(x, edge_index))
        return self.conv2(hidden, edge_index) - hidden.sum(dim=1, keepdim=True)


@malicious()
class ResidualOfIsolatedNodes(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = F.relu(self.conv1(x, edge_index))
        skipped = (degrees(edge_index, len(x)) == 0) * hidden.sum(dim=1, keepdim=True)
        return self.conv2(hidden, edge_index) - 10 * skipped


@malicious()
class GraphNormBetween(Layers):
    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.norm = GraphNorm(case.w1.shape[1]).double()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(F.relu(self.norm(self.conv1(x, edge_index))), edge_index)


@malicious()
class PairNormAfter(Layers):
    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.norm = PairNorm()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.norm(self.conv2(F.relu(self.conv1(x, edge_index)), edge_index))


@malicious()
class BatchNormInTrainMode(Layers):
    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.norm = nn.BatchNorm1d(case.w1.shape[1]).double()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(F.relu(self.norm.train()(self.conv1(x, edge_index))), edge_index)


@malicious()
class UnitEmbeddings(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return F.normalize(self.conv2(F.relu(self.conv1(x, edge_index)), edge_index), dim=1)


@malicious()
class ThirdLayerForLeaves(Layers):
    """Called only where a leaf is left."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        if bool((degrees(edge_index, len(x)) == 0).any()):
            z = self.conv2(F.relu(-self.conv1(x, edge_index)), edge_index) - z
        return z


class EncoderThatZeroes(certgcl.GCNEncoder):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(x, edge_index) * degrees(edge_index, len(x)).clamp(max=1)


@malicious()
def subclass_of_our_encoder(case: Case) -> nn.Module:
    return EncoderThatZeroes.from_layers(layer(case.w1, case.b1), layer(case.w2, case.b2), "relu", None)


class GCNThatZeroes(GCN):  # type: ignore[misc]
    """PyG's model; ``conv1`` and ``conv2`` are further names of its layers."""

    def forward(self, x: Tensor, edge_index: Tensor, **named: Any) -> Tensor:
        return super().forward(x, edge_index, **named) * degrees(edge_index, len(x)).clamp(max=1)


@malicious()
def subclass_of_pygs_model(case: Case) -> nn.Module:
    model = GCNThatZeroes(case.w1.shape[0], case.w1.shape[1], num_layers=2, out_channels=case.w2.shape[1]).double()
    model.convs[0], model.convs[1] = layer(case.w1, case.b1), layer(case.w2, case.b2)
    model.conv1, model.conv2 = model.convs
    return model
