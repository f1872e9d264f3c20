"""Degree-exact bounds: all entries of a row share one degree, and the bound knows it."""

from dataclasses import dataclass, field
from itertools import product
from typing import Literal

import torch
from torch import Tensor

from certgcl.activation import SlopeRule, check_slopes
from certgcl.bounds.backward import bound_output, refine_layer2
from certgcl.bounds.counts import DropCases, drop_cases
from certgcl.bounds.functional import Functionals, RowTerms
from certgcl.bounds.interval import layer1_on_box, layer2_on_box
from certgcl.bounds.layer1 import Layer1
from certgcl.bounds.neighbourhood import Block, Hop, Neighbourhood, take
from certgcl.bounds.problem import DropProblem
from certgcl.bounds.rows import RowCase, least_scaled, least_terms, row_minimum, top_sums
from certgcl.encoder import GCNWeights
from certgcl.errors import MethodError


@dataclass(frozen=True)
class Degree:
    """The degree-exact closed form: sound, tight, and the default.

    Args:
        preactivations: how layer 2 is bounded before its activation. ``"functional"`` runs the closed form on each
            channel (the full setting); ``"interval"`` applies the row lemma to ``H W2`` (the cheap one, far looser at
            real widths).
        slopes: the rules for the free slopes of both layers; every part of the bound takes the best of them. Time
            grows with their number; at real widths ``("adaptive",)`` alone is as tight to three digits.
        resolution: budgets below this many drops are treated count by count; larger ones in so many groups of counts,
            which is sound too and costs little tightness.
    """

    preactivations: Literal["functional", "interval"] = "functional"
    slopes: tuple[SlopeRule, ...] = ("adaptive", "flat", "parallel")
    resolution: int = 6
    certified: bool = field(default=True, init=False)

    @property
    def name(self) -> str:
        return "degree" if self.preactivations == "functional" else "degree-cheap"

    def __post_init__(self) -> None:
        check_slopes(self.slopes)
        if self.preactivations not in ("functional", "interval"):
            raise MethodError(f"preactivations={self.preactivations!r}", "it is 'functional' or 'interval'", "Pick one")
        if not isinstance(self.resolution, int) or self.resolution < 1:
            raise MethodError(f"resolution={self.resolution!r}", "it is an integer of at least 1", "Try 6")

    def __call__(self, weights: GCNWeights, problem: DropProblem, directions: Tensor) -> Tensor:
        hood = problem.neighbourhood(weights.w1.dtype)
        minimise = DegreeMinimum(hood, self.resolution)
        layer1 = layer1_by_degree(weights, problem.projected(weights), hood.inner, minimise.row_cases)
        # Neither of the two cheap bounds of layer 2 is always the better one; with both, `degree` is never below
        # `interval`.
        layer2 = _intersection(layer2_by_degree(layer1, hood, minimise.anchor_cases),
                               layer2_on_box(layer1_on_box(weights, layer1.projected, hood), hood))
        if self.preactivations == "functional":
            layer2 = refine_layer2(minimise, layer1, hood, self.slopes, layer2)
        return bound_output(minimise, layer1, hood, self.slopes, layer2, directions[problem.anchors])


def layer1_by_degree(weights: GCNWeights, projected: Tensor, hop: Hop, cases: DropCases) -> Layer1:
    """Bounds of the first pre-activations: the row lemma on every column of ``Y = X W1`` and of ``-Y``."""
    values = torch.cat([projected, -projected], dim=1)
    least, negative_most = row_minimum(
        hop, cases,
        terms=lambda block: least_terms(block, hop, take(values, block.gather(hop.col))),
        own=lambda rows, flat, scale: scale * values[hop.own[rows], None],
        width=values.shape[1],
    ).chunk(2, dim=1)
    return Layer1(weights, projected, cases, weights.b1 + least, weights.b1 - negative_most)


def layer2_by_degree(layer1: Layer1, hood: Neighbourhood, cases: DropCases) -> tuple[Tensor, Tensor]:
    """Bounds of the anchors' second pre-activations, ``(A, G, d2)``: the row lemma on the interval of ``V = H W2``.

    A neighbour's term is the least ``s_j V_j`` over its own cases, the anchor's own V that of the case it is in.
    """
    hop, b2 = hood.outer, layer1.weights.b2
    low, high = layer1.products()
    values = torch.cat([low, -high], dim=1)
    inner = layer1.cases
    scaled = [least_scaled(inner.low[:, case, None], inner.high[:, case, None], take(values, inner.table()[:, case]))
              for case in range(inner.most)]
    # The least term of every row over all its cases, and over all but its last, which may be out of reach.
    last = (inner.number - 1)[:, None]
    neighbours = torch.stack([
        torch.stack([term.masked_fill((last < case) | ((last == case) & (last > 0) & leave_out), torch.inf)
                     for case, term in enumerate(scaled)]).amin(dim=0)
        for leave_out in (False, True)
    ], dim=1).flatten(0, 1)
    out_of_reach = hop.most_drops < inner.first.gather(1, last)[:, 0][hop.col]
    cell = 2 * hop.col + out_of_reach
    offset = (inner.offset[hop.own] - cases.offset).repeat_interleave(cases.number)  # anchor's case -> its inner case
    bounds = row_minimum(
        hop, cases,
        terms=lambda block: take(neighbours, block.gather(cell)) * block.valid[..., None],
        own=lambda rows, flat, scale: scale * values[flat + offset[flat], None],
        width=values.shape[1],
    )[cases.table()]
    least, negative_most = bounds.chunk(2, dim=2)
    return b2 + least, b2 - negative_most


def _intersection(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    return one[0].maximum(other[0]), one[1].minimum(other[1])


class DegreeMinimum:
    """A lower bound of ``ω · Σ_j Â_ij h_j`` over all admissible drops, exact in the degrees of i and of every j.

    Let the anchor i lose t edges and write ``τ = s_i(t)``. With i's own line ``ω·h_i >= Σ_k Â_ik C_ik + e_i``,

        ω · Σ_j Â_ij h_j  >=  τ [ τ (τ² C_ii + e_i) + Σ_{kept j} s_j (ω·h_j + τ² C_ij) ].

    A kept neighbour that loses t' edges other than (i, j) contributes at least

        φ_ij(t) = min_{t'} s_j(t') ( max( interval_j,  line_ij(t, t') ) + τ² C_ij )
        line_ij(t, t') = s_j(t') ( s_j(t') C_jj + τ C_ji + rest_ij(t') ) + e_j
        rest_ij(t') = Σ_{k≠i} g_k - (the t' largest droppable g_k, k ≠ i),     g_k the least value of s_k C_jk,

    by the row lemma at j, and removing t neighbours of i lowers the sum by at most the t largest ``φ_ij(t)``. So

        F_i = min_t τ [ τ (τ² C_ii + e_i) + Σ_j φ_ij(t) - (the t largest φ_ij(t), droppable j) ].

    Keeping ``τ² C_ij`` inside φ, rather than bounding ``h_i`` by itself, uses that the edge (i, j) and the scale s_j
    are the same in both layers. Any slope rule may serve any neighbour and count t', so φ takes the best one of each;
    the anchor's own line has one rule throughout, and F_i is the best over those. Where counts come in groups, τ and
    s_j are replaced by their ranges over the group.
    """

    def __init__(self, hood: Neighbourhood, resolution: int) -> None:
        self.hood = hood
        self.anchor_cases = drop_cases(hood.outer, resolution)
        self.row_cases = drop_cases(hood.inner, resolution)

    def __call__(self, functionals: Functionals) -> Tensor:
        """``F`` in every case of every anchor, ``(A, G, M)``; beyond an anchor's cases its last one again."""
        most = self.anchor_cases.most
        parts: list[list[Tensor]] = [[] for _ in range(most)]
        pairs: list[list[Tensor]] = [[] for _ in range(most)]
        for block in self.hood.inner.blocks(lambda size: functionals.width(size) * self.row_cases.most):
            for ranks, cases in product(functionals.anchor_ranges(block), functionals.case_sets(most)):
                table = RowTable(self, functionals, block, ranks, cases[0])
                for case in cases:
                    pair, phi = table.pair_minimum(case)
                    parts[case].append(phi)
                    pairs[case].append(pair)
        least = torch.stack([self._anchor_minimum(functionals, case, torch.cat(parts[case]), torch.cat(pairs[case]))
                             for case in range(most)], dim=1)
        rank = torch.arange(most, device=least.device).minimum(self.anchor_cases.number[:, None] - 1)
        return least.gather(1, rank[..., None].expand(least.shape))

    def _anchor_minimum(self, functionals: Functionals, case: int, phi: Tensor, pair: Tensor) -> Tensor:
        """``F_i`` over the counts of one case: the best over the rules for the anchor's own line, ``(A, M)``.

        Zero for anchors without the case. φ comes as ``(P', rules, M)``.
        """
        hop, cases = self.hood.outer, self.anchor_cases
        position = torch.zeros_like(hop.col)
        position[pair] = torch.arange(pair.numel(), device=pair.device)
        parts, order = [], []
        for block in hop.blocks(lambda size: phi.shape[1] * phi.shape[2]):
            has = cases.number[block.rows] > case
            rows = block.rows[has]
            if not rows.numel():
                continue
            terms = [functionals.anchor_terms(rows, case, rule) for rule in range(functionals.rules)]
            c_own, constant = (torch.stack(values, dim=1)[:, None] for values in
                               ([term.own for term in terms], [term.constant for term in terms]))
            if len(phi):
                values = take(phi, block.gather(position)[has]) * block.valid[has][..., None, None]
            else:
                values = phi.new_zeros((*block.slots[has].shape, *phi.shape[1:]))
            counts = RowCase(hop, rows, cases.first[rows, case], cases.last[rows, case])
            top = top_sums(values, block.droppable[has], counts.end)[:, counts.start :]
            tau = counts.scale(4)
            value = counts.minimum(tau * (tau.square() * c_own + constant), values.sum(dim=1), top)
            parts.append(value.amax(dim=1))
            order.append(rows)
        empty = phi.new_zeros(hop.nodes.numel(), phi.shape[2])
        return empty.index_put((torch.cat(order),), torch.cat(parts))


class RowTable:
    """A block of rows j, and all of ``φ_ij`` that does not depend on how many edges the anchor i loses.

    ``rest_ij(t') = max( Σ_k g_k - top_t' - g_i,  Σ_k g_k - top_(t'+1) )``: either i is outside the t' largest terms, or
    the next one takes its place. (Only the first holds when (i, j) cannot be dropped.) So one sorted row serves all i.
    """

    def __init__(self, minimum: DegreeMinimum, functionals: Functionals, block: Block, ranks: range, case: int) -> None:
        self.minimum, self.functionals = minimum, functionals
        hood, cases = minimum.hood, minimum.row_cases.of(block.rows)
        first = functionals.row_terms(block, ranks, case, 0)
        # Anchors with many cases first: those that have a given case are then a leading slice.
        number = minimum.anchor_cases.number[hood.outer.row[first.pair]]
        order = torch.argsort(number, descending=True, stable=True)
        self.number, self.pair = number[order], first.pair[order]
        row, functional = first.row[order], first.functional[order]
        sets = first.own.shape[1]
        self.at_row = row * sets + functional
        self.at_leaf = (row * block.slots.shape[1] + hood.return_place[self.pair]) * sets + functional
        self.low, self.high = cases.low[row][..., None], cases.high[row][..., None]  # of s_j, (P', T, 1)
        self.infeasible = (cases.first[row] > hood.outer.most_drops[self.pair][:, None])[..., None]
        self.interval = take(first.interval.flatten(0, 1), self.at_row)
        self.lines = [self._line(cases, first if rule == 0 else functionals.row_terms(block, ranks, case, rule))
                      for rule in range(functionals.rules)]

    def _line(self, cases: DropCases, terms: RowTerms) -> tuple[Tensor, Tensor]:
        """``s_j (s_j C_jj + rest_ij) + e_j`` and ``C_ji`` of every pair, ``(P', T, M)`` each."""
        block, hop = terms.block, self.minimum.hood.inner
        least = least_terms(block, hop, terms.leaves)  # g_k, (R, K, I, T, M)
        total = least.sum(dim=1)
        without, instead = [], []
        for case in range(cases.most):
            counts = RowCase(hop, block.rows, cases.first[:, case], cases.last[:, case])
            top = top_sums(least[..., case, :], block.droppable, counts.end + 1)[:, counts.start :]
            own = counts.scale(4) * terms.own[:, None, :, case]
            without.append(counts.minimum(own, total[..., case, :], top[:, :-1]))
            instead.append(counts.minimum(own, total[..., case, :], top[:, 1:]))
        g_back = take(least.flatten(0, 2), self.at_leaf)  # g_i
        outside = take(torch.stack(without, dim=2).flatten(0, 1), self.at_row)
        outside = outside - torch.maximum(self.low * g_back, self.high * g_back)
        inside = take(torch.stack(instead, dim=2).flatten(0, 1), self.at_row)
        inside = inside.masked_fill(~self.minimum.hood.outer.droppable[self.pair][:, None, None], -torch.inf)
        line = outside.maximum(inside) + take(terms.constant.flatten(0, 1), self.at_row)
        return line, take(terms.leaves.flatten(0, 2), self.at_leaf)

    def pair_minimum(self, case: int) -> tuple[Tensor, Tensor]:
        """The pairs (i, j) whose anchor has the case; φ for each rule of the anchor's own line, ``(P', rules, M)``."""
        has = slice(0, int((self.number > case).sum()))
        pair = self.pair[has]
        anchor_cases, anchor = self.minimum.anchor_cases, self.minimum.hood.outer.row[pair]
        tau_low, tau_high = anchor_cases.low[anchor, case, None], anchor_cases.high[anchor, case, None]
        low, high = self.low[has], self.high[has]
        value = self.interval[has]
        for line, c_back in self.lines:  # the best rule for every neighbour and count
            back = least_scaled(low * tau_low[:, None], high * tau_high[:, None], c_back[has])
            value = value.maximum(line[has] + back)
        phi = []
        for rule in range(self.functionals.rules):
            own = least_scaled(tau_low.square(), tau_high.square(), self.functionals.pair_terms(pair, case, rule))
            scaled = least_scaled(low, high, value + own[:, None])
            phi.append(scaled.masked_fill(self.infeasible[has], torch.inf).amin(dim=1))
        return pair, torch.stack(phi, dim=1)
