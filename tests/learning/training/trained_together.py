"""What the processes of ``test_processes.py`` do, started by torchrun: their gradient, and some epochs."""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import certgcl
from certgcl.learning.methods import METHODS, ContrastiveMethod
from certgcl.learning.regularizer import CompactnessRegularizer
from certgcl.learning.training.processes import Processes
from tests.toys import random_graph

SETTINGS: dict[str, Any] = {"hidden": 6, "learning_rate": 1e-2, "epochs": 3, "batch_nodes": 10, "fanout": 3}


def method_of(name: str, **settings: Any) -> ContrastiveMethod:
    return METHODS[name](**SETTINGS | settings, regularizer=CompactnessRegularizer(anchors=3))


def graph() -> certgcl.Graph:
    return random_graph(nodes=40, density=0.1, features=5)


def gradients(session: Any) -> list[Tensor]:
    return [parameter.grad.clone() for parameter in session.modules.parameters()]


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    with Processes.joined() as processes:
        session = method_of("grace").session(graph(), processes)
        batch = session.minibatches.batches()[processes.rank]
        session.minibatches.loss(batch, 0).total.backward()
        torch.save(gradients(session), folder / f"gradients-{processes.rank}.pt")
        for name in METHODS:
            method = method_of(name).fit(graph(), distributed=True)
            torch.save(dict(method.network().named_tensors()), folder / f"{name}-{processes.rank}.pt")
        run = {"folder": folder / "run", "distributed": True, "checkpoint_every": 1}
        method_of("grace", epochs=2).fit(graph(), **run)
        resumed = method_of("grace").fit(graph(), **run, resume=True)
        torch.save(dict(resumed.network().named_tensors()), folder / f"resumed-{processes.rank}.pt")
        assert resumed.history_ is not None
        (folder / f"history-{processes.rank}.json").write_text(json.dumps(resumed.history_.column("infonce")))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
