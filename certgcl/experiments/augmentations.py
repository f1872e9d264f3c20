"""Experiment 6: does the regularizer help for every way to drop edges?"""

from typing import get_args

from certgcl.experiments import figures
from certgcl.experiments.experiment import Experiment
from certgcl.experiments.measures import compactness, f1, labels
from certgcl.experiments.recipe import Augmentation, Recipe
from certgcl.experiments.runs import Study
from certgcl.experiments.tables import Row, column, grouped, over_norm, spread
from certgcl.experiments.variants import DRAWN
from certgcl.learning.methods.centrality import Centrality

AUGMENTATIONS: tuple[Augmentation, ...] = ("random", *get_args(Centrality))
PANELS = {"micro": "Micro-F1", "macro": "Macro-F1", **figures.SCORES}


def recipes(study: Study) -> list[Recipe]:
    return [
        Recipe(method, variant, seed, augmentation=augmentation)
        for method in study.methods
        for seed in study.seeds
        for augmentation in AUGMENTATIONS
        for variant in DRAWN
    ]


def measure(study: Study, recipe: Recipe) -> list[Row]:
    run = study.trained(recipe)
    return [labels(run) | {"augmentation": recipe.augmentation} | f1(run) | compactness(run).mean()]


def draw(rows: list[Row]) -> figures.Figure:
    methods = grouped(rows, "method")
    figure, grid = figures.grid(len(methods), len(PANELS), f"{rows[0]['dataset']}: ways to drop edges")
    for ((method,), here), panels in zip(methods.items(), grid, strict=True):
        for axes, (name, words) in zip(panels, PANELS.items(), strict=True):
            bar_panel(axes, here, "augmentation", name)
            axes.set_title(words)
            axes.set_xlabel(f"edge drops (settings of {method})")
    figures.legend_below(figure, grid[0][0])
    return figure


def bar_panel(axes: figures.Axes, rows: list[Row], by: str, name: str) -> None:
    """Bars of one measurement for all variants: F1 as it is, scores over the norm."""
    normed = name in figures.SCORES
    values = {
        group: {
            variant: over_norm(found, name) if normed else column(found, name)
            for (variant,), found in grouped(same, "variant").items()
        }
        for (group,), same in grouped(rows, by).items()
    }
    shown = {
        group: {variant: found for variant, found in variants.items() if found} for group, variants in values.items()
    }
    figures.bars(axes, {group: variants for group, variants in shown.items() if variants})
    axes.set_ylabel("compactness / norm" if normed else PANELS[name])
    axes.tick_params(axis="x", labelrotation=30)
    figures.zoomed(axes, over_norm(rows, name) if normed else column(rows, name))


def summary(rows: list[Row]) -> list[Row]:
    lines = []
    for (method, augmentation, variant), here in grouped(rows, "method", "augmentation", "variant").items():
        lines.append(
            {"method": method, "augmentation": augmentation, "variant": variant, "seeds": len(here)}
            | {name: spread(column(here, name))[0] for name in ("micro", "macro")}
            | {f"{words} / norm": spread(over_norm(here, name))[0] for name, words in figures.SHORT.items()}
        )
    return lines


EXPERIMENT = Experiment(
    "augmentations",
    "Micro- and Macro-F1 under random, degree, eigenvector and PageRank edge drops, plain and with each regularizer.",
    ("gca",),
    recipes,
    measure,
    draw,
    summary,
)
