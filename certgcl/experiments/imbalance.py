"""Experiment 1: the InfoNCE loss of the nodes of a trained graph is uneven."""

import numpy as np

from certgcl.experiments import figures
from certgcl.experiments.experiment import Experiment
from certgcl.experiments.measures import compactness, labels, node_infonce
from certgcl.experiments.recipe import Recipe
from certgcl.experiments.runs import Study
from certgcl.experiments.tables import Row, column, grouped, over_norm, spread


def recipes(study: Study) -> list[Recipe]:
    return [Recipe(method, "plain", seed) for method in study.methods for seed in study.seeds]


def measure(study: Study, recipe: Recipe) -> list[Row]:
    """A row per node; the two scores at the sampled ones only."""
    run = study.trained(recipe)
    loss, found = node_infonce(run)[0].tolist(), compactness(run)
    scores = {
        node: (float(paper), float(bound))
        for node, paper, bound in zip(study.sample.tolist(), found.paper_score, found.certified_bound, strict=True)
    }
    return [
        labels(run)
        | {
            "node": node,
            "infonce": value,
            "paper_score": scores.get(node, (None, None))[0],
            "certified_bound": scores.get(node, (None, None))[1],
            "norm": found.norm,
        }
        for node, value in enumerate(loss)
    ]


def draw(rows: list[Row]) -> figures.Figure:
    methods = grouped(rows, "method")
    figure, grid = figures.grid(len(methods), 3, f"{rows[0]['dataset']}: how uneven are the nodes? Quartiles dashed")
    for ((method,), here), (loss, *others) in zip(methods.items(), grid, strict=True):
        figures.histogram(loss, {"InfoNCE": column(here, "infonce")}, {"InfoNCE": "0.4"})
        loss.set_xlabel("InfoNCE, mean over pairs of views")
        loss.set_title(method)
        for axes, (name, words) in zip(others, figures.SCORES.items(), strict=True):
            figures.histogram(axes, {name: over_norm(here, name)}, figures.SCORE_COLOURS)
            axes.set_xlabel("compactness / norm")
            axes.set_title(words)
    return figure


def summary(rows: list[Row]) -> list[Row]:
    lines = []
    for (method,), here in grouped(rows, "method").items():
        low, first, median, third, high = np.quantile(column(here, "infonce"), (0, 0.25, 0.5, 0.75, 1)).tolist()
        lines.append(
            {
                "method": method,
                "least": low,
                "first quartile": first,
                "median": median,
                "third quartile": third,
                "largest": high,
                "std": spread(column(here, "infonce"))[1],
            }
        )
    return lines


EXPERIMENT = Experiment(
    "imbalance",
    "A histogram of the InfoNCE loss of the nodes, averaged over sampled pairs of "
    "views, with its quartiles, and those of both compactness scores.",
    ("grace",),
    recipes,
    measure,
    draw,
    summary,
)
