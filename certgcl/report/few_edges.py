"""The few edges of a witness that matter: the smallest sub-witness first, each with the value that is left."""

from collections.abc import Callable

import torch
from torch import Tensor

from certgcl.changes.embedding_without_edges import DropEvaluation
from certgcl.report.content import Edge, EdgeEffect

Change = tuple[Edge, bool]
"""An edge, and whether it is new."""

MAX_EDGES, ENOUGH_EFFECT = 8, 0.95  # edges of a sub-witness, and the share of the witness's effect that it is to have
WORTH = 0.02  # the share of that effect that each must add, the first one apart
_CANDIDATES = 24  # edges of a large witness that are tried again and again: those that do most alone


def few_edges(
    evaluation: DropEvaluation, node: int, direction: Tensor, nominal: float, dropped: Tensor, added: Tensor
) -> list[EdgeEffect]:
    """Edges of a witness, the one that lowers ``w · z`` most first, then that which does so next to it, and so on.

    Each value is that of the network on the graph in which this edge and those before it have changed. All of these
    changes are admissible, as part of an admissible change is. It ends with the first set that has most of the effect
    of the whole witness, when no edge adds much to it any more, or after a few edges.

    Args:
        direction: ``w`` of the node.
        nominal: its value on the whole graph.
        dropped, added: the edges of an admissible change, ``(2, k)`` each.
    """

    def value(changed: list[Change]) -> float:
        lost, new = (
            torch.tensor([edge for edge, is_new in changed if is_new == kind], dtype=torch.long).reshape(-1, 2).T
            for kind in (False, True)
        )
        return float(evaluation.embedding(node, lost, None, new) @ direction)

    edges = [
        ((min(i, j), max(i, j)), is_new)
        for is_new, part in ((False, dropped), (True, added))
        for i, j in part.T.tolist()
    ]
    if not edges:
        return []
    return _greedy(value, _strongest(value, edges), nominal, nominal - value(edges))


def _strongest(value: Callable[[list[Change]], float], edges: list[Change]) -> list[Change]:
    if len(edges) <= _CANDIDATES:
        return edges
    return sorted(edges, key=lambda edge: value([edge]))[:_CANDIDATES]


def _greedy(
    value: Callable[[list[Change]], float], edges: list[Change], start: float, effect: float
) -> list[EdgeEffect]:
    chosen: list[EdgeEffect] = []
    taken: list[Change] = []
    best = start
    while len(chosen) < min(MAX_EDGES, len(edges)) and (start - best < ENOUGH_EFFECT * effect or not chosen):
        left, edge = min((value([*taken, edge]), edge) for edge in edges if edge not in taken)
        if left >= best or (chosen and best - left < WORTH * effect):  # some edges hurt only together
            break
        best = left
        taken.append(edge)
        chosen.append(EdgeEffect(edge[0], left, edge[1]))
    return chosen
