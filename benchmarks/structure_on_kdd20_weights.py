"""Structure certificates on the weights and nodes of KDD'20: predictions that no admissible drop changes.

Two GCN layers of 32 channels, plain and robustly trained, and 500 nodes of Cora-ML and CiteSeer (``data/KDD20``). A
prediction is proved if all its margins stay above zero, and refuted by a drop that makes one of them negative.
``degree`` bounds all margins; ``optimized`` with a number of branches for each margin, and then ``exact`` with a time
limit for each, search the rest.

``CERTGCL_DATA=... python -m benchmarks.structure_on_kdd20_weights [--nodes 500] [--branches 1024] [--seconds 1]
[--json FILE]``
"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

import certgcl
from benchmarks import report
from benchmarks.real_graphs import data_root

GRAPHS = {"Cora-ML": "cora_ml", "CiteSeer": "citeseer"}
TRAININGS = ("plain", "robust")
LOCAL, TOTAL = 3, 5
SMOOTHING = {1: 83.0, 2: 76.0, 3: 70.9, 5: 65.1, 10: 59.3}
"""Published shares of nodes of Cora-ML that a smoothed GCN keeps when r edges are deleted anywhere; other nodes."""
TOTALS = tuple(range(1, 11))


class TwoLayers(nn.Module):
    """ReLU between the layers, class scores after them."""

    def __init__(self, arrays: Any, training: str) -> None:
        super().__init__()
        features, hidden = arrays[f"{training}_w1"].shape
        self.conv1, self.conv2 = GCNConv(features, hidden), GCNConv(hidden, arrays[f"{training}_w2"].shape[1])
        with torch.no_grad():
            for number, conv in enumerate((self.conv1, self.conv2), start=1):
                conv.lin.weight.copy_(torch.from_numpy(arrays[f"{training}_w{number}"].T.copy()))
                conv.bias.copy_(torch.from_numpy(arrays[f"{training}_b{number}"]))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = self.conv1(x, edge_index).relu()
        return self.conv2(hidden, edge_index)


@dataclass
class Margins:
    """The margins of some nodes' predictions against every class, and what is known about each.

    Args:
        directions: the score of the predicted class less that of each class, ``(N, C, C)``.
        proved: ``(A, C)``; that against itself is.
        refuted: ``(A, C)``.
    """

    nodes: Tensor
    directions: Tensor
    proved: Tensor
    refuted: Tensor

    @classmethod
    def of(cls, network: certgcl.GraphNetwork, graph: certgcl.Graph, nodes: Tensor) -> "Margins":
        with torch.no_grad():
            predicted = network.to(torch.float64).embed(graph.to(dtype=torch.float64)).argmax(dim=1)
        units = torch.eye(network.width, dtype=torch.float64)
        directions = units[predicted][:, None] - units
        proved = torch.nn.functional.one_hot(predicted[nodes], network.width).bool()
        return cls(nodes, directions, proved, torch.zeros_like(proved))

    def summary(self) -> dict[str, float]:
        """Shares of the nodes, in percent."""
        return {
            "proved": 100 * float(self.proved.all(dim=1).double().mean()),
            "refuted": 100 * float(self.refuted.any(dim=1).double().mean()),
        }

    def bounded(self, network: certgcl.GraphNetwork, graph: certgcl.Graph, budget: certgcl.EdgeDropBudget) -> None:
        """All margins by ``degree``."""
        self.proved |= certgcl.linear_bounds(network, graph, budget, self.directions, nodes=self.nodes).positive

    def searched(
        self, network: certgcl.GraphNetwork, graph: certgcl.Graph, budget: certgcl.EdgeDropBudget, **limits: float
    ) -> None:
        """The margins that are left, class by class; a node that is refuted needs no more."""
        for rival in range(self.directions.shape[1]):
            places = (~self.proved[:, rival] & ~self.refuted.any(dim=1)).nonzero()[:, 0]
            if len(places):
                name = "optimized" if "branches" in limits else "exact"
                method = certgcl.bounds.get_method(
                    name,
                    time_limit=limits["seconds"] * len(places) if "seconds" in limits else None,
                    branch_limit=int(limits["branches"]) if "branches" in limits else None,
                )
                found = certgcl.linear_bounds(
                    network,
                    graph,
                    budget,
                    self.directions[:, rival].contiguous(),
                    nodes=self.nodes[places],
                    method=method,
                )
                self.proved[places, rival] |= found.positive
                self.refuted[places, rival] |= found.negative


def measure(
    graph_name: str,
    training: str,
    local: int | None,
    total: int,
    count: int,
    branches: int,
    seconds: float,
    exact: bool,
) -> dict[str, Any]:
    """The shares of the nodes that are proved and refuted after each stage, and its CPU seconds."""
    root = data_root()
    if root is None:
        raise SystemExit("CERTGCL_DATA does not name the folder with KDD20/")
    arrays = np.load(root / "KDD20" / f"{GRAPHS[graph_name]}.npz")
    features = torch.zeros(*arrays["shape"].tolist())
    features[tuple(torch.from_numpy(arrays["x_index"].astype(np.int64)))] = 1.0
    graph = certgcl.Graph.of((features, torch.from_numpy(arrays["edge_index"].astype(np.int64))))
    network = certgcl.read_network(TwoLayers(arrays, training).eval(), graph)
    at_each = None if local is None else (graph.degree - 1).clamp(min=0, max=local)
    budget = certgcl.EdgeDropBudget(at_each, total)
    margins = Margins.of(network, graph, torch.from_numpy(arrays["nodes"].astype(np.int64))[:count])
    row: dict[str, Any] = {
        "graph": graph_name,
        "training": training,
        "local": local,
        "total": total,
        "nodes": len(margins.nodes),
        "branches": branches,
    }
    stages = {
        "degree": lambda: margins.bounded(network, graph, budget),
        "optimized": lambda: margins.searched(network, graph, budget, branches=branches),
    }
    if exact:
        stages["exact"] = lambda: margins.searched(network, graph, budget, seconds=seconds)
    for name, stage in stages.items():
        start = time.process_time()
        stage()
        row[name] = margins.summary() | {"seconds": time.process_time() - start}
    print(row, flush=True)
    return row


def main() -> None:
    parser = report.parser(__doc__, threads=1)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--branches", type=int, default=1024, help="of optimized, for each margin")
    parser.add_argument("--seconds", type=float, default=1.0, help="of exact, for each margin")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    questions = [(graph, training, LOCAL, TOTAL, True) for graph in GRAPHS for training in TRAININGS]
    questions += [("Cora-ML", "plain", None, total, False) for total in TOTALS]
    rows: list[dict[str, Any]] = []
    for graph, training, local, total, exact in questions:
        rows.append(
            measure(graph, training, local, total, arguments.nodes, arguments.branches, arguments.seconds, exact)
        )
        report.save("structure_on_kdd20_weights", arguments.json, rows=rows, aims=aims(rows))
    report.publish("structure_on_kdd20_weights", arguments.json, rows=rows, aims=aims(rows))


def aims(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    five = next((row for row in rows if row["local"] is None and row["total"] == 5), None)
    return [
        report.aim(
            "Cora-ML, 5 edges anywhere: proved by optimized, %",
            None if five is None else five["optimized"]["proved"],
            at_least=SMOOTHING[5],
        )
    ]


def tables(result: dict[str, Any]) -> list[str]:
    """Shares in percent, and CPU seconds for all nodes."""

    def stage(row: dict[str, Any], name: str) -> list[Any]:
        found = row.get(name)
        return [None] * 3 if found is None else [found["proved"], found["refuted"], found["seconds"]]

    local = [
        [
            f"{row['graph']}, {row['training']}",
            row["nodes"],
            *stage(row, "degree")[::2],
            *stage(row, "optimized"),
            *stage(row, "exact"),
        ]
        for row in result["rows"]
        if row["local"] is not None
    ]
    totals = [
        [
            row["total"],
            *stage(row, "degree")[::2],
            *stage(row, "optimized"),
            row["branches"],
            SMOOTHING.get(row["total"]),
        ]
        for row in result["rows"]
        if row["local"] is None
    ]
    return [
        report.markdown(
            [
                f"at most {LOCAL} edges a node, {TOTAL} in all",
                "nodes",
                "`degree` proves, %",
                "s",
                "`optimized` proves, %",
                "refutes, %",
                "s more",
                "`exact` proves, %",
                "refutes, %",
                "s more",
            ],
            local,
        ),
        report.markdown(
            [
                "Cora-ML, plain: edges anywhere",
                "`degree` proves, %",
                "s",
                "`optimized` proves, %",
                "refutes, %",
                "s more",
                "branches",
                "smoothing (published), %",
            ],
            totals,
        ),
    ]


if __name__ == "__main__":
    main()
