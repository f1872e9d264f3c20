"""The structure of all experiments: training runs, rows of numbers, a CSV file, a figure, and a short summary."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from certgcl.executors import Executor, ThisProcess, all_answers
from certgcl.experiments import figures
from certgcl.experiments.recipe import Recipe
from certgcl.experiments.runs import Study
from certgcl.experiments.tables import Row, rounded, write_csv


@dataclass(frozen=True)
class Experiment:
    """One figure or table of the paper.

    Args:
        name: of the command and the files.
        about: what it shows, in one sentence.
        methods: those of the paper's figure.
        recipes: the training runs it needs.
        measure: the rows of one training run.
        draw: the figure of all rows.
        summary: the same in a few numbers.
    """

    name: str
    about: str
    methods: tuple[str, ...]
    recipes: Callable[[Study], list[Recipe]]
    measure: Callable[[Study, Recipe], list[Row]]
    draw: Callable[[list[Row]], figures.Figure]
    summary: Callable[[list[Row]], list[Row]]


@dataclass(frozen=True)
class Outcome:
    """The result of an experiment: its files, and a summary of its numbers."""

    experiment: str
    dataset: str
    files: list[Path]
    summary: list[Row]

    def to_dict(self) -> dict[str, Any]:
        return {
            "experiment": self.experiment,
            "dataset": self.dataset,
            "files": list(map(str, self.files)),
            "summary": self.summary,
        }


def reproduce(
    experiment: Experiment,
    study: Study,
    out: Path,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] = lambda done, whole: None,
) -> Outcome:
    """Train what is missing, measure, and write ``EXPERIMENT-DATASET.csv``, ``.png`` and ``.svg`` to ``out``.

    Args:
        executor: where training runs take place, by default in this process; all of them write to the cache of the
            study.
        progress: called with the number of training runs that are done, and of all.
    """
    with figures.styled():
        here = executor is None or isinstance(executor, ThisProcess)
        found = all_answers(
            executor or ThisProcess(),
            _measured,
            (experiment, study if here else study.for_workers()),
            experiment.recipes(study),
            progress=progress,
        )
        rows = [row for some in found for row in some]
        out.mkdir(parents=True, exist_ok=True)
        stem = out / f"{experiment.name}-{study.dataset}"
        files = [write_csv(stem.with_name(f"{stem.name}.csv"), rows), *figures.save(experiment.draw(rows), stem)]
        return Outcome(experiment.name, study.dataset, files, rounded(experiment.summary(rows)))


def _measured(shared: tuple[Experiment, Study], recipe: Recipe) -> list[Row]:
    """The rows of one training run, which takes place if it is not in the cache."""
    experiment, study = shared
    return rounded(experiment.measure(study, recipe))
