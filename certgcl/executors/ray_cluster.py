"""A cluster of Ray: any number of machines, one copy of the graph on each."""

import logging
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from certgcl.arguments import shown, whole
from certgcl.errors import InputError
from certgcl.executors.executor import Answers, Executor, Needs, Piece, Task
from certgcl.executors.parcel import Parcel
from certgcl.executors.worker import attempt, died
from certgcl.runtime.optional_packages import needing

WAITING = 2  # pieces handed out for each worker, one of which runs
BEAT = 1.0  # seconds between looking for new machines


@dataclass(frozen=True)
class RayCluster(Executor):
    """Workers on a cluster of `Ray <https://docs.ray.io>`_; ``pip install "certgcl[ray]"``, on each of its machines.

    A connection that ``ray.init`` has made before is used as it is. Graph and weights go into Ray's object store once,
    where all workers of a machine map the same memory. Each piece declares its CPUs and the memory that its method
    estimates. One whose worker or machine dies is run again, up to ``retries`` times; if Ray's memory monitor
    ended it, with twice the memory declared. Machines that join while it runs are used.

    Args:
        address: of the cluster, as for ``ray.init``: ``"auto"``, ``"HOST:6379"``, ``"ray://HOST:10001"``. By default
            that of the variable ``RAY_ADDRESS``, else the cluster that runs on this machine, or is started there.
        cpus: of a piece, and the number of its threads.
        retries: further tries for a piece whose worker died.
    """

    address: str | None = None
    cpus: int = 1
    retries: int = 3
    name: ClassVar[str] = "ray"

    def __post_init__(self) -> None:
        if self.address is not None and not (isinstance(self.address, str) and self.address):
            raise InputError(f"address={shown(self.address)}", "it is the address of a Ray cluster", "Try 'auto'")
        object.__setattr__(self, "cpus", whole(self.cpus, "cpus", 1, "it is a number of CPUs", "Leave it out for 1"))
        object.__setattr__(
            self, "retries", whole(self.retries, "retries", 0, "it is a number of retries", "Leave it out for 3")
        )

    @property
    def workers(self) -> int:
        return max(1, int(self._connected().cluster_resources().get("CPU", 1) // self.cpus))

    @property
    def memory(self) -> int:
        """That of the machine with the least memory per worker."""
        return int(
            min(self.cpus * have.get("memory", 0) / max(have.get("CPU", 0), self.cpus) for have in self._machines())
        )

    def stream(self, task: Task, shared: Any, pieces: Iterable[Piece]) -> Answers:
        ray = self._connected()
        parcel, work, source = ray.put(Parcel.of(shared)), ray.remote(attempt), iter(pieces)
        under_way: dict[Any, Piece] = {}
        tries: dict[Any, int] = {}

        def submit(piece: Piece) -> None:
            tries[piece.key] = tries.get(piece.key, 0) + 1
            # Ray itself would retry forever whatever its memory monitor ends, so tries are counted here.
            options = work.options(
                num_cpus=self.cpus, max_retries=0, name=f"certgcl {piece.key}", memory=self._declared(piece.needs)
            )
            under_way[options.remote(task, parcel, piece.key, piece.content, self.cpus)] = piece

        try:
            left = True
            while left or under_way:
                while left and len(under_way) < WAITING * self.workers:
                    piece = next(source, None)
                    left = piece is not None
                    if piece is not None:
                        submit(piece)
                for ready in ray.wait(list(under_way), timeout=BEAT)[0] if under_way else ():
                    piece = under_way.pop(ready)
                    try:
                        done = ray.get(ready)
                    except ray.exceptions.RayError as error:
                        if tries[piece.key] > self.retries or isinstance(error, ray.exceptions.RayTaskError):
                            done = died(piece.key, _first_line(error), tries[piece.key])
                        else:
                            submit(
                                _with_more_memory(piece)
                                if isinstance(error, ray.exceptions.OutOfMemoryError)
                                else piece
                            )
                            continue
                    yield done
        finally:
            for ready in under_way:
                with suppress(Exception):  # it has finished already, or the cluster is gone
                    ray.cancel(ready, force=True)

    def _connected(self) -> Any:
        """Ray, with the user's connection or a new one."""
        with needing("ray", "an executor on Ray"):
            import ray
        if not ray.is_initialized():
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            try:
                ray.init(
                    address=self.address,
                    include_dashboard=None if self.address else False,
                    logging_level=logging.WARNING,
                )
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise InputError(
                    f"address={self.address!r} ({_first_line(error)})",
                    "a Ray cluster must be running there",
                    "Start one with `ray start --head`",
                ) from error
        return ray

    def _machines(self) -> list[dict[str, float]]:
        found = [node["Resources"] for node in self._connected().nodes() if node["Alive"]]
        return [have for have in found if have.get("CPU", 0)] or found

    def _declared(self, needs: Needs) -> int | None:
        """Memory that the scheduler reserves: no more than some machine has, or the piece would wait forever."""
        if needs.memory is None:
            return None
        return max(1, min(needs.memory, int(max(have.get("memory", 0) for have in self._machines()))))


def _with_more_memory(piece: Piece) -> Piece:
    memory = piece.needs.memory
    return piece if memory is None else replace(piece, needs=Needs(2 * memory))


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
