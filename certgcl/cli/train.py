"""``certgcl train``: one run of one method, in a folder of its own."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from torch_geometric.data import Data

from certgcl.arguments import LARGEST, usable_device
from certgcl.bounds import METHODS as BOUNDS
from certgcl.certify.certificate import Certificate
from certgcl.certify.compactness import node_compactness
from certgcl.certify.pooling import GraphCertificate, graph_compactness
from certgcl.certify.sharding import MERGED
from certgcl.changes.changes import BudgetLike
from certgcl.cli.certify import summary
from certgcl.cli.method_options import NO_REGULARIZER, build_method, default_budget, read_settings
from certgcl.cli.options import (
    AddressOption,
    DataRootOption,
    DatasetOption,
    DeviceOption,
    ExecutorOption,
    GraphOption,
    JsonFlag,
    WorkersOption,
    choose_source,
    moved,
    one_of,
    read_drops,
    read_executor,
    read_seeds,
    read_worker,
)
from certgcl.cli.progress import Bar, TrainingBar
from certgcl.cli.results import reported_errors, show
from certgcl.cli.run_folders import ENCODER, METHOD, RESULT, GraphSource, labels_of
from certgcl.errors import GraphError
from certgcl.executors import Executor, ThisProcess, all_answers
from certgcl.files.atomic import write_json
from certgcl.files.locks import locked
from certgcl.graphs.datasets import GRAPH_SETS
from certgcl.learning import presets
from certgcl.learning.evaluation import Evaluation, evaluate
from certgcl.learning.methods import GRAPH_METHODS, METHODS, ContrastiveMethod
from certgcl.learning.schedules import Ramp
from certgcl.learning.training.run_folder import check_folder


def train(
    dataset: DatasetOption = None,
    graph: GraphOption = None,
    method: Annotated[
        str,
        typer.Option(
            **one_of(METHODS | GRAPH_METHODS),
            help=f"{', '.join(METHODS)}; {', '.join(GRAPH_METHODS)} for sets of graphs, such as MUTAG.",
        ),
    ] = "grace",
    preset: Annotated[
        str | None,
        typer.Option(
            help="The dataset whose settings to take: that of --dataset by default; "
            "for your own --graph, the defaults of the method."
        ),
    ] = None,
    fast: Annotated[
        bool, typer.Option("--fast", help="The preset for two CPU cores: fewer epochs, sampled anchors.")
    ] = False,
    tuned: Annotated[
        bool,
        typer.Option(
            "--tuned", help="The preset for results: features masked, batches of negatives, more epochs than --fast."
        ),
    ] = False,
    regularizer: Annotated[
        str,
        typer.Option(
            **one_of([NO_REGULARIZER, *BOUNDS]),
            help="The compactness term in the loss: degree-fast, degree, degree-cheap, crown, interval; none for the "
            "plain method; paper and released are not bounds, but can be trained with.",
        ),
    ] = "degree-fast",
    kappa: Annotated[
        float | None, typer.Option(min=0, max=1, help="Its share of the loss; the preset's by default.")
    ] = None,
    anchors: Annotated[
        int | None,
        typer.Option(help="The number of random nodes it bounds in each step, -1 for all; the preset's by default."),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            help="The drops that it and --certify bound: edges at each node (2) or a drop rate (0.4); the preset's by "
            "default, or else 1."
        ),
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=0, help="The preset's by default.")] = None,
    batch_nodes: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="Train in mini-batches of this number of nodes, for graphs whose full pass does not fit into memory; "
            "under torchrun its processes share them.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=LARGEST, help="The seed of the weights and the views.")] = 0,
    seeds: Annotated[
        str | None,
        typer.Option(
            help="Several runs, each in its own folder: how many (5), or the seeds themselves (0,3,7 or 0..9)."
        ),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any other setting of the method or the regularizer; can be repeated: --set drop_rates=0.3,0.1.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            file_okay=False,
            help="The run folder; "
            "runs/DATASET-METHOD-REGULARIZER-SEED by default. With --seeds, where "
            "seed-0, seed-1, … are made.",
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Continue the run in the folder, if there is one; --epochs may be larger than before."
        ),
    ] = False,
    certify: Annotated[
        bool,
        typer.Option(
            "--certify",
            help="Certify all nodes afterwards, at the budget of the regularizer; without one, at the budget that it "
            "would have.",
        ),
    ] = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write the history for TensorBoard.")] = False,
    executor: ExecutorOption = "here",
    workers: WorkersOption = None,
    address: AddressOption = None,
    device: DeviceOption = None,
    data_root: DataRootOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Train a contrastive method on a graph, evaluate it by the protocol of the graph, and keep everything in a run
    folder.

    The folder has config.json (settings, versions), history.jsonl, checkpoint.pt, method.pt (for certgcl evaluate, and
    certgcl.GRACE.load), encoder.npz (for certgcl certify --weights), result.json, and certificate.npz with --certify.
    After a kill or Ctrl-C, run the same command with --resume: the result is the same, bit by bit.

    **Examples**

        certgcl train --dataset digits

        certgcl train --dataset Cora --method gca --fast --seed 1 --certify

        certgcl train --dataset digits --epochs 50 --seeds 5 --out runs/five

        certgcl train --dataset Cora --fast --seeds 0..9 --executor processes --out runs/ten

        certgcl train --dataset digits --set schedule=cosine --set learning_rate=0.01

        certgcl train --dataset Cora --regularizer degree --anchors 48 --set scale=None --set inside_budget=True

        certgcl train --graph my_graph --regularizer none --epochs 500 --out runs/mine --resume

        certgcl train --dataset cycles-and-trees --method graphcl --epochs 10 --certify

        torchrun --nproc-per-node 2 -m certgcl train --dataset digits --batch-nodes 512 --epochs 3 --out runs/together
    """
    options = {
        "kappa": kappa,
        "anchors": anchors,
        "epochs": epochs,
        "batch_nodes": batch_nodes,
        "device": device,
    }
    plain, drops = regularizer == NO_REGULARIZER, None if budget is None else read_drops(budget)
    if not plain:
        options["budget"] = drops
    elif drops is not None and not certify:
        raise typer.BadParameter("without a regularizer it is for --certify", param_hint="--budget")
    given = (
        {"seed": seed}
        | read_settings(changes or [])
        | {name: value for name, value in options.items() if value is not None}
    )
    place, share = read_executor(executor, workers, address), read_worker(None) or (0, 1)
    if share[1] > 1 and (seeds is not None or not isinstance(place, ThisProcess)):
        raise typer.BadParameter("torchrun trains one run in all its processes", param_hint="--seeds, --executor")
    with reported_errors(as_json, "The run is kept; continue it with the same command and --resume"):
        source = choose_source(dataset, graph, data_root, several=method in GRAPH_METHODS)
        if method in GRAPH_METHODS and not source.several:
            raise GraphError(
                f"{source} for {method}",
                "it is trained on a set of graphs",
                f"Name one with --dataset: {', '.join(GRAPH_SETS)}",
            )
        settings_of = preset or source.dataset
        settings = presets.get(method, settings_of, fast=fast, tuned=tuned) if settings_of else None
        chosen = [None] if seeds is None else _all_of(read_seeds(seeds))
        estimators = [
            build_method(method, settings, regularizer, given | ({} if one is None else {"seed": one}))
            for one in chosen
        ]
        usable_device(estimators[0].device)  # before anything is written
        asked = [
            _Asked(
                one,
                Path("runs", f"{source}-{method}-{regularizer}-{one.seed}")
                if out is None
                else (out if seeds is None else out / f"seed-{one.seed}"),
            )
            for one in estimators
        ]
        alike = _Alike(
            source,
            source.load_several() if source.several else source.load(),
            resume,
            certify,
            drops if drops is not None else default_budget(settings),
            tensorboard,
            together=share[1] > 1,
        )
        if share[0] > 0:
            _help(alike, asked[0])
            return
        runs = _all_runs(place, alike, asked)
        every = [run.evaluation for run in runs if run.evaluation is not None]
        pooled = Evaluation.pooled(every) if seeds is not None and every else None
        result = (
            runs[0].result
            if seeds is None
            else {"runs": [run.result for run in runs], "evaluation": None if pooled is None else pooled.to_dict()}
        )
        show(
            as_json,
            result,
            "\n".join([*(run.text for run in runs), *([] if pooled is None else [f"all seeds: {pooled}"])]),
        )


@dataclass(frozen=True)
class _Asked:
    """A requested training run."""

    estimator: ContrastiveMethod
    folder: Path

    def __str__(self) -> str:
        return str(self.folder)


@dataclass(frozen=True)
class _Alike:
    """The settings shared by all runs of a command."""

    source: GraphSource
    data: Data
    resume: bool
    certify: bool
    budget: BudgetLike | Ramp | None
    tensorboard: bool
    bars: bool = True
    together: bool = False


@dataclass(frozen=True)
class _FinishedRun:
    """A finished run: its output, as JSON and as text."""

    evaluation: Evaluation | None
    result: dict[str, Any]
    text: str


def _all_runs(executor: Executor, alike: _Alike, asked: list[_Asked]) -> list[_FinishedRun]:
    if isinstance(executor, ThisProcess):
        return all_answers(executor, _run, alike, asked)
    for one in asked:
        check_folder(one.folder, alike.resume)
    # If a worker dies, another one continues from its checkpoint, possibly with a different current folder.
    with Bar("training", words="starting") as bar:
        return all_answers(
            executor,
            _run,
            replace(alike, resume=True, bars=False),
            [replace(one, folder=one.folder.resolve()) for one in asked],
            progress=lambda done, whole: bar.show(done, whole, f"{done}/{whole} runs"),
        )


def _help(alike: _Alike, asked: _Asked) -> None:
    """Take part in a training run whose files are written by the first process only."""
    asked.estimator.fit(_placed(alike, asked), folder=asked.folder, resume=alike.resume, distributed=True)


def _placed(alike: _Alike, asked: _Asked) -> Any:
    data, device = alike.data, asked.estimator.device
    return [moved(each, device) for each in data] if isinstance(data, list) else moved(data, device)


def _run(alike: _Alike, asked: _Asked) -> _FinishedRun:
    """One training run, in its folder."""
    estimator, folder, source, data = asked.estimator, asked.folder, alike.source, alike.data
    placed = _placed(alike, asked)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder, "train", remedy="Wait until it has finished, end it, or choose another --out"):
        with TrainingBar(shown=alike.bars) as bar:
            options = {"distributed": True} if alike.together else {}
            estimator.fit(
                placed, folder=folder, resume=alike.resume, progress=bar, tensorboard=alike.tensorboard, **options
            )
        source.save(folder, data)
        estimator.save(folder / METHOD)
        estimator.network().save(folder / ENCODER)
        certificate = _certified(estimator, placed, folder, alike) if alike.certify else None
        evaluation = _evaluated(estimator, data, source.protocol(data), alike.bars)
        result = _result(estimator, source, folder, evaluation, certificate)
        write_json(folder / RESULT, result)
    return _FinishedRun(evaluation, result, _text(estimator, source, folder, evaluation, certificate))


def _all_of(seeds: int | list[int]) -> list[int]:
    found = list(range(seeds)) if isinstance(seeds, int) else seeds
    if not found or len(set(found)) < len(found) or max(found) > LARGEST:
        raise typer.BadParameter(f"{found} must be one or more different seeds", param_hint="--seeds")
    return found


def _certified(
    estimator: ContrastiveMethod, data: Data | list[Data], folder: Path, alike: _Alike
) -> Certificate | GraphCertificate:
    term, shown = estimator.regularizer, alike.bars
    asked = alike.budget if term is None else term.budget
    budget = max(estimator.drop_rates) if asked is None else asked
    certificate: Certificate | GraphCertificate
    if isinstance(data, list):
        with Bar("certifying", shown, words=f"{len(data):,} graphs"):
            certificate = graph_compactness(estimator, data, budget)  # type: ignore[arg-type]  # nor from here
    else:
        with Bar("certifying", shown, words=f"{data.num_nodes:,} nodes"):
            certificate = node_compactness(estimator, data, budget)  # type: ignore[arg-type]  # no Ramp comes from here
    certificate.save(folder / MERGED)
    return certificate


def _evaluated(estimator: ContrastiveMethod, data: Data | list[Data], protocol: str, shown: bool) -> Evaluation | None:
    if isinstance(data, list):
        with Bar("evaluating", shown, words=protocol):
            return evaluate(estimator.transform(data), labels_of(data), protocol)
    if data.y is None:
        return None
    with Bar("evaluating", shown, words=protocol):
        return evaluate(estimator.transform(data), data.y, protocol, masks=data)


def _result(
    estimator: ContrastiveMethod,
    source: GraphSource,
    folder: Path,
    evaluation: Evaluation | None,
    certificate: Certificate | GraphCertificate | None,
) -> dict[str, Any]:
    history, term = estimator.history_, estimator.regularizer
    assert history is not None
    return {
        "out": str(folder),
        "graph": str(source),
        "method": type(estimator).__name__,
        "regularizer": None if term is None else term.to_dict(),
        "seed": estimator.seed,
        "epochs": len(history),
        "seconds": round(sum(history.column("seconds")), 3),
        "last": history.last if len(history) else None,
        "evaluation": None if evaluation is None else evaluation.to_dict(),
        "certificate": None if certificate is None else summary(folder, certificate),
    }


def _text(
    estimator: ContrastiveMethod,
    source: GraphSource,
    folder: Path,
    evaluation: Evaluation | None,
    certificate: Certificate | GraphCertificate | None,
) -> str:
    history = estimator.history_
    assert history is not None
    lines = [
        f"{type(estimator).__name__} on {source}: {len(history)} epochs in {sum(history.column('seconds')):.1f} s",
        "no labels to evaluate with" if evaluation is None else str(evaluation),
        *([] if certificate is None else [str(certificate)]),
        f"written to {folder}",
    ]
    return "\n".join(lines)
