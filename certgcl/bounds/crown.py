"""Linear bounds on the box: the paper's Theorem 2, repaired so that it is one."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from certgcl.activation import SlopeRule, check_slopes
from certgcl.bounds.backward import bound_output, refine_layer2
from certgcl.bounds.functional import Functionals, RowTerms
from certgcl.bounds.interval import BoxRows, layer1_on_box, layer2_on_box
from certgcl.bounds.neighbourhood import Block, Neighbourhood
from certgcl.bounds.problem import DropProblem
from certgcl.bounds.rows import least_scaled, restore_order
from certgcl.encoder import GCNWeights


@dataclass(frozen=True)
class Crown:
    """Lines instead of intervals, every entry of Â still varying by itself between its extremes.

    For each pair (anchor i, neighbour j) ``ω · h_j >= v_ij``, with the lines of j and the signs of ω, and then both
    sums over Â are minimised entry by entry. They compose because ``Â >= 0``.

    Args:
        slopes: the rules for the free slopes; the bound is the best over all of them.
    """

    slopes: tuple[SlopeRule, ...] = ("parallel", "adaptive", "flat")
    name: str = field(default="crown", init=False)
    certified: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        check_slopes(self.slopes)

    def __call__(self, weights: GCNWeights, problem: DropProblem, directions: Tensor) -> Tensor:
        hood = problem.neighbourhood(weights.w1.dtype)
        layer1 = layer1_on_box(weights, problem.projected(weights), hood)
        minimise = BoxMinimum(hood)
        layer2 = refine_layer2(minimise, layer1, hood, self.slopes, layer2_on_box(layer1, hood))
        return bound_output(minimise, layer1, hood, self.slopes, layer2, directions[problem.anchors])


class BoxMinimum:
    """``Σ_j (L_ij [v_ij]+ + U_ij [v_ij]-)`` with ``v_ij = max(Σ_k (L_jk [C_jk]+ + U_jk [C_jk]-) + e_j, interval)``,
    the best over the slope rules for each pair.

    The box has one case: ``(A, 1, M)``.
    """

    def __init__(self, hood: Neighbourhood) -> None:
        self.hood = hood
        self.outer, self.inner = BoxRows(hood.outer), BoxRows(hood.inner)

    def __call__(self, functionals: Functionals) -> Tensor:
        outer = self.hood.outer
        everyone = torch.arange(outer.nodes.numel(), device=outer.nodes.device)
        pairs = torch.arange(outer.col.numel(), device=outer.col.device)
        own = []
        for rule in range(functionals.rules):
            anchors = functionals.anchor_terms(everyone, 0, rule)
            value = self._anchor_sum(anchors.own, functionals.pair_terms(pairs, 0, rule)) + anchors.constant
            own.append(value.maximum(anchors.interval))
        return self._anchor_sum(_best(own), self._pair_values(functionals))[:, None]

    def _anchor_sum(self, own: Tensor, pairs: Tensor) -> Tensor:
        """The least ``Â_ii own_i + Σ_j Â_ij pair_ij`` over the box."""
        total = least_scaled(self.outer.own_lower[:, None], self.outer.own_upper[:, None], own)
        terms = least_scaled(self.outer.lower[:, None], self.outer.upper[:, None], pairs)
        return total.index_add(0, self.hood.outer.row, terms)

    def _pair_values(self, functionals: Functionals) -> Tensor:
        """``v_ij`` for every pair, ``(P, M)``."""
        parts, order = [], []
        for block in self.hood.inner.blocks(functionals.width):
            for ranks in functionals.anchor_ranges(block):
                values = []
                for rule in range(functionals.rules):
                    terms = functionals.row_terms(block, ranks, 0, rule)
                    values.append(self._row_sum(block, terms).maximum(terms.interval[..., 0, :]))
                parts.append(_best(values)[terms.row, terms.functional])
                order.append(terms.pair)
        return restore_order(parts, order)

    def _row_sum(self, block: Block, terms: RowTerms) -> Tensor:
        """The least ``Â_jj C_jj + Σ_k Â_jk C_jk + e_j`` over the box, ``(R, I, M)``."""
        low, high = block.gather(self.inner.lower) * block.valid, block.gather(self.inner.upper) * block.valid
        leaves = least_scaled(low[..., None, None], high[..., None, None], terms.leaves[..., 0, :]).sum(dim=1)
        own = least_scaled(self.inner.own_lower[block.rows, None, None],
                           self.inner.own_upper[block.rows, None, None], terms.own[..., 0, :])
        return own + leaves + terms.constant[..., 0, :]


def _best(values: list[Tensor]) -> Tensor:
    return torch.stack(values).amax(dim=0)
