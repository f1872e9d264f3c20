"""Experiment 3: the degree of a node against its compactness."""

import numpy as np
from scipy.stats import spearmanr

from certgcl.experiments import figures
from certgcl.experiments.experiment import Experiment
from certgcl.experiments.imbalance import recipes
from certgcl.experiments.measures import compactness, labels
from certgcl.experiments.recipe import Recipe
from certgcl.experiments.runs import Study
from certgcl.experiments.tables import Row, column, grouped, over_norm


def measure(study: Study, recipe: Recipe) -> list[Row]:
    """A row per sampled node."""
    run = study.trained(recipe)
    found = compactness(run)
    columns = {
        "node": study.sample,
        "degree": study.graph.degree[study.sample],
        "clean": found.clean,
        "paper_score": found.paper_score,
        "certified_bound": found.certified_bound,
    }
    values = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [labels(run) | dict(zip(columns, one, strict=True)) | {"norm": found.norm} for one in values]


def draw(rows: list[Row]) -> figures.Figure:
    methods = grouped(rows, "method")
    figure, grid = figures.grid(len(methods), 2, f"{rows[0]['dataset']}: degree against compactness")
    for ((method,), here), panels in zip(methods.items(), grid, strict=True):
        for axes, (name, words) in zip(panels, figures.SCORES.items(), strict=True):
            axes.scatter(
                column(here, "degree"),
                over_norm(here, name),
                s=5,
                alpha=0.4,
                linewidths=0,
                color=figures.SCORE_COLOURS[name],
                rasterized=True,
            )
            figures.degree_axis(axes)
            axes.set_title(words)
            axes.set(xlabel=f"degree ({method})", ylabel="compactness / norm")
        panels[1].sharey(panels[0])
    return figure


def summary(rows: list[Row]) -> list[Row]:
    """Spearman's rank correlations; and the share of nodes where the paper's score exceeds the value on the graph
    itself, which is an admissible view: there it is certainly not a lower bound."""
    lines = []
    for (method,), here in grouped(rows, "method").items():
        correlations = {
            f"degree ~ {words}": rank_correlation(column(here, "degree"), over_norm(here, name))
            for name, words in ({"clean": "clean value"} | figures.SHORT).items()
        }
        above = np.mean([row["paper_score"] > row["clean"] for row in here])
        lines.append(
            {"method": method, "nodes": len(here), **correlations, "paper's score > clean value": float(above)}
        )
    return lines


def rank_correlation(first: list[float], second: list[float]) -> float:
    """Spearman's; 0 where one side is constant and has no ranks."""
    if len(set(first)) < 2 or len(set(second)) < 2:
        return 0.0
    return float(spearmanr(first, second).statistic)


EXPERIMENT = Experiment(
    "degree",
    "Node degree against compactness, by the paper's score and by the certified bound.",
    ("grace", "gca"),
    recipes,
    measure,
    draw,
    summary,
)
