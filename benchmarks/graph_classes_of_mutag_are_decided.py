"""Classes of the graphs of MUTAG are decided: proved to stay, or refuted by a drop that changes them.

GraphSAGE with sums from SCIP-MPNN (``data/SCIP-MPNN/MUTAG.npz``): three layers of 16 channels, sum pooling, a linear
layer. The margin of the predicted class against the other, for at most Q edges dropped anywhere in a graph: by bounds
and a greedy search alone, and with enumeration of up to as many drop sets as given.

``CERTGCL_DATA=... python -m benchmarks.graph_classes_of_mutag_are_decided [--totals 1 2 3 5] [--json FILE]``
"""

import time
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.nn import SAGEConv, global_add_pool

import certgcl
from benchmarks import report
from benchmarks.real_graphs import data_root

TOTALS = (1, 2, 3, 4, 5, 10)
ENUMERATED = (0, 1024, 1 << 15)


class GraphSAGE(nn.Module):
    """Their layers: ``h_i W1 + Σ_j h_j W2 + b``, ReLU after the first two."""

    def __init__(self, arrays: Any) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            SAGEConv(*arrays[f"layer{layer}_sage_w1"].shape[::-1], aggr="sum") for layer in range(3)
        )
        self.head = nn.Linear(16, 2)
        with torch.no_grad():
            for layer, conv in enumerate(self.convs):
                for target, name in ((conv.lin_r.weight, "w1"), (conv.lin_l.weight, "w2"), (conv.lin_l.bias, "b")):
                    target.copy_(torch.from_numpy(arrays[f"layer{layer}_sage_{name}"]))
            self.head.weight.copy_(torch.from_numpy(arrays["layer4_dense_w"]))
            self.head.bias.copy_(torch.from_numpy(arrays["layer4_dense_b"]))

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        x = self.convs[0](x, edge_index).relu()
        x = self.convs[1](x, edge_index).relu()
        x = self.convs[2](x, edge_index)
        return self.head(global_add_pool(x, batch))


def measure(model: nn.Module, graphs: list[Any], margins: Tensor, total: int, sets: int) -> dict[str, Any]:
    start = time.process_time()
    found = certgcl.graph_bounds(model, graphs, certgcl.EdgeDropBudget(total=total), margins, enumerate_up_to=sets)
    seconds = time.process_time() - start
    row = {
        "total": total,
        "sets": sets,
        "graphs": len(graphs),
        "proved": 100 * found.share_positive,
        "refuted": 100 * float(found.negative.double().mean()),
        "seconds": seconds / len(graphs),
        "enumerated": 100 * float(found.enumerated.double().mean()),
    }
    print(row, flush=True)
    return row


def main() -> None:
    parser = report.parser(__doc__, threads=1)
    parser.add_argument("--totals", type=int, nargs="+", default=TOTALS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    root = data_root()
    if root is None:
        raise SystemExit("CERTGCL_DATA does not name the folder with SCIP-MPNN/ and TU/")
    model = GraphSAGE(np.load(root / "SCIP-MPNN" / "MUTAG.npz")).eval()
    graphs: Any = certgcl.load_dataset("MUTAG", root)
    labels = torch.cat([graph.y for graph in graphs])
    with torch.no_grad():
        predicted = torch.cat(
            [
                model(graph.x, graph.edge_index, torch.zeros(graph.num_nodes, dtype=torch.long)).argmax(dim=1)
                for graph in graphs
            ]
        )
    accuracy = 100 * float((predicted == labels).double().mean())
    units = torch.eye(2)
    rows: list[dict[str, Any]] = []
    for total in arguments.totals:
        for sets in ENUMERATED:
            rows.append(measure(model, graphs, units[predicted] - units[1 - predicted], total, sets))
            report.save("graph_classes_of_mutag_are_decided", arguments.json, rows=rows, accuracy=accuracy, aims=[])
    report.publish("graph_classes_of_mutag_are_decided", arguments.json, rows=rows, accuracy=accuracy, aims=[])


def tables(result: dict[str, Any]) -> list[str]:
    """Shares of the graphs in percent, and CPU seconds for one."""
    lines = [
        [
            row["total"],
            row["sets"],
            row["enumerated"],
            row["proved"],
            row["refuted"],
            row["proved"] + row["refuted"],
            row["seconds"],
        ]
        for row in result["rows"]
    ]
    return [
        f"Accuracy on all {result['rows'][0]['graphs']} graphs: {result['accuracy']:.1f} %.",
        report.markdown(
            [
                "edges in all",
                "sets that are enumerated at most",
                "enumerated, %",
                "proved, %",
                "refuted, %",
                "decided, %",
                "s a graph",
            ],
            lines,
        ),
    ]


if __name__ == "__main__":
    main()
