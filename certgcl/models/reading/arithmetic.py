"""Sums, products with numbers and parameters, and concatenation of the values of a run."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import Parameter

from certgcl.models.layers.formula import (
    Combination,
    Concatenation,
    Node,
    NodeValues,
    Operation,
    Position,
    Softmax,
    Summand,
    Weight,
    tensor_name,
)
from certgcl.models.layers.lookup import is_a
from certgcl.models.layers.modules import plain_tensor
from certgcl.models.reading.refusals import PARTS, operation_refused, refusal, softmax_refused
from certgcl.models.reading.values import Symbol

if TYPE_CHECKING:
    from certgcl.models.reading.tracer import Tracer


def values_of(value: Any, place: Position, what: str = "an operation") -> NodeValues:
    """The values that a symbol stands for; anything else raises an error that names it."""
    node = value.node if type(value) is Symbol else None
    if isinstance(node, NodeValues):
        return node
    if isinstance(node, Operation):
        raise operation_refused(node)
    if isinstance(node, Softmax):
        raise softmax_refused(node)
    found = "something that is not a tensor of the run" if node is None else tensor_name(node)
    raise refusal(f"{what} of {found}", place)


def combine(tracer: "Tracer", name: str, left: Any, right: Any, place: Position) -> Node:
    """``left + right`` and the like, of which at least one is a tensor of the run; an unknown operation is recorded by
    name and raises an error where its value is needed."""
    nodes = [side.node for side in (left, right) if type(side) is Symbol]
    first = nodes[0]
    if not all(isinstance(node, NodeValues) for node in nodes) or not isinstance(first, NodeValues):
        return Operation(name, tuple(nodes), place)
    ahead = type(left) is Symbol
    match name:
        case "+" | "-" if len(nodes) == 2:
            return added(first, values_of(right, place), 1.0 if name == "+" else -1.0, place)
        case "+" | "-":
            shift = _spread(tracer, right if ahead else left, first.width, place)
            return _shifted(first, shift, name == "-" and not ahead, name == "-" and ahead, place)
        case "*" if len(nodes) == 1:
            return scaled(tracer, first, right if ahead else left, place)
        case "/" if len(nodes) == 1 and ahead and _is_number(right) and right != 0:
            inverse = torch.tensor(1 / right, dtype=torch.float64)
            return Combination(first.width, "", (Summand(first, inverse),), None, place)
        case "@" if ahead and is_a(right, Tensor, Parameter):
            return product(tracer, first, right, None, place)
    return Operation(name, tuple(nodes), place)


def _is_number(value: Any) -> bool:
    return (type(value) is float and math.isfinite(value)) or (type(value) is int and abs(value) < 2**53)


def added(left: NodeValues, right: NodeValues, sign: float, place: Position) -> NodeValues:
    """``left + right`` or ``left - right``."""
    if left.width != right.width:
        raise refusal(
            f"a residual connection or other sum of {tensor_name(left)} with {left.width} channels and "
            f"{tensor_name(right)} with {right.width}",
            place,
            "summands have the same channels",
            "Bring both to one width, for example with a Linear",
        )
    return Combination(left.width, "", (Summand(left), Summand(right, sign)), None, place)


def _shifted(source: NodeValues, shift: Tensor, minus_source: bool, minus_shift: bool, place: Position) -> NodeValues:
    """``± h ± c`` with one number for each channel."""
    part = Summand(source, -1.0 if minus_source else 1.0)
    return Combination(source.width, "", (part,), -shift if minus_shift else shift, place)


def _spread(tracer: "Tracer", constant: Any, width: int, place: Position) -> Tensor:
    """A number or a parameter as one value for each channel."""
    if _is_number(constant):
        return torch.full((width,), float(constant), dtype=torch.float64)
    if not is_a(constant, Tensor, Parameter):
        raise refusal("values combined with something that is not a number or parameter", place, PARTS)
    tensor = tracer.own(plain_tensor(constant, place.text), place.text)
    if tensor.shape not in ((), (1,), (width,), (1, width), (1, 1)):
        raise refusal(f"a tensor of shape {tuple(tensor.shape)} and {width} channels", place, PARTS)
    return tensor.reshape(-1).expand(width)


def scaled(tracer: "Tracer", source: NodeValues, factor: Any, place: Position) -> NodeValues:
    """Values times a number, or times a parameter: one for all channels or one for each."""
    weight: Weight
    if _is_number(factor):
        weight = float(factor)
        if weight == 1:
            return source
    else:
        weight = _spread(tracer, factor, source.width, place)
    return Combination(source.width, "", (Summand(source, weight),), None, place)


def product(tracer: "Tracer", source: NodeValues, matrix: Any, bias: Any, place: Position) -> NodeValues:
    """``h @ W + b`` with parameters."""
    weight = tracer.own(plain_tensor(matrix, place.text), place.text)
    if weight.dim() != 2 or weight.shape[0] != source.width or not weight.numel():
        raise refusal(
            f"{tensor_name(source)} with {source.width} channels times a tensor of shape {tuple(weight.shape)}",
            place,
            PARTS,
        )
    shift = None if bias is None else _spread(tracer, bias, weight.shape[1], place)
    return Combination(weight.shape[1], "", (Summand(source, weight),), shift, place)


def concatenated(tensors: Sequence[Any], dim: Any, place: Position) -> NodeValues:
    """Channels side by side."""
    sources = tuple(values_of(tensor, place, "a concatenation") for tensor in tensors)
    if type(dim) is not int or dim not in (1, -1):
        raise refusal(
            f"a concatenation along dim={dim!r}",
            place,
            "channels may be put side by side, nodes may not",
            "Use dim=1 or dim=-1",
        )
    if not sources:
        raise refusal("a concatenation of nothing", place)
    return sources[0] if len(sources) == 1 else Concatenation(sum(source.width for source in sources), sources, place)
