"""A message-passing network as every bound sees it: layers that are sums of terms, and a readout."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from certgcl.arguments import FLOATS, floating, is_whole, shown, usable_device
from certgcl.errors import EncoderError
from certgcl.graphs.graph import Graph
from certgcl.models.aggregations import SymmetricNorm
from certgcl.models.layer import Layer, Term
from certgcl.models.mixing import Mixing, features_times
from certgcl.models.two_piece import TwoPieceLinear

READINGS = ("given", "traced", "probed")


@dataclass(frozen=True, eq=False)
class GraphNetwork:
    """A network of any depth over a graph: everything that a bound needs to know about a model.

    Layers are numbered from 1; number 0 is the features. A layer may take any earlier layers, so residual connections,
    jumping knowledge, root weights and projection heads are ordinary terms. Tensors keep their autograd history, so
    that a bound computed from them can be trained.

    Args:
        layers: in the order of computation.
        readout: the numbers of the layers whose outputs, side by side, are the embeddings; the last one by default.
        precision: the dtype in which the model is run. Tensors may be in a wider one, if they were computed from the
            model's own (as those of a BatchNorm are).
        reading: ``"given"`` as it is, ``"traced"`` from a model whose program was read, or ``"probed"``.

    Example::

        from certgcl.models import Layer, Mean, Term

        mean = Mean()  # of the neighbours, as in SAGEConv
        network = GraphNetwork((Layer((Term(0, w1, mean),), b1), Layer((Term(1, w2, mean),), b2)))
    """

    layers: tuple[Layer, ...]
    readout: tuple[int, ...] = ()
    precision: torch.dtype = None  # type: ignore[assignment]  # that of the tensors
    reading: str = "given"

    def __post_init__(self) -> None:
        if not isinstance(self.reading, str) or self.reading not in READINGS:
            raise EncoderError(
                f"reading={shown(self.reading)}",
                f"it is one of {', '.join(READINGS)}",
                "Leave it out for a network of your own",
            )
        if (
            not isinstance(self.layers, tuple)
            or not self.layers
            or not all(isinstance(layer, Layer) for layer in self.layers)
        ):
            raise EncoderError(f"layers {shown(self.layers)}", "there is at least one, in a tuple", "Add a Layer")
        if not isinstance(self.readout, tuple) or not all(map(is_whole, self.readout)):
            raise EncoderError(
                f"readout {shown(self.readout)}",
                "it is a tuple of the numbers of layers",
                "Leave it out for the last one",
            )
        if self.precision is not None and not any(self.precision is dtype for dtype in FLOATS):
            raise EncoderError(
                f"precision {shown(self.precision)}",
                "it is a floating-point dtype of torch",
                "Leave it out for that of the tensors",
            )
        object.__setattr__(self, "readout", self.readout or (len(self.layers),))
        object.__setattr__(self, "precision", self.precision or self.dtype)
        first = self.layers[0].terms[0].weight
        for number, layer in enumerate(self.layers, 1):
            for term in layer.terms:
                if not 0 <= term.source < number:
                    raise EncoderError(
                        f"layer {number} of layer {term.source}",
                        "a layer takes earlier ones",
                        "Number the features 0 and the layers from 1",
                    )
                if term.inputs != self.width_of(term.source):
                    raise EncoderError(
                        f"layer {number} with a weight for {term.inputs} inputs, of layer {term.source} "
                        f"with {self.width_of(term.source)}",
                        "a weight has one input for each output of its source",
                        "Check the shapes of the weights",
                    )
        if not all(1 <= number <= len(self.layers) for number in self.readout):
            raise EncoderError(
                f"readout {self.readout}", f"layers are numbered 1 to {len(self.layers)}", "Name layers of the network"
            )
        for name, tensor in self.named_tensors():
            if tensor.dtype != first.dtype or tensor.device != first.device:
                raise EncoderError(
                    f"{name} in {tensor.dtype} on {tensor.device} and others in {first.dtype} on {first.device}",
                    "all weights have one dtype and device",
                    "Convert them",
                )

    # -- properties --------------------------------------------------------------------------------

    @property
    def dtype(self) -> torch.dtype:
        return self.layers[0].terms[0].weight.dtype

    @property
    def device(self) -> torch.device:
        return self.layers[0].terms[0].weight.device

    @cached_property
    def features(self) -> int:
        """The number of features it takes."""
        return next(term.inputs for layer in self.layers for term in layer.terms if term.source == 0)

    def takes_layers(self, number: int) -> bool:
        """Whether a layer takes the outputs of others, not only the features."""
        return number > 0 and any(term.source for term in self.layers[number - 1].terms)

    def width_of(self, layer: int) -> int:
        """The number of channels of a layer, or of features."""
        return self.features if layer == 0 else self.layers[layer - 1].width

    @property
    def width(self) -> int:
        """The number of channels of the embeddings."""
        return sum(map(self.width_of, self.readout))

    @cached_property
    def hops(self) -> int:
        """The largest distance from which a node's features can affect an embedding."""
        reach = [0]
        for layer in self.layers:
            reach.append(max(reach[term.source] + term.aggregation.mixes for term in layer.terms))
        return max(reach[number] for number in self.readout)

    def named_tensors(self) -> Iterator[tuple[str, Tensor]]:
        """All tensors, with names that identify them, in a fixed order."""
        for number, layer in enumerate(self.layers, 1):
            for place, term in enumerate(layer.terms):
                yield f"layer{number}.term{place}", term.weight
            yield f"layer{number}.bias", layer.bias
            for name, tensor in ({} if layer.activation is None else layer.activation.tensors()).items():
                yield f"layer{number}.activation.{name}", tensor

    def structure(self) -> list[dict[str, Any]]:
        """Everything except the tensors, as JSON; equal for equal networks."""
        return [
            {
                "terms": [
                    {"source": term.source, "aggregation": term.aggregation.name, **vars(term.aggregation)}
                    for term in layer.terms
                ],
                "activation": None
                if layer.activation is None
                else {"name": layer.activation.name, **layer.activation.settings()},
            }
            for layer in self.layers
        ]

    def __str__(self) -> str:
        """``16 -> 32 -> 32 -> 8 channels, float32: 2 x symmetric, two-piece linear; symmetric``."""
        widths = " -> ".join(str(self.width_of(number)) for number in range(len(self.layers) + 1))
        read = "" if self.readout == (len(self.layers),) else f", of layers {', '.join(map(str, self.readout))}"
        runs = [(kind, len(list(same))) for kind, same in groupby(map(_kind, self.layers))]
        kinds = "; ".join(f"{count} x {kind}" if count > 1 else kind for kind, count in runs)
        return f"{widths} channels{read}, {str(self.precision).removeprefix('torch.')}: {kinds}"

    def __repr__(self) -> str:
        return f"<GraphNetwork {self}>"

    # -- the same in other tensors -----------------------------------------------------------------

    def mapped(self, change: Callable[[Tensor], Tensor]) -> "GraphNetwork":
        """The same network with each tensor transformed. Terms that share a weight still do."""
        changed: dict[int, Tensor] = {}

        def once(tensor: Tensor) -> Tensor:
            if id(tensor) not in changed:
                changed[id(tensor)] = change(tensor)
            return changed[id(tensor)]

        layers = tuple(
            replace(
                layer,
                terms=tuple(replace(term, weight=once(term.weight)) for term in layer.terms),
                bias=once(layer.bias),
                activation=None
                if layer.activation is None
                else layer.activation.with_tensors(
                    {name: once(tensor) for name, tensor in layer.activation.tensors().items()}
                ),
            )
            for layer in self.layers
        )
        return replace(self, layers=layers)

    def to(self, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> "GraphNetwork":
        """The same with tensors in another dtype or on another device; the model's precision is unchanged."""
        dtype, device = floating(dtype, "dtype", EncoderError), usable_device(device, error=EncoderError)
        return self.mapped(lambda tensor: tensor.to(device=device, dtype=dtype))

    def copied(self) -> "GraphNetwork":
        """A copy, which does not change when the model is trained on."""
        return self.mapped(lambda tensor: tensor.detach().clone())

    # -- in files ----------------------------------------------------------------------------------

    def save(self, path: str | Path) -> Path:
        """Write the network to one ``.npz`` file (no pickle inside); returns its path."""
        from certgcl.models.storage import save_network

        return save_network(self, path)

    @classmethod
    def load(cls, path: str | Path) -> "GraphNetwork":
        """Read a network written by :meth:`save`; a file without one raises ``EncoderError``."""
        from certgcl.models.storage import load_network

        return load_network(path)

    # -- the forward pass --------------------------------------------------------------------------

    def embed(self, graph: Graph) -> Tensor:
        """Node embeddings on a graph, ``(N, width)``."""
        outputs = self.outputs(graph)
        parts = [outputs[number - 1] for number in self.readout]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    def outputs(self, graph: Graph) -> list[Tensor]:
        """The outputs of all layers at all nodes."""
        return [h for _, h in self.forward(graph)]

    def pre_activations(self, graph: Graph) -> list[Tensor]:
        """The outputs of all layers at all nodes, before their activations."""
        return [p for p, _ in self.forward(graph)]

    def forward(self, graph: Graph) -> Iterator[tuple[Tensor, Tensor]]:
        """``p`` and ``h = σ(p)`` of one layer after the other, at all nodes."""
        graph = Graph.of(graph)
        if graph.num_features != self.features:
            raise EncoderError(
                f"{graph.num_features} features per node",
                f"the first layer takes {self.features}",
                "Pass the graph the model was made for",
            )
        mixing = Mixing(graph, self.dtype)
        outputs: list[Tensor] = []
        for layer in self.layers:
            parts = [
                mixing(
                    term.aggregation,
                    features_times(graph, term.weight) if term.source == 0 else term.project(outputs[term.source - 1]),
                )
                for term in layer.terms
            ]
            if torch.is_grad_enabled():
                p = sum(parts, layer.bias)
            else:  # in place: allocating memory would cost as much as the sums
                for part in (*parts[1:], layer.bias):
                    parts[0].add_(part)
                p = parts[0]
            outputs.append(layer.activate(p))
            yield p, outputs[-1]


def _kind(layer: Layer) -> str:
    """How a layer mixes nodes, and its activation."""
    mixed = " + ".join(dict.fromkeys(term.aggregation.name for term in layer.terms))
    return mixed if layer.activation is None else f"{mixed}, {layer.activation.name}"


def two_layer_gcn(network: GraphNetwork) -> tuple[Term, Layer, Term, Layer] | None:
    """The parts of ``σ2(Â σ1(Â X W1 + b1) W2 + b2)`` with two-piece linear σ, if the network is one."""
    if len(network.layers) != 2 or network.readout != (2,):
        return None
    for number, layer in enumerate(network.layers):
        term = layer.terms[0]
        if (
            len(layer.terms) != 1
            or term.source != number
            or term.weight.dim() != 2
            or not (isinstance(term.aggregation, SymmetricNorm) and term.aggregation.loop == 1)
        ):
            return None
        if not (layer.activation is None or isinstance(layer.activation, TwoPieceLinear)):
            return None
    first, second = network.layers
    return first.terms[0], first, second.terms[0], second
