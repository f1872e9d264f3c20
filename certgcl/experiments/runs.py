"""Training runs that are kept on disk: each takes place once, for the experiment that needs it first, and resumes after
a kill."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.data import Data

from certgcl._version import __version__
from certgcl.experiments.recipe import Recipe
from certgcl.graphs.datasets import load_dataset
from certgcl.graphs.graph import Graph
from certgcl.learning import presets
from certgcl.learning.methods import ContrastiveMethod
from certgcl.learning.methods.session import ContrastiveSession
from certgcl.learning.presets import Preset
from certgcl.learning.training import Progress, train
from certgcl.learning.training.checkpoint import Checkpoint
from certgcl.learning.training.run_folder import CHECKPOINT
from certgcl.models.network import GraphNetwork

MILESTONES = 10  # encoders kept during training, including the untrained one


def _nothing(words: str) -> None:
    """Ignores all messages."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """One graph, and the size of the experiments on it.

    Args:
        dataset: a graph by its name.
        methods, seeds: what is trained.
        fast: the presets for two CPU cores.
        epochs: of every training run; the preset's by default.
        pairs: how many pairs of views the InfoNCE loss of a node is averaged over.
        nodes: at how many random nodes compactness is bounded; all on a smaller graph.
        cache: the folder of the training runs, shared by all experiments.
        data_root: the folder with the raw files of datasets.
        say: called often, with a message about the current step.
    """

    dataset: str
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    cache: Path
    fast: bool = False
    epochs: int | None = None
    pairs: int = 500
    nodes: int = 1000
    data_root: Path | None = None
    say: Callable[[str], None] = field(default=_nothing, compare=False)

    def for_workers(self) -> "Study":
        """The same for other processes, which get the graph from here and report no progress."""
        sent = replace(self, cache=self.cache.resolve(), say=_nothing)
        vars(sent)["data"] = self.data
        return sent

    @cached_property
    def data(self) -> Data:
        return load_dataset(self.dataset, self.data_root)

    @cached_property
    def graph(self) -> Graph:
        return Graph.of(self.data)

    @cached_property
    def sample(self) -> Tensor:
        """The nodes that are bounded, the same for all training runs."""
        order = torch.randperm(self.graph.num_nodes, generator=torch.Generator().manual_seed(0))
        return order[: self.nodes].sort().values

    def preset(self, method: str) -> Preset:
        return presets.get(method, self.dataset, fast=self.fast)

    def trained(self, recipe: Recipe) -> "TrainedRun":
        """The training run of a recipe, from the cache; missing epochs are trained."""
        estimator = recipe.estimator(self.preset(recipe.method), self.epochs)
        config = estimator.run_config(self.graph)
        question = [__version__, config, estimator.epochs]
        key = hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()
        name = f"{self.dataset}-{type(estimator).__name__}-{recipe.variant}-{recipe.seed}-{key[:12]}"
        run = TrainedRun(self, recipe, estimator, self.cache / name)
        missing = [epoch for epoch in run.milestones if not run.weights_file(epoch).exists()]
        if missing:
            session = estimator.session(self.graph)
            for epoch in missing:  # each part begins with the checkpoint of the previous one
                train(session, epoch, folder=run.folder, resume=True, config=config, progress=run.say)
                session.network().save(run.weights_file(epoch))
        return run


@dataclass(frozen=True)
class TrainedRun:
    """A training run in its folder: the encoder at some epochs, and the state at the end."""

    study: Study
    recipe: Recipe
    estimator: ContrastiveMethod
    folder: Path

    @property
    def milestones(self) -> list[int]:
        """The epochs whose encoders are kept: before the first, after the last and evenly between."""
        epochs = self.estimator.epochs
        return sorted({round(epochs * part / MILESTONES) for part in range(MILESTONES + 1)})

    def say(self, progress: Progress) -> None:
        self.study.say(f"{self.recipe}: {progress.epoch}/{self.estimator.epochs} epochs")

    def weights_file(self, epoch: int) -> Path:
        return self.folder / f"epoch-{epoch}.npz"

    def network(self, epoch: int | None = None) -> GraphNetwork:
        """The encoder after some epochs; after all by default."""
        return GraphNetwork.load(self.weights_file(self.estimator.epochs if epoch is None else epoch))

    def session(self) -> ContrastiveSession:
        """The final state of the training run, with the projector and the views of its loss."""
        session = self.estimator.session(self.study.graph)
        drawn = session.generator.get_state()  # the same views as at the start, however long the training was
        session.load_state_dict(Checkpoint.load(self.folder / CHECKPOINT).session)
        session.generator.set_state(drawn)
        return session.at(self.estimator.epochs)
