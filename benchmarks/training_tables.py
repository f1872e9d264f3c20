"""The runs of ``benchmarks.certified_training`` as tables: means over seeds, and paired tests between the variants."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.report import markdown
from certgcl.learning.evaluation import compare
from certgcl.learning.methods import METHODS

Row = dict[str, Any]
MEASURES = {"micro": "Micro-F1", "lower_over_norm": "certified / norm", "drop_rate": "certified drop rate"}
BASELINES = ("plain", "released")


def tables(rows: Sequence[Row]) -> list[str]:
    """Two tables for each graph: what was measured, and how the certified variant compares."""
    parts = []
    for graph in dict.fromkeys(row["graph"] for row in rows):
        here = [row for row in rows if row["graph"] == graph]
        parts += [f"**{graph}**", summary(here), *comparisons(here)]
    return parts


def by_run(rows: Iterable[Row]) -> dict[tuple[str, str], dict[int, Row]]:
    """The seeds of every method and variant, methods and variants in the order of the papers."""
    runs: dict[tuple[str, str], dict[int, Row]] = defaultdict(dict)
    for row in rows:
        runs[row["method"], row["variant"]][row["seed"]] = row
    variants = (*BASELINES, "certified")
    return dict(sorted(runs.items(), key=lambda run: (
        list(METHODS).index(run[0][0]), variants.index(run[0][1].split(":")[0]), run[0][1])))


def summary(rows: Sequence[Row]) -> str:
    columns = ["method", "regularizer", "seeds", "Micro-F1", "Macro-F1", "certified nodes, %", "norm", "clean / norm",
               "certified / norm", "worst 5 %", "certified drop rate", "s / run"]
    lines = []
    for (method, variant), seeds in by_run(rows).items():
        def spread(name: str, factor: float = 1.0, digits: int = 3, seeds: dict[int, Row] = seeds) -> str:
            values = [factor * row[name] for row in seeds.values()]
            spread = statistics.stdev(values) if len(values) > 1 else 0.0
            return f"{statistics.mean(values):.{digits}f} ± {spread:.{digits}f}"

        worst = statistics.mean(row["lower_quantiles"][0] for row in seeds.values())
        lines.append([method, variant, len(seeds), spread("micro", 100, 1), spread("macro", 100, 1),
                      spread("share", 100, 1), spread("norm"), spread("clean_over_norm"), spread("lower_over_norm"),
                      worst, spread("drop_rate"), statistics.median(row["seconds"] for row in seeds.values())])
    return markdown(columns, lines)


def comparisons(rows: Sequence[Row]) -> list[str]:
    """Certified minus each baseline over the seeds they share, with the p-value of the paired t-test."""
    runs, lines = by_run(rows), []
    for method, variant in runs:
        for baseline in BASELINES if variant.startswith("certified") else ():
            one, other = runs[method, variant], runs.get((method, baseline), {})
            seeds = sorted(one.keys() & other.keys())
            if len(seeds) > 1:
                tests = [compare([one[seed][name] for seed in seeds], [other[seed][name] for seed in seeds])
                         for name in MEASURES]
                lines.append([f"{method}, {variant} - {baseline}", len(seeds),
                              *(f"{(100 if name == 'micro' else 1) * test.difference:+.3g} (p {test.p:.2g})"
                                for name, test in zip(MEASURES, tests, strict=True))])
    return [markdown(["difference", "seeds", *MEASURES.values()], lines)] if lines else []
