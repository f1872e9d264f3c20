"""Linear bounds on the box: the paper's Theorem 2, corrected so that it is a bound."""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from certgcl.bounds.interval import layer1_on_box, layer2_on_box
from certgcl.bounds.method import BoundMethod
from certgcl.bounds.prepared import ChangeProblem, check_call
from certgcl.bounds.propagation.drop_counts import Scale
from certgcl.bounds.propagation.extremes import best
from certgcl.bounds.propagation.method import by_lines_on_the_box
from certgcl.bounds.two_layer.backward import MinimumOverFunctionals, bound_output, refine_layer2
from certgcl.bounds.two_layer.blocks import Block
from certgcl.bounds.two_layer.hidden_functionals import HiddenFunctionals, RowTerms
from certgcl.bounds.two_layer.row_plan import RowPlan
from certgcl.bounds.two_layer.row_tables import take
from certgcl.changes.changes import AdmissibleChanges
from certgcl.models.activations import SlopeRule, check_slopes
from certgcl.models.network import GraphNetwork


@dataclass(frozen=True)
class Crown(BoundMethod):
    """Lines instead of intervals, while every entry of Â still varies independently between its extremes.

    For each pair (anchor i, neighbour j) ``ω · h_j >= v_ij``, with the lines of j and the signs of ω, and then both
    sums over Â are minimised entry by entry. They compose because ``Â >= 0``.

    Args:
        slopes: the rules for the free slopes; the bound is the best over all of them.
    """

    slopes: tuple[SlopeRule, ...] = ("parallel", "adaptive", "flat")
    name: str = field(default="crown", init=False)
    certified: bool = field(default=True, init=False)
    second_view: ClassVar[bool] = True

    def rules(self, hidden_channels: int) -> tuple[SlopeRule, ...]:
        return self.slopes

    def __post_init__(self) -> None:
        object.__setattr__(self, "slopes", check_slopes(self.slopes))

    def supports(self, network: GraphNetwork, changes: AdmissibleChanges) -> None:
        return None

    def __call__(self, network: GraphNetwork, problem: ChangeProblem, directions: Tensor) -> Tensor:
        check_call(network, problem, directions)
        weights = problem.two_layer(network)
        if weights is None:
            return by_lines_on_the_box(network, problem, directions, self.slopes)
        plan = problem.plan(weights.w1.dtype, resolution=1, lines="shared")
        hood, minimum = plan.hood, BoxMinimum(plan)
        layer1 = layer1_on_box(weights, problem.projected(weights), hood)
        layer2 = refine_layer2(minimum, layer1, plan, self.slopes, layer2_on_box(weights, layer1.projected, hood))
        return bound_output(minimum, layer1, plan, self.slopes, layer2, problem.at_anchors(directions))


class BoxMinimum(MinimumOverFunctionals):
    """``Σ_j (L_ij [v_ij]+ + U_ij [v_ij]-)`` with ``v_ij = max(Σ_k (L_jk [C_jk]+ + U_jk [C_jk]-) + e_j, interval)``,
    the best over the slope rules for each pair.

    The box has one case: ``(A, M)``.
    """

    def __init__(self, plan: RowPlan) -> None:
        super().__init__(plan)
        self.hood = plan.hood
        self.outer, self.inner = plan.hood.outer.box, plan.hood.inner.box

    def __call__(self, functionals: HiddenFunctionals) -> Tensor:
        own = [functionals.anchor_intervals()]
        pair = torch.arange(self.hood.outer.col.numel(), device=self.hood.pair.device)
        for rule in range(functionals.rules):
            anchors = functionals.anchor_terms(rule)
            own.append(self._anchor_sum(anchors.own, functionals.pair_terms(pair, 0, rule)) + anchors.constant)
        return self._anchor_sum(best(own), self._pair_values(functionals))

    def _anchor_sum(self, own: Tensor, pairs: Tensor) -> Tensor:
        """The least ``Â_ii own_i + Σ_j Â_ij pair_ij`` over the box."""
        total = Scale(self.outer.own_lower[:, None], self.outer.own_upper[:, None]).least(own)
        terms = Scale(self.outer.lower[:, None], self.outer.upper[:, None]).least(pairs)
        return total.index_add(0, self.hood.outer.row, terms)

    def _pair_values(self, functionals: HiddenFunctionals) -> Tensor:
        """``v_ij`` for every pair, ``(P, M)``."""
        partition = self.plan.rows(functionals.width)
        table = [self.outer.lower.new_zeros(0, functionals.number)]
        for number, (block, pairs) in enumerate(zip(partition.blocks, partition.pairs, strict=True)):
            here, part = functionals.at(number), []
            for columns in functionals.columns(block, pairs, 0) if pairs.columns else []:
                interval, lines, _ = here.bounds(columns, 0)
                value = best([interval[..., 0, :], *(self._row_sum(block, terms) for terms in lines)])
                part.append(value.expand(-1, columns.stop - columns.start, -1))
            table.extend([torch.cat(part, dim=1).flatten(0, 1)] if part else [])
        return take(torch.cat(table), partition.pair_place[:, 0])

    def _row_sum(self, block: Block, terms: RowTerms) -> Tensor:
        """The least ``Â_jj C_jj + Σ_k Â_jk C_jk + e_j`` over the box, ``(R, I, M)``."""
        entry = Scale(
            *((bound[block.slots] * block.valid)[..., None, None] for bound in (self.inner.lower, self.inner.upper))
        )
        leaves = entry.least(terms.leaves[..., 0, :]).sum(dim=1)
        own = Scale(*(bound[block.rows, None, None] for bound in (self.inner.own_lower, self.inner.own_upper)))
        return own.least(terms.own[..., 0, :]) + leaves + terms.constant[..., 0, :]
