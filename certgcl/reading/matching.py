"""From what a model computes to the weights of ``σ2(Â σ1(Â X W1 + b1) W2 + b2)``, or a refusal in words."""

import torch
from torch import Tensor

from certgcl.encoder import GCNWeights
from certgcl.errors import EncoderError
from certgcl.layers.activations import Slope
from certgcl.reading.nodes import Activation, Convolution, Input, Node, Operation, SelfLoops, words
from certgcl.reading.refusals import FORMULA, LAYERS, ONLY, refusal


def match(output: Node, layers: list[Convolution]) -> GCNWeights:
    """The weights of a two-layer GCN whose output is given; ``layers`` are all those that were called."""
    second, slope2 = _layer_below(output, "the output")
    first, slope1 = _layer_below(second.x, f"the input of {second.name}", layers)
    if not (isinstance(first.x, Input) and first.x.name == "x"):
        _layer_count(first.x, layers)
        raise refusal(f"a first layer ({first.name}) that does not get the features x as they are but {words(first.x)}",
                      first.place, FORMULA, f"Prepare the features before you build the graph. {LAYERS}")
    for layer in (first, second):
        _check_edges(layer)
    return GCNWeights(first.weight, first.bias, slope1, second.weight, second.bias, slope2, reading="traced")


def _layer_below(node: Node, what: str, layers: list[Convolution] | None = None) -> tuple[Convolution, Tensor]:
    """The layer under any number of activations, and their slope together."""
    slopes: list[Activation] = []
    while isinstance(node, Activation):
        slopes.append(node)
        node = node.x
    if isinstance(node, Operation):
        raise _operation_refused(node)
    if not isinstance(node, Convolution):
        names = ", ".join(layer.name for layer in layers or []) or "none"
        raise EncoderError(f"{len(layers or [])} GCNConv call(s) in forward: {names}; {what} is {words(node)}",
                           "two layers must be called, one after the other", LAYERS)
    slope = torch.ones_like(node.bias)
    for activation in reversed(slopes):
        outer = _as_tensor(activation.slope, node.bias)
        if outer.shape not in ((), slope.shape):
            raise refusal(f"{len(outer)} slopes for {len(slope)} channels", activation.place, ONLY, "Use nn.PReLU()")
        slope = _composed(slope, outer, activation)
    return node, slope


def _as_tensor(slope: Slope, like: Tensor) -> Tensor:
    return slope if isinstance(slope, Tensor) else like.new_tensor(slope)


def _composed(inner: Tensor, outer: Tensor, activation: Activation) -> Tensor:
    """γ of an activation of an activation, where that is exact.

    Below zero the inner one gives ``γ p``: below zero too if ``γ >= 0``, which the outer one multiplies again, and
    above zero otherwise, which it leaves. A product of two slopes that are neither 0 nor ±1 would be rounded.
    """
    with torch.no_grad():
        exact = (inner <= 0) | (inner == 1) | (outer == 0) | (outer.abs() == 1)
        if not bool(exact.all()):
            raise refusal("two activations one after the other", activation.place, ONLY, "Use one of them")
    return torch.where(inner >= 0, outer * inner, inner)


def _layer_count(node: Node, layers: list[Convolution]) -> None:
    """Refuse more than two layers by their names."""
    while isinstance(node, Activation):
        node = node.x
    if isinstance(node, Convolution):
        raise EncoderError(f"{len(layers)} GCNConv call(s) in forward: {', '.join(layer.name for layer in layers)}",
                           "two layers must be called, one after the other", LAYERS)


def _check_edges(layer: Convolution) -> None:
    node = layer.edges
    while isinstance(node, SelfLoops):
        node = node.edges
    if not (isinstance(node, Input) and node.name == "edge_index"):
        raise refusal(f"{layer.name} with the edges {words(node)}", layer.place,
                      "every layer must get edge_index as it is", f"Look for changed edges. {LAYERS}")


def _operation_refused(node: Operation) -> EncoderError:
    """What an operation is called where it stands."""
    names = [words(part) for part in node.inputs]
    if node.name in ("+", "-") and len(names) == 2:
        return refusal(f"a residual connection or other sum of {names[0]} and {names[1]}", node.place, ONLY)
    return refusal(f"{node.name} on {names[0] if names else 'a tensor'}", node.place, ONLY)
