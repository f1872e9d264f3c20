"""Where independent pieces of work run: in this process, in processes of this machine, or on a cluster of Ray."""

from certgcl.executors.choice import NAMES, ExecutorLike, get_executor
from certgcl.executors.collect import all_answers
from certgcl.executors.executor import Done, Executor, Needs, Piece
from certgcl.executors.local import LocalProcesses
from certgcl.executors.ray_cluster import RayCluster
from certgcl.executors.this_process import ThisProcess

__all__ = [
    "NAMES",
    "Done",
    "Executor",
    "ExecutorLike",
    "LocalProcesses",
    "Needs",
    "Piece",
    "RayCluster",
    "ThisProcess",
    "all_answers",
    "get_executor",
]
