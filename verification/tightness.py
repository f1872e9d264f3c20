"""``python -m verification.tightness``: how far each bound is from the truth, on random graphs of 4 to 8 nodes.

Erdős–Rényi graphs with edge probability between 0.2 and 0.6 and at most 14 edges, Gaussian features and weights of
widths (5, 8, 6), ReLU, the directions of node compactness, ``q = ceil(0.4 d)``.
"""

import argparse
from collections.abc import Iterable

import networkx as nx
import numpy as np

from certgcl.bounds import SEARCHES
from verification.audit import CERTIFIED, UNCERTIFIED, Ledger, certify
from verification.case import Case
from verification.oracle import enumerated_minimum, nominal
from verification.strategies import gaussian_case

MAX_EDGES = 14


def random_case(random: np.random.Generator) -> Case:
    while True:
        size, density, seed = int(random.integers(4, 9)), random.uniform(0.2, 0.6), int(random.integers(2**31))
        graph = nx.gnp_random_graph(size, density, seed=seed)
        if 0 < graph.number_of_edges() <= MAX_EDGES:
            break
    budgets = [-(-2 * graph.degree[i] // 5) for i in range(len(graph))]
    return gaussian_case(graph, int(random.integers(2**31))).with_budget(budgets)


def measure(cases: int, seed: int = 0, methods: Iterable[str] = (*CERTIFIED, *UNCERTIFIED)) -> Ledger:
    """A ledger over a number of random cases, for these methods."""
    random, ledger = np.random.default_rng(seed), Ledger()
    for _ in range(cases):
        case = random_case(random)
        truth, clean = enumerated_minimum(case), nominal(case)
        for name in methods:
            ledger.enter(name, case, certify(case, name).lower, truth, clean, scale=1.0)  # all have the same scale
    return ledger


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--methods", nargs="+", help="all by default")
    arguments = parser.parse_args()
    methods = arguments.methods or (*SEARCHES, *CERTIFIED, *UNCERTIFIED)
    print("\n".join(measure(arguments.cases, arguments.seed, methods).lines()))


if __name__ == "__main__":
    main()
