"""The slack for rounding and the digests of evidence, which make a bound a certificate, cost at most a fifth of it.

Shares of the CPU time of ``node_compactness`` for all nodes, by one thread, with weights as a network, so that no model
is read: the sizes that slack is computed from, errors of directions beyond a plain forward pass, and digests. Medians.

``CERTGCL_DATA=... python -m benchmarks.rounding_and_digests_cost_a_fifth_at_most [--repeats N] [--json FILE]``
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

import certgcl
from benchmarks import report
from benchmarks.real_graphs import load
from benchmarks.setting import DROP_RATE, make_encoder
from certgcl.bounds.rounding.direction_error import CompactnessDirections
from certgcl.bounds.rounding.slack import Sizes
from certgcl.certify.certification import Question
from certgcl.certify.evidence import Evidence

ASKED = (("Cora", "degree"), ("CiteSeer", "degree-fast"), ("PubMed", "degree-fast"))
AT_MOST = 0.2


def shares(name: str, method: str, repeats: int) -> dict[str, Any]:
    graph = certgcl.Graph.of(load(name))
    network = make_encoder(graph).network()
    question = Question.compactness(network, graph, DROP_RATE, method=method, view=None, dtype=torch.float64)
    prepared = certgcl.PreparedGraph(graph, DROP_RATE)
    problem = prepared.problem(question.anchors(None))
    calls: dict[str, Callable[[], object]] = {
        "whole": lambda: certgcl.node_compactness(network, prepared, method=method),
        "sizes": lambda: Sizes.of(question.encoder, problem, torch.float64).bound_slack(question.directions),
        "directions": lambda: CompactnessDirections.of(question.network, question.view),
        "embeddings": lambda: _embed(question),
        "digests": lambda: Evidence.of(question),
    }
    seconds: dict[str, list[float]] = {part: [] for part in calls}
    for repeat in range(repeats + 1):
        for part, call in calls.items():
            start = time.process_time()
            call()
            if repeat:  # the first one compiles and prepares
                seconds[part].append(time.process_time() - start)
    whole, sizes, directions, embeddings, digests = (statistics.median(runs) for runs in seconds.values())
    return {
        "graph": name,
        "method": method,
        "seconds": whole,
        "sizes": sizes / whole,
        "directions": max(0.0, directions - embeddings) / whole,
        "digests": digests / whole,
    }


@torch.no_grad()
def _embed(question: Question) -> object:
    return question.network.embed(question.view)


def main() -> None:
    parser = report.parser(__doc__, threads=1)
    parser.add_argument("--repeats", type=int, default=15)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    rows = [shares(name, method, arguments.repeats) for name, method in ASKED]
    largest = max(row["sizes"] + row["directions"] + row["digests"] for row in rows)
    report.publish(
        "rounding_and_digests_cost_a_fifth_at_most",
        arguments.json,
        rows=rows,
        aims=[report.aim("the largest share of a certificate's CPU time", largest, at_most=AT_MOST)],
    )


def tables(result: dict[str, Any]) -> list[str]:
    return [
        report.markdown(
            ["graph", "method", "seconds", "sizes, %", "errors of directions, %", "digests, %"],
            [
                [
                    row["graph"],
                    row["method"],
                    row["seconds"],
                    *(100 * row[part] for part in ("sizes", "directions", "digests")),
                ]
                for row in result["rows"]
            ],
        )
    ]


if __name__ == "__main__":
    main()
