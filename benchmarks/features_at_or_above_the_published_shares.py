"""Predictions that no change of features can turn, on the GCNs of the KDD'20 structure certificate.

Two-layer GCNs trained on Cora-ML and CiteSeer, and 1, 5 or 10 bits of features turned on, or off, anywhere in the
graph: the share of nodes whose prediction is proved to stay, by ``degree``, of all nodes (of the plain models) and of
the 500 nodes of the KDD'20 evaluation. The published shares are those of an abstract interpretation of the same GCNs
(2024), to one decimal, the precision of the comparison. They do not say for which nodes; 87.1, 89.5 and 95.7 % are
shares of no number of 500 nodes, so they are compared with those of all.

``CERTGCL_DATA=... python -m benchmarks.features_at_or_above_the_published_shares [--models plain] [--json FILE]``
"""

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import certgcl
from benchmarks import report
from certgcl.models import GraphNetwork, gcn_network

GRAPHS = {"cora_ml": "Cora-ML", "citeseer": "CiteSeer"}
TOTALS = (1, 5, 10)
WEIGHTS = ("w1", "b1", "w2", "b2")
PUBLISHED = {
    ("Cora-ML", "on"): (93.8, 78.2, 56.8),
    ("Cora-ML", "off"): (95.7, 85.0, 69.2),
    ("CiteSeer", "on"): (87.1, 54.5, 22.6),
    ("CiteSeer", "off"): (89.5, 64.8, 35.6),
}


def loaded(name: str, model: str) -> tuple[certgcl.Graph, GraphNetwork, Tensor]:
    """A graph, one of its GCNs, and the nodes of the KDD'20 evaluation."""
    with np.load(Path(os.environ["CERTGCL_DATA"]) / "KDD20" / f"{name}.npz") as arrays:
        content = {
            key: torch.from_numpy(arrays[key].astype(np.float64 if key.endswith(WEIGHTS) else np.int64))
            for key in arrays.files
        }
    x = torch.zeros(*content["shape"].tolist(), dtype=torch.float64)
    x[tuple(content["x_index"])] = 1
    w1, b1, w2, b2 = (content[f"{model}_{part}"] for part in WEIGHTS)
    network = gcn_network((w1, b1, torch.zeros_like(b1)), (w2, b2, torch.ones_like(b2)))
    return certgcl.Graph.from_edges(x, content["edge_index"]), network, content["nodes"]


def measure(name: str, model: str, turned: str, total: int) -> dict[str, Any]:
    """Shares in percent; of the robust models, of the 500 nodes alone."""
    file = next(file for file, known in GRAPHS.items() if known == name)
    graph, network, evaluated = loaded(file, model)
    everyone = torch.arange(graph.num_nodes)
    nodes = everyone if model == "plain" else evaluated
    changes = certgcl.Changes(features=certgcl.FeatureBudget(**{f"turned_{turned}": total}, total=total))
    labels = network.embed(graph).argmax(dim=1)
    before = time.process_time()
    found = certgcl.certified_accuracy(network, graph, labels, changes, nodes=nodes, search=False)
    seconds = time.process_time() - before
    stable = found.stable.double()
    return {
        "graph": name,
        "model": model,
        "turned": turned,
        "total": total,
        "published": PUBLISHED[name, turned][TOTALS.index(total)] if model == "plain" else None,
        "nodes": len(nodes),
        "share": 100 * float(stable.mean()) if model == "plain" else None,
        "share_of_500": 100 * float(stable[torch.isin(found.nodes, evaluated)].mean()),
        "cpu_seconds": seconds,
    }


def main() -> None:
    parser = report.parser(__doc__, threads=1)
    parser.add_argument("--models", nargs="+", default=["plain", "robust"], choices=["plain", "robust"])
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    rows: list[dict[str, Any]] = []
    for model in arguments.models:
        for name in GRAPHS.values():
            for turned in ("on", "off"):
                for total in TOTALS:
                    rows.append(measure(name, model, turned, total))
                    print(rows[-1], flush=True)
                    report.save("features_at_or_above_the_published_shares", arguments.json, rows=rows, aims=aims(rows))
    report.publish("features_at_or_above_the_published_shares", arguments.json, rows=rows, aims=aims(rows))


def aims(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        report.aim(
            f"{row['graph']}, {row['total']} bits turned {row['turned']}, % of all nodes",
            round(row["share"], 1),
            at_least=row["published"],
        )
        for row in rows
        if row["published"] is not None
    ]


def tables(result: dict[str, Any]) -> list[str]:
    keys = dict.fromkeys((row["graph"], row["model"], row["turned"]) for row in result["rows"])
    lines = []
    for key in keys:
        rows = [row for row in result["rows"] if (row["graph"], row["model"], row["turned"]) == key]
        shown = [("share_of_500", 500)] if key[1] == "robust" else [("share", rows[0]["nodes"]), ("share_of_500", 500)]
        for share, nodes in shown:
            whole = nodes == rows[0]["nodes"]
            lines.append(
                [
                    f"{key[0]}, {key[1]}, bits turned {key[2]}",
                    nodes,
                    *(row[share] for row in rows),
                    " / ".join(str(row["published"]) for row in rows) if share == "share" else None,
                    sum(row["cpu_seconds"] for row in rows) / len(rows) if whole else None,
                ]
            )
    totals = [f"{total} in all, %" for total in TOTALS]
    return [report.markdown(["GCN", "nodes", *totals, "published, %", "CPU time of one column, s"], lines)]


if __name__ == "__main__":
    main()
