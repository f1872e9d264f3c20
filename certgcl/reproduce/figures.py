"""Figures in one style, as PNG and SVG; drawn from rows, so that each shows what its CSV file holds."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from certgcl.extras import needing
from certgcl.reproduce.tables import Row, column, over_norm, spread

Figure: TypeAlias = Any  # matplotlib's: its types are no more there than the extra that brings it
Axes: TypeAlias = Any

COLOURS = {"plain": "0.45", "released": "#d55e00", "certified": "#0072b2", "supervised": "#009e73"}
NAMES = {"plain": "plain", "released": "with the paper's score", "certified": "with the certified bound",
         "supervised": "supervised"}
SCORES = {"paper_score": "the paper's score (not a bound)", "certified_bound": "certified lower bound"}
SHORT = {"paper_score": "paper's score", "certified_bound": "certified bound"}
SCORE_COLOURS = {"paper_score": COLOURS["released"], "certified_bound": COLOURS["certified"]}
BINS = 40
STYLE: Any = {"axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": "medium", "font.size": 9,
         "legend.frameon": False, "legend.fontsize": "small", "svg.hashsalt": "certgcl", "savefig.dpi": 130}


@contextmanager
def styled() -> Iterator[None]:
    """The style of all figures; the first thing to enter, for it finds out whether figures can be drawn."""
    with needing("plots", "drawing figures"):
        from matplotlib import rc_context
    with rc_context(STYLE):
        yield


def grid(rows: int, columns: int, title: str) -> tuple[Figure, Sequence[Sequence[Axes]]]:
    """An empty figure of so many panels."""
    from matplotlib import figure as drawing

    figure: Figure = drawing.Figure(figsize=(3.3 * columns, 2.7 * rows + 0.4), layout="constrained")
    figure.suptitle(title, fontsize="medium", x=0.01, ha="left", fontweight="bold")
    return figure, figure.subplots(rows, columns, squeeze=False)


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write ``stem.png`` and ``stem.svg``, the same bytes for the same numbers."""
    paths = [stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "svg")]
    for path in paths:
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else {"Software": None})
    return paths


def histogram(axes: Axes, values: Mapping[str, Sequence[float]], colours: Mapping[str, str]) -> None:
    """Shares of nodes over common bins, with dashed lines at the quartiles of each."""
    everything = np.concatenate([np.asarray(one, dtype=float) for one in values.values()])
    edges = np.histogram_bin_edges(everything, bins=BINS)
    for name, one in values.items():
        weights = np.full(len(one), 100 / len(one))
        axes.hist(one, bins=edges, weights=weights, color=colours[name], alpha=0.55, label=name)
        for quartile in np.quantile(one, (0.25, 0.5, 0.75)):
            axes.axvline(quartile, color=colours[name], linestyle="--", linewidth=1)
    axes.set_ylabel("nodes, %")


def line(axes: Axes, groups: dict[float, list[Row]], name: str, variant: str, *, normed: bool = False) -> None:
    """The mean of a column over the rows at each place, with their standard deviation as bars."""
    at = list(groups)
    means, deviations = zip(*(spread(over_norm(rows, name) if normed else column(rows, name))
                              for rows in groups.values()), strict=True)
    axes.errorbar(at, means, deviations, marker="o", markersize=3, linewidth=1.2, capsize=2, color=COLOURS[variant],
                  label=NAMES[variant])


def bars(axes: Axes, groups: dict[str, dict[str, list[float]]]) -> None:
    """For each group a bar per variant: the mean of its values, and their standard deviation."""
    variants = list(dict.fromkeys(variant for group in groups.values() for variant in group))
    width = 0.8 / max(map(len, groups.values()))
    for place, group in enumerate(groups.values()):
        for offset, (variant, values) in enumerate(group.items()):
            mean, deviation = spread(values)
            axes.bar(place + (offset - (len(group) - 1) / 2) * width, mean, width, yerr=deviation or None, capsize=2,
                     color=COLOURS[variant])
    axes.set_xticks(range(len(groups)), list(groups))
    for variant in variants:
        axes.bar(0, 0, color=COLOURS[variant], label=NAMES[variant])


def zoomed(axes: Axes, values: Sequence[float]) -> None:
    """An axis that begins below the least value, where zero is far away: said on the label, for bars would mislead."""
    low, high = min(values), max(values)
    if low > 0.5 * high > 0:
        axes.set_ylim(low - 0.6 * (high - low) - 0.01 * high, high + 0.2 * (high - low) + 0.01 * high)
        axes.set_ylabel(f"{axes.get_ylabel()} (axis cut)")


def legend_below(figure: Figure, axes: Axes) -> None:
    """One legend for all panels."""
    handles, names = axes.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names))
