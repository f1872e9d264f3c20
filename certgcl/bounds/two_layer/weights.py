"""The two-layer GCN in the form that its dedicated engine takes."""

from dataclasses import dataclass

import torch
from torch import Tensor

from certgcl.errors import MethodError
from certgcl.models.layer import Layer
from certgcl.models.network import GraphNetwork, two_layer_gcn
from certgcl.models.two_piece import TwoPieceLinear


@dataclass(frozen=True, eq=False)
class GCNWeights:
    """``Z = σ2(Â σ1(Â X W1 + b1) W2 + b2)``, with the tensors of a network and their autograd history.

    Args:
        w1: ``(F, d1)``.
        b1: ``(d1,)``.
        slope1: γ of σ1 per channel, ``(d1,)``.
        w2: ``(d1, d2)``.
        b2: ``(d2,)``.
        slope2: γ of σ2 per channel, ``(d2,)``; all ones when there is no last activation.
    """

    w1: Tensor
    b1: Tensor
    slope1: Tensor
    w2: Tensor
    b2: Tensor
    slope2: Tensor

    @classmethod
    def of(cls, network: GraphNetwork) -> "GCNWeights | None":
        """The weights of a network, if it is a two-layer GCN with two-piece linear activations."""
        parts = two_layer_gcn(network)
        if parts is None:
            return None
        first, layer1, second, layer2 = parts
        return cls(first.weight, layer1.bias, _slope(layer1), second.weight, layer2.bias, _slope(layer2))

    @property
    def activation1(self) -> TwoPieceLinear:
        return TwoPieceLinear(self.slope1)

    @property
    def activation2(self) -> TwoPieceLinear:
        return TwoPieceLinear(self.slope2)


def unsupported(network: GraphNetwork) -> str | None:
    """Why the engine for two layers does not bound a network; None if it does."""
    return (
        None
        if two_layer_gcn(network) is not None
        else ("it bounds two GCN layers with two-piece linear activations only")
    )


def two_layers(network: GraphNetwork, method: str) -> GCNWeights:
    """The weights of a network that a method for two layers is called with."""
    weights = GCNWeights.of(network)
    if weights is None:
        raise MethodError(
            f"method {method!r} for {network}", unsupported(network) or "", "Use 'degree', 'crown' or 'interval'"
        )
    return weights


def _slope(layer: Layer) -> Tensor:
    """γ of every channel."""
    if isinstance(layer.activation, TwoPieceLinear):
        return layer.activation.slope.expand(layer.width)
    return torch.ones_like(layer.bias)
