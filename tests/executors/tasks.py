"""What the workers of these tests do."""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from certgcl.bounds import ChangeProblem, Degree
from certgcl.errors import BoundError


def total(shared: Tensor, number: int) -> float:
    return float(shared.sum()) + number


def slow(shared: Any, number: int) -> int:
    time.sleep(0.2)
    return number


def threads(shared: Any, number: int) -> int:
    return torch.get_num_threads()


def reads_all(shared: Tensor, number: int) -> int:
    """Which process; all but the first piece read what is shared, and take longer than joblib waits between checks."""
    if number:
        shared.sum()
    time.sleep(1.2)
    return os.getpid()


def begin_and_end(shared: Any, number: int) -> tuple[float, float]:
    begin = time.monotonic()
    time.sleep(0.2)
    return begin, time.monotonic()


def fails_at_three(shared: Any, number: int) -> int:
    if number == 3:
        raise KeyError("three")
    return number


def dies_at_three(shared: Any, number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), 9)
    return number


def dies_once(folder: Path, number: int) -> int:
    """The first worker to come ends without an answer."""
    try:
        (folder / "dead").touch(exist_ok=False)
    except FileExistsError:
        return number
    os.kill(os.getpid(), 9)
    return -1


def notes_and_waits(folder: Path, number: int) -> int:
    (folder / f"begun-{number}").touch()
    time.sleep(0.2 if number == 0 else 60)
    (folder / f"ended-{number}").touch()
    return number


@dataclass(frozen=True)
class FailsAtNode(Degree):
    """A bound that has none for one node."""

    node: int = 0

    def __call__(self, network: Any, problem: ChangeProblem, directions: Tensor) -> Tensor:
        if self.node in problem.anchors.tolist():
            raise BoundError(f"node {self.node}", "it must have a bound", "Ask for another")
        return super().__call__(network, problem, directions)
