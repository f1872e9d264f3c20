"""Harmful changes of edges and features. Their values are attained; nothing is certified.

If few changes are admissible, all are tried, which gives the worst case itself. Otherwise edges change one by one:
the derivatives of ``w · z_i`` by the weight of every edge around the anchor, and of every pair that may become one with
an end at the anchor or at a neighbour of it, show which changes are the most promising, and the best of these is made.
Features are searched on the graph whose edges have changed, and on the graph as it is.
"""

import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from certgcl.attacks.any_model import directions_of
from certgcl.attacks.edge_search import EdgeSearch, edges_of
from certgcl.attacks.features import FeatureField
from certgcl.attacks.found import Found, end_of
from certgcl.certify.question_arguments import NodesLike, check_anchors
from certgcl.changes.changed_entries import ChangedEntries
from certgcl.changes.changes import BudgetLike, Changes
from certgcl.graphs.graph import Graph, GraphLike
from certgcl.models.reading import ModelLike, read_network


@dataclass(frozen=True, eq=False)
class FoundChanges(Found):
    """Admissible changes that lower ``w_i · z_i``. Not a certificate: other changes may lower it further.

    Args:
        nodes: the requested nodes, ``(A,)``.
        clean: ``w_i · z_i`` on the graph, ``(A,)``.
        values: the lowest value found, ``(A,)``: an upper bound of the worst case.
        searched: whether there was time for a node, ``(A,)``.
        dropped, added: the edges of that change, ``(2, k)`` node numbers, for every node.
        changed: the features of that change, where they may change.
        exact: whether all changes were tried, ``(A,)``: then the value is the worst case, up to rounding.
    """

    dropped: tuple[Tensor, ...]
    added: tuple[Tensor, ...]
    changed: tuple[ChangedEntries, ...]
    exact: Tensor

    def witness(self, node: int) -> tuple[Tensor, Tensor]:
        """The edges dropped and the edges added that reach the value of a node, ``(2, k)`` each."""
        place = self._position(node)
        return self.dropped[place], self.added[place]

    def changed_features(self, node: int) -> ChangedEntries:
        """The features that change together with these edges."""
        return self.changed[self._position(node)]

    def __str__(self) -> str:
        return self._lines("changes", last=(f"  exact     {int(self.exact.sum())} of {len(self.nodes)}",))


def search_changes(
    model: ModelLike,
    graph: GraphLike,
    budgets: BudgetLike,
    nodes: NodesLike = None,
    *,
    directions: Any = None,
    seconds: float = 60.0,
) -> FoundChanges:
    """Look for admissible changes that lower ``w_i · z_i``: an attack on a model that can be read.

    Nothing is certified, except by exhaustion where few changes are admissible. Values are those of the model's weights
    in float64, on the changed graph.

    Args:
        model, graph, nodes: as in :func:`certgcl.node_compactness`.
        budgets: likewise.
        directions: ``w_i`` of every node, ``(N, d)``; those of node compactness by default.
        seconds: for all nodes together.

    Example::

        found = certgcl.search_changes(encoder, data, Changes(drops=1, additions=1), nodes=[0, 1, 2])
        dropped, added = found.witness(0)
    """
    graph = Graph.of(graph)
    end = end_of(seconds)
    changes, anchors = Changes.of(budgets).on(graph), check_anchors(nodes, graph)
    network = read_network(model, graph).copied().to(torch.float64)
    with torch.no_grad():
        embeddings = network.embed(graph)
    wanted = directions_of(directions, embeddings)[anchors]
    search = EdgeSearch(network, graph, changes)
    clean = (embeddings[anchors] * wanted).sum(dim=1)
    values, nothing = clean.clone(), graph.edge_index[:, :0]
    dropped, added = [nothing] * len(anchors), [nothing] * len(anchors)
    changed = [ChangedEntries.none(graph.col.device)] * len(anchors)
    exact, searched = (torch.zeros_like(anchors, dtype=torch.bool) for _ in range(2))
    few = search.few()
    worst = None if few is None else search.worst(few, anchors, wanted, end)
    for position, anchor in enumerate(anchors.tolist()):
        if worst is None and time.monotonic() >= end:
            break
        lost, gained = search.greedy(anchor, wanted[position], end) if worst is None else worst[position]
        value = float(search.embeddings(lost, gained)[anchor] @ wanted[position])
        searched[position], exact[position] = True, worst is not None and changes.features is None
        if value < float(clean[position]):
            values[position] = value
            dropped[position], added[position] = (edges_of(pairs, graph).T for pairs in (lost, gained))
        for edges in ((lost, gained), ([], [])):
            if changes.features is None:
                break
            field = FeatureField.of(network, search.changed(*edges), changes.features, anchor)
            value, x = field.search(wanted[position])
            if value < float(values[position]):
                values[position], changed[position] = value, field.changed(x)
                dropped[position], added[position] = (edges_of(pairs, graph).T for pairs in edges)
    return FoundChanges(anchors, clean, values, searched, tuple(dropped), tuple(added), tuple(changed), exact)
