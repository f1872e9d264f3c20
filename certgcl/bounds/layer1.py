"""The first layer as the second one sees it: bounds of its pre-activations, and lines around its activation."""

from dataclasses import dataclass

from torch import Tensor

from certgcl.activation import Lines, SlopeRule
from certgcl.bounds.counts import DropCases
from certgcl.encoder import GCNWeights


@dataclass(frozen=True, eq=False)
class Layer1:
    """Bounds of ``p_j = Â_j (X W1) + b1`` for the inner rows, in each case of how many edges j loses.

    Args:
        projected: ``Y = X W1`` over the inner hop's targets, ``(T, d1)``.
        cases: the cases of the inner rows.
        lower: ``l <= p``, ``(cases, d1)``.
        upper: ``p <= u``, ``(cases, d1)``.
    """

    weights: GCNWeights
    projected: Tensor
    cases: DropCases
    lower: Tensor
    upper: Tensor

    def hidden_interval(self) -> tuple[Tensor, Tensor]:
        """The range of ``h_j = σ(p_j)`` in each case."""
        return self.weights.activation1.interval(self.lower, self.upper)

    def products(self) -> tuple[Tensor, Tensor]:
        """The range of ``V = H W2`` for ``H`` in its interval, ``(cases, d2)`` each."""
        low, high = self.hidden_interval()
        w2 = self.weights.w2
        return split_product(w2, low, high), -split_product(-w2, low, high)

    def lines(self, rule: SlopeRule) -> Lines:
        return self.weights.activation1.lines(self.lower, self.upper, rule)


def signed_parts(values: Tensor) -> tuple[Tensor, Tensor]:
    """``[v]+`` and ``[v]-``, with gradients that add up to one at zero too."""
    positive = values.clamp(min=0)
    return positive, values - positive


def split_product(matrix: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
    """``lower @ M+ + upper @ M-``: the least value of ``v @ M`` for ``lower <= v <= upper``."""
    positive, negative = signed_parts(matrix)
    return lower @ positive + upper @ negative
