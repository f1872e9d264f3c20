"""The few edges of a witness that matter: the smallest sub-witness first, each with the value that remains."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from certgcl.changes.embedding_without_edges import DropEvaluation
from certgcl.report.content import Edge, EdgeEffect

Change = tuple[Edge, bool]
"""An edge, and whether it is new."""
Values: TypeAlias = Callable[[Sequence[Sequence[Change]]], list[float]]
"""``w · z`` of a node after each of several changes."""

MAX_EDGES, ENOUGH_EFFECT = 8, 0.95  # edges of a sub-witness, and the share of the witness's effect that it must have
WORTH = 0.02  # the share of that effect that each further edge must add
_CANDIDATES = 24  # edges of a large witness that are tried repeatedly: those with the largest effects by themselves


def few_edges(
    evaluation: DropEvaluation, node: int, direction: Tensor, nominal: float, dropped: Tensor, added: Tensor
) -> list[EdgeEffect]:
    """Edges of a witness: first the one that lowers ``w · z`` most, then the one that lowers it most in addition, and
    so on.

    Each value is that of the network on the graph in which this edge and those before it have changed. All of these
    changes are admissible, as part of an admissible change is. It ends with the first set that has most of the effect
    of the whole witness, when no edge adds much to it any more, or after a few edges.

    Args:
        direction: ``w`` of the node.
        nominal: its value on the whole graph.
        dropped, added: the edges of an admissible change, ``(2, k)`` each.
    """

    def values(changes: Sequence[Sequence[Change]]) -> list[float]:
        ends = [(_ends(change, new=False), _ends(change, new=True)) for change in changes]
        found: list[float] = (evaluation.embeddings(node, ends) @ direction).tolist()
        return found

    edges = [
        ((min(i, j), max(i, j)), is_new)
        for is_new, part in ((False, dropped), (True, added))
        for i, j in part.T.tolist()
    ]
    if not edges:
        return []
    [whole] = values([edges])
    return _greedy(values, _strongest(values, edges), nominal, nominal - whole)


def _ends(change: Sequence[Change], new: bool) -> Tensor:
    """The edges of a change that are dropped, or those that are new, ``(2, k)``."""
    return torch.tensor([edge for edge, is_new in change if is_new == new], dtype=torch.long).reshape(-1, 2).T


def _strongest(values: Values, edges: list[Change]) -> list[Change]:
    if len(edges) <= _CANDIDATES:
        return edges
    alone = dict(zip(edges, values([[edge] for edge in edges]), strict=True))
    return sorted(edges, key=alone.__getitem__)[:_CANDIDATES]


def _greedy(values: Values, edges: list[Change], start: float, effect: float) -> list[EdgeEffect]:
    chosen: list[EdgeEffect] = []
    taken: list[Change] = []
    best = start
    while len(chosen) < min(MAX_EDGES, len(edges)) and (start - best < ENOUGH_EFFECT * effect or not chosen):
        others = [edge for edge in edges if edge not in taken]
        left, edge = min(zip(values([[*taken, edge] for edge in others]), others, strict=True))
        if left >= best or (chosen and best - left < WORTH * effect):  # some edges hurt only together
            break
        best = left
        taken.append(edge)
        chosen.append(EdgeEffect(edge[0], left, edge[1]))
    return chosen
