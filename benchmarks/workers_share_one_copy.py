"""Workers share one copy of the graph, and more of them are faster: strong and weak scaling, overhead a shard, memory.

``python -m benchmarks.workers_share_one_copy [--nodes 6000] [--json FILE]``

The same shards in one process of one thread, in local processes and on Ray, with 1, 2 and 4 workers of one thread each.
Workers start before the clock does; the start-up time has its own column. Weak scaling gives every worker the same
number of shards.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
import torch

import certgcl
from benchmarks import measure, report, scaling_tasks
from benchmarks.power_law import power_law_graph
from benchmarks.setting import make_encoder
from certgcl.executors import Executor, Piece, ThisProcess

NAME = "workers_share_one_copy"
WORKERS, SHARDS, FEW = (1, 2, 4), 16, 4  # FEW: shards a worker in weak scaling
PIECES = 200  # that do nothing
SHARED = 500_000_000  # bytes


@contextmanager
def executor_of(kind: str, workers: int) -> Iterator[Executor]:
    if kind == "ray":
        ray.init(
            address="local", num_cpus=workers, include_dashboard=False, object_store_memory=1 << 30, log_to_driver=False
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
        alone = work.seconds(ThisProcess(), SHARDS)  # side by side, as the machine is never quite the same
        strong, weak = work.seconds(executor, SHARDS), work.seconds(executor, FEW * workers)
        idle = measure.timed(lambda: answers(executor, scaling_tasks.nothing, work.graph.x, PIECES))[1]
        held = {
            process: (own, part)
            for process, own, part in answers(executor, scaling_tasks.memory, torch.ones(SHARED // 4), 2 * workers)
        }
    return {
        "executor": kind,
        "workers": workers,
        "start": start,
        "alone": alone,
        "strong": strong,
        "weak": weak,
        "overhead_ms": 1000 * idle / PIECES,
        "processes": len(held),
        "own_gb": sum(own for own, _ in held.values()),
        "all_gb": sum(part for _, part in held.values()),
    }


def main() -> None:
    parser = report.parser(__doc__, threads=1)
    parser.add_argument("--nodes", type=int, default=6000)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    work, rows = Work(arguments.nodes), []
    work.seconds(ThisProcess(), 1)  # kernels are compiled
    for kind in ("processes", "ray"):
        for workers in WORKERS:
            rows.append(row(work, kind, workers))
            print(rows[-1], flush=True)
            report.save(NAME, arguments.json, nodes=arguments.nodes, **summary(rows))
    report.publish(NAME, arguments.json, nodes=arguments.nodes, **summary(rows))


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    def at(kind: str, workers: int, key: str) -> float | None:
        return next((row[key] for row in rows if (row["executor"], row["workers"]) == (kind, workers)), None)

    one, four = at("ray", 1, "own_gb"), at("ray", 4, "own_gb")
    copies = None if one is None or four is None else (four - one) / (SHARED / 1e9)
    return {
        "rows": rows,
        "aims": [
            report.aim("Ray, ms a shard on top", at("ray", 2, "overhead_ms"), at_most=50),
            report.aim("local processes, ms a shard on top", at("processes", 2, "overhead_ms"), at_most=50),
            report.aim("graphs' worth of memory that three more workers on Ray take", copies, at_most=3),
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
                "memory of their own, GB",
                "with their part of what is shared, GB",
            ],
            [
                [
                    row["executor"],
                    row["workers"],
                    row["start"],
                    row["alone"] / row["strong"],
                    first[row["executor"]] / row["weak"],
                    row["overhead_ms"],
                    row["own_gb"],
                    row["all_gb"],
                ]
                for row in result["rows"]
            ],
        ),
        f"{SHARDS} shards of {result['nodes']:,} nodes; {SHARED / 1e9:.1f} GB are shared where memory is measured.",
    ]


if __name__ == "__main__":
    main()
