"""The total budget counts: how many nodes are certified against the budget at each node, and against the one in all.

GRACE on Cora and CiteSeer with the fast preset, plain and certified. ``degree`` for all nodes: with q edges at each
node and no limit in all; then with three at each node and Q in all, compared with the bound that ignores Q.

``CERTGCL_DATA=... python -m benchmarks.total_budget_counts [--graphs Cora CiteSeer] [--json FILE]``

writes ``benchmarks/results/budget_curves.csv`` and draws ``docs/figures/budget_curves.png``.
"""

from pathlib import Path
from typing import Any

import torch

import certgcl
from benchmarks import report
from certgcl.experiments import figures
from certgcl.experiments.tables import write_csv
from certgcl.experiments.variants import regularizer
from certgcl.learning import presets

LOCAL = (1, 2, 3, 4, 6, 8, 12)
TOTAL = (1, 2, 3, 5, 10, 20, 50)
AT_EACH = 3
ENCODERS = ("plain", "certified")
CURVES = Path(__file__).parent / "results" / "budget_curves.csv"
FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "budget_curves"


def measure(graph_name: str, encoder: str) -> list[dict[str, Any]]:
    data, preset = certgcl.load_dataset(graph_name), presets.get("grace", graph_name, fast=True)
    graph = certgcl.Graph.of(data)
    model = certgcl.GRACE(**preset.settings(), regularizer=regularizer(encoder, preset)).fit(data)
    rows = []
    for local, total in [(q, None) for q in LOCAL] + [(AT_EACH, most) for most in TOTAL]:
        found = certgcl.node_compactness(model, graph, certgcl.EdgeDropBudget(local, total))
        rows.append(
            {
                "graph": graph_name,
                "encoder": encoder,
                "local": local,
                "total": total,
                "share": found.share_positive,
                "kept": float(found.lower.mean() / found.nominal.mean()),
            }
        )
        print(rows[-1], flush=True)
    return rows


def draw(rows: list[dict[str, Any]]) -> None:
    graphs = list(dict.fromkeys(row["graph"] for row in rows))
    with figures.styled():
        figure, panels = figures.grid(len(graphs), 2, "What is certified under larger budgets")
        for line, graph in zip(panels, graphs, strict=True):
            for encoder in ENCODERS:
                here = [row for row in rows if row["graph"] == graph and row["encoder"] == encoder]
                at_each = [row for row in here if row["total"] is None]
                in_all = [row for row in here if row["total"] is not None]
                (ignoring,) = (row for row in at_each if row["local"] == AT_EACH)
                colour = figures.COLOURS[encoder]
                for axes, key, part in ((line[0], "local", at_each), (line[1], "total", in_all)):
                    axes.plot(
                        [row[key] for row in part],
                        [100 * row["share"] for row in part],
                        "o-",
                        color=colour,
                        label=f"{encoder}: nodes certified, %",
                        markersize=3,
                    )
                    axes.plot(
                        [row[key] for row in part],
                        [100 * row["kept"] for row in part],
                        "s--",
                        color=colour,
                        label="mean bound, % of clean",
                        markersize=3,
                    )
                line[1].axhline(100 * ignoring["kept"], color=colour, linestyle=":", label="the same, Q ignored")
            line[0].set(title=graph, xlabel="edges at each node, q")
            line[1].set(title=f"{graph}, q = {AT_EACH}", xlabel="edges in all, Q", xscale="log")
        panels[0][1].legend()
        figures.save(figure, FIGURE)


def main() -> None:
    parser = report.parser(__doc__)
    parser.add_argument("--graphs", nargs="+", default=["Cora", "CiteSeer"])
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    rows = [row for graph in arguments.graphs for encoder in ENCODERS for row in measure(graph, encoder)]
    write_csv(CURVES, rows)
    draw(rows)
    report.publish("total_budget_counts", arguments.json, rows=rows, aims=[])


def tables(result: dict[str, Any]) -> list[str]:
    """The gain of the total budget; the mean bound and the share of certified nodes in percent."""
    rows, lines = result["rows"], []
    for row in rows:
        if row["total"] is not None or row["local"] == AT_EACH:
            limit = "ignored" if row["total"] is None else row["total"]
            lines.append([f"{row['graph']}, {row['encoder']}", limit, 100 * row["kept"], 100 * row["share"]])
    return [report.markdown(["GRACE", "Q", "mean bound, % of the clean mean", "certified nodes, %"], lines)]


if __name__ == "__main__":
    main()
