"""Rewrites expressions into fewer layers, by exact rules."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from certgcl.models.layers.formula import Activated, Combination, Concatenation, NodeValues, Summand, Weight
from certgcl.models.two_piece import TwoPieceLinear


def inputs_of(node: NodeValues) -> tuple[NodeValues, ...]:
    match node:
        case Combination():
            return tuple(part.source for part in node.parts)
        case Activated():
            return (node.source,)
        case Concatenation():
            return node.sources
    return ()


def ordered(output: NodeValues) -> list[NodeValues]:
    """All values that the output depends on, each once and after its inputs; the output is the last."""
    order: list[NodeValues] = []
    seen: set[int] = set()
    waiting = [(output, False)]
    while waiting:
        node, ready = waiting.pop()
        if ready:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            waiting.append((node, True))
            waiting += [(source, False) for source in reversed(inputs_of(node))]
    return order


def simplified(output: NodeValues) -> NodeValues:
    """The same values in fewer steps.

    - A sum (or difference) of sums is one sum, if they have only one bias in all: ``(W'h + b) - g``.
    - Mixed values times a matrix are mixed products: ``W' Σ_j h_j = Σ_j W' h_j``, which mixes narrow rows instead of
      wide ones.
    - A matrix times values side by side is a sum of products with its blocks.
    - Two two-piece linear activations in a row are one, if its slopes need no rounding.
    """
    nodes = ordered(output)
    uses = Counter(id(source) for node in nodes for source in inputs_of(node))
    new: dict[int, NodeValues] = {}
    laid_out: dict[int, NodeValues] = {}

    def single(source: NodeValues) -> NodeValues:
        """The simplified expression, with concatenations replaced by matrices."""
        found = new[id(source)]
        if not isinstance(found, Concatenation):
            return found
        if id(found) not in laid_out:
            laid_out[id(found)] = _laid_out(found)
        return laid_out[id(found)]

    for node in nodes:
        match node:
            case Combination():
                new[id(node)] = _sum(
                    node, [(part, new[id(part.source)], uses[id(part.source)] == 1) for part in node.parts], single
                )
            case Activated():
                new[id(node)] = _composed(replace(node, source=single(node.source)))
            case Concatenation():
                new[id(node)] = replace(
                    node, sources=tuple(inner for source in node.sources for inner in _side_by_side(new[id(source)]))
                )
            case _:
                new[id(node)] = node
    return new[id(output)]


def _side_by_side(node: NodeValues) -> tuple[NodeValues, ...]:
    return node.sources if isinstance(node, Concatenation) else (node,)


def _sum(
    node: Combination, parts: list[tuple[Summand, NodeValues, bool]], single: Callable[[NodeValues], NodeValues]
) -> Combination:
    bias, name, summands = node.bias, node.name, []
    for part, source, once in parts:
        matrix = isinstance(part.weight, Tensor) and part.weight.dim() == 2
        if isinstance(source, Concatenation) and matrix:
            summands += _blocks(part, source)
        elif not (isinstance(source, Combination) and once and not part.aggregation.mixes):
            summands.append(replace(part, source=single(part.source)))
        elif _is_sign(part.weight) and (bias is None or source.bias is None):
            summands += [replace(inner, weight=_signed(inner.weight, part.weight)) for inner in source.parts]
            bias = bias if source.bias is None else _signed(source.bias, part.weight)
            name = name or source.name
        elif matrix and source.bias is None and _is_mixture(source):
            summands += [replace(inner, weight=_times(inner.weight, part.weight)) for inner in source.parts]
        else:
            summands.append(replace(part, source=source))
    return replace(node, parts=tuple(summands), bias=bias, name=name)


def _is_sign(weight: Weight) -> bool:
    return isinstance(weight, float) and weight in (1.0, -1.0)


def _signed(weight: Any, sign: Weight) -> Any:
    return weight if sign == 1 else -weight


def _is_mixture(node: Combination) -> bool:
    """Whether it is a sum of mixed values that no matrix was applied to yet."""
    return any(part.aggregation.mixes for part in node.parts) and all(
        isinstance(part.weight, float) or part.weight.dim() == 0 for part in node.parts
    )


def _times(scale: Weight, matrix: Weight) -> Weight:
    return matrix if isinstance(scale, float) and scale == 1 else scale * matrix.double()  # type: ignore[union-attr]


def _blocks(part: Summand, source: Concatenation) -> list[Summand]:
    assert isinstance(part.weight, Tensor)
    rows = part.weight.split([each.width for each in source.sources])
    return [replace(part, source=each, weight=block) for each, block in zip(source.sources, rows, strict=True)]


def _laid_out(node: Concatenation) -> Combination:
    identity = torch.eye(node.width, dtype=torch.float64)
    return Combination(node.width, "", tuple(_blocks(Summand(node, identity), node)), None, node.place)


def _composed(node: Activated) -> Activated:
    """Two activations in a row as one, where that is exact.

    Below zero the inner one gives ``γ p``: below zero too if ``γ >= 0``, which the outer one multiplies again, and
    above zero otherwise, which the outer one keeps. A product of two slopes that are neither 0 nor ±1 would be rounded.
    """
    inside = node.source
    if not (
        isinstance(inside, Activated)
        and isinstance(inside.activation, TwoPieceLinear)
        and isinstance(node.activation, TwoPieceLinear)
    ):
        return node
    inner, outer = inside.activation.slope, node.activation.slope
    with torch.no_grad():
        exact = (inner <= 0) | (inner == 1) | (outer == 0) | (outer.abs() == 1)
        if not bool(exact.all()):
            return node
    slope = torch.where(inner >= 0, outer * inner, inner)
    return replace(node, source=inside.source, activation=TwoPieceLinear(slope))
