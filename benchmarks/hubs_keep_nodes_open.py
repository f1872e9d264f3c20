"""The obstacle to exact values: neighbours with many edges.

GRACE on Cora with the fast preset, ``q = round(0.4 d)``, 300 random nodes, 256 branches each: how many are closed, by
the largest degree among their neighbours.

``CERTGCL_DATA=... python -m benchmarks.hubs_keep_nodes_open [--nodes 300] [--json FILE]``
"""

from typing import Any

import torch

import certgcl
from benchmarks import report
from benchmarks.setting import DROP_RATE
from certgcl.learning import presets

BRANCHES = 256
CLASSES = ((1, 5), (6, 10), (11, 30), (31, None))  # of degrees


def largest_neighbour(graph: certgcl.Graph) -> torch.Tensor:
    """The largest degree among the neighbours of every node."""
    return torch.zeros_like(graph.degree).scatter_reduce(0, graph.row, graph.degree[graph.col], "amax")


def main() -> None:
    parser = report.parser(__doc__)
    parser.add_argument("--nodes", type=int, default=300)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    data = certgcl.load_dataset("Cora")
    graph = certgcl.Graph.of(data)
    model = certgcl.GRACE(**presets.get("grace", "Cora", fast=True).settings()).fit(data)
    nodes = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(2))[: arguments.nodes]
    found = certgcl.node_compactness(model, graph, DROP_RATE, nodes=nodes, method="exact", branch_limit=BRANCHES)
    assert found.upper is not None
    width, hub, rows = (found.upper - found.lower) / found.nominal.abs(), largest_neighbour(graph)[nodes], []
    for least, most in CLASSES:
        here = (hub >= least) & (hub <= (most or hub.max()))
        rows.append(
            {
                "least": least,
                "most": most,
                "nodes": int(here.sum()),
                "exact": float(found.exact[here].double().mean()),
                "median_width": float(width[here].median()),
                "mean_width": float(width[here].mean()),
            }
        )
    report.publish("hubs_keep_nodes_open", arguments.json, branches=BRANCHES, rows=rows, aims=[])


def tables(result: dict[str, Any]) -> list[str]:
    return [
        report.markdown(
            ["largest degree of a neighbour", "nodes", "exact, %", "median width, %", "mean width, %"],
            [
                [
                    f"{row['least']} to {row['most']}" if row["most"] else f"above {row['least'] - 1}",
                    row["nodes"],
                    *(100 * row[key] for key in ("exact", "median_width", "mean_width")),
                ]
                for row in result["rows"]
            ],
        )
    ]


if __name__ == "__main__":
    main()
