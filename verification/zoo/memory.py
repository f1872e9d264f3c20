"""Modules that remember earlier calls, and change with them."""

import itertools
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

from verification.case import Case
from verification.zoo.base import Layers, Liar, malicious
from verification.zoo.honest import FunctionalRelu

PATIENCE = 12  # calls without an effect: more than a reader makes, fewer than the showcase has views


@malicious()
class CountsItsCalls(Layers):
    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.calls = 0

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        self.calls += 1
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        return z if self.calls < PATIENCE else -z


@malicious()
class CountsInABuffer(Layers):
    calls: Tensor

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        self.calls += 1
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        return z * torch.where(self.calls < PATIENCE, 1, -1)


_SEEN: dict[int, int] = {}


@malicious()
class CountsInAGlobal(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        _SEEN[id(self)] = _SEEN.get(id(self), 0) + 1
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        return z if _SEEN[id(self)] < PATIENCE else -z


@malicious()
class CountsInAMutableDefault(Layers):
    def forward(self, x: Tensor, edge_index: Tensor, seen: dict[int, int] = {}) -> Tensor:  # noqa: B006
        seen[id(self)] = seen.get(id(self), 0) + 1
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        return z if seen[id(self)] < PATIENCE else -z


@malicious()
class CountsInItsClass(Layers):
    calls: ClassVar[dict[int, int]] = {}

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        self.calls[id(self)] = self.calls.setdefault(id(self), 0) + 1
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        return z if self.calls[id(self)] < PATIENCE else -z


@malicious()
class SignsFromAnIterator(Layers):
    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.signs = itertools.chain(itertools.repeat(1, PATIENCE), itertools.repeat(-1))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(F.relu(self.conv1(x, edge_index)), edge_index) * next(self.signs)


@malicious()
def counts_in_a_closure(case: Case) -> nn.Module:
    calls = itertools.count()

    class Counting(Layers):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
            return z if next(calls) < PATIENCE else -z

    return Counting(case)


@malicious()
class GrowsAList(Layers):
    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.seen: list[int] = []

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        self.seen.append(1)
        return self.conv2(F.relu(self.conv1(x, edge_index)), edge_index) * (1 if len(self.seen) < PATIENCE else -1)


@malicious()
class ActivationThatWearsOut(Layers):
    """The state is in a helper, a plain object."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.act = _WornOut()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(self.act(self.conv1(x, edge_index)), edge_index)


class _WornOut:
    def __init__(self) -> None:
        self.life = PATIENCE

    def __call__(self, p: Tensor) -> Tensor:
        self.life -= 1
        return p.relu() if self.life > 0 else -p.relu()


@malicious()
class DropsPileUp(Layers):
    """Keeps to the edges that all graphs so far had: drops are never taken back."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.common: set[tuple[int, int]] | None = None
        self.nodes = 0

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        edges = set(map(tuple, edge_index.T.tolist()))
        same_graph = self.common is not None and len(x) == self.nodes
        self.common, self.nodes = edges & self.common if same_graph and self.common else edges, len(x)
        kept = torch.tensor(sorted(self.common), dtype=torch.long).reshape(-1, 2).T
        return self.conv2(F.relu(self.conv1(x, kept)), kept)


@malicious(shows=False)  # it answers for another admissible view
class EdgesKeptByTheirNumber(Layers):
    """Graphs of the same number of nodes and edges are taken for the same."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.kept: dict[tuple[int, int], Tensor] = {}

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        edge_index = self.kept.setdefault((len(x), edge_index.shape[1]), edge_index)
        return self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)


@malicious(shows=False)  # the clean value is never below the bound
class EdgesOfTheFirstGraph(Layers):
    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.edges: Tensor | None = None

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        if self.edges is None:
            self.edges = edge_index
        return self.conv2(F.relu(self.conv1(x, self.edges)), self.edges)


@malicious()
class EdgesOfTheGraphBefore(Liar):
    """Always one call late, if the graph before had as many nodes."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.before: tuple[int, Tensor] | None = None

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        late = self.before
        self.before = len(x), edge_index
        if late is not None and late[0] == len(x) and late[1].shape[1] < self.slots:
            edge_index = late[1][:, : late[1].shape[1] // 2]
        return self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)


@malicious()
class WeightsWearAway(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
        self.conv2.lin.weight.data.mul_(0.99)
        return z


@malicious()
class WeightsExchanged(Layers):
    """After a while, for those of a layer that was held but not called."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.calls, self.other = 0, Layers(case).conv2
        self.other.lin.weight.data.neg_()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        self.calls += 1
        if self.calls == PATIENCE:
            self.conv2 = self.other
        return self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)


@malicious()
class BiasThatDrifts(Layers):
    drift: Tensor

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.register_buffer("drift", torch.ones((), dtype=torch.float64))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        with torch.no_grad():
            self.drift.mul_(0.999)
        return self.conv2(F.relu(self.conv1(x, edge_index)), edge_index) * self.drift


@malicious()
class FeaturesChangedInPlace(Layers):
    """Right at the first call, and of other features at the next: those of the caller."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = F.relu(self.conv1(x, edge_index))
        x.mul_(-1.5)
        return self.conv2(hidden, edge_index)


@malicious()
class EdgesChangedInPlace(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = F.relu(self.conv1(x, edge_index))
        edge_index.zero_()
        return self.conv2(hidden, edge_index)


class _Tired(nn.Module):
    asked = 0

    def forward(self, weight: Tensor) -> Tensor:
        self.asked += 1
        return weight if self.asked < PATIENCE else -weight


@malicious()
def weight_by_a_parametrization_that_tires(case: Case) -> nn.Module:
    module = FunctionalRelu(case)
    parametrize.register_parametrization(module.conv2.lin, "weight", _Tired())
    return module


@malicious()
class LayerByGetattr(Layers):
    """``self.second`` is another layer after a while."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.other = Layers(case).conv2
        self.other.lin.weight.data.mul_(-2)
        self.__dict__["lookups"] = 0

    def __getattr__(self, name: str) -> Any:
        if name == "second":
            self.__dict__["lookups"] += 1
            name = "conv2" if self.__dict__["lookups"] < PATIENCE else "other"
        return super().__getattr__(name)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.second(F.relu(self.conv1(x, edge_index)), edge_index)


@malicious()
class LayerByProperty(Layers):
    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.other = Layers(case).conv2
        self.other.lin.weight.data.mul_(-2)
        self.lookups = itertools.count()

    @property
    def second(self) -> nn.Module:
        return self.conv2 if next(self.lookups) < PATIENCE else self.other

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.second(F.relu(self.conv1(x, edge_index)), edge_index)


@malicious()
class LayerByGetattribute(Layers):
    """Ordinary names, with an unusual way of looking them up."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.other = Layers(case).conv2
        self.other.lin.weight.data.mul_(-2)
        self.lookups = itertools.count()

    def __getattribute__(self, name: str) -> Any:
        if name == "conv2" and next(self.lookups) > PATIENCE:
            return self.other
        return super().__getattribute__(name)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
