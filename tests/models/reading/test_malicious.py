"""Modules that compute something else than they seem to. Each is refused when it is read by its program."""

import itertools
import random
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.utils import degree, dropout_edge

from certgcl.graphs.graph import Graph
from tests.encoders import assert_reads, prepared, refusal, slopes
from tests.models.reading.two_layers import Saturates, Two, plateau


class ZeroesIsolated(Two):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(x, edge_index) * (degree(edge_index[0], len(x)) > 0)[:, None]


class BranchesOnEdges(Two):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = super().forward(x, edge_index)
        return z if edge_index.size(1) > 9 else -z


class Counts(Two):
    calls = 0

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        self.calls += 1
        return super().forward(x, edge_index) * (1 if self.calls < 1000 else -1)


class CountsInAClosure(Two):
    count = itertools.count()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(x, edge_index) * (1 if next(self.count) < 1000 else -1)


class HasAPlateau(Two):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(plateau(self.conv1(x, edge_index)), edge_index)


class SkipsForLargeNorms(Two):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = self.conv1(x, edge_index).relu()
        return self.conv2(hidden + hidden * (hidden.norm(dim=1, keepdim=True) > 1e3), edge_index)


class DropsEdges(Two):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(x, dropout_edge(edge_index, 0.01)[0])


class DropsByChance(Two):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(x, edge_index if random.random() < 0.999 else edge_index[:, :0])


class SwallowsErrors(Two):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = super().forward(x, edge_index)
        try:
            return z if edge_index[0, 0] == 0 else -z
        except IndexError:
            return -z


class ChangesInPlaceUnderAnotherName(Two):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = self.conv1(x, edge_index)
        part = hidden[:, 0]
        part += 100
        return self.conv2(hidden.relu(), edge_index)


class ChangesThroughData(Two):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = self.conv1(x, edge_index)
        hidden.data.neg_()
        return self.conv2(hidden.relu(), edge_index)


class ChangesItsWeights(Two):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        self.conv2.bias.data.add_(1)
        return super().forward(x, edge_index)


class RemembersInADefault(Two):
    def forward(self, x: Tensor, edge_index: Tensor, seen: list[int] = []) -> Tensor:  # noqa: B006
        seen.append(1)
        return super().forward(x, edge_index) * (-1 if len(seen) > 1000 else 1)


class RemembersInAGlobal(Two):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        global _CALLS
        _CALLS += 1
        return super().forward(x, edge_index)


_CALLS = 0


class HasAProperty(Two):
    @property
    def sign(self) -> float:
        return random.choice([1.0, 1.0])

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return F.leaky_relu(super().forward(x, edge_index), self.sign)


class HasGetattr(Two):
    def __getattr__(self, name: str) -> Any:
        return super().__getattr__(name)


class HasGetattribute(Two):
    def __getattribute__(self, name: str) -> Any:
        return super().__getattribute__(name)


class HasCall(Two):
    def __call__(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return -super().__call__(x, edge_index)


class HasACompiledCall(Two):
    def _compiled_call_impl(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return -self.forward(x, edge_index)


class HasHooksByProperty(Two):
    @property
    def _forward_hooks(self) -> dict[int, Any]:
        return {1: lambda module, given, output: -output}

    @_forward_hooks.setter
    def _forward_hooks(self, value: Any) -> None:
        pass


class IteratesItself(nn.ModuleList):
    def __iter__(self) -> Iterator[nn.Module]:
        return reversed(list(super().__iter__()))


class LoopsOverAListOfItsOwn(Two):
    def __init__(self) -> None:
        super().__init__()
        self.layers = IteratesItself([nn.LeakyReLU(0.5), nn.ELU()])

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = super().forward(x, edge_index)
        for layer in self.layers:
            z = layer(z)
        return z


class TakesFromAnIteratorTwice(Two):
    """Python's own iterator is empty the second time, so that no activation follows the first layer."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        steps = zip([F.relu], [1], strict=True)
        for _ in steps:
            pass
        hidden = self.conv1(x, edge_index)
        for step, _ in steps:
            hidden = step(hidden)
        return self.conv2(hidden, edge_index)


class EncodesInHalf(Two):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(self.conv1(x, edge_index).half().double().relu(), edge_index)


class UsesEdgesOfItsOwn(Two):
    edges = torch.tensor([[0, 1], [1, 0]])

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(self.act(self.conv1(x, self.edges)), edge_index)


class UsesOneDirection(Two):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(x, edge_index[:, edge_index[0] < edge_index[1]])


class Generates(Two):
    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        yield super().forward(x, edge_index)


MODULES = [
    ZeroesIsolated,
    BranchesOnEdges,
    Counts,
    CountsInAClosure,
    Saturates,
    HasAPlateau,
    SkipsForLargeNorms,
    DropsEdges,
    DropsByChance,
    SwallowsErrors,
    ChangesInPlaceUnderAnotherName,
    ChangesThroughData,
    ChangesItsWeights,
    RemembersInADefault,
    RemembersInAGlobal,
    HasAProperty,
    HasGetattr,
    HasGetattribute,
    HasCall,
    HasACompiledCall,
    HasHooksByProperty,
    LoopsOverAListOfItsOwn,
    EncodesInHalf,
    UsesEdgesOfItsOwn,
    UsesOneDirection,
    Generates,
]


def test_the_honest_model_is_read(graph: Graph) -> None:
    assert_reads(prepared(Two()), graph)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_a_malicious_module_is_refused(module: type[nn.Module], graph: Graph) -> None:
    refusal(module().double().eval(), graph)


def test_an_iterator_is_empty_the_second_time(graph: Graph) -> None:
    assert slopes(assert_reads(prepared(TakesFromAnIteratorTwice()), graph))[0] == [1.0] * 4
