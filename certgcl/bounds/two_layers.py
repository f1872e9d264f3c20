"""The two-layer GCN as the engine that is made for it alone sees it."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from certgcl.errors import EncoderError, MethodError
from certgcl.graph import Graph
from certgcl.models.network import GraphNetwork, Layer, two_layer_gcn
from certgcl.models.two_piece import TwoPieceLinear
from certgcl.values import FLOATS, floating, real, usable_device


@dataclass(frozen=True, eq=False)
class GCNWeights:
    """``Z = σ2(Â σ1(Â X W1 + b1) W2 + b2)``.

    The tensors keep their autograd history, so a bound computed from them can be trained. Biases and slopes may be
    given as one number for all channels, and are spread over them.

    Args:
        w1: ``(F, d1)``.
        b1: ``(d1,)``.
        slope1: γ of σ1 per channel, ``(d1,)``.
        w2: ``(d1, d2)``.
        b2: ``(d2,)``.
        slope2: γ of σ2 per channel, ``(d2,)``; all ones when there is no last activation.
        reading: that of the network.
    """

    w1: Tensor
    b1: Tensor
    slope1: Tensor
    w2: Tensor
    b2: Tensor
    slope2: Tensor
    reading: str = "given"

    def __post_init__(self) -> None:
        for name, matrix in (("w1", self.w1), ("w2", self.w2)):
            usable = isinstance(matrix, Tensor) and not (matrix.is_nested or matrix.is_meta)
            if not usable or matrix.layout != torch.strided or matrix.dim() != 2 or matrix.dtype not in FLOATS or (
                    not matrix.numel()):
                raise EncoderError(f"{name} {_described(matrix)}",
                                   "weights are floating-point matrices that hold values",
                                   "Give w1 as (features, d1) and w2 as (d1, d2)")
        if self.w1.shape[1] != self.w2.shape[0]:
            raise EncoderError(f"w1 of shape {tuple(self.w1.shape)} and w2 of shape {tuple(self.w2.shape)}",
                               "the second layer must take what the first gives",
                               "Give w1 as (features, d1) and w2 as (d1, d2): a GCNConv has conv.lin.weight.T")
        for name, width in (("b1", self.w1.shape[1]), ("slope1", self.w1.shape[1]), ("b2", self.w2.shape[1]),
                            ("slope2", self.w2.shape[1])):
            self._spread(name, width)
        for name, tensor in self.named_tensors():
            if tensor.dtype != self.w1.dtype or tensor.device != self.w1.device:
                raise EncoderError(f"{name} {_described(tensor)} and w1 {_described(self.w1)}",
                                   "all weights have one dtype and device", f"Convert with {name}.to(w1)")

    def _spread(self, name: str, width: int) -> None:
        """One number becomes ``width`` of them; anything else must have that many already."""
        value = getattr(self, name)
        if isinstance(value, (int, float, np.number)):
            value = self.w1.new_tensor(real(value, name, math.isfinite, "it is a finite number, or a tensor",
                                            f"Give a tensor of shape ({width},)", error=EncoderError))
        usable = isinstance(value, Tensor) and not value.is_nested and value.layout == torch.strided
        if not usable or value.shape not in ((), (width,)):
            raise EncoderError(f"{name} {_described(value)}", f"it needs one value for all channels or one for each of "
                               f"{width}", f"Give a tensor of shape ({width},)")
        object.__setattr__(self, name, value.expand(width))

    @classmethod
    def of(cls, network: GraphNetwork) -> "GCNWeights | None":
        """The weights of a network, if it is a two-layer GCN with two-piece linear activations."""
        parts = two_layer_gcn(network)
        if parts is None:
            return None
        first, layer1, second, layer2 = parts
        return cls(first.weight, layer1.bias, _slope(layer1), second.weight, layer2.bias, _slope(layer2),
                   reading=network.reading)

    @property
    def activation1(self) -> TwoPieceLinear:
        return TwoPieceLinear(self.slope1)

    @property
    def activation2(self) -> TwoPieceLinear:
        return TwoPieceLinear(self.slope2)

    def named_tensors(self) -> Iterator[tuple[str, Tensor]]:
        for field in fields(self):
            if field.name != "reading":
                yield field.name, getattr(self, field.name)

    def to(self, dtype: torch.dtype | None = None, device: torch.device | None = None) -> "GCNWeights":
        dtype, device = floating(dtype, "dtype", EncoderError), usable_device(device, error=EncoderError)
        moved = {name: tensor.to(dtype=dtype, device=device) for name, tensor in self.named_tensors()}
        return GCNWeights(**moved, reading=self.reading)

    def embed(self, graph: Graph) -> Tensor:
        """Node embeddings ``Z`` on ``graph``, ``(N, d2)``."""
        return self.activation2(self.last_pre_activation(graph))

    def last_pre_activation(self, graph: Graph) -> Tensor:
        """``Â σ1(Â X W1 + b1) W2 + b2``, which σ2 makes the embeddings of, ``(N, d2)``."""
        graph = Graph.of(graph)
        if graph.num_features != self.w1.shape[0]:
            raise EncoderError(f"{graph.num_features} features per node", f"the first layer takes {self.w1.shape[0]}",
                               "Pass the graph the model was made for")
        hidden = self.activation1(graph.propagate(graph.project(self.w1)) + self.b1)
        return graph.propagate(hidden @ self.w2) + self.b2


def unsupported(network: GraphNetwork) -> str | None:
    """Why the engine of two layers does not bound a network; None where it does."""
    return None if two_layer_gcn(network) is not None else (
        "it bounds two GCN layers with two-piece linear activations only")


def two_layers(network: GraphNetwork, method: str) -> GCNWeights:
    """The weights of a network that a method for two layers is called with."""
    weights = GCNWeights.of(network)
    if weights is None:
        raise MethodError(f"method {method!r} for {network}", unsupported(network) or "",
                          "Use 'degree', 'crown' or 'interval'")
    return weights


def _slope(layer: Layer) -> Tensor:
    if isinstance(layer.activation, TwoPieceLinear):
        return layer.activation.slope
    return torch.ones((), dtype=layer.bias.dtype, device=layer.bias.device)


def _described(value: Any) -> str:
    if isinstance(value, Tensor) and not value.is_nested:
        return f"of shape {tuple(value.shape)}, {value.dtype} on {value.device}"
    return f"of type {type(value).__name__}"
