"""A training of a few numbers whose every epoch draws from all global generators, and ways to run it elsewhere."""

import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import typer
from torch import nn

from certgcl.cli.results import reported_errors
from certgcl.learning.training import train
from certgcl.learning.training.checkpoint import leaves, random_state
from certgcl.learning.training.history import History

CONFIG = {"method": "tiny", "optimizer": {"lr": 0.01}, "rates": (0.4, 0.3)}


class TinySession:
    """A linear map with dropout, fitted by Adam to random targets.

    Args:
        pause: seconds in the middle of each step, where the weights are new and the count of steps is not.
    """

    def __init__(self, pause: float = 0.0) -> None:
        self.model = nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 3))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
        self.steps, self.pause = 0, pause

    def step(self, epoch: int) -> dict[str, float]:
        shift = np.random.standard_normal() + random.gauss(0, 1)  # noqa: NPY002
        loss = (self.model(torch.randn(8, 4)) - shift).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        time.sleep(self.pause)
        self.steps += 1
        return {"loss": loss.item(), "compactness": shift}

    def state_dict(self) -> dict[str, Any]:
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "steps": self.steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.steps = state["steps"]


def seed_all(seed: int) -> None:
    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed)


def seeded(seed: int = 0, **settings: Any) -> TinySession:
    seed_all(seed)
    return TinySession(**settings)


def outcome_of(session: TinySession, history: History) -> dict[str, Any]:
    """All that a resumed run must share with one that was never stopped: every value, by its name."""
    records = [{name: value for name, value in record.items() if name != "seconds"} for record in history.records]
    state = {"session": session.state_dict(), "random": random_state(), "history": records}
    return {name: leaf.tolist() if isinstance(leaf, torch.Tensor) else leaf for name, leaf in leaves(state)}


def train_in(folder: Path, epochs: int, pause: float = 0.0) -> None:
    """What a process of its own does until it is killed."""
    torch.set_num_threads(1)
    train(seeded(pause=pause), epochs, folder=folder, resume=True, checkpoint_every=1, config=CONFIG)


def command(folder: Path, epochs: int, pause: float) -> None:
    """The same as a command line that Ctrl-C ends well."""
    app = typer.Typer()

    @app.command()
    def run() -> None:
        with reported_errors(False, "Resume it"):
            train(seeded(pause=pause), epochs, folder=folder, config=CONFIG)

    app([])
