"""The checker proves the bounds of hundreds of nodes of Cora in minutes on one core.

Node compactness of an encoder with random weights, by ``degree`` with ``proof=True``; then ``verification/checker`` on
the certificate's own file. CPU time of one thread, side by side: of the library for all nodes and for the same nodes,
and of the checker. *Slack used* is the largest ``(lower - proved) / rounding``: the share of the library's rounding
slack that was needed to prove the bound; below zero, the checker proved more than ``lower``.

``CERTGCL_DATA=... python -m benchmarks.the_checker_proves_hundreds_of_nodes_in_minutes [--nodes 300] [--json FILE]``
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import certgcl
from benchmarks import report
from benchmarks.real_graphs import load
from benchmarks.setting import make_encoder
from certgcl.models.storage import meta_of
from verification.checker.claim import Claim
from verification.checker.core.cases import Bounds
from verification.checker.core.compactness import compactness
from verification.checker.core.network import Graph, Network
from verification.checker.core.proof import check
from verification.checker.files import graph_of, network_of

BUDGETS: tuple[int | float, ...] = (2, 0.4)
AT_MOST = 10.0  # minutes
SAMPLE = 40  # nodes whose slack is looked at


def proved(budget: int | float, nodes: int) -> dict[str, Any]:
    graph = certgcl.Graph.of(load("Cora"))
    network = make_encoder(graph).network()

    def certified(some: list[int] | None) -> certgcl.Certificate:
        return certgcl.node_compactness(network, graph, budget, nodes=some, proof=True)

    certified(None)  # compiles and prepares
    _, everyone = _timed(lambda: certified(None))
    certificate, some = _timed(lambda: certified(list(range(nodes))))
    with tempfile.TemporaryDirectory() as folder:
        claim = Claim.load(certificate.save(Path(folder, "certificate.npz")))
    plain = network_of(meta_of(network), {name: part.detach().numpy() for name, part in network.named_tensors()})
    plain_graph = graph_of(graph.x.numpy(), graph.edge_index.numpy())
    found, seconds = _timed(lambda: check(claim, plain, plain_graph))
    assert certificate.proof is not None
    return {
        "budget": budget,
        "nodes": nodes,
        "proved": found["proved"],
        "minutes": seconds / 60,
        "checker_ms": 1000 * seconds / nodes,
        "library_ms": 1000 * everyone / graph.num_nodes,
        "ratio": seconds / some,
        "bytes": certificate.proof.size / graph.num_nodes,
        "slack_used": _slack_used(claim, plain, plain_graph),
    }


def _slack_used(claim: Claim, network: Network, graph: Graph) -> float:
    boxes = compactness(network, graph)
    anchors = claim.nodes[:SAMPLE].tolist()
    bounds = Bounds(network, claim.changes(graph), anchors, [claim.choices])  # with those of the trace alone
    shares = []
    for at, node in enumerate(claim.nodes[:SAMPLE].tolist()):
        proved = bounds.below(node, boxes.middle[[node]], boxes.reach[node], np.full(1, np.inf))[0]
        shares.append((claim.lower[at, 0] - proved) / claim.rounding[at, 0])
    return float(np.max(shares))


def _timed(call: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    return call(), time.process_time() - start


def main() -> None:
    parser = report.parser(__doc__, threads=1)
    parser.add_argument("--nodes", type=int, default=300)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    rows = [proved(budget, arguments.nodes) for budget in BUDGETS]
    report.publish(
        "the_checker_proves_hundreds_of_nodes_in_minutes",
        arguments.json,
        rows=rows,
        aims=[
            report.aim("minutes for the slowest budget", max(row["minutes"] for row in rows), at_most=AT_MOST),
            report.aim("bounds that are not proved", sum(row["nodes"] - row["proved"] for row in rows), at_most=0),
        ],
    )


def tables(result: dict[str, Any]) -> list[str]:
    return [
        report.markdown(
            (
                "budget",
                "nodes",
                "proved",
                "checker, ms a node",
                "library, ms a node of all",
                "times the same nodes",
                "bytes a node",
                "slack used",
            ),
            [
                (
                    str(row["budget"]),
                    row["nodes"],
                    row["proved"],
                    f"{row['checker_ms']:.0f}",
                    f"{row['library_ms']:.2f}",
                    f"{row['ratio']:.0f}",
                    f"{row['bytes']:.1f}",
                    f"{row['slack_used']:.1e}",
                )
                for row in result["rows"]
            ],
        )
    ]


if __name__ == "__main__":
    main()
