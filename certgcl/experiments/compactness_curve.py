"""Experiment 2: mean node compactness over the epochs of training, with and without a regularizer."""

from certgcl.experiments import figures
from certgcl.experiments.experiment import Experiment
from certgcl.experiments.infonce import recipes
from certgcl.experiments.measures import compactness, labels
from certgcl.experiments.recipe import Recipe
from certgcl.experiments.runs import Study
from certgcl.experiments.tables import Row, column, grouped, over_norm, spread


def measure(study: Study, recipe: Recipe) -> list[Row]:
    """A row for each epoch whose encoder was kept."""
    run = study.trained(recipe)
    rows = []
    for epoch in run.milestones:
        study.say(f"{recipe}: bounds after {epoch} epochs")
        rows.append(labels(run) | {"epoch": epoch} | compactness(run, epoch).mean())
    return rows


def draw(rows: list[Row]) -> figures.Figure:
    methods = grouped(rows, "method")
    figure, grid = figures.grid(len(methods), 4, f"{rows[0]['dataset']}: mean compactness along the training")
    for ((method,), here), panels in zip(methods.items(), grid, strict=True):
        shown = [(name, normed) for normed in (False, True) for name in figures.SCORES]
        for axes, (name, normed) in zip(panels, shown, strict=True):
            for (variant,), found in grouped(here, "variant").items():
                by_epoch = {epoch: same for (epoch,), same in grouped(found, "epoch").items()}
                figures.line(axes, by_epoch, name, variant, normed=normed)
            start, later = (over_norm(some, name) if normed else column(some, name) for some in _parted(here))
            if start and later:
                figures.without_start(axes, start, later)
            axes.set_title(figures.SCORES[name])
            axes.set(xlabel=f"epochs of {method}", ylabel="compactness / norm" if normed else "compactness")
    figures.legend_below(figure, grid[0][0])
    return figure


def _parted(rows: list[Row]) -> tuple[list[Row], list[Row]]:
    """The rows before the first epoch, and those after it."""
    return [row for row in rows if row["epoch"] == 0], [row for row in rows if row["epoch"] > 0]


def summary(rows: list[Row]) -> list[Row]:
    """The values at the end of the training."""
    lines = []
    for (method, variant), here in grouped(rows, "method", "variant").items():
        last = [row for row in here if row["epoch"] == max(column(here, "epoch"))]
        lines.append(
            {"method": method, "variant": variant, "epochs": last[0]["epoch"]}
            | {words: spread(column(last, name))[0] for name, words in figures.SHORT.items()}
            | {f"{words} / norm": spread(over_norm(last, name))[0] for name, words in figures.SHORT.items()}
        )
    return lines


EXPERIMENT = Experiment(
    "compactness-curve",
    "Mean node compactness over the epochs of training, plain and with "
    "each regularizer, by the paper's score and by the certified bound.",
    ("grace",),
    recipes,
    measure,
    draw,
    summary,
)
