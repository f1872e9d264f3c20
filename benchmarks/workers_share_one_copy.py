"""Workers share one copy of the graph, and more of them are faster: strong and weak scaling, overhead a shard, memory.

``python -m benchmarks.workers_share_one_copy [--nodes 6000] [--executors ray] [--json FILE]``

The same shards in one process of one thread, in local processes and on Ray, with 1, 2 and 4 workers of one thread each.
Workers start before the clock does; the start-up time has its own column. Weak scaling gives every worker the same
number of shards.
"""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

import ray
import torch

import certgcl
from benchmarks import measure, report, scaling_tasks
from benchmarks.power_law import power_law_graph
from benchmarks.setting import make_encoder
from certgcl.executors import Executor, Piece, ThisProcess

NAME = "workers_share_one_copy"
EXECUTORS = ("processes", "ray")
WORKERS, SHARDS, FEW = (1, 2, 4), 16, 4  # FEW: shards a worker in weak scaling
PIECES = 200  # that do nothing
SHARED = 2_000_000_000  # bytes


@contextmanager
def executor_of(kind: str, workers: int) -> Iterator[Executor]:
    if kind == "ray":
        ray.init(
            address="local", num_cpus=workers, include_dashboard=False, object_store_memory=3 << 30, log_to_driver=False
        )
        try:
            yield certgcl.RayCluster()
        finally:
            ray.shutdown()
    else:
        yield certgcl.LocalProcesses(workers)


def answers(executor: Executor, task: Any, shared: Any, number: int) -> list[Any]:
    return [done.value() for done in executor.stream(task, shared, (Piece(key, key) for key in range(number)))]


class Work:
    """Shards of one graph, the first so many of them."""

    def __init__(self, nodes: int) -> None:
        self.graph = power_law_graph(nodes, 5 * nodes, 64, 2.5)
        self.network = make_encoder(self.graph).network()

    def seconds(self, executor: Executor, shards: int) -> float:
        folder = Path(tempfile.mkdtemp())
        return measure.timed(
            lambda: certgcl.certify_shards(
                self.network,
                self.graph,
                0.3,
                folder,
                shards=SHARDS,
                only=range(shards),
                reproducible=True,
                executor=executor,
            )
        )[1]


def row(work: Work, kind: str, workers: int) -> dict[str, Any]:
    with executor_of(kind, workers) as executor:
        start = measure.timed(lambda: answers(executor, scaling_tasks.nothing, None, 4 * workers))[1]
        own_memory(executor, 1, workers)  # until every worker is there
        work.seconds(executor, FEW * workers)  # and has loaded its kernels
        alone = work.seconds(ThisProcess(), SHARDS)  # side by side, as the machine is never quite the same
        strong, weak = work.seconds(executor, SHARDS), work.seconds(executor, FEW * workers)
        idle = measure.timed(lambda: answers(executor, scaling_tasks.nothing, work.graph.x, PIECES))[1]
        without, held = (own_memory(executor, entries, workers) for entries in (1, SHARED // 4))
    return {
        "executor": kind,
        "workers": workers,
        "start": start,
        "alone": alone,
        "strong": strong,
        "speedup": alone / strong,
        "weak": weak,
        "overhead_ms": 1000 * idle / PIECES,
        "without_gb": without,
        "own_gb": held,
        "copies": workers * (held - without) / (SHARED / 1e9),
    }


def own_memory(executor: Executor, entries: int, workers: int) -> float:
    """GB that a worker holds alone after reading a shared tensor of that many entries, the mean of all workers."""
    shared = torch.ones(entries)
    return fmean(dict(answers(executor, scaling_tasks.memory, shared, 2 * workers)).values())


def main() -> None:
    parser = report.parser(__doc__, threads=1)
    parser.add_argument("--nodes", type=int, default=6000)
    parser.add_argument("--executors", nargs="+", default=EXECUTORS, choices=EXECUTORS, help="rows of others are kept")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    work, known = Work(arguments.nodes), arguments.json is not None and arguments.json.exists()
    rows = json.loads(arguments.json.read_text())["rows"] if known else []
    rows = [row for row in rows if row["executor"] not in arguments.executors]
    work.seconds(ThisProcess(), 1)  # kernels are compiled
    for kind in arguments.executors:
        for workers in WORKERS:
            rows.append(row(work, kind, workers))
            print(rows[-1], flush=True)
            report.save(NAME, arguments.json, nodes=arguments.nodes, **summary(rows))
    report.publish(NAME, arguments.json, nodes=arguments.nodes, **summary(rows))


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    def at(kind: str, workers: int, key: str) -> float | None:
        return next((row[key] for row in rows if (row["executor"], row["workers"]) == (kind, workers)), None)

    return {
        "rows": rows,
        "aims": [
            report.aim("Ray, ms a shard on top", at("ray", 2, "overhead_ms"), at_most=50),
            report.aim("local processes, ms a shard on top", at("processes", 2, "overhead_ms"), at_most=50),
            report.aim("copies of what is shared that four workers on Ray hold", at("ray", 4, "copies"), at_most=0.1),
            report.aim("one process over two local processes", at("processes", 2, "speedup"), at_least=1.5),
            report.aim("one process over two workers on Ray", at("ray", 2, "speedup"), at_least=1.5),
        ],
    }


def tables(result: dict[str, Any]) -> list[str]:
    first = {row["executor"]: row["weak"] for row in result["rows"] if row["workers"] == 1}
    return [
        report.markdown(
            [
                "executor",
                "workers",
                "start, s",
                "one process / this",
                "weak: 1 worker / this",
                "overhead a shard, ms",
                "own memory a worker, GB",
                "with the shared tensor, GB",
                "copies they hold",
            ],
            [
                [
                    row["executor"],
                    row["workers"],
                    row["start"],
                    row["speedup"],
                    first[row["executor"]] / row["weak"],
                    row["overhead_ms"],
                    row["without_gb"],
                    row["own_gb"],
                    row["copies"],
                ]
                for row in result["rows"]
            ],
        ),
        f"{SHARDS} shards of {result['nodes']:,} nodes; {SHARED / 1e9:.1f} GB are shared where memory is measured, in "
        "pages that one worker holds alone, before and after it has read all of it. Were it copied, the last column "
        "would be the number of workers; one worker alone holds what it shares with nobody.",
    ]


if __name__ == "__main__":
    main()
