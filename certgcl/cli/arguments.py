"""Options that are more than a number or a name."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, TypeAlias

import numpy as np
import torch
import typer
from torch import Tensor

from certgcl.bounds import METHODS
from certgcl.budget import EdgeDropBudget

JsonFlag: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


def read_budget(text: str, total: int | None) -> EdgeDropBudget:
    """``2`` is edges at each node, ``0.4`` a drop rate."""
    if re.fullmatch(r"\d+", text):
        return EdgeDropBudget(local=int(text), total=total)
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not 0 < rate < 1:
        raise typer.BadParameter(f"{text!r} is neither a number of edges (2) nor a drop rate between 0 and 1 (0.4)",
                                 param_hint="--budget")
    return EdgeDropBudget.from_drop_rate(rate, total=total)


def read_nodes(text: str | None) -> Tensor | None:
    """A range ``0:1000``, or a file with node numbers: ``.npy``, or text with white space between them."""
    if text is None:
        return None
    span = re.fullmatch(r"(\d+):(\d+)", text)
    if span:
        return torch.arange(int(span[1]), max(int(span[1]), int(span[2])))
    path = Path(text)
    try:
        numbers = np.load(path, allow_pickle=False) if path.suffix == ".npy" else np.array(
            [int(word) for word in path.read_text().split()], dtype=np.int64)
        return torch.from_numpy(numbers)
    except (OSError, ValueError, TypeError) as error:
        raise typer.BadParameter(f"{text!r} is neither a range 0:1000 nor a file of node numbers ({error})",
                                 param_hint="--nodes") from error


def read_worker(text: str | None, environment: Mapping[str, str] = os.environ) -> tuple[int, int] | None:
    """``k/n``, or torchrun's ``RANK`` and ``WORLD_SIZE``; k counts from 0."""
    found = text
    if text is None and {"RANK", "WORLD_SIZE"} <= environment.keys():
        found = f"{environment['RANK']}/{environment['WORLD_SIZE']}"
    if found is None:
        return None
    share = re.fullmatch(r"(\d+)/(\d+)", found)
    if share is None or int(share[1]) >= int(share[2]):
        raise typer.BadParameter(f"{found!r} is not k/n with k from 0 to n - 1",
                                 param_hint="--shard" if text else "RANK and WORLD_SIZE")
    return int(share[1]), int(share[2])


def check_method(name: str) -> str:
    if name not in METHODS:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(METHODS)}")
    return name
