"""Experiment 5: the effect of the regularizers on the InfoNCE loss of the nodes."""

import numpy as np

from certgcl.experiments import figures
from certgcl.experiments.experiment import Experiment
from certgcl.experiments.measures import labels, node_infonce
from certgcl.experiments.recipe import Recipe
from certgcl.experiments.runs import Study
from certgcl.experiments.tables import Row, column, grouped, spread
from certgcl.experiments.variants import DRAWN


def recipes(study: Study) -> list[Recipe]:
    return [Recipe(method, variant, seed) for method in study.methods for seed in study.seeds for variant in DRAWN]


def measure(study: Study, recipe: Recipe) -> list[Row]:
    run = study.trained(recipe)
    return [labels(run) | {"node": node, "infonce": value} for node, value in enumerate(node_infonce(run)[0].tolist())]


def draw(rows: list[Row]) -> figures.Figure:
    methods = grouped(rows, "method")
    figure, grid = figures.grid(len(methods), 3, f"{rows[0]['dataset']}: InfoNCE of the nodes with and without")
    for ((method,), here), panels in zip(methods.items(), grid, strict=True):
        losses = {variant: column(found, "infonce") for (variant,), found in grouped(here, "variant").items()}
        for axes, variant in zip(panels, DRAWN[1:], strict=True):
            shown = {figures.NAMES[name]: losses[name] for name in ("plain", variant)}
            figures.histogram(axes, shown, {figures.NAMES[name]: figures.COLOURS[name] for name in ("plain", variant)})
            axes.set_xlabel(f"InfoNCE, mean over pairs of views ({method})")
            axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0)
    return figure


def summary(rows: list[Row]) -> list[Row]:
    lines = []
    for (method, variant), here in grouped(rows, "method", "variant").items():
        values = column(here, "infonce")
        first, median, third = np.quantile(values, (0.25, 0.5, 0.75)).tolist()
        mean, deviation = spread(values)
        lines.append(
            {
                "method": method,
                "variant": variant,
                "mean": mean,
                "std": deviation,
                "first quartile": first,
                "median": median,
                "third quartile": third,
            }
        )
    return lines


EXPERIMENT = Experiment(
    "infonce",
    "Histograms of the InfoNCE loss of the nodes with and without a regularizer: the "
    "paper's, clean compactness and the certified one.",
    ("grace",),
    recipes,
    measure,
    draw,
    summary,
)
