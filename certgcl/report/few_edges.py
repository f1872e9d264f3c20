"""The few edges of a witness that matter: the smallest sub-witness first, each with the value that is left."""

from collections.abc import Callable

import torch
from torch import Tensor

from certgcl.changes.embedding_without_edges import DropEvaluation
from certgcl.report.content import Edge, EdgeEffect

MAX_EDGES, ENOUGH_EFFECT = 8, 0.95  # edges of a sub-witness, and the share of the witness's effect that it is to have
WORTH = 0.02  # the share of that effect that each must add, the first one apart
_CANDIDATES = 24  # edges of a large witness that are tried again and again: those that do most alone


def few_edges(
    evaluation: DropEvaluation, node: int, direction: Tensor, nominal: float, witness: Tensor
) -> list[EdgeEffect]:
    """Edges of a witness, the one that lowers ``w · z`` most first, then that which does so without it, and so on.

    Each value is that of the network on the graph without this edge and those before it. All of these drops are
    admissible, as part of an admissible drop is. It ends with the first set that has most of the effect of the whole
    witness, when no edge adds much to it any more, or after a few edges.

    Args:
        direction: ``w`` of the node.
        nominal: its value on the whole graph.
        witness: an admissible drop, ``(2, k)``.
    """

    def value(dropped: list[Edge]) -> float:
        return float(evaluation.embedding(node, torch.tensor(dropped).T) @ direction)

    edges = [(min(i, j), max(i, j)) for i, j in witness.T.tolist()]
    if not edges:
        return []
    return _greedy(value, _strongest(value, edges), nominal, nominal - value(edges))


def _strongest(value: Callable[[list[Edge]], float], edges: list[Edge]) -> list[Edge]:
    if len(edges) <= _CANDIDATES:
        return edges
    return sorted(edges, key=lambda edge: value([edge]))[:_CANDIDATES]


def _greedy(value: Callable[[list[Edge]], float], edges: list[Edge], start: float, effect: float) -> list[EdgeEffect]:
    chosen: list[EdgeEffect] = []
    best = start
    while len(chosen) < min(MAX_EDGES, len(edges)) and (start - best < ENOUGH_EFFECT * effect or not chosen):
        gone = [each.edge for each in chosen]
        left, edge = min((value([*gone, edge]), edge) for edge in edges if edge not in gone)
        if left >= best or (chosen and best - left < WORTH * effect):  # some edges hurt only together
            break
        best = left
        chosen.append(EdgeEffect(edge, left))
    return chosen
