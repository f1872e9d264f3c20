"""A ``GCNConv`` that computes ``Â X W + b``, proved by its exact type and everything in its state that matters."""

import re
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch_geometric.nn import GCNConv
from torch_geometric.nn.aggr import SumAggregation
from torch_geometric.nn.dense import Linear

from certgcl.errors import EncoderError
from certgcl.layers.lookup import MISSING, class_attribute, instance_dict
from certgcl.layers.modules import check_call, check_unshadowed, described, held, store

_SETTINGS: dict[str, tuple[Any, ...]] = {
    "improved": (False,), "normalize": (True,), "add_self_loops": (True,), "cached": (False,),
    "aggr": ("add", "sum"), "flow": ("source_to_target",), "node_dim": (-2, 0), "_cached_edge_index": (None,),
    "_cached_adj_t": (None,), "fuse": (True, False), "_explain": (None, False), "_decomposed_layers": (1,),
}
_HOOKS = re.compile(r"_(propagate|message|aggregate|message_and_aggregate|edge_update)_forward(_pre)?_hooks")
_DEFAULTS = "Build the GCNConv with its defaults"


def check_settings(conv: GCNConv, name: str) -> None:
    """The settings of a layer, by their exact types: an object that merely equals them is none."""
    for setting, allowed in _SETTINGS.items():
        value = held(conv, setting)
        if value is not MISSING and not any(type(value) is type(one) and value == one for one in allowed):
            raise EncoderError(f"{setting}={value!r} in {name or 'GCNConv'}", f"layers need {setting}={allowed[0]!r}",
                               _DEFAULTS)


def gcn_parameters(conv: nn.Module, name: str) -> tuple[Tensor, Tensor]:
    """``W`` ``(inputs, outputs)`` and ``b`` ``(outputs,)`` of a layer, with their autograd history.

    Sound because the class is ``GCNConv`` itself, its functions are those of PyG (see
    :mod:`certgcl.layers.trusted`), and each part of its state that they look at is what makes it ``Â X W + b``.
    """
    if type(conv) is not GCNConv:
        raise EncoderError(f"{described(conv, name)}, a subclass of GCNConv" if isinstance(conv, GCNConv) else
                           described(conv, name), "layers must be torch_geometric.nn.GCNConv itself",
                           "Use GCNConv, or certgcl.GCNEncoder")
    check_settings(conv, name)
    check_call(conv, name)
    check_unshadowed(conv, name, allowed=("propagate",))
    attributes = instance_dict(conv)
    if "propagate" in attributes and not _is_own_propagate(conv, attributes["propagate"]):
        raise EncoderError(f"propagate replaced on {described(conv, name)}", "an instance must do what its class says",
                           _DEFAULTS)
    for hooks in filter(_HOOKS.fullmatch, attributes):
        if store(conv, hooks):
            raise EncoderError(f"a message passing hook on {described(conv, name)}",
                               "nothing may come between a layer and its messages", "Remove it with its handle")
    _check_part(conv, "aggr_module", SumAggregation, name)
    linear = _check_part(conv, "lin", Linear, name)
    if held(linear, "bias") is not None:
        raise EncoderError(f"{name}.lin with a bias", "a GCNConv has its bias after propagation", _DEFAULTS)
    weight = parameter(linear, "weight", f"{name}.lin")
    bias = held(conv, "bias")
    bias = weight.new_zeros(weight.shape[:1]) if bias is None else parameter(conv, "bias", name)
    if weight.dim() != 2 or bias.shape != weight.shape[:1]:
        raise EncoderError(f"{name} with weights {tuple(weight.shape)} and bias {tuple(bias.shape)}",
                           "weights are (outputs, inputs) and a bias has one value for each output", _DEFAULTS)
    return weight.T, bias


def parameter(module: nn.Module, attribute: str, name: str) -> Tensor:
    """A tensor that a module holds, if it is a plain one: a subclass could change what functions do with it."""
    value = held(module, attribute)
    if type(value) not in (Tensor, nn.Parameter):
        if isinstance(value, Tensor) and is_lazy(value):
            raise EncoderError(f"{name}.{attribute} without a shape yet", "parameters must be initialized",
                               "Run the model once on your data")
        raise EncoderError(f"{name}.{attribute} of type {type(value).__name__}",
                           "parameters must be plain torch tensors", "Convert with nn.Parameter(value.data)")
    if value.layout != torch.strided or not value.dtype.is_floating_point:
        raise EncoderError(f"{name}.{attribute} of dtype {value.dtype} and layout {value.layout}",
                           "parameters must be dense floating-point tensors", "Convert it")
    return value


def _check_part(conv: nn.Module, part: str, expected: type, name: str) -> nn.Module:
    module = held(conv, part)
    if not isinstance(module, nn.Module) or type(module) is not expected:
        raise EncoderError(f"{name}.{part} of type {type(module).__name__}", f"it must be PyG's {expected.__name__} "
                           "itself, without parametrizations", _DEFAULTS)
    if expected is not SumAggregation:  # whose class has a __call__ of its own, compared with the rest of PyG
        check_call(module, f"{name}.{part}")
    elif any(store(module, hooks) for hooks in ("_forward_hooks", "_forward_pre_hooks")):
        raise EncoderError(f"a forward hook on {described(module, f'{name}.{part}')}",
                           "nothing may come between a module and its forward", "Remove it with its handle")
    check_unshadowed(module, f"{name}.{part}")
    return module


def _is_own_propagate(conv: nn.Module, method: Any) -> bool:
    """PyG itself binds the method of the class to a layer whose explanation has ended."""
    return (type(method) is MethodType and method.__self__ is conv
            and method.__func__ is class_attribute(GCNConv, "propagate"))
