"""Brackets on a real graph: how far the certified lower bound is from a value that some drop reaches.

GRACE on Cora with its preset (256, 128, ReLU, 200 epochs), plain and certified (256 anchors an epoch). For all nodes,
with ``q = round(0.4 d)`` and then with every edge droppable: ``degree`` with the search, ``optimized``, and ``exact``
in ten minutes on all cores, with the share of nodes closed over time.

``CERTGCL_DATA=... python -m benchmarks.brackets_on_cora [--nodes N] [--seconds 600] [--workers 2] [--json FILE]``

writes ``benchmarks/results/brackets_on_cora.csv`` and draws ``docs/figures/brackets_on_cora.png``.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import certgcl
from benchmarks import report
from certgcl.bounds import BranchAndBound
from certgcl.experiments import figures
from certgcl.experiments.tables import write_csv
from certgcl.experiments.variants import regularizer
from certgcl.learning import presets

ENCODERS = ("plain", "certified")
ANCHORS = 256  # anchors of the certified regularizer in an epoch; all nodes of Cora would take hours
CLOSE = 0.01  # of the clean value
POINTS = 60  # of a curve
CURVES = Path(__file__).parent / "results" / "brackets_on_cora.csv"
FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "brackets_on_cora"


def trained(encoder: str) -> tuple[certgcl.GraphNetwork, certgcl.Graph]:
    data, preset = certgcl.load_dataset("Cora"), presets.get("grace", "Cora")
    model = certgcl.GRACE(**preset.settings(), regularizer=regularizer(encoder, preset, anchors=ANCHORS)).fit(data)
    graph = certgcl.Graph.of(data)
    return certgcl.read_network(model, graph), graph


def budgets(graph: certgcl.Graph) -> dict[str, certgcl.EdgeDropBudget]:
    return {
        "round(0.4 d)": certgcl.EdgeDropBudget.from_drop_rate(0.4),
        "every edge": certgcl.EdgeDropBudget(graph.degree),
    }


class Watch:
    """How many nodes are closed after how many seconds."""

    def __init__(self) -> None:
        self.start, self.closed = time.perf_counter(), list[tuple[float, int]]()

    def __call__(self, closed: int, _: int) -> None:
        self.closed.append((self.seconds(), closed))

    def seconds(self) -> float:
        return time.perf_counter() - self.start

    def points(self) -> Sequence[tuple[float, int]]:
        return self.closed[:: max(1, len(self.closed) // POINTS)] + self.closed[-1:]


def bracket(certificate: certgcl.Certificate) -> dict[str, Any]:
    assert certificate.upper is not None
    gap = certificate.upper - certificate.lower
    width = gap / certificate.nominal.abs()
    return {
        "sign": _share(certificate.positive | certificate.negative),
        "median_width": float(width.median()),
        "mean_width": float(gap.mean() / certificate.nominal.mean()),
        "close": _share(width <= CLOSE),
        "exact": _share(certificate.exact),
    }


def _share(of: Tensor) -> float:
    return float(of.double().mean())


def measure(encoder: str, nodes: int | None, seconds: float, workers: int) -> tuple[list[Any], list[Any]]:
    """Rows of the table and of the curves."""
    weights, graph = trained(encoder)
    chosen = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(0))[:nodes].sort().values
    rows, curves = [], []
    for label, budget in budgets(graph).items():
        for name, limits in (
            ("degree", {"branch_limit": 0}),
            ("optimized", {"branch_limit": 128}),
            ("exact", {"time_limit": seconds}),
        ):
            watch = Watch()
            method = BranchAndBound(**limits, workers=workers, progress=watch)
            certificate = certgcl.node_compactness(weights, graph, budget, nodes=chosen, method=method)
            rows.append(
                {
                    "encoder": encoder,
                    "budget": label,
                    "method": name,
                    "nodes": len(chosen),
                    "seconds": watch.seconds(),
                    **bracket(certificate),
                }
            )
            print(rows[-1], flush=True)
        curves += [
            {"encoder": encoder, "budget": label, "seconds": round(at, 1), "closed": closed / len(chosen)}
            for at, closed in watch.points()
        ]
    return rows, curves


def draw(curves: list[dict[str, Any]]) -> None:
    labels = list(dict.fromkeys(point["budget"] for point in curves))
    with figures.styled():
        figure, (panels,) = figures.grid(1, len(labels), "Nodes of Cora whose worst case is known exactly")
        for axes, label in zip(panels, labels, strict=True):
            for encoder in ENCODERS:
                here = [point for point in curves if point["budget"] == label and point["encoder"] == encoder]
                axes.plot(
                    [point["seconds"] for point in here],
                    [100 * point["closed"] for point in here],
                    color=figures.COLOURS[encoder],
                    label=encoder,
                )
            axes.set(
                title=f"q = {label}" if "(" in label else label,
                xlabel="seconds",
                ylabel="nodes closed, %",
                ylim=(0, 100),
            )
        panels[0].legend()
        figures.save(figure, FIGURE)


def main() -> None:
    parser = report.parser(__doc__)
    parser.add_argument("--nodes", type=int, help="a random sample of this number of nodes; all by default")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--workers", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    rows, curves = [], []
    for encoder in ENCODERS:
        found, points = measure(encoder, arguments.nodes, arguments.seconds, arguments.workers)
        rows += found
        curves += points
    write_csv(CURVES, curves)
    draw(curves)
    aims = [
        report.aim(f"{row['encoder']}, {row['method']}: {what}", row[key], **limits)
        for row in rows
        if row["budget"] != "every edge"
        for what, key, method, limits in (
            ("certified sign", "sign", "optimized", {"at_least": 0.99}),
            ("median width", "median_width", "optimized", {"at_most": 0.01}),
            ("exact", "exact", "exact", {"at_least": 0.5}),
        )
        if method == row["method"]
    ]
    report.publish("brackets_on_cora", arguments.json, workers=arguments.workers, rows=rows, aims=aims)


def tables(result: dict[str, Any]) -> list[str]:
    """Shares and widths in percent."""
    return [
        report.markdown(
            [
                "encoder",
                "q",
                "method",
                "seconds",
                "certified sign, %",
                "median width, %",
                "mean width, %",
                "within 1 %, %",
                "exact, %",
            ],
            [
                [
                    row["encoder"],
                    row["budget"],
                    row["method"],
                    row["seconds"],
                    *(100 * row[key] for key in ("sign", "median_width", "mean_width", "close", "exact")),
                ]
                for row in result["rows"]
            ],
        )
    ]


if __name__ == "__main__":
    main()
