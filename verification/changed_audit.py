"""The library's answers to cases whose edges change; ``python -m verification.changed_audit``: how tight they are.

Random graphs of 4 and 5 nodes with 3 to 7 edges, widths 4-5-5, Gaussian weights, biases shifted by 0.15, random
directions. Columns: one new edge a node; two, and three in all; one lost and one gained, three and two in all; one flip
a node and two in all. Next to each is the result of a plain recursion on the same cases, which shares no code with the
library and which determined the aims.
"""

import argparse

import networkx as nx
import numpy as np
import torch
from torch import Tensor

import certgcl
from certgcl.changes.edge_additions import CandidatesLike
from verification.changed_reference import ChangedReference
from verification.edge_changes import ChangedCase, changed_magnitude, changed_values
from verification.network_audit import NETWORK_METHODS, library_graph, library_network
from verification.networks import RELU, Builder, network_case

ROWS = {
    "GCN": ("GCN", 2),
    "GCN, no self-loops": ("GCN, no self-loops", 2),
    "SAGE mean": ("SAGE mean", 2),
    "SAGE sum": ("SAGE sum", 2),
    "GIN, 1 layer": ("GIN", 1),
    "SGC, K = 2": ("SGC", 2),
    "GCN, 1 layer": ("GCN", 1),
}
COLUMNS: dict[str, tuple[int, int | None, int | None, int | None, bool]] = {
    "1 added": (0, None, 1, None, False),
    "2 added, A = 3": (0, None, 2, 3, False),
    "1 lost, 1 added": (1, 3, 1, 2, False),
    "1 flipped, F = 2": (1, 2, None, None, True),
}


def library_changes(changed: ChangedCase) -> certgcl.Changes:
    candidates: CandidatesLike = "all" if changed.candidates is None else changed.candidates
    case = changed.case
    if changed.flips:
        return certgcl.Changes(flips=certgcl.EdgeFlipBudget(case.local, case.total, candidates))
    return certgcl.Changes(
        certgcl.EdgeDropBudget(case.local, case.total),
        additions=certgcl.EdgeAddBudget(changed.local, changed.total, candidates),
    )


def certify_changed(
    changed: ChangedCase, method: str, dtype: torch.dtype = torch.float64, nodes: list[int] | None = None
) -> certgcl.Certificate:
    """The library's answer to a case, through its public call."""
    case = changed.case
    return certgcl.linear_bounds(
        library_network(case),
        library_graph(case),
        library_changes(changed),
        torch.from_numpy(case.directions),
        method=NETWORK_METHODS[method],
        dtype=dtype,
        nodes=nodes,
    )


def changed_truth(changed: ChangedCase) -> tuple[Tensor, Tensor]:
    """The minimum over all admissible graphs, and the clean value; each ``(n,)``."""
    found = changed_values(changed)
    return torch.from_numpy(found.min(axis=0)), torch.from_numpy(np.array(found[0]))


def changed_tolerance(changed: ChangedCase) -> Tensor:
    """How far rounding alone can raise a computed bound above a computed minimum, ``(n,)``."""
    return torch.from_numpy(1e-13 * changed_magnitude(changed) + 1e-300)


def random_changed(row: str, column: str, random: np.random.Generator, sizes: tuple[int, int] = (4, 5)) -> ChangedCase:
    """A case with the fewest to the most nodes."""
    kind, depth = ROWS[row]
    local, total, gain, whole, flips = COLUMNS[column]
    while True:
        size, density, seed = (
            int(random.integers(sizes[0], sizes[1] + 1)),
            random.uniform(0.3, 0.7),
            int(random.integers(2**31)),
        )
        graph = nx.gnp_random_graph(size, density, seed=seed)
        if 3 <= graph.number_of_edges() <= 7:
            break
    case = network_case(graph, kind, depth, Builder(random, None if kind == "SGC" else RELU, shift=0.15))
    return ChangedCase(case.with_budget(local, total), gain, whole, None, flips)


def measure(row: str, column: str, cases: int, seed: int = 0) -> tuple[float, float, int]:
    """Mean drop over true drop of ``degree`` and of the plain recursion, and how often ``degree`` was too high."""
    random, drops, wrong = np.random.default_rng(seed), np.zeros(3), 0
    for _ in range(cases):
        changed = random_changed(row, column, random)
        minimum, clean = changed_truth(changed)
        lower = certify_changed(changed, "degree").lower
        wrong += int((~(lower <= minimum + changed_tolerance(changed))).sum())
        plain = torch.from_numpy(ChangedReference(changed).lower())
        drops += [float((clean - value).sum()) for value in (lower, plain, minimum)]
    return drops[0] / drops[2], drops[1] / drops[2], wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print(
        f"{f'{arguments.cases} cases each, degree (recursion)':<36}"
        + "".join(f"{name:>20}" for name in COLUMNS)
        + f"{'violations':>12}"
    )
    for row in ROWS:
        found = [measure(row, column, arguments.cases, arguments.seed) for column in COLUMNS]
        print(
            f"{row:<36}"
            + "".join(f"{f'{ours:.2f} ({plain:.2f})':>20}" for ours, plain, _ in found)
            + f"{sum(wrong for *_, wrong in found):>12}",
            flush=True,
        )


if __name__ == "__main__":
    main()
