"""One training in progress: the modules, the optimizer, the views, and the step."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from certgcl import values
from certgcl.budget import EdgeDropBudget
from certgcl.encoder import GCNEncoder, GCNWeights
from certgcl.errors import GraphError, InputError
from certgcl.graph import Graph
from certgcl.methods.views import EdgeDropper, feature_mask
from certgcl.regularizer import CompactnessRegularizer
from certgcl.schedules import Ramp

if TYPE_CHECKING:
    from certgcl.methods.base import ContrastiveMethod


class Session:
    """One training in progress, as :func:`certgcl.training.train` wants it.

    Views share the features of the graph, and go through the weights of the encoder directly: sparse features and the
    symmetric Â are multiplied with gradients of their own, which a ``GCNConv`` does not know of.
    """

    def __init__(self, method: "ContrastiveMethod", graph: Graph) -> None:
        if graph.num_nodes < 2:
            raise GraphError(f"a graph with {graph.num_nodes} node", "a node is contrasted with others",
                             "Give a graph of two nodes or more")
        device = values.usable_device(method.device)
        torch.manual_seed(method.seed)
        self.method = method
        self.graph = graph.to(device, torch.float32)
        self.encoder = GCNEncoder(graph.num_features, 2 * method.hidden, method.hidden, method.activation)
        width = method.projection or method.hidden
        self.projector = nn.Sequential(nn.Linear(method.hidden, width), nn.ELU(), nn.Linear(width, method.hidden))
        self.modules = nn.ModuleDict({"encoder": self.encoder, "projector": self.projector}).to(self.graph.x.device)
        self.optimizer = torch.optim.Adam(self.modules.parameters(), method.learning_rate,
                                          weight_decay=method.weight_decay)
        self.regularizer = _with_budget(method)
        inside = None
        if method.inside_budget and self.regularizer is not None:
            budget = self.regularizer.budget
            widest = budget.last if isinstance(budget, Ramp) else budget
            inside = EdgeDropBudget.of(widest).on(self.graph)  # type: ignore[arg-type]
        self.views = [EdgeDropper(self.graph, p, inside) for p in method.drop_probabilities(self.graph)]
        self.masks = method.mask_probabilities(self.graph)

    def step(self, epoch: int) -> dict[str, float]:
        weights = self.encoder.weights()
        views, (z1, z2) = self.sampled_views(weights)
        loss = infonce = self.method.contrast(self, *self._batch(z1, z2), epoch)
        metrics = {"infonce": float(infonce.detach())}
        regularizer = self.regularizer
        if regularizer is not None and regularizer.at(epoch).due:
            term = regularizer(weights, self.graph, *views, embeddings=(z1, z2))
            loss = regularizer.combine(infonce)
            metrics |= {"pot": float(term.detach()), "compactness": regularizer.score, "kappa": regularizer.share}
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return {"loss": float(loss.detach()), **metrics}

    def sampled_views(self, weights: GCNWeights) -> tuple[list[Graph], list[Tensor]]:
        """A pair of views, features masked by way of the weights, and the embeddings of each."""
        views, embeddings = [dropper.sample() for dropper in self.views], []
        for view, probability in zip(views, self.masks, strict=True):
            mask = feature_mask(probability, self.graph.num_features, weights.w1)
            masked = weights if mask is None else replace(weights, w1=mask[:, None] * weights.w1)
            embeddings.append(masked.embed(view))
        return views, embeddings

    def _batch(self, z1: Tensor, z2: Tensor) -> tuple[Tensor, Tensor]:
        """The nodes that are compared in this step."""
        batch = self.method.batch
        if batch is None or batch >= len(z1):
            return z1, z2
        nodes = torch.randperm(len(z1), device=z1.device)[:batch]
        return z1[nodes], z2[nodes]

    def state_dict(self) -> dict[str, Any]:
        return {"modules": self.modules.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.modules.load_state_dict(state["modules"])
        self.optimizer.load_state_dict(state["optimizer"])


def check_contrast(session: Any, kind: type[Session], z1: Any, z2: Any, epoch: Any) -> None:
    """Refuse what no step of a session gives: embeddings that are no pair of matrices of the encoder's width."""
    if not isinstance(session, kind):
        raise InputError(f"session={values.shown(session)}", f"it is a {kind.__name__}", "Use method.session(data)")
    width = session.method.hidden
    for name, z in (("z1", z1), ("z2", z2)):
        matrix = isinstance(z, Tensor) and not (z.is_nested or z.is_meta) and z.dim() == 2
        if not matrix or z.shape[1] != width or z.dtype != torch.float32:
            raise InputError(f"{name}={values.shown(z)}", f"embeddings are (nodes, {width}), in float32",
                             "Pass those of the session's encoder")
    if z1.shape != z2.shape or len(z1) < 2:
        raise InputError(f"embeddings of shapes {tuple(z1.shape)} and {tuple(z2.shape)}",
                         "both views have the same nodes, two or more", "Pass both views' embeddings of the same nodes")
    values.whole(epoch, "epoch", 0, "epochs are counted from 0", "Pass an int")


def _with_budget(method: "ContrastiveMethod") -> CompactnessRegularizer | None:
    """The regularizer with a budget: where none is given, the expected drops of the view that drops more."""
    regularizer = method.regularizer
    if regularizer is None or regularizer.budget is not None:
        return regularizer
    return replace(regularizer, budget=max(method.drop_rates))

