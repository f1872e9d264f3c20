"""``python -m verification.change_tightness``: how far ``degree`` is from the truth, for every kind of change.

Each row is the gap to the clean value as a multiple of the true worst-case gap, over all nodes of many small cases
whose truth is enumerated, and the range of that figure over samples of as many cases as those from which the aims come:
10 for edges, 6 for features and 8 for whole graphs. The aims were printed by prototypes of these bounds, once each. For
edges and features the bound of the prototypes, a recursion that shares no code with the library, is measured on the
same cases, so that a loose bound can be told from harder cases: lines at the anchor and its neighbours by two rules,
ranges beyond, features node by node.

    edges      graphs of 4 nodes with at least 3 edges, widths 4-5-5 (``verification.changed_audit``)
    features   graphs of 4 nodes with 4 features, some with 8, widths 4-4 (``verification.feature_tightness``)
    pooling    trees of 14 to 18 nodes that lose two edges, without enumeration (``verification.pooling_audit``)
"""

import argparse
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch

from certgcl.models.pooled_network import Pool
from verification.changed_audit import certify_changed, changed_tolerance, changed_truth, random_changed
from verification.changed_reference import ChangedReference
from verification.checked import proved
from verification.feature_audit import certify_features, feature_tolerance, feature_truth
from verification.feature_tightness import ROWS as FEATURES
from verification.feature_tightness import random_case
from verification.network_tightness import PROTOTYPE
from verification.pooling_audit import certify_pooled, pooled_tolerance, pooled_values, tree_case


class Found(NamedTuple):
    """Gaps of a case, added up over its nodes: of the bound, of the truth, and of the prototype's bound (NaN where it
    has none); and at how many nodes the bound is too high."""

    bound: float
    true: float
    prototype: float
    violations: int


class Row(NamedTuple):
    name: str
    aim: float
    sample: int
    case: Callable[[np.random.Generator], Found]


EDGES = {
    "GCN": (1.16, 1.15, 1.15, 1.19),
    "GCN, no self-loops": (1.17, 1.22, 1.20, 1.22),
    "SAGE mean": (1.09, 1.11, 1.11, 1.15),
    "SAGE sum": (1.22, 1.07, 1.21, 1.18),
    "GIN, 1 layer": (1.10, 1.08, 1.04, 1.06),
    "SGC, K = 2": (1.18, 1.19, 1.07, 1.11),
}
COLUMNS = "1 added", "2 added, A = 3", "1 lost, 1 added", "1 flipped, F = 2"
POOLING: dict[tuple[str, Pool], float] = {
    ("GCN", "sum"): 3.13,
    ("GCN", "max"): 1.33,
    ("SAGE mean", "sum"): 2.52,
    ("SAGE mean", "max"): 2.08,
    ("SAGE sum", "sum"): 1.70,
    ("SAGE sum", "max"): 1.20,
}


def of_edges(kind: str, column: str) -> Callable[[np.random.Generator], Found]:
    def case(random: np.random.Generator) -> Found:
        changed = random_changed(kind, column, random, sizes=(4, 4))
        minimum, clean = changed_truth(changed)
        lower = certify_changed(changed, "degree").lower
        plain = torch.from_numpy(ChangedReference(changed).lower())
        wrong = int((~(lower <= minimum + changed_tolerance(changed))).sum())
        bound, true, prototype = (float((clean - value).sum()) for value in (lower, minimum, plain))
        return Found(bound, true, prototype, wrong)

    return case


def of_features(name: str) -> Callable[[np.random.Generator], Found]:
    def case(random: np.random.Generator) -> Found:
        drawn = random_case(FEATURES[name], random)
        minimum, clean = feature_truth(drawn)
        lower = certify_features(drawn, "degree").lower
        plain = proved(drawn, PROTOTYPE, merged=False)
        wrong = int((~(lower <= minimum + feature_tolerance(drawn))).sum())
        bound, true, prototype = (float((clean - value).sum()) for value in (lower, minimum, plain))
        return Found(bound, true, prototype, wrong)

    return case


def of_graphs(kind: str, pool: Pool) -> Callable[[np.random.Generator], Found]:
    def case(random: np.random.Generator) -> Found:
        tree = tree_case(kind, int(random.integers(2**31)))
        values = pooled_values(tree, pool)
        lower = float(certify_pooled(tree, pool).lower[0])
        wrong = int(not lower <= values.min() + pooled_tolerance(tree))
        return Found(float(values[0]) - lower, float(values[0] - values.min()), float("nan"), wrong)

    return case


def rows() -> Iterator[Row]:
    for kind, aims in EDGES.items():
        for column, aim in zip(COLUMNS, aims, strict=True):
            yield Row(f"{kind}: {column}", aim, 10, of_edges(kind, column))
    for name, row in FEATURES.items():
        yield Row(name, row.aim, 6, of_features(name))
    for (kind, pool), aim in POOLING.items():
        yield Row(f"{kind}: {pool} of the nodes", aim, 8, of_graphs(kind, pool))


class Line(NamedTuple):
    """Gaps over true gaps: on all cases, of the prototype (or NaN), and the smallest and largest of any sample."""

    bound: float
    prototype: float
    least: float
    most: float
    violations: int


def measure(row: Row, samples: int, seed: int = 0) -> Line:
    parts = []
    for number in range(samples):
        random = np.random.default_rng([seed, number])
        parts.append(np.array([row.case(random) for _ in range(row.sample)]).sum(axis=0))
    bound, true, prototype, wrong = np.sum(parts, axis=0).tolist()
    each = [float(part[0] / part[1]) for part in parts]
    return Line(bound / true, prototype / true, min(each), max(each), int(wrong))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--samples", type=int, default=6, help="of each row")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", default="", help="only those whose name contains this")
    arguments = parser.parse_args()
    print(
        f"{'gap / true gap':<38}{'cases':>6}{'degree':>8}{'prototype':>11}{'samples':>15}{'aim':>7}{'violations':>12}"
    )
    for row in rows():
        if arguments.rows in row.name:
            found = measure(row, arguments.samples, arguments.seed)
            beside = "" if np.isnan(found.prototype) else f"{found.prototype:.2f}"
            print(
                f"{row.name:<38}{arguments.samples * row.sample:>6}{found.bound:>8.2f}{beside:>11}"
                f"{f'{found.least:.2f} to {found.most:.2f}':>15}{row.aim:>7.2f}{found.violations:>12}",
                flush=True,
            )


if __name__ == "__main__":
    main()
