"""The two formulas of the paper that are *not* bounds, in their common part: kept for comparison and reproduction.

How they differ from a bound, and why that matters (``docs/errata.md`` has the counterexamples):

1. layer 2 is bounded with the hidden layer of the clean graph, although it depends on the drops;
2. nothing is minimised over Â in the end: it is evaluated at one view;
3. the lines of layer 1 are taken at the anchor (``paper``) or at each leaf (``released``), not at the neighbour.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from certgcl.arguments import shown
from certgcl.bounds import compiled
from certgcl.bounds.method import BoundMethod
from certgcl.bounds.prepared import ChangeProblem
from certgcl.bounds.two_layer.box import signed_parts
from certgcl.bounds.two_layer.layer1 import Range
from certgcl.bounds.two_layer.neighbourhood import inverse_sqrt_degree
from certgcl.bounds.two_layer.weights import GCNWeights, unsupported
from certgcl.changes.changes import AdmissibleChanges
from certgcl.errors import GraphError, MethodError
from certgcl.graphs.graph import Graph
from certgcl.graphs.sparse import ConstantMatrix, csr_matrix
from certgcl.models.activations import SlopeRule
from certgcl.models.network import GraphNetwork
from certgcl.models.two_piece import TwoPieceLinear


class PrintedTerms(NamedTuple):
    """The parts of both formulas."""

    weights: GCNWeights
    omega: Tensor  # (N, C, d1)
    lower1: Tensor  # of the first pre-activations, (N, d1)
    upper1: Tensor
    constant2: Tensor  # b̃2, (N, C)

    def products(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """``Λ1 · v`` for one v at every node, ``(N, d1)``, and ``b̃1``; ``(N, C)`` each."""
        return chord_lines(self.omega, self.lower1, self.upper1, self.weights.b1, self.weights.slope1, values)


def chord_lines(
    omega: Tensor, lower: Tensor, upper: Tensor, bias: Tensor, gamma: Tensor, features: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Slopes ``Λ = ω a`` and constants of lines ``Λ (p - b) + const`` below ``ω · σ(p)`` for ``l <= p <= u``.

    Both lines around an activation have the slope a of its chord.

    Args:
        omega: ``(N, C, d)``.
        lower, upper: ``(N, d)``.
        features: if given, ``(N, d)``: instead of slopes the products ``Λ · y``, ``(N, C)``.
    """
    if compiled.usable(omega.device):
        from certgcl.bounds.compiled.paper_formulas import chord_lines as compiled_lines

        return compiled_lines(omega, lower, upper, bias, gamma, features)
    lines = TwoPieceLinear(gamma).lines(lower, upper, "parallel")
    middle, radius = Range.between(lines.lower_intercept, lines.upper_intercept)
    constants = _least_products(omega, Range(torch.addcmul(middle, lines.lower_slope, bias), radius))
    if features is None:
        return omega * lines.lower_slope[:, None], constants
    return (omega * (lines.lower_slope * features)[:, None]).sum(dim=2), constants


@dataclass(frozen=True)
class PrintedScore(BoundMethod):
    """Common part of ``paper`` and ``released``.

    Args:
        at: the view whose Â the formula is evaluated at, or one view for each direction; the graph itself by default.
    """

    at: Graph | tuple[Graph, ...] | None = field(default=None, repr=False)
    certified: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        at: Any = self.at
        if at is None:
            return
        views = tuple(at) if isinstance(at, (list, tuple)) else (at,)
        if not views or not all(isinstance(view, Graph) for view in views):
            raise MethodError(
                f"at={shown(at)}",
                "it is a view as a certgcl.Graph, or one for each direction",
                "Convert each with certgcl.Graph.of, or leave it out for the graph itself",
            )
        object.__setattr__(self, "at", at if isinstance(at, Graph) else views)

    def supports(self, network: GraphNetwork, changes: AdmissibleChanges) -> str | None:
        return unsupported(network) or super().supports(network, changes)

    def rules(self, hidden_channels: int) -> tuple[SlopeRule, ...]:
        return ("parallel",)

    def terms(self, weights: GCNWeights, problem: ChangeProblem, directions: Tensor, projected: Tensor) -> PrintedTerms:
        """The common part at every node.

        Args:
            projected: ``Y = X W1``, ``(N, d1)``.
        """
        hidden = weights.activation1(problem.graph.propagate(projected) + weights.b1)
        box = PaperBox(problem, projected.dtype)
        slopes, constant2 = chord_lines(
            directions, *box.range(hidden @ weights.w2, weights.b2), weights.b2, weights.slope2
        )
        return PrintedTerms(weights, slopes @ weights.w2.T, *box.range(projected, weights.b1), constant2)

    def views(self, graph: Graph, directions: int) -> tuple[Graph, ...]:
        at = graph if self.at is None else self.at
        views = (at,) * directions if isinstance(at, Graph) else at
        if len(views) != directions:
            raise GraphError(
                f"{len(views)} views for {directions} directions",
                "there is one view for all directions or one for each",
                "Pass as many views as directions",
            )
        for view in views:
            if view.num_nodes != graph.num_nodes:
                raise GraphError(
                    f"a view with {view.num_nodes} nodes of a graph with {graph.num_nodes}",
                    "a view has the nodes of its graph",
                    "Drop edges only",
                )
        return views


class PaperBox:
    """The paper's ``L = diag(1/D)`` and ``U_ij = ((D_i - q_i)(D_j - q_j))^(-1/2)``."""

    def __init__(self, problem: ChangeProblem, dtype: torch.dtype) -> None:
        graph = problem.graph
        scale = inverse_sqrt_degree(graph.degree, problem.drops.requested, dtype)
        self.graph, self.entries = graph, scale[graph.row] * scale[graph.col]
        self.own_lower, self.own_upper = (graph.degree + 1).to(dtype).reciprocal()[:, None], scale.square()[:, None]

    @cached_property
    def upper(self) -> ConstantMatrix:
        graph = self.graph
        return ConstantMatrix(csr_matrix(graph.rowptr, graph.col, self.entries, (graph.num_nodes,) * 2), symmetric=True)

    def range(self, values: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """``L [v]+ + U [v]- + b`` and its mirror image."""
        if compiled.usable(values.device):
            from certgcl.bounds.compiled.paper_formulas import box_range

            return box_range(self, values, bias)

        def most(v: Tensor) -> Tensor:  # U v for v of one sign
            return torch.addcmul(self.upper @ v, self.own_upper, v)

        positive, negative = signed_parts(values)
        return (
            torch.addcmul(bias, self.own_lower, positive) + most(negative),
            torch.addcmul(bias, self.own_lower, negative) + most(positive),
        )


def _least_products(omega: Tensor, values: Range) -> Tensor:
    """The least ``ω · v`` over the range of v at every node, ``(N, C)``."""
    least: Tensor = _LeastProducts.apply(omega, *values)  # type: ignore[no-untyped-call]
    return least


class _LeastProducts(torch.autograd.Function):
    """``ω · middle - |ω| · radius``, with gradients in half of torch's passes over the largest tensor."""

    @staticmethod
    def forward(ctx: Any, omega: Tensor, middle: Tensor, radius: Tensor) -> Tensor:
        ctx.save_for_backward(omega, middle, radius)
        return (omega * middle[:, None]).addcmul_(omega.abs(), radius[:, None], value=-1).sum(dim=2)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        omega, middle, radius = ctx.saved_tensors
        sign, gradient = omega.sign(), gradients[0][..., None]
        to_omega = torch.addcmul(middle[:, None], sign, radius[:, None], value=-1).mul_(gradient)
        share = omega * gradient
        return to_omega, share.sum(dim=1), share.mul_(sign).sum(dim=1).neg_()
