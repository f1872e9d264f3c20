"""With the tuned presets a training step of GRACE with a worst case takes at most two plain steps, on dense graphs too.

CPU time of plain steps and of steps with the regularizer of the preset, in turn in one process; where the preset has
the regularizer in every n-th epoch, the mean over n epochs counts. Medians of the repeats, one thread.

``CERTGCL_DATA=... python -m benchmarks.tuned_presets_cost_two_plain_steps [--graphs Cora Photo BlogCatalog]
[--json FILE]``
"""

import statistics
import time
from typing import Any

import torch

import certgcl
from benchmarks import report
from benchmarks.real_graphs import load
from certgcl.experiments.variants import regularizer
from certgcl.learning import presets

GRAPHS = ("Cora", "CiteSeer", "Photo", "BlogCatalog")
VARIANTS = ("plain", "released", "clean", "one edge", "certified", "kept")
AIMED = "one edge"  # the budget that is recommended on sparse and dense graphs alike
AT_MOST = 2.0


def seconds_of(graph: certgcl.Graph, name: str, variants: list[str], repeats: int) -> dict[str, float]:
    """CPU seconds of an epoch, for each variant."""
    preset = presets.get("grace", name, tuned=True)
    sessions = {
        variant: certgcl.GRACE(**preset.settings(), regularizer=regularizer(variant, preset)).session(graph)
        for variant in variants
    }
    spent: dict[str, list[float]] = {variant: [] for variant in variants}
    for repeat in range(repeats + 1):
        for variant, session in sessions.items():
            start = time.process_time()
            for epoch in range(preset.every):
                session.step(epoch)
            if repeat:  # the first prepares the budgets
                spent[variant].append((time.process_time() - start) / preset.every)
    return {variant: statistics.median(times) for variant, times in spent.items()}


def main() -> None:
    parser = report.parser(__doc__, threads=1)
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS))
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=VARIANTS)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    rows, aims = [], []
    for name in arguments.graphs:
        graph = certgcl.Graph.of(load(name))
        found = seconds_of(graph, name, list(dict.fromkeys(["plain", *arguments.variants])), arguments.repeats)
        preset = presets.get("grace", name, tuned=True)
        for variant, seconds in found.items():
            rows.append(
                {
                    "graph": name,
                    "variant": variant,
                    "anchors": preset.anchors,
                    "every": preset.every,
                    "batch": preset.batch,
                    "seconds": seconds,
                    "ratio": seconds / found["plain"],
                }
            )
            print(rows[-1], flush=True)
        if AIMED in found:
            aims.append(report.aim(f"{name}, {AIMED}, in plain steps", found[AIMED] / found["plain"], at_most=AT_MOST))
    report.publish(
        "tuned_presets_cost_two_plain_steps", arguments.json, repeats=arguments.repeats, rows=rows, aims=aims
    )


def tables(result: dict[str, Any]) -> list[str]:
    keys = ("graph", "variant", "anchors", "every", "batch", "seconds", "ratio")
    return [
        report.markdown(
            ["graph", "variant", "anchors", "in every n-th epoch", "batch", "CPU s a step", "× plain"],
            [[row[key] for key in keys] for row in result["rows"]],
        )
    ]


if __name__ == "__main__":
    main()
