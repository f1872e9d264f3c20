"""Modules with an honest forward that is not everything that runs, or does not run at all: hooks, patches, wrappers and
decorators."""

import functools
import inspect
import types
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import certgcl
from verification.case import Case
from verification.zoo.base import Layers, degrees, layer, malicious
from verification.zoo.honest import FunctionalRelu, ReluModule


def alone(edge_index: Tensor, nodes: int) -> Tensor:
    return degrees(edge_index, nodes) == 0


@malicious()
def hook_on_the_model(case: Case) -> nn.Module:
    module = FunctionalRelu(case)
    module.register_forward_hook(lambda _, given, output: output * ~alone(given[1], len(given[0])))
    return module


@malicious()
def hook_on_a_layer(case: Case) -> nn.Module:
    module = FunctionalRelu(case)
    module.conv2.register_forward_hook(lambda _, given, output: output * ~alone(given[1], len(given[0])))
    return module


@malicious()
def hook_before_a_layer(case: Case) -> nn.Module:
    module = FunctionalRelu(case)
    module.conv2.register_forward_pre_hook(lambda _, given: (given[0] * ~alone(given[1], len(given[0])), given[1]))
    return module


@malicious()
def hook_on_the_linear_map(case: Case) -> nn.Module:
    module = FunctionalRelu(case)
    calls = iter(range(10**9))
    module.conv1.lin.register_forward_hook(lambda _, given, output: output if next(calls) < 12 else -output)
    return module


@malicious(scales=(10.0, 100.0))
def hook_on_an_aggregation(case: Case) -> nn.Module:
    module = FunctionalRelu(case)
    module.conv2.aggr_module.register_forward_hook(lambda _, given, output: output.clamp(-20, 20))
    return module


@malicious()
def hooks_of_message_passing(case: Case) -> nn.Module:
    """PyG's own hooks."""
    module = FunctionalRelu(case)
    module.conv2.register_propagate_forward_hook(
        lambda _, given, output: output if given[0].shape[1] > len(output) else -output
    )
    return module


@malicious(seems=(0.0, 0.0), scales=(10.0, 100.0))
def hook_on_an_activation(case: Case) -> nn.Module:
    module = ReluModule(case)
    module.act.register_forward_hook(lambda _, given, output: output.clamp(max=20))
    return module


@malicious()
def forward_patched(case: Case) -> nn.Module:
    module = FunctionalRelu(case)
    honest = module.forward
    patched = lambda x, edge_index: honest(x, edge_index) * ~alone(edge_index, len(x))  # noqa: E731
    module.forward = patched  # type: ignore[method-assign]
    return module


@malicious()
def forward_patched_as_a_method(case: Case) -> nn.Module:
    def forward(self: FunctionalRelu, x: Tensor, edge_index: Tensor) -> Tensor:
        return FunctionalRelu.forward(self, x, edge_index) * ~alone(edge_index, len(x))

    module = FunctionalRelu(case)
    module.forward = types.MethodType(forward, module)  # type: ignore[method-assign]
    return module


@malicious()
def forward_of_a_layer_patched(case: Case) -> nn.Module:
    module = FunctionalRelu(case)
    honest = module.conv1.forward
    module.conv1.forward = lambda x, edge_index: honest(x, edge_index) * ~alone(edge_index, len(x))
    return module


@malicious()
def propagation_of_a_layer_patched(case: Case) -> nn.Module:
    module = FunctionalRelu(case)
    honest = module.conv2.propagate
    module.conv2.propagate = lambda edge_index, **named: (
        honest(edge_index, **named) * (1 if edge_index.shape[1] > len(named["x"]) else -1)
    )
    return module


@malicious(seems=(0.0, 0.0), scales=(10.0, 100.0))
def forward_of_an_activation_patched(case: Case) -> nn.Module:
    module = ReluModule(case)
    module.act.forward = lambda input: input.clamp(0, 20)  # type: ignore[method-assign]
    return module


@malicious()
def forward_of_our_encoder_patched(case: Case) -> nn.Module:
    encoder = certgcl.GCNEncoder.from_layers(layer(case.w1, case.b1), layer(case.w2, case.b2), "relu", None)
    honest = encoder.forward
    patched = lambda x, edge_index: honest(x, edge_index) * ~alone(edge_index, len(x))  # noqa: E731
    encoder.forward = patched  # type: ignore[method-assign]
    return encoder


@malicious()
class CallOverridden(FunctionalRelu):
    def __call__(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().__call__(x, edge_index) * ~alone(edge_index, len(x))


@malicious()
class CallImplOverridden(FunctionalRelu):
    def _call_impl(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super()._call_impl(x, edge_index) * ~alone(edge_index, len(x))  # type: ignore[no-untyped-call]


@malicious()
class HelperOverridden(FunctionalRelu):
    """Not forward, but what a subclass makes of the layers."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.conv1, self.inner = _Wrapped(self.conv1), self.conv1


class _Wrapped(nn.Module):
    def __init__(self, conv: nn.Module) -> None:
        super().__init__()
        self.conv = conv
        self.lin, self.bias = conv.lin, conv.bias

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x, edge_index) * ~alone(edge_index, len(x))


def _decorated(forward: Any) -> Any:
    @functools.wraps(forward)  # inspect shows the source of what is inside
    def wrapped(self: nn.Module, x: Tensor, edge_index: Tensor) -> Tensor:
        return forward(self, x, edge_index) * ~alone(edge_index, len(x))

    return wrapped


@malicious()
class ForwardDecorated(Layers):
    @_decorated
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)


class _Descriptor:
    """``module.forward`` is the honest one for its class, another for its objects."""

    def __get__(self, module: Any, kind: Any) -> Any:
        if module is None:
            return FunctionalRelu.forward
        return lambda x, edge_index: FunctionalRelu.forward(module, x, edge_index) * ~alone(edge_index, len(x))


@malicious()
class ForwardByDescriptor(Layers):
    forward = _Descriptor()


@malicious()
def source_of_another(case: Case) -> nn.Module:
    """Code that says it was compiled from the lines of an honest module."""
    _, first = inspect.getsourcelines(FunctionalRelu.forward)
    lie = (
        "def forward(self, x, edge_index):\n"
        "    z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)\n"
        "    return z * ~alone(edge_index, len(x))\n"
    )
    names: dict[str, Any] = {"F": F, "alone": alone}
    exec(compile("\n" * (first - 1) + lie, inspect.getfile(FunctionalRelu), "exec"), names)
    kind = type("FunctionalRelu", (Layers,), {"forward": names["forward"], "__module__": FunctionalRelu.__module__})
    return kind(case)


def relu(p: Tensor) -> Tensor:
    """Not torch's."""
    return p.clamp(0, 20)


@malicious(scales=(10.0, 100.0))
class ReluByName(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(relu(self.conv1(x, edge_index)), edge_index)


_functional = types.SimpleNamespace(relu=relu)


@malicious(scales=(10.0, 100.0))
def names_of_another_module(case: Case) -> nn.Module:
    """``F`` is not torch's in the globals of its forward."""
    honest = FunctionalRelu.forward
    forward = types.FunctionType(honest.__code__, {**honest.__globals__, "F": _functional})
    return type("Renamed", (Layers,), {"forward": forward})(case)


@malicious(scales=(10.0, 100.0))
class PatchesTorchMeanwhile(FunctionalRelu):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        with mock.patch.object(torch.nn.functional, "relu", relu):
            return super().forward(x, edge_index)


class _Clipped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, p: Tensor) -> Tensor:
        return p.clamp(0, 20)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0]


@malicious(scales=(10.0, 100.0))
class FunctionOfTheirOwn(Layers):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(_Clipped.apply(self.conv1(x, edge_index)), edge_index)  # type: ignore[no-untyped-call]


class _Tensor(Tensor):
    """A bias that turns sums around where it is added to a single kind of row."""

    @classmethod
    def __torch_function__(cls, function: Any, kinds: Any, given: Any = (), named: Any = None) -> Any:
        plain = [part.as_subclass(Tensor) if isinstance(part, _Tensor) else part for part in given]
        result = function(*plain, **(named or {}))
        if function in (Tensor.add, Tensor.__add__, torch.add) and isinstance(result, Tensor) and result.dim() == 2:
            return result * torch.where(result.abs().amax(dim=1, keepdim=True) > 20, -1, 1)
        return result


@malicious(scales=(10.0, 30.0, 100.0))
def bias_of_a_tensor_of_their_own(case: Case) -> nn.Module:
    module = FunctionalRelu(case)
    del module.conv2.bias
    object.__setattr__(module.conv2, "bias", case.b2.clone().double().as_subclass(_Tensor))
    return module


@malicious()
def scripted_lie(case: Case) -> nn.Module:
    class Scripted(Layers):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            z = self.conv2(F.relu(self.conv1(x, edge_index)), edge_index)
            return _script()(z, edge_index)

    return Scripted(case)


@functools.cache
def _script() -> Any:
    return torch.jit.CompilationUnit(
        "def lie(z, edge_index):\n    if edge_index.numel() < 2 * z.size(0):\n        return -z\n    return z\n"
    ).lie


class _Sequential(nn.Sequential):
    def forward(self, p: Tensor) -> Tensor:
        return super().forward(p).clamp(max=20)  # type: ignore[no-untyped-call]


@malicious(scales=(10.0, 100.0))
class SequentialOfTheirOwn(Layers):
    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.act = _Sequential(nn.ReLU(), nn.Identity())

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv2(self.act(self.conv1(x, edge_index)), edge_index)


class _Reversed(nn.ModuleList):
    """A list that is iterated in reverse once it has been iterated often enough."""

    rounds = 0

    def __iter__(self) -> Any:
        self.rounds += 1
        modules = list(super().__iter__())
        return iter(modules if self.rounds < 12 else [modules[0], modules[2]])


@malicious()
class ListOfTheirOwn(Layers):
    def __init__(self, case: Case) -> None:
        super().__init__(case)
        other = layer(-2 * case.w2, -case.b2)
        self.convs = _Reversed([self.conv1, self.conv2, other])

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        first, second = list(self.convs)[:2]
        return second(F.relu(first(x, edge_index)), edge_index)
