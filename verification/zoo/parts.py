"""Normalizations, residuals, concatenations and objects that are not what they seem, each with its honest twin."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import BatchNorm, GCNConv, JumpingKnowledge, SAGEConv

from verification.case import Case
from verification.zoo.base import changed, drawn, malicious, odd
from verification.zoo.networks import (
    Jumping,
    Normed,
    Residual,
    batch_norm_before_the_activation,
    gin_layer,
    gin_layers,
    jumping_knowledge,
    pyg_sage_of_three_layers,
    pygs_batch_norm,
    residual_connections,
    stack,
    three_gcn_layers,
    widths,
)

# -- normalization ---------------------------------------------------------------------------------


class NormInTraining(Normed):
    def train(self, mode: bool = True) -> "NormInTraining":
        super().train(mode)
        self.norm.train()
        return self


@malicious(twin=batch_norm_before_the_activation)
def batch_norm_in_training_mode(case: Case) -> nn.Module:
    return drawn(NormInTraining(case))


@malicious(twin=pygs_batch_norm)
def pygs_batch_norm_in_training_mode(case: Case) -> nn.Module:
    return drawn(NormInTraining(case, BatchNorm))


@malicious(twin=batch_norm_before_the_activation)
def batch_norm_without_statistics(case: Case) -> nn.Module:
    return drawn(Normed(case, lambda width: nn.BatchNorm1d(width, track_running_stats=False)))


class NormOfTheCall(Normed):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        self.norm.running_mean.copy_(self.conv1(x, edge_index).mean(0))
        return super().forward(x, edge_index)


@malicious(twin=batch_norm_before_the_activation)
def batch_norm_whose_mean_is_set_in_each_call(case: Case) -> nn.Module:
    return drawn(NormOfTheCall(case))


class MeanByDegree(nn.BatchNorm1d):
    """With running statistics that are those of the input."""

    def forward(self, input: Tensor) -> Tensor:
        return F.batch_norm(input, input.mean(0), self.running_var, self.weight, self.bias, False, 0.0, self.eps)


@malicious(twin=batch_norm_before_the_activation)
def batch_norm_subclass(case: Case) -> nn.Module:
    return drawn(Normed(case, MeanByDegree))


@malicious(twin=pygs_batch_norm)
def pygs_batch_norm_with_another_inside(case: Case) -> nn.Module:
    module: Any = drawn(Normed(case, BatchNorm))
    inner = MeanByDegree(widths(case)[1]).double()
    inner.load_state_dict(module.norm.module.state_dict())
    module.norm.module = inner
    return module


@malicious(twin=batch_norm_before_the_activation)
def layer_norm_for_batch_norm(case: Case) -> nn.Module:
    return drawn(Normed(case, nn.LayerNorm))


# -- residuals and concatenation -------------------------------------------------------------------


class GateOfTheInput(Residual):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.lin(x)
        h = h + h.mean() * F.relu(self.conv1(h, edge_index))
        return self.head(0.5 * self.conv2(h, edge_index) - h)


@malicious(twin=residual_connections)
def residual_scaled_by_the_input(case: Case) -> nn.Module:
    return drawn(GateOfTheInput(case))


class GateOfTheEdges(Residual):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.lin(x)
        h = h + edge_index.size(1) * F.relu(self.conv1(h, edge_index))
        return self.head(0.5 * self.conv2(h, edge_index) - h)


@malicious(twin=residual_connections)
def residual_scaled_by_the_edges(case: Case) -> nn.Module:
    return drawn(GateOfTheEdges(case))


class ProductForSum(Residual):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.lin(x)
        h = h + F.relu(self.conv1(h, edge_index)) * h
        return self.head(0.5 * self.conv2(h, edge_index) - h)


@malicious(twin=residual_connections)
def residual_by_a_product(case: Case) -> nn.Module:
    return drawn(ProductForSum(case))


class Broadcast(Residual):
    """One channel added to all of them."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.lin(x)
        h = h + F.relu(self.conv1(h, edge_index))[:, :1]
        return self.head(0.5 * self.conv2(h, edge_index) - h)


@malicious(twin=residual_connections)
def residual_of_one_channel(case: Case) -> nn.Module:
    return drawn(Broadcast(case))


class AlongNodes(Jumping):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        first = self.conv1(x, edge_index).relu()
        return torch.cat([first, self.conv1(-x, edge_index)], dim=0)[-len(x) :]


@malicious(twin=jumping_knowledge)
def concatenation_of_nodes(case: Case) -> nn.Module:
    return drawn(AlongNodes(case))


@malicious(twin=jumping_knowledge)
def jumping_knowledge_of_maxima(case: Case) -> nn.Module:
    module: Any = drawn(Jumping(case))
    module.jump = JumpingKnowledge("max")
    module.conv2 = drawn(SAGEConv(widths(case)[1], widths(case)[1]))
    return module


class ModeOfItsOwn(str):
    __slots__ = ()
    calls = 0

    def __eq__(self, other: object) -> bool:
        ModeOfItsOwn.calls += 1
        return False

    __hash__ = str.__hash__


@malicious(twin=jumping_knowledge)
def jumping_knowledge_with_a_sly_mode(case: Case) -> nn.Module:
    module: Any = drawn(Jumping(case))
    module.jump.mode = ModeOfItsOwn("cat")
    return module


class InPlaceUnderTwoNames(Residual):
    """What is added in place is in the skip as well; honest, if it is read as it runs."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.lin(x)
        skip = h
        h += F.relu(self.conv1(h, edge_index))
        return self.head(0.5 * self.conv2(h, edge_index) - skip)


@odd
def residual_in_place(case: Case) -> nn.Module:
    return drawn(InPlaceUnderTwoNames(case))


class TanhAndItsInput(Residual):
    """nn.Tanh does not look at a setting ``inplace``, whatever was written there."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.act = changed(nn.Tanh(), inplace=True)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.conv1(self.lin(x), edge_index)
        return self.head(h - self.act(h))


@odd
def tanh_that_is_said_to_work_in_place(case: Case) -> nn.Module:
    return drawn(TanhAndItsInput(case))


# -- objects ---------------------------------------------------------------------------------------


class EqualToAll(type):
    """Classes that are equal to any other, and found among them."""

    def __eq__(cls, other: object) -> bool:
        return True

    def __hash__(cls) -> int:
        return hash(nn.Linear)


class LinearByEquality(nn.Module, metaclass=EqualToAll):
    def __init__(self, inner: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = inner.weight, inner.bias

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias) * (1 - x.abs().amin(dim=1, keepdim=True))


@malicious(twin=residual_connections)
def linear_layer_of_a_class_that_is_equal_to_all(case: Case) -> nn.Module:
    module: Any = drawn(Residual(case))
    module.head = LinearByEquality(module.head)
    return module


class NumberByEquality(metaclass=EqualToAll):
    def __mul__(self, other: Tensor) -> Tensor:
        return other * other

    __rmul__ = __mul__


class ScaledByAnObject(Residual):
    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.share = NumberByEquality()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.lin(x)
        h = h + F.relu(self.conv1(h, edge_index))
        h = self.share * self.conv2(h, edge_index) - h
        return self.head(h)


@malicious(twin=residual_connections)
def residual_scaled_by_an_object_equal_to_all(case: Case) -> nn.Module:
    return drawn(ScaledByAnObject(case))


class NameOfTwoMinds(str):
    """A name that is only sometimes equal to itself."""

    __slots__ = ()
    awake = False

    def __eq__(self, other: object) -> bool:
        return NameOfTwoMinds.awake and str.__eq__(self, other)

    __hash__ = str.__hash__


@malicious(twin=three_gcn_layers, shows=False)  # while it is asleep
def forward_under_a_name_of_two_minds(case: Case) -> nn.Module:
    module = stack(case, GCNConv, 3)
    vars(module)[NameOfTwoMinds("forward")] = lambda x, edge_index: -x
    return module


class ReLU(nn.Module):  # the name is part of the lie
    def forward(self, x: Tensor) -> Tensor:
        return x.relu() * (x < 1)


@malicious(twin=pyg_sage_of_three_layers)
def pygs_model_with_an_activation_of_ones_own(case: Case) -> nn.Module:
    module: Any = pyg_sage_of_three_layers(case)
    module.act = ReLU()
    return module


class ParameterThatNegates(nn.Parameter):
    """Which changes what functions do with it."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(function, types, args, kwargs or {})  # type: ignore[no-untyped-call]
        return -result if isinstance(result, Tensor) and function is F.linear else result


@malicious(twin=residual_connections)
def linear_layer_with_a_weight_of_its_own_mind(case: Case) -> nn.Module:
    module: Any = drawn(Residual(case))
    module.head.weight = ParameterThatNegates(module.head.weight.data)
    return module


@malicious(twin=gin_layers)
def gin_whose_mlp_is_a_function_with_memory(case: Case) -> nn.Module:
    module: Any = stack(case, gin_layer, train_eps=True)
    inner: Any = module.convs[0].nn
    seen: list[int] = []

    def remembering(x: Tensor) -> Tensor:
        seen.append(1)
        return inner(x) if len(seen) < 2 else -inner(x)

    del module.convs[0].nn
    module.convs[0].nn = remembering
    return module
