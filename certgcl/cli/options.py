"""Options shared by several commands, and options that are more than a number or a name."""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeAlias, TypeVar

import numpy as np
import torch
import typer
from torch import Tensor

from certgcl.arguments import first_line, shown, usable_device
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.cli.run_folders import GraphSource, encoder_of, known_name
from certgcl.errors import BudgetError, InputError
from certgcl.executors import NAMES, Executor, get_executor
from certgcl.files.untrusted import mapped_array
from certgcl.graphs.datasets import DATASETS, GRAPH_SETS, find_dataset
from certgcl.learning.evaluation.inputs import MOST_SEEDS
from certgcl_command import suggesting

# -- options that several commands have ------------------------------------------------------------

NUMBER = r"[0-9]{1,18}"  # that fits into int64
MOST_NODES = 100_000_000  # nodes in a range; graphs have fewer
_GRAPH = "a folder with x.npy and edge_index.npy (features stay on disk), an .npz or a .pt file"


def one_of(names: Iterable[str]) -> dict[str, Any]:
    """Settings of an option whose value is one of these names: it is checked, and a shell completes it."""
    known = list(names)
    return {
        "callback": lambda name: None if name is None else check_name(name, known),
        "autocompletion": suggesting(known),
    }


JsonFlag: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
RunOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--run", exists=True, file_okay=False, help="A run folder of certgcl train: its encoder on its graph."
    ),
]
GraphOption: TypeAlias = Annotated[Path | None, typer.Option(exists=True, help=f"The graph: {_GRAPH}.")]
DatasetOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="The name of a graph; certgcl datasets lists them.", autocompletion=suggesting([*DATASETS, *GRAPH_SETS])
    ),
]
WeightsOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        exists=True, dir_okay=False, help="The encoder, as written by certgcl.read_network(model, graph).save(path)."
    ),
]
DataRootOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(file_okay=False, help="The folder with the raw files of datasets; CERTGCL_DATA by default."),
]
DeviceOption: TypeAlias = Annotated[
    str | None, typer.Option(help="Where to compute: cpu, cuda, cuda:1; the CPU by default.")
]
BudgetOption: TypeAlias = Annotated[
    str,
    typer.Option(
        help="Edges that may be dropped at each node (2), or a drop rate (0.4): round(0.4 degree), at most degree - 1."
    ),
]
ExecutorOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--executor",
        **one_of(NAMES),
        help="Where to compute: here, with all threads "
        "of this process; in processes of this machine; or on a ray cluster.",
    ),
]
WorkersOption: TypeAlias = Annotated[
    int | None, typer.Option("--workers", min=1, help="The number of processes; one per core by default.")
]
AddressOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--address",
        help="The address of the Ray cluster: auto or HOST:6379; by default RAY_ADDRESS, else the cluster that runs "
        "on this machine, or is started there.",
    ),
]
TotalOption: TypeAlias = Annotated[int | None, typer.Option(min=0, help="Edges that may be dropped in total.")]


def choose_source(dataset: str | None, graph: Path | None, root: Path | None, *, several: bool = False) -> GraphSource:
    """A graph by its name, or in a file; a set of graphs by its name too, where ``several`` are allowed."""
    if (dataset is None) == (graph is None):
        raise typer.BadParameter("pass one of the two", param_hint="--dataset, --graph")
    if dataset is not None:
        name = known_name(dataset) if several else find_dataset(dataset).name
        return GraphSource(dataset=name, root=None if root is None else str(root.resolve()))
    return GraphSource(graph=str(graph.resolve()) if graph else None)


def choose_encoder(
    run: Path | None,
    weights: Path | None,
    dataset: str | None,
    graph: Path | None,
    root: Path | None,
    *,
    several: bool = False,
) -> tuple[Path, GraphSource]:
    """The weights and the graph of a run, or those that are given one by one."""
    if (run is None) == (weights is None):
        raise typer.BadParameter("pass one of the two", param_hint="--run, --weights")
    if weights is not None:
        return weights, choose_source(dataset, graph, root, several=several)
    if run is None or dataset is not None:
        raise typer.BadParameter("a run has its own graph; --graph says where it is now", param_hint="--dataset")
    encoder, source = encoder_of(run), GraphSource.of_run(run)
    return encoder, source if graph is None else source.found_at(choose_source(None, graph, None))


class Movable(Protocol):
    """Anything that can be moved to a device."""

    def to(self, *, device: Any) -> Any: ...


Moved = TypeVar("Moved", bound=Movable)


def moved(value: Moved, device: str | None) -> Moved:
    """A graph or a model on the requested device."""
    place = usable_device(device)
    return value if place is None else value.to(device=place)


# -- options that are more than a number or a name -------------------------------------------------


def read_budget(text: str, total: int | None = None) -> EdgeDropBudget:
    """``2`` is edges at each node, ``0.4`` a drop rate."""
    drops = read_drops(text)
    try:
        if isinstance(drops, int):
            return EdgeDropBudget(local=drops, total=total)
        return EdgeDropBudget.from_drop_rate(drops, total=total)
    except BudgetError as error:
        raise typer.BadParameter(f"{error.found}: {error.rule}", param_hint="--budget, --total") from error


def read_drops(text: str) -> int | float:
    """The same, parsed as a number."""
    if re.fullmatch(NUMBER, text):
        return int(text)
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not 0 < rate < 1:
        raise typer.BadParameter(
            f"{shown(text)} is neither a number of edges (2) nor a drop rate between 0 and 1 (0.4)",
            param_hint="--budget",
        )
    return rate


def read_nodes(text: str | None) -> Tensor | None:
    """A range ``0:1000``, or a file with node numbers: ``.npy``, or text with white space between them."""
    if text is None:
        return None
    span = re.fullmatch(rf"({NUMBER}):({NUMBER})", text)
    if span:
        start, stop = int(span[1]), max(int(span[1]), int(span[2]))
        if stop - start > MOST_NODES:
            raise typer.BadParameter(f"{text!r} is more than {MOST_NODES:,} nodes", param_hint="--nodes")
        return torch.arange(start, stop)
    path = Path(text)
    try:
        numbers = (
            mapped_array(path).copy()
            if path.suffix == ".npy"
            else np.array([int(word) for word in path.read_text().split()], dtype=np.int64)
        )
        return torch.from_numpy(numbers)
    except (OSError, ValueError, TypeError, OverflowError) as error:
        raise typer.BadParameter(
            f"{shown(text)} is neither a range 0:1000 nor a file of node numbers ({first_line(error)})",
            param_hint="--nodes",
        ) from error


def read_worker(text: str | None, environment: Mapping[str, str] = os.environ) -> tuple[int, int] | None:
    """``k/n``, or torchrun's ``RANK`` and ``WORLD_SIZE``; k counts from 0."""
    found = text
    if text is None and {"RANK", "WORLD_SIZE"} <= environment.keys():
        found = f"{environment['RANK']}/{environment['WORLD_SIZE']}"
    if found is None:
        return None
    share = re.fullmatch(rf"({NUMBER})/({NUMBER})", found)
    if share is None or int(share[1]) >= int(share[2]):
        raise typer.BadParameter(
            f"{shown(found)} is not k/n with k from 0 to n - 1", param_hint="--shard" if text else "RANK and WORLD_SIZE"
        )
    return int(share[1]), int(share[2])


def read_executor(name: str, workers: int | None, address: str | None) -> Executor:
    try:
        return get_executor(name, workers=workers, address=address)
    except InputError as error:
        raise typer.BadParameter(f"{error.found}: {error.rule}", param_hint="--workers, --address") from error


def read_seeds(text: str) -> int | list[int]:
    """``5`` is their number, ``0,3,7`` and ``0..9`` are the seeds themselves."""
    span = re.fullmatch(rf"({NUMBER})\.\.({NUMBER})", text)
    if span and 0 <= int(span[2]) - int(span[1]) < MOST_SEEDS:
        return list(range(int(span[1]), int(span[2]) + 1))
    if not re.fullmatch(rf"{NUMBER}(,{NUMBER})*", text) or ("," not in text and int(text) > MOST_SEEDS):
        raise typer.BadParameter(
            f"{shown(text)} is neither a number of seeds (5) nor a list of them (0,1,2 or 0..9)", param_hint="--seeds"
        )
    seeds = [int(seed) for seed in text.split(",")]
    return seeds if "," in text else seeds[0]


def check_name(name: str, names: Iterable[str]) -> str:
    if name not in names:
        raise typer.BadParameter(f"{shown(name)} is not one of {', '.join(names)}")
    return name
