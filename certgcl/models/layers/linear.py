"""Linear layers: ``W' h + b``."""

from torch import Tensor, nn
from torch_geometric.nn.dense import Linear

from certgcl.errors import EncoderError
from certgcl.models.layers.formula import InputFeatures, NodeValues, Summand, tensor_name
from certgcl.models.layers.site import CallSite

LINEAR = (nn.Linear, Linear)


def weight_and_bias(site: CallSite, source: NodeValues | None = None) -> tuple[Tensor, Tensor | None]:
    """``W`` ``(inputs, outputs)`` and ``b`` of a linear layer, which must fit its input if that is given."""
    weight, bias = site.parameter("weight"), site.optional("bias")
    if weight.dim() != 2 or (bias is not None and bias.shape != weight.shape[:1]):
        shape = "" if bias is None else f" and bias {tuple(bias.shape)}"
        raise EncoderError(
            f"{site.name} with weights {tuple(weight.shape)}{shape}",
            "weights are (outputs, inputs) and a bias has one value for each output",
            "Check the layer",
        )
    if isinstance(source, InputFeatures) and source.width != weight.shape[1]:
        raise EncoderError(
            f"{source.width} features per node",
            f"{site.name} takes {weight.shape[1]}",
            "Pass the graph the model was made for",
        )
    if source is not None and source.width != weight.shape[1]:
        raise EncoderError(
            f"{tensor_name(source)} with {source.width} channels at {site.place}",
            f"{site.name} takes {weight.shape[1]}",
            "Check the widths of the layers",
        )
    return weight.T, bias


def linear(site: CallSite, source: NodeValues) -> NodeValues:
    weight, bias = weight_and_bias(site, source)
    return site.combined([Summand(source, weight)], weight.shape[1], bias)


def root(site: CallSite, source: NodeValues) -> Summand:
    """The term of the node itself in a convolution, whose linear layer has no bias."""
    weight, bias = weight_and_bias(site, source)
    if bias is not None:
        raise EncoderError(
            f"{site.name} with a bias", "a convolution has one bias", "Build the layer with its defaults"
        )
    return Summand(source, weight)
