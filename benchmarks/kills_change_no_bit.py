"""Killed workers, nodes and drivers change no bit of a certificate or a training: on a cluster of Ray, with kill -9.

``python -m benchmarks.kills_change_no_bit [--kills 24] [--nodes 3000] [--json FILE [--keep]]``

A cluster of three nodes (processes of this machine, by Ray's own utility) certifies the same graph repeatedly, by
``certify_shards`` with ``reproducible=True``, until there were enough kills at random moments: of a worker, or of a
whole node, which is replaced by another. The same for trainings of GRACE, which resume from their checkpoints. Then the
driver is killed and restarted; and a worker takes more memory than Ray's monitor allows. Each result is compared with
that of one process, byte by byte.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil
import ray
import torch
from ray.cluster_utils import Cluster
from torch_geometric.data import Data

import certgcl
from benchmarks import fault_tasks, report
from benchmarks.fault_tasks import SETTINGS
from certgcl.errors import ShardError, WorkerError
from certgcl.executors import RayCluster, ThisProcess, all_answers

NAME = "kills_change_no_bit"
BETWEEN = 1.0, 6.0  # seconds to the next kill
SEEDS = range(4)
NODE = {"num_cpus": 1, "object_store_memory": 1 << 28, "memory": 4 << 30}


class Killer:
    """Ends a worker of the cluster at random moments, and now and then a whole node.

    Between two kills something is finished: a shard, or the epochs up to a checkpoint. If workers died faster than they
    start, nothing ever would be.
    """

    def __init__(self, cluster: Cluster, seed: int = 0) -> None:
        self._cluster, self._random = cluster, random.Random(seed)
        self.kills: Counter[str] = Counter()
        self._gone = 0

    def replace_nodes(self, *_: Any) -> None:
        """Let others join, in the middle of a run: Ray starts nodes in the main thread alone."""
        while self._gone:
            self._cluster.add_node(**NODE)
            self._gone -= 1

    @contextmanager
    def at_work(self, finished: Callable[[], float]) -> Iterator[None]:
        """In this context, workers are killed.

        Args:
            finished: a time or a number that grows when something is finished.
        """
        over, last = threading.Event(), finished()

        def kill() -> None:
            nonlocal last
            while not over.wait(self._random.uniform(*BETWEEN)):
                if finished() > last:
                    self._kill_one()
                    last = finished()

        thread = threading.Thread(target=kill, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _kill_one(self) -> None:
        nodes = list(self._cluster.worker_nodes)
        if len(nodes) > 1 and self._random.random() < 0.2:
            self._cluster.remove_node(self._random.choice(nodes), allow_graceful=False)
            self._gone += 1
            self.kills["nodes"] += 1
            return
        busy = [process for process in psutil.Process().children(recursive=True) if _is_busy(process)]
        if busy:
            os.kill(self._random.choice(busy).pid, signal.SIGKILL)
            self.kills["workers"] += 1


def _is_busy(process: psutil.Process) -> bool:
    try:
        return "ray::certgcl" in " ".join(process.cmdline())
    except psutil.Error:
        return False


@contextmanager
def cluster_of(workers: int, **head: Any) -> Iterator[Cluster]:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": 1 << 28, **head})
    for _ in range(workers):
        cluster.add_node(**NODE)
    ray.init(address=cluster.address, log_to_driver=False)
    try:
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def certificate(folder: Path, nodes: int, **options: Any) -> bytes:
    network, graph = fault_tasks.problem(nodes)
    while True:
        try:
            certgcl.certify_shards(network, graph, 0.3, folder, **SETTINGS, **options)
            break
        except ShardError as error:  # a shard was killed more often than it is retried: call again, as a user would
            print(error, flush=True)
    certgcl.merge_shards(folder)
    return (folder / "certificate.npz").read_bytes()


def trainings(folder: Path, data: Data, executor: RayCluster, killer: "Killer") -> list[str]:
    while True:
        try:
            return all_answers(
                executor, fault_tasks.train, data, [(seed, folder) for seed in SEEDS], progress=killer.replace_nodes
            )
        except WorkerError as error:
            print(error, flush=True)
            killer.replace_nodes()


def under_fire(killer: Killer, kills: int, files: str, place: Path, run: Callable[[int], bool]) -> dict[str, Any]:
    """Repeats the same work until there were enough kills; returns whether each result was right.

    Args:
        files: that are written in ``place`` when something is finished.
    """

    def finished() -> float:
        return max((path.stat().st_mtime for path in place.glob(files)), default=0.0)

    before, begun, same = killer.kills.copy(), time.monotonic(), []
    with killer.at_work(finished):
        while sum((killer.kills - before).values()) < kills:
            same.append(run(len(same)))
            print(dict(killer.kills - before), same, flush=True)
    return {**(killer.kills - before), "runs": len(same), "identical": sum(same), "seconds": time.monotonic() - begun}


def driver_killed(address: str, folder: Path, nodes: int, times: int) -> int:
    """A process that certifies on the cluster, killed and started again; how often it was killed."""
    killed = 0
    while True:
        driver = subprocess.Popen(
            [sys.executable, "-m", f"benchmarks.{NAME}", "--driver", address, str(folder), "--nodes", str(nodes)]
        )
        begun = len(list(folder.glob("shard-*")))
        while killed < times and driver.poll() is None and len(list(folder.glob("shard-*"))) < begun + 3:
            time.sleep(0.2)
        if killed == times or driver.poll() is not None:
            assert driver.wait() == 0
            return killed
        driver.kill()
        driver.wait()
        killed += 1


def out_of_memory(folder: Path, nodes: int) -> dict[str, Any]:
    """One shard takes all the memory it can get, where Ray's monitor ends tasks some gigabytes from here."""
    used, whole = psutil.virtual_memory().used, psutil.virtual_memory().total
    monitor = {"memory_usage_threshold": (used + (3 << 30)) / whole, "memory_monitor_refresh_ms": 100}
    network, graph = fault_tasks.problem(nodes)
    with cluster_of(2, _system_config=monitor):
        try:
            certgcl.certify_shards(
                network,
                graph,
                0.3,
                folder,
                shards=8,
                order="given",
                executor=RayCluster(),
                method=fault_tasks.Hungry(node=0),
            )
        except ShardError as error:
            return {
                "named": "(0)" in error.found,
                "kept": len(list(folder.glob("shard-*"))),
                "of": 8,
                "error": str(error)[:400],
            }
    return {"named": False, "kept": len(list(folder.glob("shard-*"))), "of": 8, "error": "none"}


def main() -> None:
    parser = report.parser(__doc__, threads=1)
    parser.add_argument("--kills", type=int, default=24, help="of workers and nodes while certifying")
    parser.add_argument("--nodes", type=int, default=3000)
    parser.add_argument("--keep", action="store_true", help="keep the parts that FILE holds, and run the others")
    parser.add_argument("--driver", nargs=2, metavar=("ADDRESS", "FOLDER"), help="be the driver that is killed")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.driver:
        address, folder = arguments.driver
        certificate(Path(folder), arguments.nodes, executor=RayCluster(address))
        return
    place = Path(tempfile.mkdtemp())
    kept = json.loads(arguments.json.read_text()) if arguments.keep else {"rows": {}, "memory": {}}
    rows, memory = kept["rows"], kept["memory"]
    with cluster_of(3) as cluster:
        faults = Faults(cluster, place, arguments.nodes, arguments.kills)
        for part in (part for part in (faults.certifying, faults.training, faults.driver) if part.__name__ not in rows):
            rows[part.__name__] = part()
            report.save(NAME, arguments.json, **summary(rows, memory))  # so that an interruption does not lose them
    memory = memory or out_of_memory(place / "hungry", arguments.nodes)
    report.publish(NAME, arguments.json, **summary(rows, memory))


class Faults:
    """What is killed, part by part."""

    def __init__(self, cluster: Cluster, place: Path, nodes: int, kills: int) -> None:
        self._cluster, self._place, self._nodes, self._kills = cluster, place, nodes, kills
        self._killer, self._executor = Killer(cluster), RayCluster(retries=5)

    @cached_property
    def _expected(self) -> bytes:
        return certificate(self._place / "alone", self._nodes)

    def certifying(self) -> dict[str, Any]:
        expected = self._expected

        def run(number: int) -> bool:
            folder, progress = self._place / f"certified-{number}", self._killer.replace_nodes
            return certificate(folder, self._nodes, executor=self._executor, progress=progress) == expected

        return under_fire(self._killer, self._kills, "certified-*/shard-*", self._place, run)

    def training(self) -> dict[str, Any]:
        data = certgcl.load_dataset("digits")
        alone = [(seed, self._place / "alone") for seed in SEEDS]
        expected = all_answers(ThisProcess(), fault_tasks.train, data, alone)

        def run(number: int) -> bool:
            return trainings(self._place / f"trained-{number}", data, self._executor, self._killer) == expected

        return under_fire(self._killer, self._kills // 3, "trained-*/*/checkpoint.pt", self._place, run)

    def driver(self) -> dict[str, Any]:
        expected, begun, folder = self._expected, time.monotonic(), self._place / "driver"
        drivers = driver_killed(self._cluster.address, folder, self._nodes, 3)
        certgcl.merge_shards(folder)
        return {
            "drivers": drivers,
            "runs": 1,
            "seconds": time.monotonic() - begun,
            "identical": int((folder / "certificate.npz").read_bytes() == expected),
        }


def summary(rows: dict[str, dict[str, Any]], memory: dict[str, Any]) -> dict[str, Any]:
    kills = sum(row.get(what, 0) for row in rows.values() for what in ("workers", "nodes", "drivers"))
    runs = sum(row["runs"] for row in rows.values())
    return {
        "rows": rows,
        "memory": memory,
        "aims": [
            report.aim("kills", kills, at_least=30),
            report.aim(
                "results that differ by any bit", runs - sum(row["identical"] for row in rows.values()), at_most=0
            ),
            report.aim(
                "of 8 shards, those kept where one runs out of memory and is named",
                memory["kept"] if memory.get("named") else None,
                at_least=7,
                failed=memory.get("named") is False,
            ),
        ],
    }


def tables(result: dict[str, Any]) -> list[str]:
    return [
        report.markdown(
            [
                "while",
                "workers killed",
                "nodes killed, and others joined",
                "drivers killed",
                "runs",
                "identical to one process",
                "seconds",
            ],
            [
                [
                    what,
                    row.get("workers", 0),
                    row.get("nodes", 0),
                    row.get("drivers", 0),
                    row["runs"],
                    row["identical"],
                    row["seconds"],
                ]
                for what, row in result["rows"].items()
            ],
        )
    ]


if __name__ == "__main__":
    main()
