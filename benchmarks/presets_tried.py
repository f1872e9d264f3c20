"""Settings of plain methods that were tried for the tuned presets, by accuracy on validation nodes.

Every line of JSON in the file of results is one choice of settings: the differences from the tuned preset of that time
(the fast one, where none was tuned yet), the seeds, and accuracy on the validation and on the test nodes of the public
split (of a random one on graphs that have none), for the C that is best on the validation nodes.
The seeds are by default none of those that ``benchmarks.certified_training`` uses. ``docs/results.md`` has the table.

``CERTGCL_DATA=... python -m benchmarks.presets_tried --graph CiteSeer [--method grace] [--seeds 10 11 12]
[--changes '{"epochs": 200}' '{"hidden": 256, "projection": 256}']``
"""

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

import certgcl
from benchmarks.report import markdown
from certgcl.learning import presets
from certgcl.learning.evaluation.inputs import masked_nodes
from certgcl.learning.evaluation.protocols import random_splits
from certgcl.learning.methods import METHODS

RESULTS = Path(__file__).parent / "results" / "presets_tried.jsonl"
SEEDS = (10, 11, 12)
STRENGTHS = tuple(4.0**power for power in range(-5, 6))  # C of the probe, as in the protocol ``public``


def accuracies(embeddings: torch.Tensor, data: Data, public: bool) -> tuple[float, float]:
    """On the validation and on the test nodes."""
    from sklearn.linear_model import LogisticRegression

    train, validation, test = masked_nodes(data, len(embeddings)) if public else random_splits(len(embeddings), (0,))[0]
    x, y = torch.nn.functional.normalize(embeddings).double().numpy(), data.y.numpy()
    model = LogisticRegression(solver="newton-cg", tol=1e-6, warm_start=True)
    best = -1.0, -1.0
    for strength in STRENGTHS:
        right = model.set_params(C=strength).fit(x[train], y[train]).predict(x) == y
        found = float(np.mean(right[validation])), float(np.mean(right[test]))
        best = found if found[0] > best[0] else best
    return best


def tried(name: str, method: str, changes: dict[str, Any], seeds: Sequence[int]) -> dict[str, Any]:
    """The results of one choice of settings."""
    data = certgcl.load_dataset(name)
    graph, preset = certgcl.Graph.of(data), presets.get(method, name, tuned=True)
    start, found = time.process_time(), []
    for seed in seeds:
        trained = METHODS[method](**preset.settings() | changes, seed=seed).fit(graph)
        found.append(accuracies(trained.transform(graph), data, preset.protocol == "public"))
    return {
        "graph": name,
        "method": method,
        "changes": changes,
        "seeds": list(seeds),
        "validation": statistics.mean(one[0] for one in found),
        "test": [one[1] for one in found],
        "seconds": (time.process_time() - start) / len(seeds),
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Means over the seeds, in percent."""
    return markdown(
        ["plain training, changes to the preset", "seeds", "validation", "test", "test, by seed", "CPU s a run"],
        [
            [
                f"{row['graph']}, {row['method']}: {_shown(row['changes'])}",
                len(row["seeds"]),
                f"{100 * row['validation']:.1f}",
                f"{100 * statistics.mean(row['test']):.1f}",
                ", ".join(f"{100 * one:.1f}" for one in row["test"]),
                f"{row['seconds']:.0f}",
            ]
            for row in rows
        ],
    )


def _shown(changes: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in changes.items()) or "nothing"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--graph", required=True)
    parser.add_argument("--method", default="grace", choices=list(METHODS))
    parser.add_argument("--changes", nargs="+", type=json.loads, default=[{}])
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for changes in arguments.changes:
        row = tried(arguments.graph, arguments.method, changes, arguments.seeds)
        with arguments.results.open("a") as stream:
            stream.write(json.dumps(row) + "\n")
        print(table([row]), flush=True)


if __name__ == "__main__":
    main()
