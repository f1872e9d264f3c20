"""Networks of GCN layers built from their weights, without a model."""

import math

import torch
from torch import Tensor

from certgcl.arguments import described, real
from certgcl.errors import EncoderError
from certgcl.models.aggregations import SymmetricNorm
from certgcl.models.layer import Layer, Term
from certgcl.models.network import GraphNetwork
from certgcl.models.two_piece import TwoPieceLinear


def gcn_network(*layers: tuple[Tensor, Tensor | float, Tensor | float], reading: str = "given") -> GraphNetwork:
    """``h = σ(Â h W + b)`` for each ``(W, b, γ)``, where ``σ(p) = p`` for ``p >= 0`` and ``γ p`` below.

    Args:
        layers: of each layer its weight ``(inputs, outputs)``, bias ``(outputs,)`` and slope, one for all channels or
            one for each: 0 for a ReLU, 1 for no activation. A number stands for all channels.
        reading: that of the network.

    Example::

        gcn_network((w1, b1, 0.0), (w2, b2, 1.0))  # a ReLU between the layers, nothing after the last
    """
    return GraphNetwork(tuple(_layer(number, *layer) for number, layer in enumerate(layers)), reading=reading)


def _layer(source: int, weight: Tensor, bias: Tensor | float, slope: Tensor | float) -> Layer:
    term, name = Term(source, weight, SymmetricNorm()), f"layer {source + 1}"
    bias, slope = _values(bias, term, f"bias of {name}"), _values(slope, term, f"slope of {name}")
    return Layer((term,), bias.expand(term.outputs), TwoPieceLinear(slope), name)


def _values(value: Tensor | float, term: Term, name: str) -> Tensor:
    """One for all channels, or one for each, as a tensor like the weight."""
    width = term.outputs
    if not isinstance(value, Tensor):
        return term.weight.new_tensor(
            real(
                value,
                name,
                math.isfinite,
                "it is a finite number, or a tensor",
                f"Give a tensor of shape ({width},)",
                error=EncoderError,
            )
        )
    if value.is_nested or value.layout != torch.strided or value.shape not in ((), (width,)):
        raise EncoderError(
            f"{name} {described(value)}",
            f"it is one value for all channels or one for each of {width}",
            f"Give a tensor of shape ({width},)",
        )
    return value
