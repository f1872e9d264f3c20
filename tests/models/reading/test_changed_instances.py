"""Honest classes whose instances were changed. Each is refused when it is read."""

import functools
import types
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from certgcl.graphs.graph import Graph
from tests.encoders import prepared, refusal
from tests.models.reading.two_layers import Pretends, Saturates, Two, plateau, saturated


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
