"""The runs of ``benchmarks.certified_training`` as tables: means over seeds, and paired tests between the variants."""

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from benchmarks.report import markdown
from certgcl.experiments.variants import VARIANTS
from certgcl.learning.evaluation import compare
from certgcl.learning.methods import METHODS

Row = dict[str, Any]
MEASURES: dict[str, Callable[[Row], float]] = {
    "Micro-F1": lambda row: 100 * row["micro"],
    "kept at 0.4": lambda row: 100 * row["kept"]["0.4"],
    "certified accuracy, one edge": lambda row: 100 * row["certified_accuracy"]["1"],
    "at 0.4": lambda row: 100 * row["certified_accuracy"]["0.4"],
    "at 0.8": lambda row: 100 * row["certified_accuracy"]["0.8"],
    "at most, 0.8": lambda row: 100 * row["at_most"]["0.8"],
    "area": lambda row: 100 * row["area"],
}
"""What is tested, in percent."""
WORST_CASES = ("one edge", "certified", "kept")
CONTROL, BASELINES = "clean", ("plain", "released", "clean")


def tables(rows: Sequence[Row]) -> list[str]:
    """Three tables for each graph: the measurements, the comparison of the variants, and accuracy by class."""
    parts = []
    for graph in dict.fromkeys(row["graph"] for row in rows):
        here = [row for row in rows if row["graph"] == graph]
        parts += [f"**{graph}**", summary(here), *comparisons(here), by_class(here)]
    return parts


def by_run(rows: Iterable[Row]) -> dict[tuple[str, str], dict[int, Row]]:
    """The seeds of every method and variant, methods and variants in the order of the papers."""
    runs: dict[tuple[str, str], dict[int, Row]] = defaultdict(dict)
    for row in rows:
        runs[row["method"], row["variant"]][row["seed"]] = row
    return dict(
        sorted(
            runs.items(),
            key=lambda run: (list(METHODS).index(run[0][0]), list(VARIANTS).index(run[0][1].split(":")[0]), run[0][1]),
        )
    )


def summary(rows: Sequence[Row]) -> str:
    """In percent; brackets are ``proved – at most``."""
    columns = [
        "method",
        "variant",
        "seeds",
        "Micro-F1",
        "kept at 0.2",
        "0.4",
        "0.8",
        "worst 5 % at 0.4",
        "positive at 0.8",
        "certified accuracy, one edge",
        "at 0.4",
        "at 0.8",
        "area",
        "clean / norm",
        "s / run",
    ]
    lines = []
    for (method, variant), seeds in by_run(rows).items():

        def mean(*names: str, seeds: dict[int, Row] = seeds) -> float:
            return 100 * statistics.mean(_part(row, names) for row in seeds.values())

        def bracket(budget: str, mean: Callable[..., float] = mean) -> str:
            return f"{mean('certified_accuracy', budget):.1f} – {mean('at_most', budget):.1f}"

        micro = [100 * row["micro"] for row in seeds.values()]
        spread = statistics.stdev(micro) if len(micro) > 1 else 0.0
        seconds = [row["seconds"] for row in seeds.values() if row["seconds"] is not None]
        lines.append(
            [
                method,
                variant,
                len(seeds),
                f"{statistics.mean(micro):.1f} ± {spread:.1f}",
                *(f"{mean('kept', rate):.1f}" for rate in ("0.2", "0.4", "0.8")),
                f"{mean('worst_5', '0.4'):.1f}",
                f"{mean('positive', '0.8'):.1f} – {mean('positive_at_most'):.1f}",
                bracket("1"),
                bracket("0.4"),
                bracket("0.8"),
                f"{mean('area'):.1f}",
                mean("clean_over_norm") / 100,
                round(statistics.median(seconds)) if seconds else None,
            ]
        )
    return markdown(columns, lines)


def by_class(rows: Sequence[Row]) -> str:
    """Certified accuracy at 0.4 of the nodes of each true class, in percent."""
    classes = sorted(rows[0]["by_class"], key=int)
    return markdown(
        ["certified accuracy at 0.4, by class", *classes],
        [
            [
                f"{method}, {variant}",
                *(
                    f"{100 * statistics.mean(row['by_class'][label] for row in seeds.values()):.0f}"
                    for label in classes
                ),
            ]
            for (method, variant), seeds in by_run(rows).items()
        ],
    )


def tried(rows: Sequence[Row]) -> str:
    """Objectives that were tried in short trainings, one line a run; in percent."""
    return markdown(
        [
            "objective",
            "budget",
            "seed",
            "Micro-F1",
            "kept at 0.4",
            "at 0.8",
            "certified accuracy, one edge",
            "at 0.4",
            "at 0.8",
        ],
        [
            [
                row["objective"],
                None if row["budget"] is None else f"{row['budget']:g}",
                row["seed"],
                f"{row['micro']:.1f}",
                *(f"{100 * row['kept'][rate]:.1f}" for rate in ("0.4", "0.8")),
                f"{row['certified_accuracy']['1']:.1f}",
                f"{row['certified_accuracy']['0.4']:.1f} – {row['at_most_at_0.4']:.1f}",
                f"{row['certified_accuracy']['0.8']:.1f}",
            ]
            for row in rows
        ],
    )


def _part(row: Row, names: Sequence[str]) -> float:
    value: Any = row
    for name in names:
        value = value[name]
    return float(value)


def comparisons(rows: Sequence[Row]) -> list[str]:
    """The worst cases minus each baseline, and the control minus the others, over the seeds they share."""
    runs, lines = by_run(rows), []
    for method, variant in runs:
        against = BASELINES if variant.split(":")[0] in WORST_CASES else BASELINES[:2] if variant == CONTROL else ()
        for baseline in against:
            one, other = runs[method, variant], runs.get((method, baseline), {})
            seeds = sorted(one.keys() & other.keys())
            if len(seeds) > 1:
                tests = [
                    compare([measure(one[seed]) for seed in seeds], [measure(other[seed]) for seed in seeds])
                    for measure in MEASURES.values()
                ]
                lines.append(
                    [
                        f"{method}, {variant} - {baseline}",
                        len(seeds),
                        *(f"{test.difference:+.1f} (p {test.p:.2g})" for test in tests),
                    ]
                )
    return [markdown(["difference", "seeds", *MEASURES], lines)] if lines else []
