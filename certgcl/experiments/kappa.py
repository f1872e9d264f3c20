"""Experiment 4: accuracy and compactness against κ, the share of the regularizer in the loss."""

from certgcl.experiments import figures
from certgcl.experiments.experiment import Experiment
from certgcl.experiments.measures import compactness, f1, labels
from certgcl.experiments.recipe import Recipe
from certgcl.experiments.runs import Study
from certgcl.experiments.tables import Row, column, grouped, over_norm, spread
from certgcl.experiments.variants import DRAWN

KAPPAS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)  # those that the paper searched


def recipes(study: Study) -> list[Recipe]:
    return [
        recipe
        for method in study.methods
        for seed in study.seeds
        for recipe in (
            Recipe(method, "plain", seed),
            *(Recipe(method, variant, seed, kappa) for kappa in KAPPAS for variant in DRAWN[1:]),
        )
    ]


def measure(study: Study, recipe: Recipe) -> list[Row]:
    run = study.trained(recipe)
    return [labels(run) | {"kappa": recipe.kappa or 0.0} | f1(run) | compactness(run).mean()]


def draw(rows: list[Row]) -> figures.Figure:
    """Micro-F1 against κ, plain at κ = 0, with its trade-off with the certified bound; and both scores against κ."""
    methods = grouped(rows, "method")
    figure, grid = figures.grid(len(methods), 4, f"{rows[0]['dataset']}: the share κ of the regularizer in the loss")
    for ((method,), here), (accuracy, trade, *scores) in zip(methods.items(), grid, strict=True):
        for (variant,), found in grouped(here, "variant").items():
            by_kappa = {kappa: same for (kappa,), same in grouped(found, "kappa").items()}
            figures.line(accuracy, by_kappa, "micro", variant)
            for axes, name in zip(scores, figures.SCORES, strict=True):
                figures.line(axes, by_kappa, name, variant, normed=True)
        _draw_trade(trade, here)
        accuracy.set(xlabel=f"κ ({method})", ylabel="Micro-F1")
        for axes, words in zip(scores, figures.SCORES.values(), strict=True):
            axes.set_title(words)
            axes.set(xlabel="κ", ylabel="compactness / norm")
    figures.legend_below(figure, grid[0][0])
    return figure


def _draw_trade(axes: figures.Axes, rows: list[Row]) -> None:
    """Micro-F1 against the certified bound, a point for each κ."""
    means = {
        key: (spread(over_norm(same, "certified_bound"))[0], spread(column(same, "micro"))[0])
        for key, same in grouped(rows, "variant", "kappa").items()
    }
    limits = [(min(values), max(values)) for values in zip(*means.values(), strict=True)]
    for variant in dict.fromkeys(variant for variant, _ in means):
        here = {f"{kappa:g}": point for (one, kappa), point in means.items() if one == variant}
        axes.plot(*zip(*here.values(), strict=True), "o-", color=figures.COLOURS[variant], markersize=3, linewidth=1.2)
        figures.label_points(axes, list(here.values()), list(here), limits)
    axes.set(xlabel="certified lower bound / norm", ylabel="Micro-F1", title="trade-off, labelled by κ")
    axes.locator_params(axis="x", nbins=4)


def summary(rows: list[Row]) -> list[Row]:
    lines = []
    for (method, variant, kappa), here in grouped(rows, "method", "variant", "kappa").items():
        lines.append(
            {"method": method, "variant": variant, "kappa": kappa, "seeds": len(here)}
            | {name: spread(column(here, name))[0] for name in ("micro", "macro")}
            | {f"{words} / norm": spread(over_norm(here, name))[0] for name, words in figures.SHORT.items()}
        )
    return lines


EXPERIMENT = Experiment(
    "kappa",
    "Micro-F1 and compactness over the mean norm against κ, for the paper's regularizer, "
    "clean compactness and the certified one.",
    ("grace", "gca"),
    recipes,
    measure,
    draw,
    summary,
)
