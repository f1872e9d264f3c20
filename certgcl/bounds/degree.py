"""Degree-exact bounds: all entries of a row share one degree, and the bound knows it."""

from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from certgcl.activation import SlopeRule
from certgcl.bounds.backward import bound_output, refine_layer2
from certgcl.bounds.counts import DropCases, drop_cases
from certgcl.bounds.functional import Functionals, RowTerms
from certgcl.bounds.layer1 import Layer1
from certgcl.bounds.neighbourhood import Hop, Neighbourhood, take
from certgcl.bounds.rows import RowCase, least_scaled, least_terms, row_minimum, top_sums
from certgcl.bounds.problem import DropProblem
from certgcl.encoder import GCNWeights


@dataclass(frozen=True)
class Degree:
    """The degree-exact closed form: sound, tight, and the default.

    Args:
        preactivations: how layer 2 is bounded before its activation. ``"functional"`` runs the closed form on each
            channel (the full setting); ``"interval"`` applies the row lemma to ``H W2`` (the cheap one, far looser at
            real widths).
        slopes: the rules for the free slopes of both layers; the bound is the best over all combinations.
        preactivation_slopes: the same for layer 1 within ``"functional"``. More rules cost as much again each, and
            gain little.
        resolution: budgets below this many drops are treated count by count, which is exact; larger ones in so many
            groups of counts, which is sound and costs little tightness.
    """

    preactivations: Literal["functional", "interval"] = "functional"
    slopes: tuple[SlopeRule, ...] = ("adaptive", "parallel", "flat")
    preactivation_slopes: tuple[SlopeRule, ...] = ("adaptive",)
    resolution: int = 6
    name: str = field(default="degree", init=False)
    certified: bool = field(default=True, init=False)

    def __call__(self, weights: GCNWeights, problem: DropProblem, directions: Tensor) -> Tensor:
        hood = problem.neighbourhood(weights.w1.dtype)
        minimise = DegreeMinimum(hood, self.resolution)
        layer1 = layer1_by_degree(weights, problem.projected(weights), hood.inner, minimise.row_cases)
        layer2 = layer2_by_degree(layer1, hood, minimise.anchor_cases)
        if self.preactivations == "functional":
            layer2 = refine_layer2(minimise, layer1, hood, self.preactivation_slopes, layer2)
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
    neighbours = torch.stack([
        least_scaled(inner.low[:, case, None], inner.high[:, case, None], values[inner.table()[:, case]])
        for case in range(inner.most)
    ]).amin(dim=0)
    offset = (inner.offset[hop.own] - cases.offset).repeat_interleave(cases.number)  # anchor's case -> its inner case
    bounds = row_minimum(
        hop, cases,
        terms=lambda block: take(neighbours, block.gather(hop.col)) * block.valid[..., None],
        own=lambda rows, flat, scale: scale * values[flat + offset[flat], None],
        width=values.shape[1],
    )[cases.table()]
    least, negative_most = bounds.chunk(2, dim=2)
    return b2 + least, b2 - negative_most


class DegreeMinimum:
    """A lower bound of ``ω · Σ_j Â_ij h_j`` over all admissible drops, exact in the degrees of i and of every j.

    Let the anchor i lose t edges and write ``τ = s_i(t)``. With i's own line ``ω·h_i >= Σ_k Â_ik C_ik + e_i``,

        ω · Σ_j Â_ij h_j  >=  τ [ τ (τ² C_ii + e_i) + Σ_{kept j} s_j (ω·h_j + τ² C_ij) ].

    A kept neighbour that loses t' edges other than (i, j) contributes at least

        φ_ij(t) = min_{t'} s_j(t') ( max( interval_j,  s_j(t') ( s_j(t') C_jj + τ C_ji + rest_ij(t') ) + e_j ) + τ² C_ij )
        rest_ij(t') = Σ_{k≠i} g_k - (the t' largest droppable g_k, k ≠ i),     g_k the least value of s_k C_jk,

    by the row lemma at j, and removing t neighbours of i lowers the sum by at most the t largest ``φ_ij(t)``. So

        F_i = min_t τ [ τ (τ² C_ii + e_i) + Σ_j φ_ij(t) - (the t largest φ_ij(t), droppable j) ].

    Keeping ``τ² C_ij`` inside φ, rather than bounding ``h_i`` by itself, uses that the edge (i, j) and the scale s_j
    are the same in both layers. Where counts come in groups, τ and s_j are replaced by their ranges over the group.
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
            for cases in functionals.case_sets(most):
                table = RowTable(self, functionals.row_terms(block, cases[0]))
                for case in cases:
                    pair, phi = table.pair_minimum(functionals, case)
                    parts[case].append(phi)
                    pairs[case].append(pair)
        table = torch.stack([self._anchor_minimum(functionals, case, torch.cat(parts[case]), torch.cat(pairs[case]))
                             for case in range(most)], dim=1)
        rank = torch.arange(most, device=table.device).minimum(self.anchor_cases.number[:, None] - 1)
        return table.gather(1, rank[..., None].expand(table.shape))

    def _anchor_minimum(self, functionals: Functionals, case: int, phi: Tensor, pair: Tensor) -> Tensor:
        """``F_i`` over the counts of one case, from φ of the pairs; zero for anchors without the case. ``(A, M)``."""
        hop, cases = self.hood.outer, self.anchor_cases
        position = torch.zeros_like(hop.col)
        position[pair] = torch.arange(pair.numel(), device=pair.device)
        parts, order = [], []
        for block in hop.blocks(lambda size: phi.shape[1]):
            has = cases.number[block.rows] > case
            rows = block.rows[has]
            if not rows.numel():
                continue
            terms = functionals.anchor_terms(rows, case)
            if len(phi):
                values = take(phi, block.gather(position)[has]) * block.valid[has][..., None]
            else:
                values = phi.new_zeros((*block.slots[has].shape, phi.shape[1]))
            counts = RowCase(hop, rows, cases.first[rows, case], cases.last[rows, case])
            top = top_sums(values, block.droppable[has], counts.end)[:, counts.start :]
            parts.append(counts.minimum(
                lambda tau, terms=terms: tau * (tau.square() * terms.own[:, None] + terms.constant[:, None]),
                values.sum(dim=1), top))
            order.append(rows)
        empty = phi.new_zeros(hop.nodes.numel(), phi.shape[1])
        return empty.index_put((torch.cat(order),), torch.cat(parts))


class RowTable:
    """A block of rows j, and all of ``φ_ij`` that does not depend on the anchor i.

    ``rest_ij(t') = max( Σ_k g_k - top_t' - g_i,  Σ_k g_k - top_(t'+1) )``: either i is outside the t' largest terms, or
    the next one takes its place. (Only the first holds when (i, j) cannot be dropped.) So one sorted row serves all i.
    """

    def __init__(self, minimum: DegreeMinimum, terms: RowTerms) -> None:
        self.minimum, self.terms = minimum, terms
        block, hop = terms.block, minimum.hood.inner
        self.cases = minimum.row_cases.of(block.rows)
        self.least = least_terms(block, hop, terms.leaves)  # g_k, (R, K, I, T, M)
        total = self.least.sum(dim=1)
        without, instead = [], []
        for case in range(self.cases.most):
            counts = RowCase(hop, block.rows, self.cases.first[:, case], self.cases.last[:, case])
            top = top_sums(self.least[..., case, :], block.droppable, counts.end + 1)[:, counts.start :]
            own = terms.own[:, None, :, case]
            without.append(counts.minimum(lambda s, own=own: s * own, total[..., case, :], top[:, :-1]))
            instead.append(counts.minimum(lambda s, own=own: s * own, total[..., case, :], top[:, 1:]))
        self._bring_to_pairs(torch.stack(without, dim=2), torch.stack(instead, dim=2))

    def _bring_to_pairs(self, without: Tensor, instead: Tensor) -> None:
        """Everything of ``φ_ij`` but what depends on the anchor's case, ``(P', T, M)``.

        ``without`` and ``instead`` are ``s_j (s_j C_jj + Σ_k g_k - top)`` with ``top_t'`` and ``top_(t'+1)``.
        """
        hood, terms, block = self.minimum.hood, self.terms, self.terms.block
        # Anchors with many cases first: those that have a given case are then a leading slice.
        number = self.minimum.anchor_cases.number[hood.outer.row[terms.pair]]
        order = torch.argsort(number, descending=True, stable=True)
        self.number, self.pair = number[order], terms.pair[order]
        row, functional = terms.row[order], terms.functional[order]
        at_row = row * terms.own.shape[1] + functional
        at_leaf = (row * block.slots.shape[1] + hood.return_place[self.pair]) * terms.own.shape[1] + functional

        self.low, self.high = self.cases.low[row][..., None], self.cases.high[row][..., None]  # of s_j, (P', T, 1)
        self.back = take(terms.leaves.flatten(0, 2), at_leaf)  # C_ji
        g_back = take(self.least.flatten(0, 2), at_leaf)  # g_i
        outside = take(without.flatten(0, 1), at_row) - torch.maximum(self.low * g_back, self.high * g_back)
        inside = take(instead.flatten(0, 1), at_row)
        inside = inside.masked_fill(~hood.outer.droppable[self.pair][:, None, None], -torch.inf)
        self.line = outside.maximum(inside) + take(terms.constant.flatten(0, 1), at_row)
        self.interval = take(terms.interval.flatten(0, 1), at_row)
        self.infeasible = (self.cases.first[row] > hood.outer.most_drops[self.pair][:, None])[..., None]

    def pair_minimum(self, functionals: Functionals, case: int) -> tuple[Tensor, Tensor]:
        """The pairs (i, j) of this block whose anchor has the case, and their φ, ``(P', M)``."""
        has = slice(0, int((self.number > case).sum()))
        pair = self.pair[has]
        anchor_cases, anchor = self.minimum.anchor_cases, self.minimum.hood.outer.row[pair]
        tau_low, tau_high = anchor_cases.low[anchor, case, None], anchor_cases.high[anchor, case, None]
        low, high = self.low[has], self.high[has]
        back = least_scaled(low * tau_low[:, None], high * tau_high[:, None], self.back[has])
        own = least_scaled(tau_low.square(), tau_high.square(), functionals.pair_terms(pair, case))
        value = (self.line[has] + back).maximum(self.interval[has]) + own[:, None]
        return pair, least_scaled(low, high, value).masked_fill(self.infeasible[has], torch.inf).amin(dim=1)
