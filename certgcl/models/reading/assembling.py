"""From a model's expressions to a network of layers: rewritten where that is exact, each layer once."""

from collections import defaultdict
from dataclasses import replace

import torch
from torch import Tensor

from certgcl.errors import EncoderError
from certgcl.models import GraphNetwork, Layer, Term
from certgcl.models.activations import Activation
from certgcl.models.layers.formula import (
    Activated,
    Combination,
    Concatenation,
    InputFeatures,
    Node,
    NodeValues,
    Operation,
    Softmax,
    tensor_name,
)
from certgcl.models.reading.refusals import BUILD, PARTS, operation_refused, softmax_refused
from certgcl.models.reading.simplifying import inputs_of, ordered, simplified


def assemble(output: Node, like: Tensor) -> GraphNetwork:
    """The network whose embeddings are the output, for a model whose tensors are ``like`` one."""
    if isinstance(output, Operation):
        raise operation_refused(output)
    if isinstance(output, Softmax):
        raise softmax_refused(output)
    if not isinstance(output, NodeValues):
        raise EncoderError(f"{tensor_name(output)} as output", f"the model must return node embeddings; {PARTS}", BUILD)
    nodes = ordered(simplified(output))
    if not any(part.aggregation.mixes for node in nodes if isinstance(node, Combination) for part in node.parts):
        raise EncoderError(
            "a model without message passing",
            "a model that is certified against dropped edges must use the edges",
            "Pass the encoder; certified_accuracy takes the classifier separately",
        )
    return _Assembly(nodes, like).network()


class _Assembly:
    """Numbers for all values that become a layer.

    Tensors stay in the model's precision, unless some were computed from the model's own, or a number cannot be
    represented in a half precision: then all are in float64. (Factors in float32 are rounded to it, as in the run.)
    """

    def __init__(self, nodes: list[NodeValues], like: Tensor) -> None:
        self.nodes, self.precision, self.device = nodes, like.dtype, like.device
        self.dtype = torch.float64 if any(map(self._is_wide, nodes)) else self.precision
        self.numbers: dict[int, int] = {}
        self.layers: list[Layer] = []
        self.users: dict[int, list[NodeValues]] = defaultdict(list)
        for node in nodes:
            for source in inputs_of(node):
                self.users[id(source)].append(node)

    def network(self) -> GraphNetwork:
        for node in self.nodes:
            match node:
                case InputFeatures():
                    self.numbers[id(node)] = 0
                case Combination() if not self._waits(node):
                    self._add(node, self._layer(node))
                case Activated():
                    inner = self._layer(node.source) if self._waits(node.source) else self._copy(node.source, "")
                    self._add(node, replace(inner, activation=self._activation(node.activation)))
        output = self.nodes[-1]
        sources = output.sources if isinstance(output, Concatenation) else (output,)
        readout = tuple(map(self._read, sources))  # this may add layers
        return GraphNetwork(tuple(self.layers), readout, self.precision, "traced")

    def _waits(self, node: NodeValues) -> bool:
        """Whether it forms one layer with the activation after it, because nothing else uses it."""
        users = self.users[id(node)]
        return isinstance(node, Combination) and len(users) == 1 and isinstance(users[0], Activated)

    def _add(self, node: NodeValues, layer: Layer) -> int:
        self.layers.append(layer)
        self.numbers[id(node)] = len(self.layers)
        return len(self.layers)

    def _read(self, node: NodeValues) -> int:
        return self._add(node, self._copy(node, "x")) if isinstance(node, InputFeatures) else self.numbers[id(node)]

    def _layer(self, node: NodeValues) -> Layer:
        assert isinstance(node, Combination)
        terms = tuple(
            Term(self.numbers[id(part.source)], self._weight(part.weight, part.source.width), part.aggregation)
            for part in node.parts
        )
        bias = self._weight(0.0, node.width) if node.bias is None else self._tensor(node.bias)
        return Layer(terms, bias, None, node.name or node.place.text)

    def _copy(self, node: NodeValues, name: str) -> Layer:
        """Values as a separate layer."""
        return Layer(
            (Term(self.numbers[id(node)], self._weight(1.0, node.width)),), self._weight(0.0, node.width), None, name
        )

    def _weight(self, weight: float | Tensor, width: int) -> Tensor:
        if isinstance(weight, float):
            return torch.full((width,), weight, dtype=self.dtype, device=self.device)
        return self._tensor(weight.expand(width) if weight.dim() == 0 else weight)

    def _activation(self, activation: Activation) -> Activation:
        return activation.with_tensors({name: self._tensor(tensor) for name, tensor in activation.tensors().items()})

    def _tensor(self, tensor: Tensor) -> Tensor:
        return tensor.to(device=self.device, dtype=self.dtype)

    def _is_wide(self, node: NodeValues) -> bool:
        """Whether a layer has tensors that the model's precision cannot represent."""
        if not isinstance(node, Combination):
            return False
        tensors = [part.weight for part in node.parts] + ([] if node.bias is None else [node.bias])
        return any(self._beyond(tensor) for tensor in tensors)

    def _beyond(self, weight: float | Tensor) -> bool:
        if isinstance(weight, float):
            if self.precision in (torch.float32, torch.float64):
                return False
            weight = torch.tensor(weight, dtype=torch.float64)
        return weight.dtype != self.precision and (
            weight.requires_grad or not torch.equal(weight.to(self.precision).to(weight.dtype), weight)
        )
