"""The figures of a report, drawn from its numbers."""

from collections.abc import Mapping, Sequence
from itertools import cycle

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter

from certgcl.certify.budget_curve import BudgetCurve, BudgetPoint
from certgcl.report import neighbourhood
from certgcl.report.comparison import Comparison
from certgcl.report.content import Accuracy, Degrees, Fragile, NodeTable, Report, Training
from certgcl.report.svg import Svg, figure, settings, to_svg

_MOST_POINTS, _MOST_RANKS = 1500, 400  # dots of a scatter plot, and steps of a ranked line
_LEAST_BINS, _MOST_BINS = 8, 40
_WIDE_DEGREES = 40  # from this largest degree on, degrees are drawn on a logarithmic axis
_PERCENT = PercentFormatter(decimals=0, symbol=" %")
_NAMES = {
    "loss": "loss",
    "infonce": "InfoNCE",
    "pot": "compactness term",
    "compactness": "mean compactness score",
    "kappa": "κ, share of the term",
}


def draw_all(report: Report) -> dict[str, list[str]]:
    """The SVGs of every section that has data, by the name of the section."""
    drawn: dict[str, list[str]] = {}
    with settings():
        if isinstance(report.values, NodeTable):
            drawn["values"] = [histogram(report.values), ranked(report.values)]
            if isinstance(report.degrees, Degrees):
                drawn["degrees"] = [by_degree(report.values, report.degrees)]
        if isinstance(report.curve, BudgetCurve):
            drawn["curve"] = [budget_curve(report.curve.by_rate, "drop rate", "curve-rate")]
            if report.curve.by_count:
                drawn["curve"].append(budget_curve(report.curve.by_count, "edges at each node (q)", "curve-count"))
        if isinstance(report.accuracy, Accuracy):
            drawn["accuracy"] = [accuracy(report.accuracy)]
        if isinstance(report.fragile, Fragile):
            drawn["fragile"] = [neighbourhood.draw(drawing) for drawing in report.fragile.drawings]
        if isinstance(report.training, Training):
            drawn["training"] = [training(name, values) for name, values in _distinct(report.training.metrics).items()]
    return drawn


def histogram(values: NodeTable) -> str:
    """How the bounds are distributed, with the clean values and, where there are any, the upper values."""
    sheet = figure()
    axes = sheet.add_subplot()
    upper = [value for value in values.upper if value is not None]
    known = [*values.lower, *values.nominal, *upper]
    edges = np.histogram_bin_edges(known, bins=_bins(len(values.node))).tolist()
    axes.hist(values.nominal, edges, histtype="step", color=Svg.MUTED, linewidth=1.1, label="clean value")
    if upper:
        axes.hist(upper, edges, histtype="step", color=Svg.SECOND, linewidth=1.3, label="reached by a drop")
    axes.hist(values.lower, edges, histtype="stepfilled", color=Svg.MAIN, alpha=0.75, label=_bound(values))
    _zero(axes, vertical=True)
    axes.set(xlabel="value", ylabel="nodes")
    axes.grid(visible=False, axis="x")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    _legend(axes)
    return to_svg(
        sheet,
        "histogram",
        f"Histogram of the {_bound(values)}s of {len(values.node)} nodes, from "
        f"{min(values.lower):.3g} to {max(values.lower):.3g}",
    )


def ranked(values: NodeTable) -> str:
    """Every node's bracket, nodes in the order of their bounds."""
    lower, nominal = np.array(values.lower), np.array(values.nominal)
    order = np.argsort(lower, kind="stable")
    order = order[np.unique(np.linspace(0, len(order) - 1, _MOST_RANKS).astype(int))]
    share = np.linspace(0, 100, len(order))
    sheet = figure()
    axes = sheet.add_subplot()
    axes.plot(share, nominal[order], ".", color=Svg.MUTED, markersize=2.4, label="clean value")
    what = f"{_bound(values)}s".capitalize()
    if values.searched:
        what, upper = "Brackets", np.array(values.upper, dtype=float)[order]  # nan where no search was made
        axes.vlines(share, lower[order], upper, color=Svg.SECOND, alpha=0.35, linewidth=1, label="bracket")
        axes.plot(share, upper, ".", color=Svg.SECOND, markersize=2.2)
    axes.plot(share, lower[order], color=Svg.MAIN, linewidth=1.6, label=_bound(values))
    _zero(axes)
    axes.set(xlim=(0, 100), xlabel=f"nodes, by their {_bound(values)}", ylabel="value")
    axes.xaxis.set_major_formatter(_PERCENT)
    _legend(axes)
    return to_svg(sheet, "ranked", f"{what} and clean values, nodes ranked by their {_bound(values)}")


def by_degree(values: NodeTable, degrees: Degrees) -> str:
    """Bounds against degrees: nodes as dots, medians and quartiles of groups as a line in a band."""
    sheet = figure(height=2.9)
    axes = sheet.add_subplot()
    degree, lower = np.array(values.degree), np.array(values.lower)
    chosen = np.random.default_rng(0).permutation(len(lower))[:_MOST_POINTS]
    axes.plot(
        degree[chosen], lower[chosen], "o", color=Svg.MAIN, alpha=0.35, markersize=2.6, markeredgewidth=0, label="node"
    )
    groups = degrees.groups
    middle = [np.sqrt(group.low * group.high) if group.low else group.high / 2 for group in groups]
    axes.fill_between(
        middle,
        [group.lower_quartile for group in groups],
        [group.upper_quartile for group in groups],
        color=Svg.SECOND,
        alpha=0.3,
        linewidth=0,
        label="quartiles",
    )
    axes.plot(
        middle,
        [group.lower_median for group in groups],
        "o-",
        color=Svg.SECOND,
        linewidth=1.4,
        markersize=3,
        label="median",
    )
    _zero(axes)
    if groups[-1].high > _WIDE_DEGREES:
        axes.set_xscale("symlog", linthresh=1)
        axes.set_xlim(left=max(0, groups[0].low * 0.8))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="degree", ylabel=_bound(values))
    _legend(axes)
    return to_svg(
        sheet, "degrees", f"{_bound(values).capitalize()} against degree, from {groups[0].low} to {groups[-1].high}"
    )


def budget_curve(points: Sequence[BudgetPoint], label: str, name: str) -> str:
    """The share of nodes proved, and how much of the clean value the bound keeps, as the budget grows."""
    sheet = figure()
    axes = sheet.add_subplot()
    budgets = [point.budget for point in points]
    axes.plot(
        budgets,
        [100 * point.proved for point in points],
        "o-",
        color=Svg.MAIN,
        linewidth=1.6,
        markersize=3.5,
        label="nodes proved",
    )
    kept = [100 * point.kept for point in points if point.kept is not None]
    if len(kept) == len(points):
        axes.plot(budgets, kept, "s--", color=Svg.SECOND, linewidth=1.2, markersize=3, label="clean value kept")
    axes.set(ylim=(-3, 104), xlabel=label)
    axes.yaxis.set_major_formatter(_PERCENT)
    axes.set_xticks(budgets)
    _legend(axes)
    return to_svg(
        sheet,
        name,
        f"Share of nodes proved against {label}: "
        + ", ".join(f"{point.budget:g}: {100 * point.proved:.0f} %" for point in points),
    )


def compared_curves(comparison: Comparison) -> list[str]:
    """The share of nodes proved under each budget, all runs in one figure; none where a run has no curve."""
    curves = [curve for curve in comparison.curves if isinstance(curve, BudgetCurve)]
    if len(curves) < len(comparison.runs):
        return []
    with settings():
        return [
            _together(comparison, [curve.by_rate for curve in curves], "drop rate", "curves-rate"),
            _together(comparison, [curve.by_count for curve in curves], "edges at each node (q)", "curves-count"),
        ]


def _together(comparison: Comparison, curves: Sequence[Sequence[BudgetPoint]], label: str, name: str) -> str:
    sheet = figure()
    axes = sheet.add_subplot()
    for run, points, colour, mark in zip(
        comparison.runs, curves, cycle((Svg.MAIN, Svg.SECOND, Svg.GOOD, Svg.BAD)), cycle("osv^D"), strict=False
    ):
        axes.plot(
            [point.budget for point in points],
            [100 * point.proved for point in points],
            f"{mark}-",
            color=colour,
            linewidth=1.5,
            markersize=3.5,
            label=run.name,
        )
    axes.set(ylim=(-3, 104), xlabel=label, ylabel="nodes proved")
    axes.yaxis.set_major_formatter(_PERCENT)
    sheet.legend(loc="outside upper left", ncols=1 if len(curves) < 4 else 2, handlelength=1.4)
    return to_svg(sheet, name, f"Share of nodes proved against {label}, {len(curves)} runs")


def accuracy(found: Accuracy) -> str:
    """One bar: predictions that stay right, may change, are known to change, and are wrong."""
    sheet = figure(height=1.25)
    axes = sheet.add_subplot()
    start = 0.0
    for label, count, colour in (
        ("certified", found.certified, Svg.GOOD),
        ("unknown", found.unknown, Svg.TINT),
        ("known to change", found.broken, Svg.BAD),
        ("wrong", found.wrong, Svg.FAINT),
    ):
        share = 100 * count / found.nodes
        axes.barh([0], [share], left=start, height=0.6, color=colour, label=label)
        start += share
    axes.set(xlim=(0, 100), yticks=[])
    axes.spines[:].set_visible(False)
    axes.grid(visible=False)
    axes.xaxis.set_major_formatter(_PERCENT)
    sheet.legend(loc="outside upper left", ncols=4, handlelength=0.8, handletextpad=0.5, columnspacing=1)
    return to_svg(
        sheet,
        "accuracy",
        f"Of {found.nodes} predictions {found.certified} are certified, {found.unknown} "
        f"unknown, {found.broken} known to change, {found.wrong} wrong",
    )


def training(name: str, values: Sequence[float | None]) -> str:
    """One metric over the epochs."""
    sheet = figure(3.4, 2.1)
    axes = sheet.add_subplot()
    axes.plot([np.nan if value is None else value for value in values], color=Svg.MAIN, linewidth=1.4)
    axes.set(xlabel="epoch")
    axes.set_title(_NAMES.get(name, name), loc="left", color=Svg.INK)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return to_svg(sheet, f"training-{name}", f"{_NAMES.get(name, name)} over {len(values)} epochs")


def _distinct(metrics: Mapping[str, list[float | None]]) -> dict[str, list[float | None]]:
    """Metrics that change, each once: without a regularizer the loss and InfoNCE are the same."""
    changing = {name: values for name, values in metrics.items() if len(set(values)) > 1}
    names = list(changing)
    return {
        name: changing[name]
        for place, name in enumerate(names)
        if all(changing[name] != changing[other] for other in names[:place])
    }


def _bins(nodes: int) -> int:
    """Few bins for few nodes, so that most bins are not empty."""
    return min(_MOST_BINS, max(_LEAST_BINS, round(2 * nodes**0.5)))


def _bound(values: NodeTable) -> str:
    return "lower bound" if values.certified else "score"


def _zero(axes: Axes, *, vertical: bool = False) -> None:
    """The zero line, if the values come near it."""
    low, high = axes.get_xlim() if vertical else axes.get_ylim()
    if low > 0.5 * (high - low):
        return
    (axes.axvline if vertical else axes.axhline)(0, color=Svg.BAD, linewidth=0.9)


def _legend(axes: Axes) -> None:
    axes.legend(
        markerscale=1.5,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=4,
        borderaxespad=0.2,
        handlelength=1.2,
        handletextpad=0.5,
        columnspacing=0.9,
    )
