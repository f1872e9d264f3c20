"""Certified training keeps nodes compact: each method plain, with the released heuristic, and with the certified bound.

Every run is trained with the fast preset, evaluated by the graph's protocol, and certified with ``degree`` (full
setting) at ``q = round(p_e1 d)``. One line of JSON per run is added to the file of results; runs that are there already
are skipped, so a stopped benchmark goes on where it was, and several workers can share the work.

``CERTGCL_DATA=... python -m benchmarks.certified_training [--graphs Cora CiteSeer] [--methods grace gca progcl costa]
[--variants plain released certified] [--seeds 0 1 2 3 4] [--worker 0/2]``

A variant is one of these names, with settings of the regularizer after a colon: ``certified:kappa=0.2,scale=10``.
``python -m benchmarks.tables`` makes the tables of ``docs/results.md`` from it.
"""

import argparse
import json
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data

import certgcl
from certgcl.experiments.variants import VARIANTS, regularizer
from certgcl.learning import presets
from certgcl.learning.methods import METHODS

RESULTS = Path(__file__).parent / "results" / "certified_training.jsonl"
RATES = tuple(rate / 10 for rate in range(1, 10))  # on graphs above ALL_UP_TO nodes every other one
SAMPLE = 256  # nodes at which the certified drop rate is measured, and all else on graphs above ALL_UP_TO nodes
ALL_UP_TO = 4000
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def settings_of(variant: str) -> tuple[str, dict[str, Any]]:
    """The name of a variant, and the settings after its colon."""
    name, _, changes = variant.partition(":")
    return name, {key: json.loads(value) for key, value in (
        change.split("=") for change in changes.split(",") if change)}


def run(data: Data, graph: certgcl.Graph, dataset: str, method: str, variant: str, seed: int) -> dict[str, Any]:
    """One training, and what is known of its encoder."""
    preset = presets.get(method, dataset, fast=True)
    name, changes = settings_of(variant)
    estimator = METHODS[method](**preset.settings(), seed=seed, regularizer=regularizer(name, preset, **changes))
    start = time.perf_counter()
    embeddings = estimator.fit_transform(data)
    seconds = time.perf_counter() - start
    masks = data if preset.protocol == "public" else None
    evaluation = certgcl.evaluate(embeddings, data.y, preset.protocol, masks=masks, seeds=3)
    norm = float(embeddings.norm(dim=1).mean())
    sample = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(0))[:SAMPLE].sort().values
    certificate = certgcl.node_compactness(estimator, graph, preset.drop_rates[0],
                                           nodes=None if graph.num_nodes <= ALL_UP_TO else sample)
    lower = certificate.lower / norm
    return {
        "graph": dataset, "method": method, "variant": variant, "seed": seed, "seconds": seconds,
        "micro": evaluation.micro_mean, "macro": evaluation.macro_mean, "norm": norm,
        "certified_nodes": len(certificate.nodes), "share": certificate.share_positive,
        "clean_over_norm": float(certificate.nominal.mean()) / norm, "lower_over_norm": float(lower.mean()),
        "lower_quantiles": torch.quantile(lower, torch.tensor(QUANTILES, dtype=lower.dtype)).tolist(),
        **certified_rates(estimator, graph, sample, RATES[:: 1 if graph.num_nodes <= ALL_UP_TO else 2]),
        "settings": estimator.settings(),
    }


def certified_rates(model: certgcl.ContrastiveMethod, graph: certgcl.Graph, nodes: torch.Tensor,
                    rates: Sequence[float]) -> dict[str, Any]:
    """The largest drop rate up to which a node stays certified, on a grid; its mean, and the share at each rate."""
    alive = torch.ones(len(nodes), dtype=torch.bool)
    largest = torch.zeros(len(nodes))
    shares = []
    for rate in rates:
        left = alive.nonzero()[:, 0]
        if len(left):
            alive[left] = certgcl.node_compactness(model, graph, rate, nodes=nodes[left], method="degree").positive
        largest[alive] = rate
        shares.append(float(alive.double().mean()))
    return {"drop_rate": float(largest.mean()), "share_by_rate": shares}


def done(path: Path) -> set[tuple[str, str, str, int]]:
    if not path.exists():
        return set()
    return {(row["graph"], row["method"], row["variant"], row["seed"]) for row in map(json.loads, path.open())}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--graphs", nargs="+", default=["Cora", "CiteSeer"])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(5)))
    parser.add_argument("--worker", default="0/1", help="k/n: every n-th run from the k-th on")
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    worker, workers = map(int, arguments.worker.split("/"))
    runs = list(product(arguments.seeds, arguments.graphs, arguments.methods, arguments.variants))
    loaded: dict[str, tuple[Data, certgcl.Graph]] = {}
    for seed, dataset, method, variant in runs[worker::workers]:
        if (dataset, method, variant, seed) in done(arguments.results):
            continue
        if dataset not in loaded:
            data = certgcl.load_dataset(dataset)
            loaded[dataset] = data, certgcl.Graph.of(data)
        row = run(*loaded[dataset], dataset, method, variant, seed)
        with arguments.results.open("a") as stream:
            stream.write(json.dumps(row) + "\n")
        print(f"{dataset} {method} {variant} seed {seed}: {row['seconds']:.0f} s, Micro-F1 {100 * row['micro']:.1f}, "
              f"certified {100 * row['share']:.1f} %, lower/norm {row['lower_over_norm']:.3f}, "
              f"drop rate {row['drop_rate']:.3f}", flush=True)


if __name__ == "__main__":
    main()
