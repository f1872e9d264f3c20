"""Two GCN layers by the engine that was written for them, and by the one for networks of any depth.

Random graphs, features and weights; `degree` for all nodes, without and with a total of three edges, by torch and by
kernels. CPU time is the best of three runs; gaps are to the clean value, summed over all nodes.

``python -m benchmarks.two_engines [--json FILE]``
"""

import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import networkx as nx
import torch
from torch import Tensor

import certgcl
from benchmarks import report
from certgcl.bounds import ChangeProblem, Degree, compiled
from certgcl.bounds.propagation.method import by_states
from certgcl.models import GraphNetwork, Layer, SymmetricNorm, Term, TwoPieceLinear

GRAPHS = ((77, 6), (300, 4), (150, 16))  # nodes, and their mean degree
WIDTHS = ((16, 8), (64, 32), (128, 64))
FEATURES, LOCAL, REPEATS = 16, 2, 3


def measure(nodes: int, degree: int, widths: tuple[int, int], total: int | None, kernels: bool) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    graph = certgcl.Graph.from_networkx(nx.gnp_random_graph(nodes, degree / nodes, seed=0), random(nodes, FEATURES))
    (hidden, out), relu = widths, TwoPieceLinear(torch.zeros((), dtype=torch.float64))
    network = GraphNetwork(
        (
            Layer((Term(0, random(FEATURES, hidden) / FEATURES**0.5, SymmetricNorm()),), random(hidden) / 10, relu),
            Layer((Term(1, random(hidden, out) / hidden**0.5, SymmetricNorm()),), random(out) / 10, relu),
        )
    )
    directions, method = random(nodes, 1, out), Degree()
    changes = certgcl.Changes(certgcl.EdgeDropBudget(LOCAL, total)).on(graph)
    clean = (network.embed(graph)[:, None] * directions).sum(dim=-1)
    seconds, gaps = [], []
    context: AbstractContextManager[None] = nullcontext() if kernels else compiled.switched_off()
    with torch.no_grad(), context:
        for general in (False, True):
            best = float("inf")
            for _ in range(REPEATS):
                problem = ChangeProblem(graph, changes, torch.arange(nodes))
                start = time.process_time()
                if general:
                    found = by_states(network, problem, directions, method._settings(network))
                else:
                    found = method(network, problem, directions)
                best = min(best, time.process_time() - start)
            seconds.append(best)
            gaps.append(float((clean - found).sum()))
    row = {
        "graph": f"{nodes} nodes of degree {degree}",
        "widths": f"{hidden}-{out}",
        "total": total,
        "kernels": kernels,
        "seconds": seconds[0],
        "time": seconds[1] / seconds[0],
        "gap": gaps[1] / gaps[0],
    }
    print(row, flush=True)
    return row


def main() -> None:
    arguments = report.parser(__doc__, threads=1).parse_args()
    torch.set_num_threads(arguments.threads)
    rows = [
        measure(*graph, widths, total, kernels)
        for graph in GRAPHS
        for widths in WIDTHS
        for total in (None, 3)
        for kernels in (False, True)
    ]
    report.publish("two_engines", arguments.json, rows=rows, aims=[])


def tables(result: dict[str, Any]) -> list[str]:
    """The general engine relative to the other one."""
    lines = [
        [
            row["graph"],
            row["widths"],
            "no limit" if row["total"] is None else row["total"],
            "kernels" if row["kernels"] else "torch",
            row["seconds"],
            row["time"],
            row["gap"],
        ]
        for row in result["rows"]
    ]
    return [report.markdown(["graph", "widths", "total", "by", "s", "times as long", "gap, times that"], lines)]


if __name__ == "__main__":
    main()
