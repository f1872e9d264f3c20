"""The processes that train one model together with torch.distributed, as torchrun starts them."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as distributed

from certgcl.errors import InputError

STARTED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")  # through which torchrun tells a process its rank


@dataclass(frozen=True)
class Processes:
    """One of the processes of a training run; by default the only one.

    All of them make the same calls in the same order, or they would wait for each other forever.

    Args:
        rank: the number of this process.
        count: the number of processes.
    """

    rank: int = 0
    count: int = 1

    @property
    def first(self) -> bool:
        """Whether this one writes the files."""
        return self.rank == 0

    @classmethod
    @contextmanager
    def joined(cls) -> Iterator["Processes"]:
        """The processes of the user's group, or of a new one under torchrun, which ends with the block."""
        if not distributed.is_available():
            raise InputError("distributed=True", "this torch has no torch.distributed", "Train in one process")
        ours = not distributed.is_initialized()
        if ours:
            missing = [name for name in STARTED if name not in os.environ]
            if missing:
                raise InputError(
                    f"distributed=True without {missing[0]} in the environment",
                    "torchrun starts the processes that train together",
                    "Run it as `torchrun --nproc-per-node 2 script.py`, or leave distributed= out",
                )
            distributed.init_process_group("gloo")
        try:
            yield cls(distributed.get_rank(), distributed.get_world_size())
        finally:
            if ours:
                distributed.destroy_process_group()

    def mean(self, values: Mapping[str, float]) -> dict[str, float]:
        """The means over all processes of numbers with the same names."""
        if self.count == 1:
            return dict(values)
        total = torch.tensor(list(values.values()), dtype=torch.float64)
        distributed.all_reduce(total)
        return dict(zip(values, (total / self.count).tolist(), strict=True))

    def anyone(self, flag: bool) -> bool:
        """Whether it is true in any process."""
        return self.mean({"flag": float(flag)})["flag"] > 0

    def of_first(self, value: Any) -> Any:
        """The value of the first process, in all of them."""
        if self.count == 1:
            return value
        box = [value]
        distributed.broadcast_object_list(box)
        return box[0]


ALONE = Processes()
