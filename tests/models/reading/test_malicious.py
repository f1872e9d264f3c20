"""Modules that compute something else than they seem to. Each is refused when it is read by its program."""

import functools
import itertools
import random
import types
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GCNConv
from torch_geometric.utils import degree, dropout_edge

from certgcl.graphs.graph import Graph
from tests.encoders import assert_reads, prepared, refusal, slopes


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


class Saturates(Two):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(saturated(self.conv1(x, edge_index)), edge_index)


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


# -- honest classes, changed instances -------------------------------------------------------------


def shadowed(model: Two) -> None:
    model.forward = lambda x, edge_index: x  # type: ignore[method-assign]


def with_class_swapped(model: Two) -> None:
    model.__class__ = Saturates


def with_layer_class_swapped(model: Two) -> None:
    class Isolates(GCNConv):
        def update(self, inputs: Tensor) -> Tensor:
            return inputs * 2

    model.conv1.__class__ = Isolates


def with_message(model: Two) -> None:
    model.conv1.message = lambda x_j, edge_weight: x_j  # type: ignore[method-assign]


def with_lin_forward(model: Two) -> None:
    model.conv2.lin.forward = lambda x: x[:, :3]  # type: ignore[method-assign]


def with_a_cache(model: Two) -> None:
    model.conv1._cached_edge_index = (torch.tensor([[0], [0]]), torch.ones(1).double())


def with_a_module_that_pretends(model: Two) -> None:
    model._modules["conv2"] = Pretends(model.conv2)


def with_a_dict_of_hooks_that_looks_empty(model: Two) -> None:
    class Empty(OrderedDict[int, Any]):
        def __len__(self) -> int:
            return 0

    model.conv1._propagate_forward_pre_hooks = Empty({1: lambda module, given: None})


def with_modules_that_change(model: Two) -> None:
    class Changing(dict[str, Any]):
        def __getitem__(self, name: str) -> Any:
            return super().__getitem__("conv1" if name == "act" else name)

    model._modules = Changing(model._modules)


def with_a_wide_bias(model: Two) -> None:
    model.conv2.bias = nn.Parameter(torch.randn(6, 3).double())


def with_a_bias_in_lin(model: Two) -> None:
    model.conv2.lin.bias = nn.Parameter(torch.ones(3).double())


def with_a_setting_that_equals_all(model: Two) -> None:
    class Agrees:
        def __eq__(self, other: object) -> bool:
            return True

        def __bool__(self) -> bool:
            return False

    model.conv1.normalize = Agrees()  # type: ignore[assignment]


def with_a_tensor_of_its_own(model: Two) -> None:
    class Odd(Tensor):
        pass

    model.conv1._parameters["bias"] = model.conv1.bias.detach().as_subclass(Odd)


def with_other_globals(model: Two) -> None:
    class Wins(dict[str, Any]):
        def __getitem__(self, name: str) -> Any:
            return plateau

    function = types.FunctionType(
        Saturates.forward.__code__, Wins(globals()), "forward", None, Saturates.forward.__closure__
    )
    model.__class__ = type("Net", (Two,), {"forward": function})


def with_code_of_another(model: Two) -> None:
    def forward(self: Two, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(self.act(self.conv1(x, edge_index)), edge_index)

    forward.__code__ = forward.__code__.replace(co_consts=(*forward.__code__.co_consts, 3))
    model.__class__ = type("Net", (Two,), {"forward": forward})


def with_a_hook_on_the_activation(model: Two) -> None:
    model.act.register_forward_hook(lambda module, given, output: output + 1)


def with_a_message_hook(model: Two) -> None:
    model.conv1.register_message_forward_hook(lambda module, given, output: 2 * output)


def with_weight_norm(model: Two) -> None:
    nn.utils.parametrizations.weight_norm(model.conv1.lin)


def with_an_activation_made_of_a_class(model: Two) -> None:
    model.act = type("ReLU", (nn.ReLU,), {"forward": lambda self, p: saturated(p)})()


def with_a_descriptor(model: Two) -> None:
    class Act:
        def __get__(self, owner: Any, cls: Any) -> Callable[[Tensor], Tensor]:
            return saturated

    del model.act
    model.__class__ = type("Net", (Two,), {"act": Act()})


def with_a_partial_of_its_own(model: Two) -> None:
    del model.act
    model.act = functools.partial(torch.clamp, min=0, max=100)  # type: ignore[assignment]


def with_a_bound_method(model: Two) -> None:
    class Holder:
        def relu(self, p: Tensor) -> Tensor:
            return saturated(p)

    del model.act
    model.act = Holder().relu  # type: ignore[assignment]


CHANGES = [
    shadowed,
    with_class_swapped,
    with_layer_class_swapped,
    with_message,
    with_lin_forward,
    with_a_cache,
    with_a_module_that_pretends,
    with_a_dict_of_hooks_that_looks_empty,
    with_modules_that_change,
    with_a_wide_bias,
    with_a_bias_in_lin,
    with_a_setting_that_equals_all,
    with_a_tensor_of_its_own,
    with_other_globals,
    with_code_of_another,
    with_a_hook_on_the_activation,
    with_a_message_hook,
    with_weight_norm,
    with_an_activation_made_of_a_class,
    with_a_descriptor,
    with_a_partial_of_its_own,
    with_a_bound_method,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_changed_instance_is_refused(change: Callable[[Two], None], graph: Graph) -> None:
    model = prepared(Two())
    change(model)
    refusal(model, graph)
