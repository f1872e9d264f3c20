"""Pooled embeddings under any change by exhaustion: dropped, added and flipped edges, and features."""

from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import torch

import certgcl
from certgcl.certify.pooling.graph_set import GraphSet
from certgcl.certify.pooling.problem import PooledProblem
from certgcl.certify.pooling.set_changes import SetChanges
from certgcl.models.pooled_network import Pool
from verification.edge_changes import ChangedCase, admissible_changes
from verification.feature_audit import with_bits
from verification.feature_case import PlainFeatures
from verification.feature_oracle import admissible_features
from verification.network_audit import NETWORK_METHODS, library_graph, library_network
from verification.network_oracle import embeddings
from verification.networks import RELU, Builder, network_case
from verification.pooling_audit import pooled
from verification.together import STAY, TogetherCase, together_tolerance


def pooled_truth(case: TogetherCase, pool: Pool) -> tuple[float, float]:
    """The least ``w · pool_i z_i`` over all admissible views, w the direction of node 0, and the clean value."""
    network, matrices = case.edges.case, []
    for drops, added in admissible_changes(case.edges):
        matrix = np.zeros((network.nodes, network.nodes))
        for u, v in (set(network.edges) - set(drops)) | set(added):
            matrix[u, v] = matrix[v, u] = 1.0
        matrices.append(matrix)
    graphs, features = np.stack(matrices), np.stack(list(admissible_features(case.of_features)))
    z = embeddings(network, np.tile(graphs, (len(features), 1, 1)), np.repeat(features, len(graphs), axis=0))
    values = pooled(z, pool) @ network.directions[0]
    return float(values.min()), float(values[0])


def pooled_changes_tolerance(case: TogetherCase) -> float:
    """How far rounding alone can lift a computed bound above a computed minimum: all nodes' together."""
    network = case.edges.case
    same = TogetherCase(
        case.edges.with_directions(np.broadcast_to(network.directions[:1], network.directions.shape)), case.features
    )
    return float(together_tolerance(same).sum())


def certify_pooled_changes(
    case: TogetherCase,
    pool: Pool,
    *,
    enumerate_up_to: int = 0,
    dtype: torch.dtype = torch.float64,
    method: str = "degree",
) -> certgcl.GraphCertificate:
    """The library's answer, through its public call."""
    network = case.edges.case
    return certgcl.graph_bounds(
        library_network(network),
        [library_graph(network)],
        case.budgets,
        torch.from_numpy(network.directions[:1]),
        pool=pool,
        enumerate_up_to=enumerate_up_to,
        dtype=dtype,
        method=NETWORK_METHODS[method],
    )


def trained_with_changes(case: TogetherCase, pool: Pool, method: str = "degree") -> float:
    """The bound that a regularizer of whole graphs uses."""
    network = case.edges.case
    graphs = GraphSet.of([library_graph(network)])
    problem = PooledProblem(graphs, SetChanges.of(graphs, case.budgets))
    directions = torch.from_numpy(network.directions[:1])[:, None]
    return float(problem.lower(NETWORK_METHODS[method], library_network(network).to(torch.float64), pool, directions))


def tree(kind: str, seed: int, what: str) -> TogetherCase:
    """A tree of 5 nodes, two layers with ReLU, of which one thing changes, or several."""
    graph = nx.random_labeled_tree(5, seed=seed)
    builder = Builder(np.random.default_rng(seed), RELU, 4, features=3, shift=0.15)
    case, (edges, features) = network_case(graph, kind, 2, builder), CHANGES[what]
    kept = {name: value for name, value in edges.items() if name != "lost"}
    found = ChangedCase(case.with_budget(None if edges.get("lost") else 0, edges.get("lost", 0)), **kept)
    return TogetherCase(replace(found, case=with_bits(found.case)) if features.kind == "bits" else found, features)


CHANGES: dict[str, tuple[dict[str, Any], PlainFeatures]] = {
    "one added": ({"total": 1}, STAY),
    "two added": ({"total": 2}, STAY),
    "two flipped": ({"lost": 2, "flips": True}, STAY),
    "one masked a node": ({"total": 0}, PlainFeatures("masked", off=1)),
    "three masked in all": ({"total": 0}, PlainFeatures("masked", off=1, total=3)),
    "one bit on a node": ({"total": 0}, PlainFeatures("bits", on=1)),
    "one column masked": ({"total": 0}, PlainFeatures("columns", columns=1)),
    "one dropped, one masked a node": ({"lost": 1, "total": 0}, PlainFeatures("masked", off=1)),
    "one added, one column": ({"total": 1}, PlainFeatures("columns", columns=1)),
}


def changed_tightness(kind: str, what: str, pool: Pool, cases: int) -> tuple[float, int]:
    """The gap of the bounds to the clean values over the true worst-case gap, and the number of violations."""
    bounded, true, wrong = 0.0, 0.0, 0
    for seed in range(cases):
        case = tree(kind, seed, what)
        (least, clean), lower = pooled_truth(case, pool), float(certify_pooled_changes(case, pool).lower[0])
        bounded, true = bounded + clean - lower, true + clean - least
        wrong += lower > least + pooled_changes_tolerance(case)
    return bounded / true, wrong
