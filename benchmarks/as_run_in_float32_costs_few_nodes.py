"""Certifying the model as it runs in float32, not only in exact arithmetic, costs less than 1 % of the nodes of a real
graph.

GRACE with the fast preset, at random weights and after some epochs, in float32; drop rates 0.1 and 0.4; bounds by
``degree-fast`` in float64. It counts the nodes that are positive in exact arithmetic but not as the model is run.

``CERTGCL_DATA=... python -m benchmarks.as_run_in_float32_costs_few_nodes [--graphs Cora,Photo] [--json FILE] [--keep]``
"""

import json
from typing import Any

import torch

import certgcl
from benchmarks import measure, report
from benchmarks.real_graphs import load
from certgcl.learning import presets

GRAPHS = ("Cora", "CiteSeer", "PubMed", "Photo", "BlogCatalog", "Flickr", "Computers")
RATES = (0.1, 0.4)
EPOCHS = (0, 20)
AT_MOST = 0.01


def nodes_lost(name: str, epochs: int) -> list[dict[str, Any]]:
    """A row for each drop rate."""
    graph, settings = certgcl.Graph.of(load(name)), presets.get("grace", name, fast=True).settings()
    model: certgcl.ContrastiveMethod | certgcl.GCNEncoder
    if epochs:
        model = certgcl.GRACE(**{**settings, "epochs": epochs}).fit(graph)
    else:
        torch.manual_seed(0)
        model = certgcl.GCNEncoder(graph.num_features, 2 * settings["hidden"], settings["hidden"])
    rows = []
    for rate in RATES:
        found = certgcl.node_compactness(model, graph, rate, method="degree-fast")
        exact, run = (int(kept.sum()) for kept in (found.positive_in_exact_arithmetic, found.positive))
        rows.append(
            {
                "graph": name,
                "epochs": epochs,
                "rate": rate,
                "nodes": graph.num_nodes,
                "exact": exact,
                "run": run,
                "precision": found.precision,
                "median_run_error_of_clean": float((found.run_error / found.nominal.abs()).median()),
                "median_rounding_of_clean": float((found.rounding / found.nominal.abs()).median()),
            }
        )
    return rows


def main() -> None:
    parser = report.parser(__doc__)
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--keep", action="store_true", help="keep the rows of other graphs that FILE holds")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    asked = arguments.graphs.split(",")
    rows: list[dict[str, Any]] = []
    if arguments.keep and arguments.json.exists():
        rows = [row for row in json.loads(arguments.json.read_text())["rows"] if row["graph"] not in asked]
    for name in asked:
        for epochs in EPOCHS:
            rows += measure.in_fresh_process(nodes_lost, name, epochs)
            print(*rows[-len(RATES) :], sep="\n", flush=True)
        rows.sort(key=lambda row: (GRAPHS.index(row["graph"]), row["epochs"], row["rate"]))
        report.save("as_run_in_float32_costs_few_nodes", arguments.json, rows=rows, aims=aims(rows))
    report.publish("as_run_in_float32_costs_few_nodes", arguments.json, rows=rows, aims=aims(rows))


def aims(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    def worst(trained: bool) -> float | None:
        return max(
            ((row["exact"] - row["run"]) / row["nodes"] for row in rows if bool(row["epochs"]) == trained), default=None
        )

    return [
        report.aim("the largest share of nodes lost, trained", worst(True), at_most=AT_MOST),
        report.aim("the largest share of nodes lost, random weights", worst(False), at_most=AT_MOST),
    ]


def tables(result: dict[str, Any]) -> list[str]:
    return [
        report.markdown(
            [
                "graph",
                "weights",
                "drop rate",
                "proved > 0, exact arithmetic, %",
                "as run in float32, %",
                "lost, % of nodes",
                "median run error / clean",
            ],
            [
                [
                    row["graph"],
                    f"{row['epochs']} epochs" if row["epochs"] else "random",
                    row["rate"],
                    100 * row["exact"] / row["nodes"],
                    100 * row["run"] / row["nodes"],
                    100 * (row["exact"] - row["run"]) / row["nodes"],
                    row["median_run_error_of_clean"],
                ]
                for row in result["rows"]
            ],
        )
    ]


if __name__ == "__main__":
    main()
