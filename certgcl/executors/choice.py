"""An executor by name."""

from typing import Any, TypeAlias

from certgcl.arguments import choice
from certgcl.errors import InputError
from certgcl.executors.executor import Executor
from certgcl.executors.local import LocalProcesses
from certgcl.executors.ray_cluster import RayCluster
from certgcl.executors.this_process import ThisProcess

ExecutorLike: TypeAlias = str | Executor | None
"""``"here"``, ``"processes"``, ``"ray"``, or an instance; None for this process."""

NAMES = (ThisProcess.name, LocalProcesses.name, RayCluster.name)


def get_executor(executor: ExecutorLike, *, workers: int | None = None, address: str | None = None) -> Executor:
    """The executor of that name, or the one given.

    Args:
        workers: the number of processes, for ``"processes"``.
        address: of the cluster, for ``"ray"``.
    """
    if executor is not None and not isinstance(executor, Executor):
        executor = choice(executor, "executor", NAMES)
    settings: dict[str, Any] = {
        name: value for name, value in (("workers", workers), ("address", address)) if value is not None
    }
    kind, takes = {LocalProcesses.name: (LocalProcesses, "workers"), RayCluster.name: (RayCluster, "address")}.get(
        executor if isinstance(executor, str) else "", (ThisProcess, "")
    )
    for name in settings:
        if name != takes:
            raise InputError(
                f"{name}={settings[name]!r} with executor={executor!r}",
                "workers= is for 'processes', and address= for 'ray'",
                "Leave it out",
            )
    if isinstance(executor, Executor):
        return executor
    if kind is LocalProcesses:
        return LocalProcesses(workers)
    return RayCluster(address) if kind is RayCluster else ThisProcess()
