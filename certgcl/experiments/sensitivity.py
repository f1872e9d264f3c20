"""Experiment 7: does compactness predict how much the InfoNCE loss of a node depends on the views?"""

from itertools import pairwise

import numpy as np

from certgcl.experiments import figures
from certgcl.experiments.degree import rank_correlation
from certgcl.experiments.experiment import Experiment
from certgcl.experiments.imbalance import recipes
from certgcl.experiments.measures import compactness, labels, node_infonce
from certgcl.experiments.recipe import Recipe
from certgcl.experiments.runs import Study
from certgcl.experiments.tables import Row, column, grouped, over_norm, spread

BINS = 10


def measure(study: Study, recipe: Recipe) -> list[Row]:
    """A row per sampled node."""
    run = study.trained(recipe)
    found, error = compactness(run), node_infonce(run)[1][study.sample]
    values = zip(
        study.sample.tolist(), found.paper_score.tolist(), found.certified_bound.tolist(), error.tolist(), strict=True
    )
    return [
        labels(run)
        | {
            "node": node,
            "paper_score": paper,
            "certified_bound": bound,
            "standard_error": deviation,
            "norm": found.norm,
        }
        for node, paper, bound, deviation in values
    ]


def binned(rows: list[Row], name: str) -> list[tuple[float, float]]:
    """Nodes in groups of equal size by a score: the mean score over norm and the mean standard error of each."""
    order = np.argsort(over_norm(rows, name), kind="stable")
    ends = np.linspace(0, len(rows), min(BINS, len(rows)) + 1).astype(int)
    groups = [[rows[place] for place in order[start:end]] for start, end in pairwise(ends)]
    return [(spread(over_norm(group, name))[0], spread(column(group, "standard_error"))[0]) for group in groups]


def draw(rows: list[Row]) -> figures.Figure:
    methods = grouped(rows, "method")
    figure, grid = figures.grid(
        len(methods), 2, f"{rows[0]['dataset']}: compactness against the standard error of InfoNCE"
    )
    for ((method,), here), panels in zip(methods.items(), grid, strict=True):
        for axes, (name, words) in zip(panels, figures.SCORES.items(), strict=True):
            axes.scatter(
                over_norm(here, name),
                column(here, "standard_error"),
                s=4,
                alpha=0.25,
                linewidths=0,
                color=figures.SCORE_COLOURS[name],
                rasterized=True,
            )
            axes.plot(*zip(*binned(here, name), strict=True), "o-", color="0.2", markersize=4)
            axes.set_title(words)
            axes.set(xlabel=f"compactness / norm ({method})", ylabel="standard error of InfoNCE")
        panels[1].sharey(panels[0])
    return figure


def summary(rows: list[Row]) -> list[Row]:
    """Spearman's rank correlations; and the standard error of the least compact tenth over that of the most compact."""
    lines = []
    for (method,), here in grouped(rows, "method").items():
        error = column(here, "standard_error")
        line: Row = {"method": method, "nodes": len(here)}
        for name, words in figures.SHORT.items():
            groups = binned(here, name)
            line |= {
                f"{words} ~ error": rank_correlation(over_norm(here, name), error),
                f"error, lowest / highest tenth by {words}": groups[0][1] / groups[-1][1],
            }
        lines.append(line)
    return lines


EXPERIMENT = Experiment(
    "sensitivity",
    "Compactness (nodes in ten groups) against the standard error of InfoNCE over "
    "sampled pairs of views, by the paper's score and by the certified bound.",
    ("grace",),
    recipes,
    measure,
    draw,
    summary,
)
