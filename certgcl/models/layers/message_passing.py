"""The requirements for every PyG convolution: an instance of exactly that class, with known settings and parts."""

import re
from types import MethodType
from typing import Any

from torch import nn
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.aggr import MeanAggregation, SumAggregation

from certgcl.errors import EncoderError
from certgcl.models.aggregations import Aggregation, Mean, Sum
from certgcl.models.layers.formula import Edges
from certgcl.models.layers.lookup import MISSING, class_attribute, instance_dict
from certgcl.models.layers.modules import check_call, check_unshadowed, described, held, store
from certgcl.models.layers.site import CallSite, check_type

Settings = dict[str, tuple[Any, ...]]
"""The values that each setting may have."""

MOST_STEPS = 1000  # steps that a layer may repeat; each becomes a layer of the network
DEFAULTS = "Build the layer with its defaults"
CACHES: Settings = {"cached": (False,), "_cached_edge_index": (None,), "_cached_adj_t": (None,), "_cached_x": (None,)}
_COMMON: Settings = {
    "flow": ("source_to_target",),
    "node_dim": (-2, 0),
    "fuse": (True, False),
    "_explain": (None, False),
    "_decomposed_layers": (1,),
}
_AGGREGATIONS: dict[str, tuple[type[nn.Module], Aggregation]] = {
    "add": (SumAggregation, Sum()),
    "sum": (SumAggregation, Sum()),
    "mean": (MeanAggregation, Mean()),
}
_HOOKS = re.compile(r"_(propagate|message|aggregate|message_and_aggregate|edge_update)_forward(_pre)?_hooks")


def check_settings(conv: nn.Module, name: str, settings: Settings) -> None:
    """The settings of a layer, by their exact types: an object that merely equals them is not accepted."""
    for setting, allowed in (settings | _COMMON).items():
        value = held(conv, setting)
        if value is not MISSING and not any(type(value) is type(one) and value == one for one in allowed):
            raise EncoderError(
                f"{setting}={value!r} in {name or type(conv).__name__}",
                f"layers need {setting}={' or '.join(map(repr, allowed))}",
                DEFAULTS,
            )


def check_convolution(conv: nn.Module, kind: type[nn.Module], name: str, settings: Settings) -> Aggregation:
    """How a convolution mixes its messages, after everything that could make it differ from its class is ruled out.

    Sound because the class is PyG's own, its functions are those of PyG (see :mod:`certgcl.models.layers.trusted`),
    and each part of its state that they access is known here.
    """
    if type(conv) is not kind:
        raise EncoderError(
            f"{described(conv, name)}, a subclass of {kind.__name__}"
            if isinstance(conv, kind)
            else described(conv, name),
            f"layers must be torch_geometric.nn.{kind.__name__} itself",
            f"Use {kind.__name__}",
        )
    check_settings(conv, name, settings)
    check_call(conv, name)
    check_unshadowed(conv, name, allowed=("propagate",))
    attributes = instance_dict(conv)
    if "propagate" in attributes and not _is_own_propagate(conv, attributes["propagate"]):
        raise EncoderError(
            f"propagate replaced on {described(conv, name)}", "an instance must do what its class says", DEFAULTS
        )
    if class_attribute(kind, "propagate") is class_attribute(MessagePassing, "propagate"):
        raise EncoderError(
            f"{described(conv, name)}, for which PyG could not write a propagate",
            "what runs must depend on the class alone",
            "Let PyG write to its temporary folder",
        )
    for hooks in filter(_HOOKS.fullmatch, attributes):
        if store(conv, hooks):
            raise EncoderError(
                f"a message passing hook on {described(conv, name)}",
                "nothing may run between a layer and its messages",
                "Remove it with its handle",
            )
    expected, aggregation = _AGGREGATIONS[held(conv, "aggr")]
    module = check_type(held(conv, "aggr_module"), f"{name}.aggr_module", expected)
    # Its class has its own __call__, which is checked with the rest of PyG.
    if any(store(module, hooks) for hooks in ("_forward_hooks", "_forward_pre_hooks")):
        raise EncoderError(
            f"a forward hook on {described(module, f'{name}.aggr_module')}",
            "nothing may run between a module and its forward",
            "Remove it with its handle",
        )
    check_unshadowed(module, f"{name}.aggr_module")
    return aggregation


def aggregation_of(site: CallSite, kind: type[nn.Module], edges: Edges, settings: Settings) -> Aggregation:
    """How a convolution over plain edges mixes its messages: their mean or their sum."""
    aggregation = check_convolution(site.module, kind, site.name, settings)
    check_loops(site, edges)
    return aggregation


def check_loops(site: CallSite, edges: Edges) -> None:
    """Raise an error for self-loops added by hand, which count as neighbours in a layer that does not replace them by
    its own."""
    if edges.looped:
        raise EncoderError(
            f"{described(site.module, site.name)} with the edges edge_index with self-loops at {site.place}",
            "only layers with add_self_loops=True, which replace them, may get self-loops",
            "Pass edge_index as it is",
        )


def check_count(site: CallSite, name: str) -> int:
    """A number of steps, at least one."""
    count = site.setting(name)
    if type(count) is not int or not 1 <= count <= MOST_STEPS:
        raise EncoderError(
            f"{name}={count!r} in {described(site.module, site.name)}",
            f"it is a number of steps from 1 to {MOST_STEPS}",
            "Give another",
        )
    return count


def _is_own_propagate(conv: nn.Module, method: Any) -> bool:
    """After an explanation has ended, PyG itself binds the method of the class to a layer."""
    return (
        type(method) is MethodType
        and method.__self__ is conv
        and method.__func__ is class_attribute(type(conv), "propagate")
    )
