"""``certgcl reproduce``: the paper's experiments, one command each."""

from pathlib import Path
from typing import Annotated, Any

import typer

from certgcl.cli.options import (
    AddressOption,
    DataRootOption,
    ExecutorOption,
    JsonFlag,
    WorkersOption,
    check_name,
    read_executor,
    read_seeds,
)
from certgcl.cli.progress import Bar
from certgcl.cli.results import reported_errors, show
from certgcl.cli.text_tables import aligned
from certgcl.experiments import EXPERIMENTS, Experiment, Outcome, Study, reproduce
from certgcl.experiments.tables import Row
from certgcl.graphs.datasets import DATASETS, find_dataset
from certgcl.learning.methods import METHODS
from certgcl_command import suggesting

PAIRS, FAST_PAIRS = 500, 100
NODES, FAST_NODES = 4000, 256

app = typer.Typer(
    name="reproduce",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Redraw the paper's experiments, for its score and for the certified bound.",
)


def add(experiment: Experiment) -> None:
    """The command of an experiment; all have the same options."""

    def command(
        dataset: Annotated[
            list[str] | None,
            typer.Option(
                help="The name of a graph (see certgcl datasets); can be repeated; Cora by default.",
                autocompletion=suggesting([*DATASETS]),
            ),
        ] = None,
        methods: Annotated[str, typer.Option(help=f"Any of {','.join(METHODS)}.")] = ",".join(experiment.methods),
        seeds: Annotated[
            str, typer.Option(help="The seeds of the training runs: how many (5), or which (0,1,2).")
        ] = "1",
        fast: Annotated[
            bool,
            typer.Option(
                "--fast", help=f"The presets for two CPU cores, {FAST_PAIRS} pairs of views and {FAST_NODES} nodes."
            ),
        ] = False,
        epochs: Annotated[
            int | None, typer.Option(min=1, help="Epochs of each training run; the preset's by default.")
        ] = None,
        pairs: Annotated[
            int | None,
            typer.Option(
                min=2, help=f"Pairs of views that the InfoNCE of a node is averaged over; {PAIRS} by default."
            ),
        ] = None,
        nodes: Annotated[
            int | None,
            typer.Option(min=1, help=f"The number of random nodes whose compactness is bounded; {NODES} by default."),
        ] = None,
        out: Annotated[Path, typer.Option(file_okay=False, help="The folder for CSV, PNG and SVG files.")] = Path(
            "reproduce"
        ),
        cache: Annotated[
            Path | None,
            typer.Option(
                file_okay=False,
                help="The folder of the training runs, shared by all experiments; cache in --out by default.",
            ),
        ] = None,
        executor: ExecutorOption = "here",
        workers: WorkersOption = None,
        address: AddressOption = None,
        data_root: DataRootOption = None,
        as_json: JsonFlag = False,
    ) -> None:
        chosen = read_seeds(seeds)
        place = read_executor(executor, workers, address)
        names = tuple(check_name(name, METHODS) for name in methods.split(","))
        with reported_errors(as_json, "Finished training runs are kept; run the same command again to continue"):
            graphs = [find_dataset(name).name for name in dataset or ["Cora"]]
            found = []
            for graph in graphs:
                with Bar(experiment.name, words=graph) as bar:
                    words = Words(bar)
                    study = Study(
                        dataset=graph,
                        methods=names,
                        fast=fast,
                        epochs=epochs,
                        data_root=data_root,
                        say=words.say,
                        seeds=tuple(range(chosen)) if isinstance(chosen, int) else tuple(chosen),
                        cache=cache or out / "cache",
                        pairs=pairs or (FAST_PAIRS if fast else PAIRS),
                        nodes=nodes or (FAST_NODES if fast else NODES),
                    )
                    found.append(reproduce(experiment, study, out, place, words.count))
            show(as_json, {"results": [one.to_dict() for one in found]}, "\n\n".join(map(_text, found)))

    command.__doc__ = f"""{experiment.about}

    Training runs and their measurements are kept in the cache: after a kill or Ctrl-C, run the same command again.

    **Examples**

        certgcl reproduce {experiment.name} --fast

        certgcl reproduce {experiment.name} --dataset BlogCatalog --fast --nodes 64 --seeds 0,1 --out figures
    """
    app.command(experiment.name)(command)


for _experiment in EXPERIMENTS.values():
    add(_experiment)


class Words:
    """A progress bar: how many training runs are done, and the current step."""

    def __init__(self, bar: Bar) -> None:
        self._bar, self._done, self._whole = bar, 0, 1

    def count(self, done: int, whole: int) -> None:
        self._done, self._whole = done, whole
        self._bar.show(done, whole, f"{done}/{whole} training runs")

    def say(self, words: str) -> None:
        self._bar.show(self._done, self._whole, f"{self._done}/{self._whole} training runs; {words}")


def _text(found: Outcome) -> str:
    known = [name for name in found.summary[0] if any(row[name] is not None for row in found.summary)]
    rows = [_cells({name: row[name] for name in known}) for row in found.summary]
    written = f"written to {', '.join(path.name for path in found.files)} in {found.files[0].parent}"
    return f"{aligned(rows, f'{found.experiment} on {found.dataset}')}\n{written}"


def _cells(row: Row) -> dict[str, str]:
    """A row as text. Shares with their standard deviation take one column, in percent, so that all columns fit."""
    cells = {}
    for name, value in row.items():
        if f"± {name}" in row:
            deviation = f" ± {100 * row[f'± {name}']:.1f}" if row["seeds"] > 1 else ""
            cells[f"{name}, %"] = f"{100 * value:.1f}{deviation}"
        elif not name.startswith("± "):
            cells[name] = _shown(value)
    return cells


def _shown(value: Any) -> str:
    return "–" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
