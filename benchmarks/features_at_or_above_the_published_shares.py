"""Predictions that no change of features can turn, on the GCNs of the KDD'20 structure certificate.

Two-layer GCNs trained on Cora-ML and CiteSeer, and 1, 5 or 10 bits of features turned on, or off, anywhere in the
graph: the share of nodes whose prediction is proved to stay, by ``degree``, of the 500 nodes of the KDD'20 evaluation,
or of all. The published shares are those of an abstract interpretation of the same GCNs (2024), to one decimal, the
precision of the comparison; they do not say for which nodes.

``CERTGCL_DATA=... python -m benchmarks.features_at_or_above_the_published_shares [--all] [--models plain] [--graphs
CiteSeer] [--totals 1] [--json FILE]``
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


def share(graph: certgcl.Graph, network: GraphNetwork, nodes: Tensor | None, turned: str, total: int) -> dict[str, Any]:
    budget = certgcl.FeatureBudget(**{f"turned_{turned}": total}, total=total)
    labels = network.embed(graph).argmax(dim=1)
    before = time.process_time()
    found = certgcl.certified_accuracy(
        network, graph, labels, certgcl.Changes(features=budget), nodes=nodes, search=False
    )
    seconds = time.process_time() - before
    return {"share": 100 * float(found.stable.double().mean()), "nodes": len(found.nodes), "cpu_seconds": seconds}


def main() -> None:
    parser = report.parser(__doc__, threads=1)
    parser.add_argument("--all", action="store_true", help="all nodes, not the 500")
    parser.add_argument("--models", nargs="+", default=["plain", "robust"], choices=["plain", "robust"])
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS.values()), choices=list(GRAPHS.values()))
    parser.add_argument("--totals", nargs="+", type=int, default=list(TOTALS), choices=TOTALS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    rows, aims = [], []
    for file, name in GRAPHS.items():
        for model in arguments.models if name in arguments.graphs else ():
            graph, network, nodes = loaded(file, model)
            for turned in ("on", "off"):
                for place, total in enumerate(TOTALS):
                    if total not in arguments.totals:
                        continue
                    found = share(graph, network, None if arguments.all else nodes, turned, total)
                    rows.append(
                        {
                            "graph": name,
                            "model": model,
                            "turned": turned,
                            "total": total,
                            "published": PUBLISHED[name, turned][place],
                            **found,
                        }
                    )
                    print(rows[-1], flush=True)
                    if model == "plain":
                        aims.append(
                            report.aim(
                                f"{name}, {total} bits turned {turned}, % of nodes",
                                round(found["share"], 1),
                                at_least=rows[-1]["published"],
                            )
                        )
    report.publish("features_at_or_above_the_published_shares", arguments.json, rows=rows, aims=aims)


def tables(result: dict[str, Any]) -> list[str]:
    keys = dict.fromkeys((row["graph"], row["model"], row["turned"]) for row in result["rows"])
    lines = []
    for key in keys:
        rows = [row for row in result["rows"] if (row["graph"], row["model"], row["turned"]) == key]
        lines.append(
            [
                f"{key[0]}, {key[1]}, bits turned {key[2]}",
                *(row["share"] for row in rows),
                " / ".join(str(row["published"]) for row in rows) if key[1] == "plain" else None,
                sum(row["cpu_seconds"] for row in rows) / len(rows),
            ]
        )
    totals = [f"{total} in all, %" for total in dict.fromkeys(row["total"] for row in result["rows"])]
    return [report.markdown(["GCN", *totals, "published, %", "CPU time of one column, s"], lines)]


if __name__ == "__main__":
    main()
