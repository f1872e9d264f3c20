"""Theorem 2 of the paper as printed. Not a bound."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from certgcl.bounds.prepared import ChangeProblem, check_call
from certgcl.bounds.two_layer.weights import two_layers
from certgcl.bounds.uncertified.formulas import PrintedScore
from certgcl.models.network import GraphNetwork


@dataclass(frozen=True)
class Paper(PrintedScore):
    """``score_i = Σ_j Â_ij ( Σ_k Â_jk y_k · Λ1_i + b̃1_i ) + b̃2_i`` at one view: the anchor's own lines everywhere."""

    name: str = field(default="paper", init=False)

    def __call__(self, network: GraphNetwork, problem: ChangeProblem, directions: Tensor) -> Tensor:
        check_call(network, problem, directions, everywhere=True, drops_only=True)
        weights = two_layers(network, self.name)
        graph = problem.graph
        projected, views = graph.project(weights.w1), self.views(graph, directions.shape[1])
        terms = self.terms(weights, problem, directions, projected)
        ones = projected.new_ones(len(projected), 1)
        score = []
        for column, view in enumerate(views):
            here = slice(column, column + 1)
            twice = view.propagate(view.propagate(projected))
            products, constant1 = (part[:, here] for part in terms.products(twice))
            score.append(products + view.propagate(ones) * constant1)
        return (torch.cat(score, dim=1) + terms.constant2)[problem.anchors]
