"""The two-layer GCN encoder: as a trainable module, and as the plain weights that every bound works on."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from certgcl.errors import EncoderError
from certgcl.files import load_arrays, refusing, save_arrays
from certgcl.graph import Graph
from certgcl.layers.activations import slope_of
from certgcl.layers.gcn import gcn_parameters
from certgcl.layers.lookup import instance_dict
from certgcl.layers.modules import check_call, check_unshadowed
from certgcl.layers.trusted import TRUSTED, check_surroundings
from certgcl.models.two_piece import TwoPieceLinear
from certgcl.randomness import Drawing, generator_on
from certgcl.values import FLOATS, WIDEST, floating, real, shown, usable_device, whole
from certgcl.values import path as checked_path

_FORMAT = "certgcl-weights-2"
READINGS = ("given", "traced", "probed")
ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "leaky_relu": nn.LeakyReLU, "prelu": nn.PReLU,
                                           "rrelu": nn.RReLU, "identity": nn.Identity}


@dataclass(frozen=True, eq=False)
class GCNWeights:
    """``Z = σ2(Â σ1(Â X W1 + b1) W2 + b2)``: all a bound needs to know of a model.

    The tensors keep their autograd history, so a bound computed from them can be trained. Biases and slopes may be
    given as one number for all channels, and are spread over them.

    Args:
        w1: ``(F, d1)``.
        b1: ``(d1,)``.
        slope1: γ of σ1 per channel, ``(d1,)``.
        w2: ``(d1, d2)``.
        b2: ``(d2,)``.
        slope2: γ of σ2 per channel, ``(d2,)``; all ones when there is no last activation.
        reading: where they come from: ``"given"`` as they are, ``"traced"`` from a model whose program was read, or
            ``"probed"`` from a model that was only measured. See :func:`certgcl.read_encoder`.

    Example::

        GCNWeights(w1, b1, 0.0, w2, b2, 1.0)  # a ReLU between the layers, nothing after the last
    """

    w1: Tensor
    b1: Tensor
    slope1: Tensor
    w2: Tensor
    b2: Tensor
    slope2: Tensor
    reading: str = "given"

    def __post_init__(self) -> None:
        if self.reading not in READINGS:
            raise EncoderError(f"reading={self.reading!r}", f"it is one of {', '.join(READINGS)}",
                               "Leave it out for weights of your own")
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
                raise EncoderError(f"{name} {_described(tensor)} beside w1 {_described(self.w1)}",
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

    @property
    def activation1(self) -> TwoPieceLinear:
        return TwoPieceLinear(self.slope1)

    @property
    def activation2(self) -> TwoPieceLinear:
        return TwoPieceLinear(self.slope2)

    def named_tensors(self) -> Iterator[tuple[str, Tensor]]:
        for name in _TENSORS:
            yield name, getattr(self, name)

    def save(self, path: str | Path) -> Path:
        """Write the weights to one ``.npz`` file (no pickle inside); returns its path."""
        path = checked_path(path, error=EncoderError)
        if self.w1.dtype not in (torch.float16, torch.float32, torch.float64):
            raise EncoderError(f"weights of dtype {self.w1.dtype}", "a file holds float16, float32 or float64",
                               "Convert with weights.to(torch.float32)")
        save_arrays(path, {"format": _FORMAT, "reading": self.reading},
                    {name: tensor.detach().cpu().numpy() for name, tensor in self.named_tensors()})
        return path

    @classmethod
    def load(cls, path: str | Path) -> "GCNWeights":
        """Read weights written by :meth:`save`; a file that holds none raises ``EncoderError``."""
        path = checked_path(path, error=EncoderError)
        with refusing(path, EncoderError, f"it must be a whole file in the format {_FORMAT}",
                      "Write one with certgcl.read_encoder(model, graph).save(path)"):
            meta, arrays = load_arrays(path, _FORMAT, _TENSORS)
            return cls(**{name: torch.from_numpy(array) for name, array in arrays.items()}, reading=meta["reading"])

    def to(self, dtype: torch.dtype | None = None, device: torch.device | None = None) -> "GCNWeights":
        dtype, device = floating(dtype, "dtype", EncoderError), usable_device(device, error=EncoderError)
        moved = {name: tensor.to(dtype=dtype, device=device) for name, tensor in self.named_tensors()}
        return GCNWeights(**moved, reading=self.reading)

    def copied(self) -> "GCNWeights":
        """A copy, which does not change when the model is trained on."""
        return GCNWeights(**{name: tensor.detach().clone() for name, tensor in self.named_tensors()},
                          reading=self.reading)

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


class GCNEncoder(nn.Module):
    """Two ``GCNConv`` layers with two-piece linear activations, the encoder of GRACE and its relatives.

    Args:
        in_channels: number of node features.
        hidden_channels: width of the first layer.
        out_channels: width of the embeddings.
        activation: ``"relu"``, ``"leaky_relu"``, ``"prelu"``, ``"rrelu"`` (in eval mode), ``"identity"``, or a module:
            ``nn.PReLU(hidden_channels)`` for one slope per channel.
        out_activation: what follows the last layer: ``"same"`` (default), which is the very same module, so that a
            PReLU's slopes are shared; ``None``, a name or a module.

    Example::

        encoder = GCNEncoder(1433, 256, 128, activation="prelu")
        z = encoder(data.x, data.edge_index)
    """

    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int,
                 activation: str | nn.Module = "relu", out_activation: str | nn.Module | None = "same") -> None:
        super().__init__()
        # Integers of numpy become plain ones, which torch's own checks of sizes expect.
        in_channels, hidden_channels, out_channels = (
            whole(width, name, 1, f"widths are positive integers, at most {WIDEST}", "Pass an int of at least 1",
                  most=WIDEST, error=EncoderError)
            for name, width in (("in_channels", in_channels), ("hidden_channels", hidden_channels),
                                ("out_channels", out_channels)))
        self.conv1 = GCNConv(in_channels, hidden_channels)
        self.conv2 = GCNConv(hidden_channels, out_channels)
        self.activation = _activation_module(activation)
        same = isinstance(out_activation, str) and out_activation == "same"
        self.out_activation = self.activation if same else _activation_module(out_activation)
        for name, module, width in (("activation", self.activation, hidden_channels),
                                    ("out_activation", self.out_activation, out_channels)):
            if isinstance(module, nn.PReLU) and module.num_parameters not in (1, width):
                raise EncoderError(f"{name} with {module.num_parameters} slopes", f"{width} channels need 1 or {width}",
                                   f"Pass {name}=nn.PReLU({width})")

    @classmethod
    def from_layers(cls, conv1: GCNConv, conv2: GCNConv, activation: str | nn.Module = "relu",
                    out_activation: str | nn.Module | None = None) -> "GCNEncoder":
        """An encoder around two given layers (shared, not copied): the way in for a model that cannot be read.

        Nothing follows the last layer unless ``out_activation`` says so. The activations move to the layers' dtype and
        device.
        """
        for name, conv in (("conv1", conv1), ("conv2", conv2)):
            if not isinstance(conv, GCNConv):
                raise EncoderError(f"{name} of type {type(conv).__name__}", "both layers must be GCNConv",
                                   "Pass torch_geometric.nn.GCNConv layers")
        if conv2.lin.in_channels not in (-1, conv1.out_channels):
            raise EncoderError(f"conv1 with {conv1.out_channels} outputs and conv2 with {conv2.lin.in_channels} inputs",
                               "the second layer must take what the first gives", "Pass the layers in forward order")
        with Drawing(generator_on("cpu", 0)):  # for layers that are replaced at once
            encoder = cls(conv1.in_channels if conv1.in_channels > 0 else 1, conv1.out_channels, conv2.out_channels,
                          activation, out_activation)
        encoder.to(conv1.lin.weight.device, conv1.lin.weight.dtype)
        encoder.conv1, encoder.conv2 = conv1, conv2
        return encoder

    def weights(self) -> GCNWeights:
        """The encoder's weights with their gradients, without a run of it.

        Its layers and activations are checked as :func:`certgcl.read_encoder` checks them: what is returned is what
        ``forward`` computes, or an ``EncoderError``.
        """
        check_surroundings()
        check_call(self, "encoder")
        check_unshadowed(self, "encoder")
        if type(self) is not GCNEncoder and type(self).forward is not GCNEncoder.forward:
            raise EncoderError(f"a {type(self).__name__} with a forward of its own",
                               "the weights must be what forward computes",
                               "Use certgcl.read_encoder(model, graph)")
        parts = instance_dict(self)["_modules"]
        (w1, b1), (w2, b2) = (gcn_parameters(parts[name], name) for name in ("conv1", "conv2"))
        slope1, slope2 = (slope_of(parts[name], name) for name in ("activation", "out_activation"))
        return GCNWeights(w1, b1, slope1, w2, b2, slope2, reading="traced")  # type: ignore[arg-type]  # or a number

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = self.activation(self.conv1(x, edge_index))
        embeddings: Tensor = self.out_activation(self.conv2(hidden, edge_index))
        return embeddings


_TENSORS = tuple(field.name for field in fields(GCNWeights) if field.name != "reading")
TRUSTED.add_class(GCNEncoder)


def _described(value: Any) -> str:
    if isinstance(value, Tensor) and not value.is_nested:
        return f"of shape {tuple(value.shape)}, {value.dtype} on {value.device}"
    return f"of type {type(value).__name__}"


def _activation_module(activation: str | nn.Module | None) -> nn.Module:
    if isinstance(activation, nn.Module):
        return activation
    if activation is None:
        return nn.Identity()
    if isinstance(activation, str) and activation in ACTIVATIONS:
        return ACTIVATIONS[activation]()
    raise EncoderError(f"activation {shown(activation)}", f"names are {', '.join(ACTIVATIONS)}",
                       "Pass one of them or a module such as nn.PReLU(channels)")
