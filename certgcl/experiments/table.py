"""Node classification: the methods plain, with the paper's regularizer, clean compactness and the certified one, and
supervised."""

from certgcl.experiments import figures
from certgcl.experiments.augmentations import PANELS, bar_panel
from certgcl.experiments.experiment import Experiment
from certgcl.experiments.infonce import recipes as contrastive
from certgcl.experiments.measures import compactness, f1, labels
from certgcl.experiments.recipe import Recipe
from certgcl.experiments.runs import Study
from certgcl.experiments.supervised import BASELINES, supervised_f1
from certgcl.experiments.tables import Row, column, grouped, over_norm, spread
from certgcl.learning.evaluation import compare
from certgcl.learning.methods import METHODS


def recipes(study: Study) -> list[Recipe]:
    return contrastive(study) + [Recipe(name, "supervised", seed) for name in BASELINES for seed in study.seeds]


def measure(study: Study, recipe: Recipe) -> list[Row]:
    if recipe.variant == "supervised":
        study.say(str(recipe))
        return [
            {"dataset": study.dataset, "method": recipe.method, "variant": recipe.variant, "seed": recipe.seed}
            | supervised_f1(study, recipe.method, recipe.seed)
        ]
    run = study.trained(recipe)
    return [labels(run) | f1(run) | compactness(run).mean()]


def draw(rows: list[Row]) -> figures.Figure:
    figure, grid = figures.grid(1, len(PANELS), f"{rows[0]['dataset']}: node classification and compactness")
    for axes, (name, words) in zip(grid[0], PANELS.items(), strict=True):
        bar_panel(axes, rows, "method", name)
        axes.set_title(words)
    figures.legend_below(figure, grid[0][0])
    return figure


def summary(rows: list[Row]) -> list[Row]:
    """Means and standard deviations over seeds, and the p-value of a paired t-test against the plain method."""
    lines = []
    for (method, variant), here in grouped(rows, "method", "variant").items():
        line: Row = {"method": method, "variant": variant, "seeds": len(here)}
        for name in ("micro", "macro"):
            line[name], line[f"± {name}"] = spread(column(here, name))
        line["p vs plain"] = _against_plain(rows, here)
        for name, words in figures.SHORT.items():
            values = over_norm(here, name)
            line[f"{words} / norm"] = spread(values)[0] if values else None
        lines.append(line)
    return lines


def _against_plain(rows: list[Row], here: list[Row]) -> float | None:
    plain = {
        row["seed"]: row["micro"] for row in rows if (row["method"], row["variant"]) == (here[0]["method"], "plain")
    }
    pairs = [(row["micro"], plain[row["seed"]]) for row in here if row["seed"] in plain]
    if here[0]["variant"] == "plain" or len(pairs) < 2:
        return None
    first, second = zip(*pairs, strict=True)
    return compare(first, second).p


EXPERIMENT = Experiment(
    "table",
    "Micro- and Macro-F1 of the methods, plain and with each regularizer, next to "
    "supervised GCN and GAT, under the protocol of the graph.",
    tuple(METHODS),
    recipes,
    measure,
    draw,
    summary,
)
