"""The encoder of a method: the two-layer GCN, or your own, as a factory or as a module."""

import copy
import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import nn

from certgcl.arguments import shown
from certgcl.errors import InputError
from certgcl.files.digest import digest
from certgcl.models.gcn_encoder import GCNEncoder

_RULE = "it is a factory (in_channels, hidden) -> module, a module, or None for two GCN layers"
_REMEDY = "Pass a function, or a model such as torch_geometric.nn.GraphSAGE(...)"


@dataclass(frozen=True)
class SavedEncoder:
    """Represents an encoder in a file by its name. The trained network is in the file too, but not its program."""

    name: str


EncoderLike: TypeAlias = Callable[[int, int], nn.Module] | nn.Module | SavedEncoder | None


def check_encoder(encoder: Any) -> None:
    """Raise an error for values that no encoder can be built from."""
    if not (encoder is None or isinstance(encoder, SavedEncoder) or callable(encoder)):
        raise InputError(f"encoder={shown(encoder)}", _RULE, _REMEDY)


def new_encoder(encoder: EncoderLike, features: int, hidden: int, activation: str, gain: float = 1.0) -> nn.Module:
    """The encoder that a training run starts with: a new one from a factory, or a copy of a module in its present
    state. The gain applies to two GCN layers."""
    if encoder is None:
        layers = GCNEncoder(features, 2 * hidden, hidden, activation)
        with torch.no_grad():
            layers.conv1.lin.weight.mul_(gain)
        return layers
    if isinstance(encoder, SavedEncoder):
        raise InputError(
            f"an encoder that is known by its name alone, {encoder.name}",
            "a file holds a trained network, and nothing from which to make a new one",
            "Pass the encoder with set_params(encoder=...)",
        )
    if isinstance(encoder, nn.Module):
        return copy.deepcopy(encoder)
    made = encoder(features, hidden)
    if not isinstance(made, nn.Module):
        raise InputError(f"a {type(made).__name__} made by encoder={shown(encoder)}", _RULE, _REMEDY)
    return made


def name_of(encoder: EncoderLike) -> str | None:
    """How a file identifies an encoder: a factory by where it is defined, a module by its class and its weights."""
    if encoder is None:
        return None
    if isinstance(encoder, SavedEncoder):
        return encoder.name
    if isinstance(encoder, nn.Module):
        kind, state = type(encoder), encoder.state_dict().values()
        return f"{kind.__module__}:{kind.__qualname__} {digest(*state)}"
    if isinstance(encoder, functools.partial):
        settings = [*map(repr, encoder.args), *(f"{name}={value!r}" for name, value in encoder.keywords.items())]
        return f"{name_of(encoder.func)}({', '.join(settings)})"
    return f"{getattr(encoder, '__module__', '?')}:{getattr(encoder, '__qualname__', type(encoder).__qualname__)}"


def check_named(encoder: EncoderLike) -> None:
    """Raise an error for a factory that its name does not identify: a resumed run needs that."""
    factory, settings = encoder, list[Any]()
    while isinstance(factory, functools.partial):
        settings += [*factory.args, *factory.keywords.values()]
        factory = factory.func
    if factory is None or isinstance(factory, nn.Module | SavedEncoder):
        return
    found: Any = sys.modules.get(getattr(factory, "__module__", None) or "")
    for part in getattr(factory, "__qualname__", "?").split("."):
        found = getattr(found, part, None)
    if found is not factory or not all(isinstance(value, str | int | float | bool | None) for value in settings):
        raise InputError(
            f"encoder={shown(encoder)} for a run in a folder",
            "the folder names a factory by the module that defines it, and numbers or text it is given",
            "Define it at the top level of a module, or pass the encoder itself",
        )
