"""``python -m verification.feature_tightness``: how far ``degree`` is from the truth under changed features.

Random graphs of 4 nodes with 4 features, widths 4-4, ReLU, Gaussian weights and random directions; with drops, budgets
of ``ceil(0.4 d)`` edges at a node. The last column is the aim: what prototypes of these bounds, without merged paths,
printed on six such cases. In cases of 4 features every set of masked columns is tried by itself; those of 8 show
the bound for graphs of more features. The truth of a box is taken as the least over its corners and points inside, so
its ratios are upper bounds.
"""

import argparse
from collections.abc import Iterable
from typing import NamedTuple

import networkx as nx
import numpy as np

from verification.audit import Ledger
from verification.feature_audit import certify_features, enter_features, feature_truth, with_bits
from verification.feature_case import FeatureCase, PlainFeatures
from verification.networks import RELU, Builder, network_case


class Row(NamedTuple):
    kind: str
    features: PlainFeatures
    drops: bool
    aim: float
    width: int = 4  # features of a node


MASK, FLIPS, ON, BOX, COLUMNS = (
    PlainFeatures("masked", off=1),
    PlainFeatures("bits", off=1, on=1),
    PlainFeatures("bits", on=1),
    PlainFeatures("box", radius=0.1),
    PlainFeatures("columns", columns=2),
)

ROWS: dict[str, Row] = {
    "GCN, mask 1 a node": Row("GCN", MASK, False, 1.49),
    "GCN, mask 1 a node, drops": Row("GCN", MASK, True, 1.18),
    "GCN, flips": Row("GCN", FLIPS, False, 1.24),
    "GCN, 1 bit on, drops": Row("GCN", ON, True, 1.09),
    "GCN, box": Row("GCN", BOX, False, 1.18),
    "GCN, box, drops": Row("GCN", BOX, True, 1.16),
    "GCN, 2 columns": Row("GCN", COLUMNS, False, 1.43),
    "GCN, 2 columns, drops": Row("GCN", COLUMNS, True, 1.26),
    "GCN, 2 columns of 8": Row("GCN", COLUMNS, False, 1.43, 8),
    "GCN, 2 columns of 8, drops": Row("GCN", COLUMNS, True, 1.26, 8),
    "SAGE mean, mask 1 a node": Row("SAGE mean", MASK, False, 1.33),
    "SAGE mean, mask 1 a node, drops": Row("SAGE mean", MASK, True, 1.34),
    "SAGE mean, flips": Row("SAGE mean", FLIPS, False, 1.38),
    "SAGE mean, 1 bit on, drops": Row("SAGE mean", ON, True, 1.28),
    "SAGE mean, box": Row("SAGE mean", BOX, False, 1.58),
    "SAGE mean, box, drops": Row("SAGE mean", BOX, True, 1.24),
    "SAGE mean, 2 columns": Row("SAGE mean", COLUMNS, False, 1.71),
    "SAGE mean, 2 columns, drops": Row("SAGE mean", COLUMNS, True, 1.54),
    "SAGE mean, 2 columns of 8": Row("SAGE mean", COLUMNS, False, 1.71, 8),
    "SAGE mean, 2 columns of 8, drops": Row("SAGE mean", COLUMNS, True, 1.54, 8),
}


def random_case(row: Row, random: np.random.Generator) -> FeatureCase:
    while True:
        graph = nx.gnp_random_graph(4, random.uniform(0.3, 0.8), seed=int(random.integers(2**31)))
        if graph.number_of_edges() >= 3:
            break
    network = network_case(graph, row.kind, 2, Builder(random, RELU, 4, features=row.width, shift=0.15))
    network = network.with_budget([-(-2 * graph.degree[i] // 5) for i in range(4)] if row.drops else 0)
    return FeatureCase(with_bits(network) if row.features.kind == "bits" else network, row.features)


def measure(names: Iterable[str] = ROWS, cases: int = 12, seed: int = 0) -> Ledger:
    """A ledger with a row for each of the names."""
    ledger = Ledger()
    for name in names:
        random = np.random.default_rng(seed)
        for _ in range(cases):
            case = random_case(ROWS[name], random)
            minimum, clean = feature_truth(case)
            enter_features(ledger, (name,), case, certify_features(case, "degree").lower, minimum, clean, scale=1.0)
    return ledger


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    head, *lines = measure(ROWS, arguments.cases, arguments.seed).lines()
    print(f"{head}  aim")
    for line, row in zip(lines, ROWS.values(), strict=True):
        print(f"{line} {row.aim:>4.2f}")


if __name__ == "__main__":
    main()
