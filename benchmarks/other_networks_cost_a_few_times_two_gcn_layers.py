"""What certificates of other networks cost compared with those of two GCN layers, on the same graph in the same run.

Two layers (256, 128) of GCN, SAGE (mean) and GIN, and three of GCN (256, 256, 128), each with a ReLU after the last, at
random weights; q = round(0.4 d), all nodes, float64, each in a fresh process. A graph named ``power-law-4000`` is a
random one of 4,000 nodes and four times as many edges; two or more of them show how the time grows with the edges.
Ratios and the exponent are of CPU time, which other work on the machine changes least.

``CERTGCL_DATA=... python -m benchmarks.other_networks_cost_a_few_times_two_gcn_layers [--graphs Cora] [--json FILE]``
"""

import statistics
import time
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import GCN, GIN, GraphSAGE

import certgcl
from benchmarks import measure, report
from benchmarks.power_law import power_law_graph
from benchmarks.real_graphs import load
from benchmarks.setting import budget, ring_lattice

SMALL, LARGE = "Cora", ("PubMed", "Photo")
BASE, DEEP = "GCN", "GCN, three layers"
NETWORKS = {BASE: (GCN, 2), "SAGE": (GraphSAGE, 2), "GIN": (GIN, 2), DEEP: (GCN, 3)}
POWER_LAW, FEATURES = "power-law-", 128


class Activated(nn.Module):
    """A PyG model with a ReLU after its last layer, as contrastive encoders have it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.model(x, edge_index).relu()


def make(network: str, features: int) -> nn.Module:
    torch.manual_seed(0)
    kind, layers = NETWORKS[network]
    return Activated(kind(features, 256, layers, 128)).eval()


def graph_of(name: str) -> certgcl.Graph:
    if not name.startswith(POWER_LAW):
        return certgcl.Graph.of(load(name))
    nodes = int(name.removeprefix(POWER_LAW))
    return power_law_graph(nodes, 4 * nodes, FEATURES)


def certify(name: str, network: str, method: str, repeats: int, threads: int) -> dict[str, Any]:
    torch.set_num_threads(threads)
    graph = graph_of(name)
    model, drops = make(network, graph.num_features), budget(graph)
    certgcl.node_compactness(model, ring_lattice(100, graph.num_features), 1, method=method)  # compiles the kernels
    cpu: list[float] = []

    def call() -> certgcl.Certificate:
        before = time.process_time()
        found = certgcl.node_compactness(model, graph, drops, method=method)
        cpu.append(time.process_time() - before)
        return found

    certificate, spent = measure.cost(call, repeats)
    return {
        "graph": name,
        "network": network,
        "method": method,
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        **spent,
        "cpu_seconds": statistics.median(cpu),
        "lower_of_clean": float(certificate.lower.mean() / certificate.nominal.mean()),
        "share_positive": certificate.share_positive,
    }


def main() -> None:
    parser = report.parser(__doc__)
    parser.add_argument("--graphs", default=",".join([SMALL, *LARGE]))
    parser.add_argument("--networks", default=";".join(NETWORKS), help="separated by semicolons")
    parser.add_argument("--method", default="degree")
    parser.add_argument("--repeats", type=int, default=3, help="at most; none is begun after half a minute")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in arguments.graphs.split(","):
        for network in arguments.networks.split(";"):
            row = measure.in_fresh_process(
                certify, name, network, arguments.method, arguments.repeats, arguments.threads
            )
            base = next(
                (other["cpu_seconds"] for other in [*rows, row] if (other["graph"], other["network"]) == (name, BASE)),
                None,
            )
            rows.append(row | {"of_gcn": None if base is None else row["cpu_seconds"] / base})
            print(rows[-1], flush=True)
            report.publish("other_networks_cost_a_few_times_two_gcn_layers", arguments.json, rows=rows, aims=aims(rows))


def aims(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    def ratio(graph: str | None, network: str) -> float | None:
        found = [
            row["of_gcn"]
            for row in rows
            if row["network"] == network and row["of_gcn"] is not None and graph in (None, row["graph"])
        ]
        return max(found, default=None)

    deep = [row for row in rows if row["network"] == DEEP]
    large = [row for row in deep if row["graph"] in LARGE]
    large = large if len(large) == len(LARGE) else []  # neither says anything of the other
    generated = [row for row in deep if row["graph"].startswith(POWER_LAW)]
    exponent = measure.growth([row["edges"] for row in generated], [row["cpu_seconds"] for row in generated])
    return [
        report.aim("SAGE over GCN, the largest ratio", ratio(None, "SAGE"), at_most=1),
        report.aim("GIN over GCN, the largest ratio", ratio(None, "GIN"), at_most=1),
        report.aim("three layers over two, Cora", ratio(SMALL, DEEP), at_most=6),
        report.aim(
            "three layers, PubMed and Photo, the slower, seconds",
            max((row["seconds"] for row in large), default=None),
            at_most=600,
        ),
        report.aim(
            "three layers, PubMed and Photo, the larger peak, GB",
            max((row["peak_gb"] for row in large), default=None),
            at_most=8,
        ),
        report.aim("three layers, exponent of the CPU time in the edges of random graphs", exponent, at_most=1.2),
    ]


def tables(result: dict[str, Any]) -> list[str]:
    columns = ["graph", "network", "seconds", "CPU s", "of GCN", "peak, GB", "mean lower / clean", "proved > 0, %"]
    return [
        report.markdown(
            columns,
            [
                [
                    row["graph"],
                    row["network"],
                    row["seconds"],
                    row["cpu_seconds"],
                    row["of_gcn"],
                    row["peak_gb"],
                    row["lower_of_clean"],
                    100 * row["share_positive"],
                ]
                for row in result["rows"]
            ],
        )
    ]


if __name__ == "__main__":
    main()
