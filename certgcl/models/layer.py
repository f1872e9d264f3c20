"""One layer of a network as every bound sees it: a sum of terms, and an activation."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from certgcl.arguments import FLOATS, shown, whole
from certgcl.errors import EncoderError
from certgcl.models.activations import Activation
from certgcl.models.aggregations import Aggregation, Local


@dataclass(frozen=True, eq=False)
class Term:
    """``W'`` times a layer's output, mixed over the neighbours: one summand of another layer.

    Args:
        source: the number of the layer it takes; 0 for the features.
        weight: ``(inputs, outputs)``; or ``(channels,)``, a diagonal matrix.
        aggregation: how nodes are mixed; by default they are not.
    """

    source: int
    weight: Tensor
    aggregation: Aggregation = field(default_factory=Local)

    def __post_init__(self) -> None:
        whole(
            self.source,
            "source",
            0,
            "it is the number of a layer",
            "Number the features 0 and the layers from 1",
            error=EncoderError,
        )
        weight = self.weight
        if (
            not isinstance(weight, Tensor)
            or weight.is_nested
            or weight.is_meta
            or weight.layout != torch.strided
            or (weight.dim() not in (1, 2) or weight.dtype not in FLOATS or not weight.numel())
        ):
            raise EncoderError(
                f"weight {shown(weight)}",
                "it is a floating-point matrix (inputs, outputs), or a vector for a diagonal one",
                "Give conv.lin.weight.T",
            )
        if not isinstance(self.aggregation, Aggregation):
            raise EncoderError(
                f"aggregation {shown(self.aggregation)}",
                "it is one of certgcl.models.aggregations",
                "Leave it out for a layer of each node alone",
            )

    @property
    def inputs(self) -> int:
        return self.weight.shape[0]

    @property
    def outputs(self) -> int:
        return self.weight.shape[-1]

    def project(self, values: Tensor) -> Tensor:
        """``W'`` times rows of values, ``(..., inputs)`` to ``(..., outputs)``."""
        return values * self.weight if self.weight.dim() == 1 else values @ self.weight

    def back(self, functionals: Tensor) -> Tensor:
        """``W`` times functionals of the outputs, which are then functionals of the inputs."""
        return functionals * self.weight if self.weight.dim() == 1 else functionals @ self.weight.T

    def project_sizes(self, values: Tensor) -> Tensor:
        """``|W|'`` times rows of values."""
        size = self.weight.abs()
        return values * size if size.dim() == 1 else values @ size


@dataclass(frozen=True, eq=False)
class Layer:
    """``h_i = σ( Σ_terms ( own(n_i) W' h_i + out(n_i) Σ_{present j} in(n_j) W' h_j ) + b )``.

    Args:
        terms: at least one.
        bias: ``(channels,)``.
        activation: σ; none by default.
        name: its name for users, in messages.
    """

    terms: tuple[Term, ...]
    bias: Tensor
    activation: Activation | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if (
            not isinstance(self.terms, tuple)
            or not self.terms
            or not all(isinstance(term, Term) for term in self.terms)
        ):
            raise EncoderError(
                f"terms {shown(self.terms)}", "a layer is a sum of one or more, in a tuple", "Add a Term"
            )
        bias, activation = self.bias, self.activation
        if not isinstance(bias, Tensor) or bias.is_nested or bias.is_meta or bias.layout != torch.strided:
            raise EncoderError(f"bias {shown(bias)}", "it is a vector, a value for each channel", "Give zeros for none")
        if not isinstance(self.name, str) or not (activation is None or isinstance(activation, Activation)):
            raise EncoderError(
                f"activation {shown(activation)} of layer {shown(self.name)}",
                "it is one of certgcl.models, and a name is text",
                "Leave it out for none",
            )
        widths = {term.outputs for term in self.terms} | {self.bias.numel()}
        if len(widths) > 1 or self.bias.dim() != 1:
            raise EncoderError(
                f"layer {self.name!r} with terms of {sorted(widths)} outputs and a bias of shape "
                f"{tuple(self.bias.shape)}",
                "all have the same channels",
                "Check the shapes of the weights",
            )
        for name, tensor in ({} if activation is None else activation.tensors()).items():
            if tensor.shape not in ((), bias.shape):
                raise EncoderError(
                    f"{name} of shape {tuple(tensor.shape)} in the activation of layer {self.name!r}",
                    f"it is one value for all channels or one for each of {self.width}",
                    "Spread it",
                )

    @property
    def width(self) -> int:
        return self.bias.numel()

    @property
    def mixes(self) -> bool:
        """Whether neighbours enter."""
        return any(term.aggregation.mixes for term in self.terms)

    def activate(self, p: Tensor) -> Tensor:
        return p if self.activation is None else self.activation(p)

    @property
    def linear(self) -> bool:
        return self.activation is None or self.activation.linear
