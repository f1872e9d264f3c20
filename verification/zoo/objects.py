"""Modules with objects that run code when they are merely inspected: compared, counted, printed, unpacked."""

import itertools
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GCN
from torch_geometric.nn.aggr import MeanAggregation

from verification.case import Case
from verification.zoo.base import Layers, layer, malicious
from verification.zoo.honest import FunctionalRelu
from verification.zoo.memory import PATIENCE


class Ticking:
    """Something that counts how often it is used, however that is."""

    def __init__(self, life: int = PATIENCE) -> None:
        self.uses, self.life = itertools.count(), life

    def alive(self) -> bool:
        return next(self.uses) < self.life

    __bool__ = alive

    def __len__(self) -> int:
        return int(self.alive())

    def __eq__(self, other: object) -> bool:
        return self.alive()

    __hash__ = None  # type: ignore[assignment]

    def __contains__(self, item: object) -> bool:
        return self.alive()

    def __getitem__(self, place: Any) -> int:
        return 1 if self.alive() else -1

    def __neg__(self) -> int:
        return -self[0]

    def __format__(self, spec: str) -> str:
        return "relu" if self.alive() else "neg"


class WithTicking(Layers):
    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.ticking: Any = Ticking()


@malicious()
class ByTheTruthOfAnObject(WithTicking):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        return z if self.ticking else -z


@malicious()
class ByTheLengthOfAnObject(WithTicking):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        if len(self.ticking) == 0:
            z = -z
        return z


@malicious()
class ByAComparisonOfAnObject(WithTicking):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        return z if self.ticking == "relu" else -z


@malicious()
class ByWhatAnObjectContains(WithTicking):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        return z if "relu" in self.ticking else -z


@malicious()
class ByAnItemOfAnObject(WithTicking):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = F.leaky_relu(self.conv1(x, edge_index), 0.0 if self.ticking[0] == 1 else -3.0)
        return self.conv2(hidden, edge_index)


@malicious()
class ByTheNegativeOfAnObject(WithTicking):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(F.leaky_relu(self.conv1(x, edge_index), -(-self.ticking - 1) * -2.0 - 4.0 + 4.0), edge_index)


@malicious()
class ByTheTextOfAnObject(WithTicking):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = getattr(F, f"{self.ticking}".replace("neg", "softsign"))(self.conv1(x, edge_index))
        return self.conv2(hidden, edge_index)


class _Number(int):
    """An integer that is equal to anything for a while."""

    ticking = Ticking(life=10**9)

    def __eq__(self, other: object) -> bool:
        return bool(self.ticking)

    __hash__ = int.__hash__


@malicious()
class ByANumberOfTheirOwn(Layers):
    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.number = _Number(3)
        self.number.ticking = Ticking()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        return z if self.number == 4 else -z


@malicious()
class SlopeThatIsNoNumber(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(F.leaky_relu(self.conv1(x, edge_index), float("nan")), edge_index)


class _Store(dict[str, Any]):
    """The place where a module keeps its parameters: another sign after a while."""

    ticking: Ticking

    def __getitem__(self, name: str) -> Any:
        found = super().__getitem__(name)
        return found if name != "weight" or self.ticking else nn.Parameter(-2 * found.detach())


@malicious()
def parameters_in_a_store_of_their_own(case: Case) -> nn.Module:
    module = FunctionalRelu(case)
    store = _Store(module.conv2.lin._parameters)
    store.ticking = Ticking()
    module.conv2.lin._parameters = store
    return module


class _Modules(dict[str, Any]):
    ticking: Ticking
    other: nn.Module

    def __getitem__(self, name: str) -> Any:
        return super().__getitem__(name) if name != "conv2" or self.ticking else self.other


@malicious()
def modules_in_a_store_of_their_own(case: Case) -> nn.Module:
    module = FunctionalRelu(case)
    store = _Modules(module._modules)
    store.ticking, store.other = Ticking(), layer(-2 * case.w2, -case.b2)
    module._modules = store
    return module


@malicious()
def aggregation_patched(case: Case) -> nn.Module:
    module = FunctionalRelu(case)
    honest = module.conv2.aggr_module.forward

    def forward(*given: Any, **named: Any) -> Tensor:
        summed: Tensor = honest(*given, **named)
        index = given[1] if len(given) > 1 else named["index"]
        return summed * (torch.bincount(index, minlength=len(summed)) > 1)[:, None]

    module.conv2.aggr_module.forward = forward
    return module


@malicious()
def aggregation_by_another_name(case: Case) -> nn.Module:
    """``aggr`` says "add", and the mean is taken."""
    module = FunctionalRelu(case)
    module.conv2.aggr_module = MeanAggregation()
    return module


@malicious()
class DropoutThatEvalDoesNotReach(Layers):
    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.dropout = nn.Dropout(0.3)

    def train(self, mode: bool = True) -> "DropoutThatEvalDoesNotReach":
        super().train(mode)
        self.dropout.training = True
        return self

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(self.dropout(F.relu(self.conv1(x, edge_index))), edge_index)


def _pyg(case: Case, **options: Any) -> nn.Module:
    """PyG's model; ``conv1`` and ``conv2`` are further names of its layers."""
    model = GCN(case.w1.shape[0], case.w1.shape[1], num_layers=2, out_channels=case.w2.shape[1], **options).double()
    model.convs[0], model.convs[1] = layer(case.w1, case.b1), layer(case.w2, case.b2)
    model.conv1, model.conv2 = model.convs
    return model


@malicious(scales=(10.0, 100.0))
def pygs_model_with_an_activation_of_their_own(case: Case) -> nn.Module:
    return _pyg(case, act=lambda p: p.clamp(0, 20))


@malicious()
def pygs_model_with_a_norm(case: Case) -> nn.Module:
    return _pyg(case, norm="graph_norm")


@malicious()
def pygs_model_with_jumping_knowledge(case: Case) -> nn.Module:
    model: Any = _pyg(case)
    model.jk_mode, model.jk = "max", lambda hidden: -hidden[-1] * hidden[-1]
    return model
