"""``python -m verification.network_tightness``: how far ``degree`` is from the truth, for every kind of network.

Random graphs of 4 to 6 nodes with up to 7 edges; budgets of ``ceil(0.4 d)`` edges at a node, the same with 3 in all,
and all edges, in turn; widths 4-5-5, Gaussian weights, biases shifted by 0.15 so that few ReLUs are dead, and random
directions. The last column is the aim.

The aims were printed by prototypes of these bounds, from one sample of 12 such cases each (4 for four layers). With
``--prototype`` a second table has many samples of that size, with the prototypes' own bound on the same cases: lines at
the anchor and its neighbours by two rules, ranges beyond, in a recursion that shares no code with the library. So it
distinguishes a loose bound from an unlucky sample.

With ``--totals`` a table of graphs of 10 nodes under two edges at a node and 1, 2 or 3 in all: ``degree``, the same
where every node spends the total by itself (without a price for the edges that neighbours lose), and as if there were
no total.
"""

import argparse
from collections.abc import Iterable
from typing import NamedTuple
from unittest.mock import patch

import networkx as nx
import numpy as np

from certgcl.bounds.propagation.balls import Ball
from verification.audit import Ledger
from verification.checked import proved
from verification.checker.choices import Choices
from verification.network_audit import NETWORK_METHODS, certify_network, enter, truth
from verification.network_case import NetworkCase, PlainActivation
from verification.networks import RELU, Builder, network_case

MAX_EDGES = 7
PROTOTYPE = Choices(("adaptive", "parallel"))  # the checker with these rules is the bound from which the aims come


class Row(NamedTuple):
    kind: str
    depth: int = 2
    activation: PlainActivation | None = RELU
    aim: float | None = None


ROWS: dict[str, Row] = {
    "GCN, 1 layer": Row("GCN", 1),
    "GCN": Row("GCN", aim=1.20),
    "GCN, 3 layers": Row("GCN", 3, aim=1.35),
    "GCN, 4 layers": Row("GCN", 4, aim=4.5),
    "GCN, no self-loops": Row("GCN, no self-loops"),
    "GCN, loop weight 2": Row("GCN, loop weight 2"),
    "SAGE mean": Row("SAGE mean", aim=1.11),
    "SAGE sum": Row("SAGE sum", aim=1.04),
    "GIN, 1 layer": Row("GIN", 1),
    "GIN": Row("GIN", aim=1.21),
    "SGC": Row("SGC", activation=None, aim=1.03),
    "SGC, 3 layers": Row("SGC", 3, None),
    "APPNP, 3 layers": Row("APPNP", 3),
    "GCN + residual": Row("GCN + residual"),
    "GCN + BatchNorm before ReLU": Row("GCN + BatchNorm before activations"),
    "GCN + BatchNorm after ReLU": Row("GCN + BatchNorm after activations", aim=1.13),
    "GCN + ELU head": Row("GCN + ELU head"),
    "GCN, jumping knowledge": Row("GCN, jumping knowledge (cat)"),
    "SAGE mean, jumping knowledge": Row("SAGE mean, jumping knowledge (cat)", aim=1.08),
    "GCN, PReLU(-0.3)": Row("GCN", activation=PlainActivation("two-piece linear", -0.3)),
    "GCN, ELU": Row("GCN", activation=PlainActivation("elu"), aim=1.07),
    "GCN, tanh": Row("GCN", activation=PlainActivation("tanh")),
    "GCN, sigmoid": Row("GCN", activation=PlainActivation("sigmoid")),
    "GCN, GELU": Row("GCN", activation=PlainActivation("gelu")),
}


def random_case(row: Row, random: np.random.Generator, number: int) -> NetworkCase:
    while True:
        size, density, seed = int(random.integers(4, 7)), random.uniform(0.3, 0.7), int(random.integers(2**31))
        graph = nx.gnp_random_graph(size, density, seed=seed)
        if 3 <= graph.number_of_edges() <= MAX_EDGES:
            break
    case = network_case(graph, row.kind, row.depth, Builder(random, row.activation, shift=0.15))
    share = [-(-2 * graph.degree[i] // 5) for i in range(size)]
    return case.with_budget(*((share, None), (share, 3), (None, None))[number % 3])


def total_case(row: Row, random: np.random.Generator, number: int) -> NetworkCase:
    """Sparse graphs of 10 nodes with triangles, two edges at a node, and 1, 2 or 3 in all."""
    seed = int(random.integers(2**31))
    graph = nx.powerlaw_cluster_graph(10, 2, 0.5, seed=seed)
    return network_case(graph, row.kind, row.depth, Builder(random, row.activation, shift=0.15)).with_budget(
        2, 1 + number % 3
    )


def measure(
    names: Iterable[str] = ROWS, cases: int = 12, methods: Iterable[str] = ("degree",), seed: int = 0
) -> Ledger:
    """A ledger with a row for every kind of network and method."""
    ledger, methods = Ledger(), tuple(methods)
    for name in names:
        random = np.random.default_rng(seed)
        for number in range(cases):
            case = random_case(ROWS[name], random, number)
            minimum, clean = truth(case)
            for method in methods:
                row = name if len(methods) == 1 else f"{name}: {method}"
                enter(ledger, (row,), case, certify_network(case, method).lower, minimum, clean, scale=1.0)
    return ledger


class Samples(NamedTuple):
    """Mean drop over true drop of both bounds: on all cases, and of ``degree`` in each sample of them."""

    degree: float
    prototype: float
    each: list[float]


def beside_prototype(name: str, samples: int, cases: int, seed: int = 0) -> Samples:
    """``degree`` and the prototypes' bound on the same cases."""
    whole = np.zeros(3)
    each = []
    for sample in range(samples):
        random, drops = np.random.default_rng([seed, sample]), np.zeros(3)
        for number in range(cases):
            case = random_case(ROWS[name], random, number)
            minimum, clean = truth(case)
            lower = certify_network(case, "degree").lower
            prototype = proved(case, PROTOTYPE)
            drops += [float((clean - value).sum()) for value in (lower, prototype, minimum)]
        each.append(drops[0] / drops[2])
        whole += drops
    return Samples(whole[0] / whole[2], whole[1] / whole[2], each)


def print_beside_prototype(names: Iterable[str], samples: int, cases: int, seed: int) -> None:
    print(f"{samples} samples of {cases} cases{'degree':>20}{'prototype':>12}{'samples of degree':>20}   printed once")
    for name in names:
        if ROWS[name].aim is not None:
            found = beside_prototype(name, samples, cases, seed)
            print(
                f"{name:<32}{found.degree:>10.3f}{found.prototype:>12.3f}"
                f"{f'{min(found.each):.2f} to {max(found.each):.2f}':>20}{ROWS[name].aim:>15.2f}",
                flush=True,
            )


class UnderTotals(NamedTuple):
    """Mean drop over true drop."""

    priced: float
    each_by_itself: float
    ignored: float


def under_totals(name: str, cases: int, seed: int = 0) -> UnderTotals:
    random, drops = np.random.default_rng(seed), np.zeros(4)
    for number in range(cases):
        case = total_case(ROWS[name], random, number)
        minimum, clean = truth(case)
        priced, ignored = (certify_network(each, "degree").lower for each in (case, case.with_budget(case.local)))
        with patch.object(Ball, "most_lost", None):
            by_itself = certify_network(case, "degree").lower
        drops += [float((clean - value).sum()) for value in (priced, by_itself, ignored, minimum)]
    return UnderTotals(*(drops[:3] / drops[3]))


def print_under_totals(names: Iterable[str], cases: int, seed: int) -> None:
    print(f"{cases} cases under a total{'degree':>18}{'each node by itself':>22}{'no total':>12}")
    for name in names:
        found = under_totals(name, cases, seed)
        print(f"{name:<32}{found.priced:>10.3f}{found.each_by_itself:>22.3f}{found.ignored:>12.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--methods", nargs="+", default=["degree"], choices=NETWORK_METHODS)
    parser.add_argument("--rows", nargs="+", default=list(ROWS), choices=list(ROWS), metavar="ROW")
    parser.add_argument("--prototype", action="store_true", help="many samples, with the prototypes' bound")
    parser.add_argument("--totals", action="store_true", help="edges in all that bind")
    parser.add_argument("--samples", type=int, default=12, help="of --cases cases each, with --prototype")
    arguments = parser.parse_args()
    if arguments.totals:
        print_under_totals(arguments.rows, arguments.cases, arguments.seed)
        return
    if arguments.prototype:
        print_beside_prototype(arguments.rows, arguments.samples, arguments.cases, arguments.seed)
        return
    head, *lines = measure(arguments.rows, arguments.cases, arguments.methods, arguments.seed).lines()
    print(f"{head}  aim")
    for line in lines:
        aim = next((row.aim for name, row in ROWS.items() if line.split("  ")[0].split(": ")[0] == name), None)
        print(line if aim is None else f"{line} {aim:>4.2f}")


if __name__ == "__main__":
    main()
