"""Figures in one style, as PNG and SVG; drawn from rows, so that each shows exactly the contents of its CSV file."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from certgcl.experiments.tables import Row, column, over_norm, spread
from certgcl.runtime.optional_packages import needing

Figure: TypeAlias = Any  # matplotlib's, whose types exist only if that extra is installed
Axes: TypeAlias = Any

COLOURS = {"plain": "0.45", "released": "#d55e00", "clean": "#cc79a7", "certified": "#0072b2", "supervised": "#009e73"}
NAMES = {
    "plain": "plain",
    "released": "with the paper's score",
    "clean": "with clean compactness",
    "certified": "with the certified bound",
    "supervised": "supervised",
}
SCORES = {"paper_score": "the paper's score (not a bound)", "certified_bound": "certified lower bound"}
SHORT = {"paper_score": "paper's score", "certified_bound": "certified bound"}
SCORE_COLOURS = {"paper_score": COLOURS["released"], "certified_bound": COLOURS["certified"]}
BINS = 40  # at most; fewer for few values
APART = 0.09  # of the range of all points: labels of nearer ones would overlap
FAR = 4  # times the range of all other values: lines that start farther away are cut off
STYLE: Any = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": "medium",
    "font.size": 9,
    "legend.frameon": False,
    "legend.fontsize": "small",
    "svg.hashsalt": "certgcl",
    "savefig.dpi": 130,
}


@contextmanager
def styled() -> Iterator[None]:
    """The style of all figures; entered first, because it checks whether figures can be drawn."""
    with needing("plots", "drawing figures"):
        from matplotlib import rc_context
    with rc_context(STYLE):
        yield


def grid(rows: int, panels: int, title: str) -> tuple[Figure, Sequence[Sequence[Axes]]]:
    """An empty figure with ``panels`` in a row; four are laid out as two by two, so that the text stays large."""
    from matplotlib import figure as drawing

    columns = panels if panels < 4 else panels // 2
    lines = rows * panels // columns
    figure: Figure = drawing.Figure(figsize=(3.3 * columns, 2.7 * lines + 0.4), layout="constrained")
    figure.suptitle(title, fontsize="medium", x=0.01, ha="left", fontweight="bold")
    return figure, figure.subplots(lines, columns, squeeze=False).reshape(rows, panels)


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write ``stem.png`` and ``stem.svg``, the same bytes for the same numbers."""
    paths = [stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "svg")]
    for path in paths:
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else {"Software": None})
    return paths


def histogram(axes: Axes, values: Mapping[str, Sequence[float]], colours: Mapping[str, str]) -> None:
    """Shares of nodes over common bins, with dashed lines at the quartiles of each."""
    everything = np.concatenate([np.asarray(one, dtype=float) for one in values.values()])
    edges = np.histogram_bin_edges(everything, bins=min(BINS, max(8, round(2 * len(everything) ** 0.5))))
    for name, one in values.items():
        weights = np.full(len(one), 100 / len(one))
        axes.hist(one, bins=edges, weights=weights, color=colours[name], alpha=0.55, label=name)
        for quartile in np.quantile(one, (0.25, 0.5, 0.75)):
            axes.axvline(quartile, color=colours[name], linestyle="--", linewidth=1)
    axes.set_ylabel("nodes, %")


def line(axes: Axes, groups: dict[float, list[Row]], name: str, variant: str, *, normed: bool = False) -> None:
    """The mean of a column over the rows at each place, with their standard deviation as bars."""
    at = list(groups)
    means, deviations = zip(
        *(spread(over_norm(rows, name) if normed else column(rows, name)) for rows in groups.values()), strict=True
    )
    axes.errorbar(
        at,
        means,
        deviations if any(deviations) else None,
        marker="o",
        markersize=3,
        linewidth=1.2,
        capsize=2,
        color=COLOURS[variant],
        label=NAMES[variant],
    )


def bars(axes: Axes, groups: dict[str, dict[str, list[float]]]) -> None:
    """For each group a bar per variant: the mean of its values, and their standard deviation."""
    variants = list(dict.fromkeys(variant for group in groups.values() for variant in group))
    width = 0.8 / max(map(len, groups.values()))
    for place, group in enumerate(groups.values()):
        for offset, (variant, values) in enumerate(group.items()):
            mean, deviation = spread(values)
            axes.bar(
                place + (offset - (len(group) - 1) / 2) * width,
                mean,
                width,
                yerr=deviation or None,
                capsize=2,
                color=COLOURS[variant],
            )
    axes.set_xticks(range(len(groups)), list(groups))
    for variant in variants:
        axes.bar(0, 0, color=COLOURS[variant], label=NAMES[variant])


def zoomed(axes: Axes, values: Sequence[float]) -> None:
    """An axis that begins below the least value if zero is far away; the label says so, because bars would mislead
    otherwise."""
    low, high = min(values), max(values)
    if low > 0.5 * high > 0:
        axes.set_ylim(low - 0.6 * (high - low) - 0.01 * high, high + 0.2 * (high - low) + 0.01 * high)
        axes.set_ylabel(f"{axes.get_ylabel()} (axis cut)")


def degree_axis(axes: Axes) -> None:
    """Degrees on a logarithmic axis with room for zero, and ticks at 1, 2 and 5 of every decade."""
    from matplotlib.ticker import SymmetricalLogLocator

    axes.set_xscale("symlog", linthresh=1)
    axes.xaxis.set_major_locator(SymmetricalLogLocator(base=10, linthresh=1, subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")


def without_start(axes: Axes, start: Sequence[float], later: Sequence[float]) -> None:
    """If a line starts so far away that everything else looks flat, the axis shows the rest, and a note says where it
    starts."""
    low, high = min(later), max(later)
    if max(high, *start) - min(low, *start) <= FAR * (high - low):
        return
    axes.set_ylim(low - 0.25 * (high - low), high + 0.1 * (high - low))  # with room for the note
    axes.text(
        0.98,
        0.03,
        f"off the axis: epoch 0 at {spread(start)[0]:.2g}",
        transform=axes.transAxes,
        ha="right",
        fontsize="small",
        color="0.35",
    )


def label_points(
    axes: Axes, points: Sequence[tuple[float, float]], labels: Sequence[str], limits: Sequence[tuple[float, float]]
) -> None:
    """Labels next to points, except for those too near the previous labelled one; the last is always labelled.

    Args:
        limits: the ranges of x and y that distances are measured by.
    """
    sizes = np.array([high - low or 1.0 for low, high in limits])
    places = np.array(points) / sizes
    kept = [len(points) - 1]
    for place in range(len(points) - 2, -1, -1):
        if np.abs(places[place] - places[kept[-1]]).max() > APART:
            kept.append(place)
    for place in kept:
        axes.annotate(labels[place], points[place], textcoords="offset points", xytext=(3, 3), fontsize=7)


def legend_below(figure: Figure, axes: Axes) -> None:
    """One legend for all panels."""
    handles, names = axes.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names))
