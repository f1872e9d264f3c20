"""Two-layer GCNs as hardly anyone writes them. A reader may refuse them; if it does not, it must read them
correctly."""

import warnings
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm
from torch_geometric.nn import GCNConv
from torch_geometric.utils import add_self_loops, coalesce, to_undirected

from verification.case import Case
from verification.zoo.base import Layers, layer, odd
from verification.zoo.honest import FunctionalRelu


@odd
class SelfLoopsAddedBefore(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        loops, _ = add_self_loops(edge_index, num_nodes=len(x))
        return self.conv2(self.conv1(x, loops).relu(), loops)


@odd
class SelfLoopsAddedTwice(Layers):
    """Which PyG makes one loop of each; if it did not, this would be another formula."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for _ in range(2):
            edge_index, _ = add_self_loops(edge_index, num_nodes=len(x))
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index)


@odd
class EdgesTurnedAround(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(self.conv1(x, edge_index.flip(0)).relu(), edge_index)


@odd
class EdgesSortedAndMadeUndirected(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        edge_index = to_undirected(coalesce(edge_index, num_nodes=len(x)), num_nodes=len(x))
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index)


@odd
class ReluAsProduct(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        p = self.conv1(x, edge_index)
        return self.conv2(p * (p > 0), edge_index)


@odd
class ReluAsWhere(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        p = self.conv1(x, edge_index)
        return self.conv2(torch.where(p > 0, p, torch.zeros_like(p)), edge_index)


@odd
class ReluAsClamp(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(self.conv1(x, edge_index).clamp(min=0), edge_index)


@odd
class ReluAsSum(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        p = self.conv1(x, edge_index)
        return self.conv2(0.5 * (p + p.abs()), edge_index)


@odd
class AbsoluteValue(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(self.conv1(x, edge_index).abs(), edge_index)


@odd
class NumbersOnly(Layers):
    """``nan_to_num`` changes nothing that is a number."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return torch.nan_to_num(self.conv2(self.conv1(x, edge_index).relu(), edge_index), nan=-1.0)


@odd
class ResidualWithAGateOfZero(Layers):
    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.gate = nn.Parameter(torch.zeros((), dtype=torch.float64))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = self.conv1(x, edge_index).relu()
        return self.conv2(hidden, edge_index) + self.gate * hidden.sum(dim=1, keepdim=True)


@odd
class BranchOnTheFeatures(Layers):
    """The features are the same in all views, so one branch is always taken."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = self.conv1(x, edge_index)
        hidden = hidden.relu() if float(x.sum()) > 0 else F.leaky_relu(hidden, 0.2)
        return self.conv2(hidden, edge_index)


@odd
class BatchNormInEvalMode(Layers):
    """An affine map of each channel, which could be put into the weights."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.norm = nn.BatchNorm1d(case.w1.shape[1]).double()
        self.norm.running_mean = torch.full((case.w1.shape[1],), 0.5, dtype=torch.float64)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(self.norm(self.conv1(x, edge_index)).relu(), edge_index)


class PlainSubclass(GCNConv):  # type: ignore[misc]
    """Another name for the same layer."""


@odd
class LayersOfASubclass(FunctionalRelu):
    def __init__(self, case: Case) -> None:
        super().__init__(case, PlainSubclass)


class SubclassOfRelu(nn.ReLU):
    """Another name for the same activation."""


@odd
class ActivationOfASubclass(Layers):
    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.act = SubclassOfRelu()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(self.act(self.conv1(x, edge_index)), edge_index)


@odd
def weights_by_parametrization(case: Case) -> nn.Module:
    module = FunctionalRelu(case)
    weight_norm(module.conv1.lin)
    return module


@odd
def with_a_hook_that_only_looks(case: Case) -> nn.Module:
    module = FunctionalRelu(case)
    seen: list[tuple[int, ...]] = []
    module.conv1.register_forward_hook(lambda conv, given, output: seen.append(tuple(output.shape)))
    return module


@odd
def scripted(case: Case) -> nn.Module:
    module = FunctionalRelu(case)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(module)


@odd
def written_by_exec(case: Case) -> nn.Module:
    """No source can be found."""
    names: dict[str, Any] = {"Layers": Layers, "F": F}
    exec(
        "class Written(Layers):\n"
        "    def forward(self, x, edge_index):\n"
        "        return self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)\n",
        names,
    )
    return names["Written"](case)


@odd
class AnyArguments(Layers):
    def forward(self, *given: Tensor, **named: Tensor) -> Tensor:
        x, edge_index = given if given else (named["x"], named["edge_index"])
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index)


@odd
class BiasAddedLater(nn.Module):
    """The bias of a layer as a parameter of the model."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.conv1, self.conv2 = layer(case.w1, None), layer(case.w2, case.b2)
        self.bias = nn.Parameter(case.b1.clone().double())

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(F.relu(self.conv1(x, edge_index) + self.bias), edge_index)


@odd
class TheSameTwice(Layers):
    """Runs everything twice and returns the second result."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for _ in range(2):
            z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        return z


@odd
class Checked(Layers):
    """Makes sure that the edges are what they should be."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        assert edge_index.dim() == 2
        assert edge_index.shape[0] == 2
        return self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
