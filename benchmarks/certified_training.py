"""Does the worst case pay? Each method plain, with the released heuristic, and with compactness at several budgets.

``clean`` is the control: the same regularizer without a budget, compactness on the graph as given. ``one edge`` and
``certified`` bound the worst case, with one dropped edge at each node and with as many as the views drop. Every run is
trained with the tuned preset and measured as ``benchmarks.training_measures`` says. One line of JSON per run is
appended to the file of results; existing runs are skipped, so a stopped grid resumes where it was. ``--models`` keeps
the trained encoders, so that a new measure needs no new training.

``CERTGCL_DATA=... python -m benchmarks.certified_training [--graphs Cora CiteSeer] [--methods grace gca progcl costa]
[--variants plain released clean "one edge" certified] [--seeds 0 1 2 3 4] [--nodes 500] [--executor processes]
[--models FOLDER]``

A variant is one of these names, with settings of the regularizer after a colon: ``certified:kappa=0.2,scale=10``.
``--tests`` prints means and paired tests of what the file holds; ``python -m benchmarks.tables`` puts them into
``docs/results.md``.
"""

import argparse
import importlib
import json
import time
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data

import certgcl
from benchmarks import training_measures, training_tables
from certgcl.executors import NAMES, Piece, get_executor
from certgcl.experiments.variants import VARIANTS, regularizer
from certgcl.learning import presets
from certgcl.learning.methods import METHODS

RESULTS = Path(__file__).parent / "results" / "certified_training.jsonl"
NODES = 500  # that are measured
DENSE_NODES = 100  # at most, and no search for upper values, on graphs with more than presets.DENSE edges a node
SPLITS = 3  # of protocols with random ones


def settings_of(variant: str) -> tuple[str, dict[str, Any]]:
    """The name of a variant, and the settings after its colon."""
    name, _, changes = variant.partition(":")
    return name, {
        key: json.loads(value) for key, value in (change.split("=") for change in changes.split(",") if change)
    }


def trained(
    graph: certgcl.Graph, dataset: str, method: str, variant: str, seed: int, models: Path | None
) -> tuple[certgcl.ContrastiveMethod, float | None]:
    """A trained method and its seconds (CPU time), None if it was in the folder of models."""
    file = None if models is None else models / f"{dataset}-{method}-{variant.replace(' ', '-')}-{seed}.pt"
    preset = presets.get(method, dataset, tuned=True)
    name, changes = settings_of(variant)
    estimator = METHODS[method](**preset.settings(), seed=seed, regularizer=regularizer(name, preset, **changes))
    if file is not None and file.exists():
        kept = METHODS[method].load(file)
        if kept.settings() == estimator.settings():
            return kept, None
    start = time.process_time()
    estimator.fit(graph)
    seconds = time.process_time() - start
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        estimator.save(file)
    return estimator, seconds


def run(
    data: Data,
    graph: certgcl.Graph,
    dataset: str,
    method: str,
    variant: str,
    seed: int,
    models: Path | None,
    nodes: int,
) -> dict[str, Any]:
    """One training, with the measurements of its encoder at some nodes."""
    estimator, seconds = trained(graph, dataset, method, variant, seed, models)
    protocol = presets.get(method, dataset, tuned=True).protocol
    public, dense = protocol == "public", graph.num_edges > presets.DENSE * graph.num_nodes
    nodes = min(nodes, DENSE_NODES) if dense else nodes
    evaluation = certgcl.evaluate(
        estimator.transform(graph), data.y, protocol, masks=data if public else None, seeds=SPLITS
    )
    start = time.process_time()
    measured = training_measures.compactness(estimator, graph, nodes, search=not dense)
    measured |= training_measures.accuracy(estimator, graph, data, public, nodes, search=not dense)
    return {
        "graph": dataset,
        "method": method,
        "variant": variant,
        "seed": seed,
        "micro": evaluation.micro_mean,
        "macro": evaluation.macro_mean,
        **measured,
        "seconds": seconds,
        "measuring_seconds": time.process_time() - start,
        "settings": estimator.settings(),
    }


@cache
def loaded(dataset: str) -> tuple[Data, certgcl.Graph]:
    data = certgcl.load_dataset(dataset)
    return data, certgcl.Graph.of(data)


def one_run(settings: tuple[Path | None, int], asked: tuple[str, str, str, int]) -> dict[str, Any]:
    """The task of a worker."""
    return run(*loaded(asked[0]), *asked, *settings)


def known(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.open()] if path.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--graphs", nargs="+", default=["Cora", "CiteSeer"])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(5)))
    parser.add_argument("--nodes", type=int, default=NODES, help="that are measured")
    parser.add_argument("--executor", default="here", choices=NAMES, help="where the runs are made")
    parser.add_argument("--models", type=Path, help="a folder for the trained encoders")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tests", action="store_true", help="train nothing; print tables and tests of the file")
    arguments = parser.parse_args()
    if arguments.tests:
        print("\n\n".join(training_tables.tables(known(arguments.results))))
        return
    torch.set_num_threads(arguments.threads)
    there = {(row["graph"], row["method"], row["variant"], row["seed"]) for row in known(arguments.results)}
    runs = [
        (dataset, method, variant, seed)
        for dataset, method, seed, variant in product(
            arguments.graphs, arguments.methods, arguments.seeds, arguments.variants
        )
        if (dataset, method, variant, seed) not in there
    ]
    # By the name of its module, which workers can import: a script that is run has another name.
    task = importlib.import_module("benchmarks.certified_training").one_run
    pieces = (Piece(asked, asked) for asked in runs)
    for answer in get_executor(arguments.executor).stream(task, (arguments.models, arguments.nodes), pieces):
        row, (dataset, method, variant, seed) = answer.value(), answer.key
        with arguments.results.open("a") as stream:
            stream.write(json.dumps(row) + "\n")
        accuracies = "".join(f", at {budget}: {100 * share:.1f}" for budget, share in row["certified_accuracy"].items())
        print(
            f"{dataset} {method} {variant} seed {seed}: Micro-F1 {100 * row['micro']:.1f}, "
            f"kept {row['kept']['0.4']:.3f}, certified accuracy{accuracies}",
            flush=True,
        )


if __name__ == "__main__":
    main()
