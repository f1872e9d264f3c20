"""What the paper's released code computes, with the full neighbourhood. Not a bound."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from certgcl.bounds.prepared import ChangeProblem, check_call
from certgcl.bounds.two_layer.weights import two_layers
from certgcl.bounds.uncertified.formulas import PrintedScore
from certgcl.models.network import GraphNetwork


@dataclass(frozen=True)
class Released(PrintedScore):
    """``score = Â (Â v + b̃1) + b̃2`` with ``v_k = y_k · Λ1_k`` at one view: every leaf's own lines and signs."""

    name: str = field(default="released", init=False)

    def __call__(self, network: GraphNetwork, problem: ChangeProblem, directions: Tensor) -> Tensor:
        check_call(network, problem, directions, everywhere=True, drops_only=True)
        weights = two_layers(network, self.name)
        graph = problem.graph
        projected, views = graph.project(weights.w1), self.views(graph, directions.shape[1])
        terms = self.terms(weights, problem, directions, projected)
        columns = zip(views, *(part.split(1, dim=1) for part in terms.products(projected)), strict=True)
        score = [view.propagate(view.propagate(leaves) + constant) for view, leaves, constant in columns]
        return (torch.cat(score, dim=1) + terms.constant2)[problem.anchors]
