"""One change for all nodes of a graph: its levels, its items, and which of them can cost which node."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch

from certgcl.attacks.field import Reach
from certgcl.certify.certificate import Certificate
from certgcl.certify.collective_bound import CollectiveProblem
from certgcl.certify.touched_edges import edges_of, near_nodes, touched_edges
from certgcl.changes.changes import AdmissibleChanges
from certgcl.graphs.graph import Graph
from certgcl.models.network import GraphNetwork

COUNTED = ("masked", "bits")  # features that are changed one by one


class Levels(NamedTuple):
    """How much a change may contain in all: edges dropped, added, and both; features masked, or turned on or off."""

    dropped: int
    added: int
    both: int
    features: int

    @classmethod
    def of(cls, certificate: Certificate) -> "Levels":
        added, features = certificate.additions, certificate.features
        counted = features.total if features is not None and features.kind in COUNTED else 0
        if added is None:
            return cls(certificate.total_budget, 0, certificate.total_budget, counted)
        return cls(certificate.total_budget, added.total, added.both_total, counted)

    @property
    def changes(self) -> int:
        return self.both + self.features

    def within(self, other: "Levels") -> bool:
        return all(one <= two for one, two in zip(self, other, strict=True))


def collective_problem(
    network: GraphNetwork,
    graph: Graph,
    changes: AdmissibleChanges,
    last: Levels,
    nodes: torch.Tensor,
    levels: np.ndarray,
) -> CollectiveProblem:
    """The problem for nodes that can be lost, each proved to be positive with the levels in its row of ``levels``,
    ``(A, 4)``.

    Items are the edges that can be dropped; for every node its new edges, each of which counts at both ends; and for
    every node its changed features. Without new edges, a change loses node i only if it has more of some kind k in the
    field of i than ``r_k``: only if ``Σ_k b_k / (r_k + 1) >= 1`` over the kinds of which it may have more at all, here
    times the product of all ``r_k + 1``. With new edges, a change loses i only if it has any edge near it in the graph
    as given, or more changed features there than i is proved for: otherwise all paths that end at i are unchanged.
    """
    slots, n = edges_of(graph), graph.num_nodes
    slots = slots[changes.drops.droppable[slots]]
    ends = torch.stack([graph.row[slots], graph.col[slots]]).cpu().numpy()
    anchors = nodes.cpu().numpy()
    reach = Reach.of(network).counts
    added, features = changes.additions, changes.features
    of_edges = touched_edges(network, graph, nodes)[:, changes.drops.droppable[edges_of(graph)].cpu().numpy()]
    nowhere = sp.csr_matrix((len(anchors), n), dtype=np.int64)
    of_new = near_nodes(graph, anchors, reach) if added is not None and reach >= 0 else nowhere
    of_features = near_nodes(graph, anchors, network.hops) if last.features else nowhere
    needed, weights = _needed(levels, last, added is not None)
    parts = (of_edges, of_new, of_features)
    fields = sp.hstack(
        [part.multiply(weight[:, None]) for weight, part in zip(weights.T, parts, strict=True)], format="csr"
    )
    gained = np.zeros(n, dtype=np.int64) if added is None else added.local.cpu().numpy()
    changed = np.zeros(n, dtype=np.int64) if features is None else (features.off + features.on).cpu().numpy()
    times = np.concatenate([np.ones(len(slots), dtype=np.int64), gained, changed])
    limits, most = _limits(changes, last, ends, n)
    used = np.flatnonzero((np.diff(fields.tocsc().indptr) > 0) & (times > 0))
    return CollectiveProblem(fields[:, used].astype(np.int64), needed, times[used], limits[:, used], most)


def _needed(levels: np.ndarray, last: Levels, new_edges: bool) -> tuple[np.ndarray, np.ndarray]:
    """How much has to count before each node can be lost, and what a dropped edge, a new one and a feature count for
    it, ``(A, 3)``."""
    most = np.array([last.dropped, last.features])
    proved = levels[:, [0, 3]]
    if new_edges:
        ones = np.ones(len(levels), dtype=np.int64)
        return ones, np.stack([ones, ones, (proved[:, 1] < most[1]).astype(np.int64)], axis=1)
    factors = np.where(proved < most, proved + 1, 1)
    needed = factors.prod(axis=1)
    weights = np.where(proved < most, needed[:, None] // factors, 0)
    return needed, np.stack([weights[:, 0], np.zeros_like(needed), weights[:, 1]], axis=1)


def _limits(changes: AdmissibleChanges, last: Levels, ends: np.ndarray, n: int) -> tuple[sp.csr_matrix, np.ndarray]:
    """Budgets of nodes and of the graph; a new edge is counted at both ends, so the total of both kinds counts dropped
    edges twice and is doubled."""
    edges = ends.shape[1]
    at_ends = sp.csr_matrix(
        (np.ones(2 * edges, dtype=np.int64), (ends.ravel(), np.tile(np.arange(edges), 2))), shape=(n, edges)
    )
    one, none = sp.identity(n, dtype=np.int64, format="csr"), sp.csr_matrix((n, n), dtype=np.int64)
    every, all_nodes = (
        sp.csr_matrix(np.ones((1, edges), dtype=np.int64)),
        sp.csr_matrix(np.ones((1, n), dtype=np.int64)),
    )
    no_edges, no_nodes = every * 0, all_nodes * 0
    rows = [[at_ends, none, none], [every, no_nodes, no_nodes], [no_edges, no_nodes, all_nodes]]
    most: list[Any] = [changes.drops.local.cpu().numpy(), [last.dropped], [last.features]]
    if changes.additions is not None:
        rows += [[at_ends, one, none], [no_edges, all_nodes, no_nodes], [2 * every, all_nodes, no_nodes]]
        most += [changes.additions.both.cpu().numpy(), [2 * last.added], [2 * last.both]]
    return sp.bmat(rows, format="csr").astype(np.int64), np.concatenate(most).astype(np.int64)
