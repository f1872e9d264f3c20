"""Every method trains with a worst case in its loss on a graph of twenty thousand nodes, within 8 GB.

A power-law graph of 20,000 nodes, 100,000 edges and 500 features; settings of the fast preset of PubMed, which has as
many nodes: 128 channels, 64 anchors a step, one dropped edge at each node, InfoNCE over 2,048 nodes. COSTA mixes all
nodes, so it has no batches. A few epochs, in which ProGCL's mixture is fitted as well, each method in a fresh process.

``python -m benchmarks.every_method_trains_twenty_thousand_nodes_within_eight_gigabytes [--json FILE]``
"""

import time
from typing import Any

import torch

from benchmarks import measure, report
from benchmarks.power_law import power_law_graph
from certgcl.experiments.variants import regularizer
from certgcl.learning import presets
from certgcl.learning.methods import METHODS

NODES, EDGES, FEATURES = 20_000, 100_000, 500
EPOCHS = 5
AT_MOST = 8.0  # GB


def run(name: str, epochs: int) -> dict[str, Any]:
    """The cost of one training."""
    preset = presets.get(name, "PubMed", fast=True)
    graph = power_law_graph(NODES, EDGES, FEATURES)
    method = METHODS[name](**preset.settings() | {"epochs": epochs}, regularizer=regularizer("one edge", preset))
    start = time.process_time()
    trained, spent = measure.cost(lambda: method.fit(graph))
    spent["cpu_seconds"] = (time.process_time() - start) / epochs
    assert bool(trained.transform(graph).isfinite().all())
    return {"method": name, "batch": preset.batch, "anchors": preset.anchors, **spent}


def main() -> None:
    parser = report.parser(__doc__, threads=1)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    rows, aims = [], []
    for name in arguments.methods:
        rows.append(measure.in_fresh_process(run, name, arguments.epochs))
        print(rows[-1], flush=True)
        aims.append(report.aim(f"{name}, peak memory in GB", rows[-1]["peak_gb"], at_most=AT_MOST))
    report.publish(
        "every_method_trains_twenty_thousand_nodes_within_eight_gigabytes",
        arguments.json,
        epochs=arguments.epochs,
        rows=rows,
        aims=aims,
    )


def tables(result: dict[str, Any]) -> list[str]:
    keys = ("method", "batch", "anchors", "cpu_seconds", "peak_gb")
    return [
        report.markdown(
            ["method", "batch", "anchors", "CPU s an epoch", "peak memory, GB"],
            [[row[key] for key in keys] for row in result["rows"]],
        )
    ]


if __name__ == "__main__":
    main()
