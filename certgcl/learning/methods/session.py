"""A training run in progress: the modules, the optimizer, the views, and the step."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from certgcl import arguments
from certgcl.certify.evidence import weights_part
from certgcl.changes.changes import AdmissibleChanges
from certgcl.changes.edge_drops import AdmissibleDrops
from certgcl.changes.random_features import columns_inside
from certgcl.errors import EncoderError, GraphError, InputError
from certgcl.graphs.graph import Graph
from certgcl.learning.methods.minibatches import MiniBatches
from certgcl.learning.methods.views import EdgeDropper, feature_mask
from certgcl.learning.regularizer import CompactnessRegularizer, in_eval_mode, metrics_of
from certgcl.learning.schedules import share_of_rate
from certgcl.learning.training.processes import ALONE, Processes
from certgcl.models.network import GraphNetwork
from certgcl.models.reading import traced_network
from certgcl.runtime.arithmetic import undisturbed
from certgcl.runtime.randomness import PrivateRandomness, generator_on

if TYPE_CHECKING:
    from certgcl.learning.methods.base import ContrastiveMethod


class ContrastiveSession:
    """A training run in progress, in the form that :func:`certgcl.learning.training.train` takes.

    Views share the features of the graph, and go through the network of the encoder directly: sparse features and
    matrices of the graph are multiplied with gradients of their own, which PyG's layers do not have. An encoder that
    behaves differently during training, through dropout or BatchNorm, is called as a module. All draws are from the
    session's own generator.
    """

    global_generators = False

    @undisturbed(gradients=True)
    def __init__(self, method: "ContrastiveMethod", graph: Graph, processes: Processes = ALONE) -> None:
        if graph.num_nodes < 2:
            raise GraphError(
                f"a graph with {graph.num_nodes} node",
                "a node is contrasted with others",
                "Give a graph of two nodes or more",
            )
        self.method, self.processes = method, processes
        self.graph = graph.to(arguments.usable_device(method.device), torch.float32).private()
        device = self.graph.x.device
        weights = generator_on("cpu", method.seed)  # drawn on the CPU, so that they are the same on every device
        with PrivateRandomness(weights):
            self.encoder = method.new_encoder(graph.num_features)
        self.encoder = self.encoder.to(device, torch.float32).train()
        self.width = self.network().width
        with PrivateRandomness(weights):
            inner = method.projection or self.width
            self.projector = nn.Sequential(nn.Linear(self.width, inner), nn.ELU(), nn.Linear(inner, self.width))
        self.generator = weights if device.type == "cpu" else generator_on(device, method.seed)
        self.modules = nn.ModuleDict({"encoder": self.encoder, "projector": self.projector}).to(device, torch.float32)
        self.as_network = self._is_as_in_eval_mode()
        self.optimizer = torch.optim.Adam(
            self.modules.parameters(), method.learning_rate, weight_decay=method.weight_decay
        )
        self.regularizer = _with_budget(method)
        self._drop_probabilities = method.drop_probabilities(self.graph)
        self._droppers: tuple[AdmissibleDrops | None, list[EdgeDropper]] | None = None
        self.masks = method.mask_probabilities(self.graph)
        self.minibatches = None if method.batch_nodes is None else MiniBatches(self, method.batch_nodes, method.fanout)

    def at(self, epoch: int) -> "ContrastiveSession":
        """Move the schedules to an epoch."""
        rate = self.method.learning_rate * share_of_rate(self.method.schedule, epoch, self.method.epochs)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        if self.regularizer is not None:
            self.regularizer.at(epoch)
        return self

    @property
    def inside(self) -> AdmissibleChanges | None:
        """The budget that the views of this epoch stay inside, if requested."""
        if not self.method.inside_budget or self.regularizer is None:
            return None
        return self.regularizer.changes_on(self.graph)

    @property
    def views(self) -> list[EdgeDropper]:
        """The sampler of this epoch's views, inside its budget if requested."""
        changes = self.inside
        inside = None if changes is None else changes.drops
        if self._droppers is None or self._droppers[0] is not inside:
            self._droppers = inside, [EdgeDropper(self.graph, p, inside) for p in self._drop_probabilities]
        return self._droppers[1]

    @undisturbed(gradients=True)
    def step(self, epoch: int) -> dict[str, float]:
        self.at(epoch)
        if self.minibatches is not None:
            return self.minibatches.epoch(epoch)
        network = self.network()
        views, (z1, z2) = self.sampled_views(network)
        loss = infonce = self.method.contrast(self, *self.compared(z1, z2), epoch)
        metrics = {"infonce": float(infonce.detach())}
        regularizer = self.regularizer
        if regularizer is not None and regularizer.due:
            # The bound is about the encoder in eval mode, and so are its directions.
            term = regularizer(
                network, self.graph, *views, embeddings=(z1, z2) if self.as_network else None, generator=self.generator
            )
            loss = regularizer.combine(infonce)
            metrics |= metrics_of(regularizer, term)
        self.descend(loss)
        return {"loss": float(loss.detach()), **metrics}

    def descend(self, loss: Tensor) -> None:
        """One step of the optimizer."""
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def network(self) -> GraphNetwork:
        """The encoder in eval mode as a network in its own precision."""
        with in_eval_mode(self.encoder):
            network = traced_network(self.encoder, self.graph)
        return network.to(network.precision)

    def _is_as_in_eval_mode(self) -> bool:
        """Whether the encoder computes the same in training mode."""
        try:
            trained = traced_network(self.encoder, self.graph)
        except EncoderError:  # dropout and BatchNorm cannot be read in training mode
            return False
        return weights_part(trained) == weights_part(self.network())

    def sampled_views(self, network: GraphNetwork) -> tuple[list[Graph], list[Tensor]]:
        """A pair of views, and the embeddings of each, with features masked through the weights."""
        views = [dropper.sample(self.generator) for dropper in self.views]
        return views, [
            self.embedded(network, view, probability) for view, probability in zip(views, self.masks, strict=True)
        ]

    def embedded(self, network: GraphNetwork, view: Graph, probability: float | Tensor) -> Tensor:
        """The embeddings of a view, with features masked with that probability."""
        mask = feature_mask(probability, self.graph.num_features, self.graph.x, self.generator)
        features = None if self.inside is None else self.inside.features
        if mask is not None and features is not None:
            mask = (~columns_inside(self.graph, features, mask == 0, self.generator)).to(mask)
        if self.as_network:
            return (network if mask is None else _masked(network, mask)).embed(view)
        x = self._x if view.x is self.graph.x else _dense(view.x)
        with PrivateRandomness(self.generator):
            found: Tensor = self.encoder(x if mask is None else x * mask, view.edge_index)
        return found

    @cached_property
    def _x(self) -> Tensor:
        """The features, for encoders that are called."""
        return _dense(self.graph.x)

    def compared(self, z1: Tensor, z2: Tensor) -> tuple[Tensor, Tensor]:
        """The nodes that are compared in this step."""
        batch = self.method.batch
        if batch is None or batch >= len(z1):
            return z1, z2
        nodes = torch.randperm(len(z1), device=z1.device, generator=self.generator)[:batch]
        return z1[nodes], z2[nodes]

    def drop_probabilities_at(self, ends: Tensor) -> list[float | Tensor]:
        """The probabilities of some edges for each view; edges by their ends, ``(2, k)``, the smaller one first."""
        key = ends[0] * self.graph.num_nodes + ends[1]
        return [
            p[torch.searchsorted(self._edge_keys, key)] if isinstance(p, Tensor) else p
            for p in self._drop_probabilities
        ]

    @cached_property
    def _edge_keys(self) -> Tensor:
        """One number for every edge, in their order."""
        forward = self.graph.row < self.graph.col
        return self.graph.row[forward] * self.graph.num_nodes + self.graph.col[forward]

    @contextmanager
    def drawing_from(self, generator: torch.Generator) -> Iterator[None]:
        """In this context, the session uses another generator."""
        before, self.generator = self.generator, generator
        try:
            yield
        finally:
            self.generator = before

    def facts(self) -> dict[str, Any]:
        """What the run depends on in addition to the settings of its method."""
        if self.minibatches is None:
            return {}
        return {"sampler": self.minibatches.sampler.name, "processes": self.processes.count}

    def state_dict(self) -> dict[str, Any]:
        return {
            "modules": self.modules.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.modules.load_state_dict(state["modules"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])


def _dense(x: Tensor) -> Tensor:
    return x if x.layout == torch.strided else x.to_dense()


def _masked(network: GraphNetwork, mask: Tensor) -> GraphNetwork:
    """The network on features times the mask, column by column."""
    layers = (
        replace(
            layer,
            terms=tuple(
                term
                if term.source
                else replace(term, weight=(mask if term.weight.dim() == 1 else mask[:, None]) * term.weight)
                for term in layer.terms
            ),
        )
        for layer in network.layers
    )
    return replace(network, layers=tuple(layers))


def check_contrast(session: Any, kind: type[ContrastiveSession], z1: Any, z2: Any, epoch: Any) -> None:
    """Raise an error for embeddings that are not a pair of matrices of the encoder's width."""
    if not isinstance(session, kind):
        raise InputError(f"session={arguments.shown(session)}", f"it is a {kind.__name__}", "Use method.session(data)")
    width = session.width
    for name, z in (("z1", z1), ("z2", z2)):
        matrix = isinstance(z, Tensor) and not (z.is_nested or z.is_meta) and z.dim() == 2
        if not matrix or z.shape[1] != width or z.dtype != torch.float32:
            raise InputError(
                f"{name}={arguments.shown(z)}",
                f"embeddings are (nodes, {width}), in float32",
                "Pass those of the session's encoder",
            )
    if z1.shape != z2.shape or len(z1) < 2:
        raise InputError(
            f"embeddings of shapes {tuple(z1.shape)} and {tuple(z2.shape)}",
            "both views have the same nodes, two or more",
            "Pass both views' embeddings of the same nodes",
        )
    arguments.whole(epoch, "epoch", 0, "epochs are counted from 0", "Pass an int")


def _with_budget(method: "ContrastiveMethod") -> CompactnessRegularizer | None:
    """A separate regularizer for every training run; if no budget is given, with the expected drops of the view that
    drops more."""
    regularizer = method.regularizer
    if regularizer is None:
        return None
    return replace(regularizer, budget=max(method.drop_rates) if regularizer.budget is None else regularizer.budget)
