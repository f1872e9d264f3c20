"""Draws ``counterexample_paper.svg`` and ``counterexample_released.svg`` from the cases that the audit tests.

``python -m docs.figures.counterexamples`` from the root of the project; needs the extra ``verify``.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import networkx as nx
from matplotlib.axes import Axes

from docs.figures.style import BLUE, INK, RED, save
from verification.audit import certify
from verification.case import Case
from verification.oracle import admissible_drops, enumerated_minimum
from verification.test_counterexamples import column, papers_case

CASES = {
    "paper": papers_case(nx.path_graph(4), column(1, 0, 0, 0), column(1), column(1)),
    "released": papers_case(nx.path_graph(3), column(1, 0, -1), column(1), column(1)),
}


def draw_graph(axes: Axes, case: Case) -> None:
    """The path, what every node has and may lose, and the edges that some admissible drop takes."""
    droppable = {edge for drops in admissible_drops(case) for edge in drops}
    for u, v in case.edges:
        gone = (u, v) in droppable
        axes.plot(
            [u, v], [0, 0], color=RED if gone else INK, linestyle=(0, (3, 2)) if gone else "-", linewidth=2, zorder=1
        )
        if gone:
            axes.text((u + v) / 2, -0.13, "may go", ha="center", va="top", color=RED, fontsize=9)
    for node, budget in enumerate(case.node_budgets()):
        axes.plot(node, 0, "o", color=INK, markersize=24)
        axes.text(node, 0, str(node), color="white", ha="center", va="center", weight="bold")
        axes.text(node, 0.3, f"x = {float(case.x[node, 0]):g}\nq = {budget}", ha="center", va="bottom", fontsize=9)
    axes.set(xlim=(-0.5, case.nodes - 0.5), ylim=(-0.5, 0.8))
    axes.set_axis_off()


def draw_values(axes: Axes, case: Case, formula: str) -> None:
    """At every node: the least value that a graph reaches, and what the formula and ``degree`` say it is at least."""
    claimed, truth, degree = certify(case, formula).lower, enumerated_minimum(case), certify(case, "degree").lower
    for node in range(case.nodes):
        wrong = bool(claimed[node] > truth[node] + 1e-9)
        if wrong:
            axes.plot([node, node], [truth[node], claimed[node]], color=RED, linewidth=1.2, linestyle=":", zorder=1)
            axes.text(
                node + 0.1, float(claimed[node]), f"{float(claimed[node]):.3f}", color=RED, va="center", fontsize=9
            )
            axes.text(node + 0.1, float(truth[node]), f"{float(truth[node]):.3f}", va="center", fontsize=9)
        first = node == 0
        axes.plot(node, truth[node], "o", color=INK, markersize=10, label="least value reached" if first else None)
        axes.plot(node, degree[node], "o", color=BLUE, markersize=4, label="degree: at least" if first else None)
        axes.plot(
            node,
            claimed[node],
            "v",
            color=RED,
            markersize=7,
            markerfacecolor="none",
            markeredgewidth=1.6,
            label=f"{formula}: “at least”" if first else None,
        )
    top = float(claimed.maximum(truth).max())
    axes.set(
        xlim=(-0.5, case.nodes - 0.5),
        ylim=(-0.08 * top, 1.12 * top),
        xticks=range(case.nodes),
        xlabel="node",
        ylabel="node compactness",
    )
    axes.legend(frameon=False, loc="upper right", fontsize=9)


def main(folder: Path | None = None) -> None:
    for formula, case in CASES.items():
        figure, (left, right) = plt.subplots(1, 2, figsize=(9, 2.9), width_ratios=(1, 1.2), layout="constrained")
        draw_graph(left, case)
        draw_values(right, case, formula)
        save(figure, f"counterexample_{formula}", folder)


if __name__ == "__main__":
    main()
