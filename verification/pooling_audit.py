"""The truth about pooled embeddings by enumeration, the library's answers, and how tight they are.

``python -m verification.pooling_audit`` prints the gap to the clean value as a multiple of the true worst-case gap.
"""

from dataclasses import replace

import networkx as nx
import numpy as np
import torch

import certgcl
from certgcl.models.pooled_network import Pool
from verification.network_audit import library_graph, library_network
from verification.network_case import Array, NetworkCase
from verification.network_oracle import adjacencies, embeddings, magnitude
from verification.networks import RELU, Builder, network_case

POOLS: tuple[Pool, ...] = ("mean", "sum", "max")
CASES = 24
CHANGED_CASES = 8
AIMS = {"GCN": 3.2, "SAGE mean": 1.7, "SAGE sum": 1.7, "GIN": 1.7}
"""On trees of 14 to 18 nodes with two edges to drop, of sums and means, where sets are not enumerated."""


def pooled(z: Array, pool: Pool) -> Array:
    """Over the nodes, ``(graphs, n, d)`` to ``(graphs, d)``."""
    if pool == "max":
        return np.array(z.max(axis=1))
    return np.array(z.mean(axis=1) if pool == "mean" else z.sum(axis=1))


def pooled_values(case: NetworkCase, pool: Pool) -> Array:
    """``w · pool_i z_i`` on every admissible graph, the clean one first, w the direction of node 0; ``(graphs,)``."""
    return pooled(embeddings(case, adjacencies(case)), pool) @ case.directions[0]


def certify_pooled(
    case: NetworkCase,
    pool: Pool,
    *,
    enumerate_up_to: int = 0,
    dtype: torch.dtype = torch.float64,
    method: str = "degree",
) -> certgcl.GraphCertificate:
    """The library's answer, through its public call."""
    return certgcl.graph_bounds(
        library_network(case),
        [library_graph(case)],
        certgcl.EdgeDropBudget(case.local, case.total),
        torch.from_numpy(case.directions[:1]),
        pool=pool,
        enumerate_up_to=enumerate_up_to,
        dtype=dtype,
        method=method,
    )


def pooled_tolerance(case: NetworkCase) -> float:
    """How far rounding alone can raise a computed bound above a computed minimum, summed over the nodes."""
    size = magnitude(replace(case, directions=np.broadcast_to(case.directions[:1], case.directions.shape)))
    return float(1e-13 * size.sum() + 1e-300)


def tree_case(kind: str, seed: int, total: int = 2) -> NetworkCase:
    """A tree of 14 to 18 nodes, two layers with ReLU."""
    random = np.random.default_rng(seed)
    graph = nx.random_labeled_tree(int(random.integers(14, 19)), seed=seed)
    builder = Builder(random, RELU, 5, features=4, shift=0.15)
    return network_case(graph, kind, 2, builder).with_budget(None, total)


def tightness(kind: str, pool: Pool, cases: int = CASES, enumerate_up_to: int = 0) -> tuple[float, int]:
    """The gap of the bounds to the clean values over the true worst-case gap, and the number of violations."""
    bounded, true, wrong = 0.0, 0.0, 0
    for seed in range(cases):
        case = tree_case(kind, seed)
        values, lower = (
            pooled_values(case, pool),
            float(certify_pooled(case, pool, enumerate_up_to=enumerate_up_to).lower[0]),
        )
        bounded, true = bounded + values[0] - lower, true + values[0] - values.min()
        wrong += lower > values.min() + pooled_tolerance(case)
    return bounded / true, wrong


def main() -> None:
    print("gap / true gap    not enumerated   enumerated   violations")
    for kind in AIMS:
        for pool in POOLS:
            (ratio, wrong), (exact, also_wrong) = (tightness(kind, pool, enumerate_up_to=sets) for sets in (0, 256))
            print(f"{kind:10} {pool:5} {ratio:15.2f} {exact:12.2f} {wrong + also_wrong:12}")
    from verification.pooled_changes import (
        CHANGES,
        changed_tightness,
    )  # which is about the pooled values of this module

    print("\ntrees of 5 nodes, gap / true gap" + " " * 9 + "".join(f"{pool:>8}" for pool in POOLS) + "   violations")
    for kind in ("GCN", "SAGE mean"):
        for what in CHANGES:
            found = [changed_tightness(kind, what, pool, CHANGED_CASES) for pool in POOLS]
            ratios = "".join(f"{ratio:8.2f}" for ratio, _ in found)
            print(f"{kind:10} {what:30}{ratios}{sum(wrong for _, wrong in found):13}", flush=True)


if __name__ == "__main__":
    main()
