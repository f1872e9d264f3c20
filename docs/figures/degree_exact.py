"""Draws ``degree_exact.svg``: one row of Â as the box sees it, and as the row lemma does.

``python -m docs.figures.degree_exact`` from the root of the project.
"""

from itertools import combinations
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from docs.figures.style import BLUE, INK, ORANGE, RED, save

LEAVES = {"a": 0.9, "b": 0.6, "c": 0.3, "d": -0.7}  # what each neighbour of the centre j has to give: v_k
OWN, BUDGET = 0.2, 2  # what j gives itself; how many edges it may lose
LEAF_SCALE = 2**-0.5  # of a leaf that keeps its only edge
COLOURS = dict(zip(("j", *LEAVES), (INK, "#1f6fa8", BLUE, "#6fb3dc", ORANGE), strict=True))

Row = dict[str, float]
"""The terms ``Â_jk v_k`` of one row, by node."""


def scale(lost: int) -> float:
    """``s_j(t)``: that of the centre when it has lost so many edges."""
    return (len(LEAVES) + 1 - lost) ** -0.5


def row(dropped: tuple[str, ...]) -> Row:
    """The terms of the row without some edges: every entry has the same ``s_j``."""
    s = scale(len(dropped))
    return {"j": s * s * OWN} | {k: s * LEAF_SCALE * v for k, v in LEAVES.items() if k not in dropped}


def worst_row(lost: int) -> Row:
    """The least row with exactly so many drops: those of the largest terms."""
    return min((row(dropped) for dropped in combinations(LEAVES, lost)), key=total)


def box_row() -> Row:
    """Each entry at the end of its own range that is worse, whatever the others do."""
    highest = scale(BUDGET) * LEAF_SCALE
    own = (scale(0) ** 2 if OWN > 0 else scale(BUDGET) ** 2) * OWN
    return {"j": own} | {k: highest * v for k, v in LEAVES.items() if v < 0}


def total(terms: Row) -> float:
    return sum(terms.values())


def draw_graph(axes: Axes) -> None:
    places = {"a": (-0.8, 0.8), "b": (0.8, 0.8), "c": (0.8, -0.8), "d": (-0.8, -0.8)}
    for name, (x, y) in places.items():
        axes.plot([0, x], [0, y], color=INK, linewidth=1.5, zorder=1)
        axes.plot(x, y, "o", color=COLOURS[name], markersize=24)
        axes.text(x, y, name, color="white", ha="center", va="center", weight="bold")
        axes.text(x, y + (0.36 if y > 0 else -0.36), f"gives {LEAVES[name]:+.1f}", ha="center", va="center")
    axes.plot(0, 0, "o", color=COLOURS["j"], markersize=30)
    axes.text(0, 0, "j", color="white", ha="center", va="center", weight="bold")
    axes.text(0.28, 0, f"may lose {BUDGET} edges", ha="left", va="center")
    axes.set(xlim=(-1.25, 1.45), ylim=(-1.4, 1.4), aspect="equal")
    axes.set_axis_off()


def draw_rows(axes: Axes) -> None:
    rows = {"as it is": row(()), "worst, 1 lost": worst_row(1), "worst, 2 lost": worst_row(2), "box": box_row()}
    least = min(total(worst_row(lost)) for lost in range(BUDGET + 1))
    for height, (name, terms) in enumerate(rows.items()):
        ends = {1: 0.0, -1: 0.0}
        for node, value in terms.items():
            side = 1 if value > 0 else -1
            axes.barh(-height, value, left=ends[side], color=COLOURS[node], height=0.55)
            ends[side] += value
        colour = RED if name == "box" else BLUE if total(terms) == least else INK
        axes.plot([total(terms)] * 2, [-height - 0.4, -height + 0.4], color=colour, linewidth=2.5)
        axes.text(0.76, -height, f"{total(terms):+.2f}", ha="right", va="center", color=colour, weight="bold")
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.axhline(-2.5, color=INK, linewidth=0.8, linestyle=":")
    axes.set(
        yticks=[-height for height in range(len(rows))],
        yticklabels=list(rows),
        xlim=(-0.36, 0.78),
        xlabel="terms of the row of j, and their sum",
    )
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.text(
        0.76,
        -3.45,
        "a, b and c gone and d scaled up as if two were: no such graph",
        ha="right",
        va="center",
        color=RED,
        fontsize=9,
    )
    axes.set_ylim(-3.7, 0.5)


def main(folder: Path | None = None) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.3), width_ratios=(1, 1.9), layout="constrained")
    draw_graph(left)
    draw_rows(right)
    save(figure, "degree_exact", folder)


if __name__ == "__main__":
    main()
