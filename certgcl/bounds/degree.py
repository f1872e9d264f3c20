"""Degree-exact bounds: all entries of a row share one degree, and the bound uses that."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import ClassVar, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from certgcl.arguments import choice, whole
from certgcl.bounds import compiled
from certgcl.bounds.column_sets import few_columns, least_over_columns
from certgcl.bounds.memory import values_for_channels
from certgcl.bounds.method import BoundMethod, LineChoices
from certgcl.bounds.prepared import ChangeProblem, check_call, check_width
from certgcl.bounds.propagation.extremes import best, least, most
from certgcl.bounds.propagation.method import by_states
from certgcl.bounds.propagation.ranges import Settings
from certgcl.bounds.propagation.recompute import recomputed
from certgcl.bounds.propagation.sign_patterns import Patterns
from certgcl.bounds.two_layer.backward import AnchorMinimum, MinimumOverFunctionals, bound_output, refine_layer2
from certgcl.bounds.two_layer.blocks import Block, Pairs, infinite_unless
from certgcl.bounds.two_layer.hidden_functionals import HiddenFunctionals, RowBounds, RowTerms
from certgcl.bounds.two_layer.layer1 import Layer1
from certgcl.bounds.two_layer.row_lemma import Terms, case_minima, largest_gain, least_terms, ways_to_bound
from certgcl.bounds.two_layer.row_plan import LineSharing, RowPlan
from certgcl.bounds.two_layer.row_tables import Table, joined, take
from certgcl.bounds.two_layer.single_drop import least_over_single_drops
from certgcl.bounds.two_layer.weights import GCNWeights
from certgcl.changes.changes import AdmissibleChanges
from certgcl.errors import MethodError
from certgcl.models.activations import SlopeRule, check_slopes
from certgcl.models.network import GraphNetwork

PATTERNS, MOST_PATTERNS = 4, 1 << 10
FEW_CHANNELS = 16  # hidden channels up to which patterns at neighbours pay off
NARROW = 64  # hidden channels up to which choosing slopes and lines for every neighbour and count pays off


@dataclass(frozen=True)
class Degree(BoundMethod):
    """The degree-exact closed form: sound, tight, and the default.

    Args:
        preactivations: how layer 2 is bounded before its activation. ``"functional"`` runs the closed form on each
            channel (the full setting); ``"interval"`` applies the row lemma to ``H W2`` (the cheap one, far looser at
            real widths).
        slopes: the rules for the free slopes of both layers; every part of the bound takes the best of them; time grows
            with their number. By default all three up to a hidden width of 64, and ``("adaptive",)`` beyond it, where
            the others make little difference.
        lines: ``"by-count"`` gives every number of edges that a node loses its own bounds and lines of layer 1;
            ``"shared"`` one pair for all of them, which saves most of the time; ``"mixed"`` has them by count at
            nodes of up to 16 edges, and shared at the others, where most of the time would go. By default by count up
            to a hidden width of 64, and mixed beyond it.
        resolution: budgets below this many drops are treated count by count; larger ones in this many groups of counts,
            which is sound too and costs little tightness.
        hubs: neighbours with more edges than this enter the last step by intervals alone. Each would cost the square
            of its degree there, and its weight ``(D_i D_j)^(-1/2)`` is small. By default there is no limit. Where all
            sets of edges that a neighbour can lose are tried, it needs neither.
        patterns: how many sign patterns of the channels with the costliest relaxations are tried instead of their
            chords, at the output and at each neighbour of up to 16 edges; a power of two, where 1 means none. By
            default 4 at the output, and at neighbours 4 up to a hidden width of 16 and none beyond it, where they cost
            more than they gain.
    """

    preactivations: Literal["functional", "interval"] = "functional"
    slopes: tuple[SlopeRule, ...] | None = None
    lines: LineSharing | None = None
    resolution: int = 6
    hubs: int | None = None
    patterns: int | None = None
    certified: bool = field(default=True, init=False)
    second_view: ClassVar[bool] = True

    @property
    def name(self) -> str:
        if self.preactivations == "interval":
            return "degree-cheap"
        return "degree" if self.resolution > 1 else "degree-fast"

    def __post_init__(self) -> None:
        choice(self.preactivations, "preactivations", ("functional", "interval"), MethodError)
        if self.slopes is not None:
            object.__setattr__(self, "slopes", check_slopes(self.slopes))
        if self.lines is not None:
            choice(self.lines, "lines", get_args(LineSharing), MethodError)
        object.__setattr__(
            self,
            "resolution",
            whole(self.resolution, "resolution", 1, "it is an integer of at least 1", "Try 6", error=MethodError),
        )
        if self.hubs is not None:
            object.__setattr__(
                self,
                "hubs",
                whole(self.hubs, "hubs", 1, "it is a degree of at least 1, or None", "Try 256", error=MethodError),
            )
        if self.patterns is not None:
            rule = f"it is a power of two up to {MOST_PATTERNS}, or None"
            patterns = whole(self.patterns, "patterns", 1, rule, "Try 4", most=MOST_PATTERNS, error=MethodError)
            if patterns & (patterns - 1):
                raise MethodError(f"patterns={patterns}", rule, "Try 4")
            object.__setattr__(self, "patterns", patterns)

    def line_sharing(self, hidden_channels: int) -> LineSharing:
        """Whether cases share lines at this width."""
        return self.lines or ("by-count" if check_width(hidden_channels) <= NARROW else "mixed")

    def _settings(self, network: GraphNetwork) -> Settings:
        """For a network of any depth, by its widest hidden layer."""
        width = max(map(network.width_of, range(1, len(network.layers) + 1)))
        return Settings(
            self.rules(width),
            self.line_sharing(width),
            self.resolution,
            self.hubs,
            self.preactivations == "functional",
            self.sign_patterns(width),
        )

    def sign_patterns(self, hidden_channels: int) -> Patterns:
        """How many sign patterns are tried at this width."""
        if self.patterns is not None:
            return Patterns(self.patterns, self.patterns)
        return Patterns(PATTERNS, PATTERNS if check_width(hidden_channels) <= FEW_CHANNELS else 1)

    def line_resolution(self, hidden_channels: int) -> int:
        return 1 if self.line_sharing(hidden_channels) == "shared" else self.resolution

    def rules(self, hidden_channels: int) -> tuple[SlopeRule, ...]:
        """The slope rules that are used at this width."""
        if self.slopes is not None:
            return self.slopes
        return ("adaptive", "flat", "parallel") if check_width(hidden_channels) <= NARROW else ("adaptive",)

    def functionals(self, hidden_channels: int) -> int:
        return max(len(self.rules(hidden_channels)), self.sign_patterns(hidden_channels).output)

    def supports(self, network: GraphNetwork, changes: AdmissibleChanges) -> None:
        return None

    def line_choices(self, hidden_channels: int) -> LineChoices:
        return LineChoices(
            self.rules(hidden_channels),
            self.line_sharing(hidden_channels),
            self.resolution,
            *self.sign_patterns(hidden_channels),
            self.preactivations == "functional",
        )

    def __call__(self, network: GraphNetwork, problem: ChangeProblem, directions: Tensor) -> Tensor:
        check_call(network, problem, directions)
        if few_columns(problem):
            return least_over_columns(self, network, problem, directions)
        weights = problem.two_layer(network)
        if weights is None:
            return by_states(network, problem, directions, self._settings(network))
        width = weights.w1.shape[1]
        plan = problem.plan(weights.w1.dtype, self.resolution, self.line_sharing(width), self.hubs)
        steps, rules = _steps(plan), self.rules(width)
        layer1 = steps.layer1(weights, problem.projected(weights), plan)
        minimum = steps.minimum(plan)

        def layer2() -> tuple[Tensor, Tensor]:
            found = steps.layer2(layer1, plan)
            if self.preactivations == "interval":
                return found
            return refine_layer2(minimum, layer1, plan, rules, found, values_for_channels(self, network, problem))

        bound = bound_output(
            minimum, layer1, plan, rules, layer2(), problem.at_anchors(directions), self.sign_patterns(width)
        )
        if problem.drops.total == 1:
            least, places = least_over_single_drops(weights, problem, directions)
            bound = bound.index_copy(0, places, least)
        return bound


class Steps(NamedTuple):
    """The steps of the bound, by blocks of rows in torch or by compiled kernels."""

    layer1: Callable[[GCNWeights, Tensor, RowPlan], Layer1]
    layer2: Callable[[Layer1, RowPlan], tuple[Tensor, Tensor]]
    minimum: Callable[[RowPlan], AnchorMinimum]


def _steps(plan: RowPlan) -> Steps:
    # Only torch has the knapsack of a total budget.
    if plan.hood.outer.total is None and plan.hood.inner.total is None and compiled.usable(plan.hood.pair.device):
        from certgcl.bounds.compiled import degree

        return Steps(degree.layer1, degree.layer2, degree.CompiledMinimum)
    return Steps(layer1_by_degree, layer2_by_degree, DegreeMinimum)


def layer1_by_degree(weights: GCNWeights, projected: Tensor, plan: RowPlan) -> Layer1:
    """Bounds of the first pre-activations: the row lemma on every column of ``Y = X W1`` and of ``-Y``."""
    # Both signs at once: twice as many values, but then the same blocks serve the later steps.
    table, partition = Table(projected), plan.layer1(projected.shape[1])

    def both_signs(index: Tensor) -> Tensor:
        values = table.take(index)
        return torch.cat([values, -values], dim=-1)

    def bounds(block: Block) -> Tensor:
        leaves, own = both_signs(block.target)[:, :, None, None], both_signs(block.own)[:, None, None]
        bound = best(
            case_minima(block, terms.least, own, gain=terms.gain)[0] for terms in ways_to_bound(block, leaves)
        )[:, 0].flatten(0, 1)
        lower, negative_upper = bound.chunk(2, dim=1)
        return torch.cat([weights.b1 + lower, weights.b1 - negative_upper], dim=1)

    elements = partition.elements(lambda size, cases: 2 * projected.shape[1])
    both, _ = joined((recomputed(partial(bounds, block), elements) for block in partition.blocks), partition.rows)
    lower, upper = both.chunk(2, dim=1)
    return Layer1(weights, projected, lower, upper, partition.place)


def layer2_by_degree(layer1: Layer1, plan: RowPlan) -> tuple[Tensor, Tensor]:
    """Bounds of the anchors' second pre-activations, ``(F, d2)``: the row lemma on the interval of ``V = H W2``.

    A neighbour's term is the least ``s_j V_j`` while its edge is kept, the anchor's own V is that of its case. The
    bounds of layer 1 are never wider than those of the box, and so neither are these: `degree` is never below
    `interval`.
    """
    hop, b2 = plan.hood.outer, layer1.weights.b2
    values = Table(layer1.signed_products())
    terms_of = NeighbourTerms(values, layer1.place, plan)
    partition = plan.anchors(values.values.shape[1])
    parts = []
    for block in partition.blocks:
        own = values.take(layer1.place[hop.own[block.rows], : block.cases.most])[:, None]
        (bound,) = case_minima(block, terms_of(block)[:, :, None, None], own)
        parts.append(bound[:, 0].flatten(0, 1))
    lower, negative_upper = take(torch.cat(parts), partition.place[plan.flat.row, plan.flat.case]).chunk(2, dim=1)
    return b2 + lower, b2 - negative_upper


class NeighbourTerms:
    """The least ``s_j V_j`` of the anchors' neighbours while their edge is kept, over all their cases.

    If all cases share V, it is at one end of the neighbour's scale. If each has its own, the last one, which is the
    full budget alone, may be out of reach.
    """

    def __init__(self, values: Table, place: Tensor, plan: RowPlan) -> None:
        self.values, self.place, self.cell = values, place[:, 0], None
        if place.shape[1] > 1:
            terms, self.cell = self.over_cases(values, place, plan)
            self.values = Table(terms)

    @staticmethod
    def over_cases(values: Table, place: Tensor, plan: RowPlan) -> tuple[Tensor, Tensor]:
        """The terms where every case has values of its own, and which of them every neighbour has."""
        hop, cases = plan.hood.outer, plan.row_cases
        last = cases.first.gather(1, (cases.number - 1)[:, None])[hop.col, 0]
        return _least_over_cases(values, place, plan), 2 * hop.col + (hop.most_drops < last)

    def __call__(self, block: Block) -> Tensor:
        """``(R, K, M)``, zero where padded."""
        if self.cell is None or not self.cell.numel():
            return least_terms(block, self.values.take(self.place[block.target]))
        return self.values.take(self.cell[block.slots]) * block.valid[..., None]


def _least_over_cases(values: Table, place: Tensor, plan: RowPlan) -> Tensor:
    """The least ``s_j V_j`` of every inner row over all its cases, then over all but its last one; ``(2 R, M)``."""
    cases = plan.row_cases
    scale, last = cases.scale(values.values.dtype), (cases.number - 1)[:, None]
    everywhere = all_but_last = scale.at(slice(None), slice(0, 1)).least(values.take(place[:, 0]))
    for case in range(1, cases.most):
        term = scale.at(slice(None), slice(case, case + 1)).least(values.take(place[:, case]))
        everywhere = torch.where(last >= case, everywhere.minimum(term), everywhere)
        all_but_last = torch.where(last > case, all_but_last.minimum(term), all_but_last)
    return torch.stack([everywhere, all_but_last], dim=1).flatten(0, 1)


class DegreeMinimum(MinimumOverFunctionals):
    """A lower bound of ``ω · Σ_j Â_ij h_j`` over all admissible drops, exact in the degrees of i and of every j.

    Let the anchor i lose t edges and write ``τ = s_i(t)``. With i's own line ``ω·h_i >= Σ_k Â_ik C_ik + e_i``,

        ω · Σ_j Â_ij h_j  >=  τ [ τ (τ² C_ii + e_i) + Σ_{kept j} s_j (ω·h_j + τ² C_ij) ].

    A kept neighbour that loses t' edges other than (i, j) contributes at least

        φ_ij(t) = min_{t'} s_j(t') ( max( interval_j,  line_ij(t, t') ) + τ² C_ij )
        line_ij(t, t') = s_j(t') ( s_j(t') C_jj + τ C_ji + rest_ij(t') ) + e_j
        rest_ij(t') = Σ_{k≠i} g_k - (the t' largest droppable g_k, k ≠ i),     g_k the least value of s_k C_jk,

    by the row lemma at j, and removing t neighbours of i lowers the sum by at most the t largest ``φ_ij(t)``. So

        F_i = min_t τ [ τ (τ² C_ii + e_i) + Σ_j φ_ij(t) - (the t largest φ_ij(t), droppable j) ].

    Keeping ``τ² C_ij`` inside φ, rather than bounding ``h_i`` separately, uses that the edge (i, j) and the scale s_j
    are the same in both layers. Any slope rule may serve any neighbour and count t', so φ takes the best one of each;
    the anchor's own line has one rule throughout, and F_i is the best over those. Where counts come in groups, τ and
    s_j are replaced by their ranges over the group.
    """

    def __call__(self, functionals: HiddenFunctionals) -> Tensor:
        """``F_i`` in every case of every anchor, ``(F, M)``."""
        partition = self.plan.rows(functionals.width)
        elements = partition.elements(functionals.width)
        phi = (
            values.flatten(0, 1)
            for number, (block, pairs) in enumerate(zip(partition.blocks, partition.pairs, strict=True))
            for values in recomputed(partial(_pair_minima, functionals, number, block, pairs), elements)
        )
        # The last row, of zeros, is for padding.
        nothing = self.plan.hood.outer.low.new_zeros(0, functionals.rules * functionals.number)
        table, _ = joined(chain(phi, [nothing] if not partition.total else []), partition.total + 1)
        return self._anchor_minima(functionals, Table(table), partition.pair_place)

    def _anchor_minima(self, functionals: HiddenFunctionals, phi: Table, pair_place: Tensor) -> Tensor:
        """``F_i`` in every case: the best over the rules for the anchor's own line."""
        rules, number = functionals.rules, functionals.number
        partition, flat = self.plan.anchors(rules * number), self.plan.flat
        terms = [functionals.anchor_terms(rule) for rule in range(rules)]
        own, own_squared = (
            torch.cat(parts, dim=1) for parts in ([term.constant for term in terms], [term.own for term in terms])
        )
        of_own, of_own_squared = Table(own), Table(own_squared)
        parts = []
        for block in partition.blocks:
            cases = block.cases.most
            if pair_place.numel():
                place = torch.where(block.valid[..., None], pair_place[block.slots, :cases], len(phi.values) - 1)
            else:
                place = block.slots.new_zeros(*block.slots.shape, cases)
            here = flat.place[block.rows, :cases]
            own_terms = of_own.take(here)[:, None], of_own_squared.take(here)[:, None]
            bound = best(
                case_minima(block, terms.least, *own_terms, gain=terms.gain)[0]
                for terms in _ways_of_pairs(block, phi.take(place)[:, :, None], rules * number)
            )
            parts.append(most(bound[:, 0].unflatten(2, (rules, number)), dim=2).flatten(0, 1))
        return take(torch.cat(parts), partition.place[flat.row, flat.case])


def _pair_minima(functionals: HiddenFunctionals, number: int, block: Block, pairs: Pairs) -> list[Tensor]:
    """``φ_ij`` for every pair of a block, case by case of the anchors; ``(R, columns, rules M)``."""
    minima = []
    here = functionals.at(number)
    table: RowTable | None = None
    for case in range(len(pairs.columns)):
        parts = []
        for columns in functionals.columns(block, pairs, case):
            if table is None or not functionals.shared:
                table = RowTable(functionals, block, pairs, columns, here.bounds(columns, case))
            parts.append(table.pair_minimum(columns, case))
        minima.append(torch.cat(parts, dim=1) if len(parts) > 1 else parts[0])
    return minima


class RowTable:
    """A block of rows j, and all of ``φ_ij`` that does not depend on how many edges the anchor i loses.

    ``rest_ij(t') = max( Σ_k g_k - top_t' - g_i,  Σ_k g_k - top_(t'+1) )``: either i is outside the t' largest terms, or
    the next one takes its place. (Only the first holds when (i, j) cannot be dropped.) So one sorted row serves all i.
    """

    def __init__(
        self, functionals: HiddenFunctionals, block: Block, pairs: Pairs, columns: slice, rows: RowBounds
    ) -> None:
        self.functionals, self.block, self.pairs = functionals, block, pairs
        self.start = columns.start
        self.scale = block.scale.at(slice(None), None, slice(None), None)  # of s_j, (R, 1, T, 1)
        self.interval = rows.interval
        self.lines = [self._line(terms, columns) for terms in rows.lines]
        self.patterned = [self._line(terms, columns) for terms in rows.patterned]

    def _line(self, terms: RowTerms, columns: slice) -> tuple[Tensor, Tensor]:
        """``s_j (s_j C_jj + rest_ij) + e_j`` and ``C_ji`` of every pair, ``(R, I, T, M)``."""
        lines = []
        for leaves in ways_to_bound(self.block, terms.leaves):
            without, following = case_minima(self.block, leaves.least, terms.own, following=True, gain=leaves.gain)
            back = self.scale.most(self._at_anchors(leaves.least, columns))
            if self.pairs.never_dropped is not None:
                following = following + self.pairs.never_dropped[:, columns, None, None]
            lines.append(best([without - back, following]))
        return best(lines) + terms.constant, self._at_anchors(terms.leaves, columns)

    def _at_anchors(self, leaves: Tensor, columns: slice) -> Tensor:
        """The values ``(R, K, I, T, M)`` of the anchors among the neighbours, each for its own functionals."""
        # Even if a part is the whole, torch would fill a tensor of zeros for its gradient.
        here = leaves if columns == slice(0, leaves.shape[1]) else leaves[:, columns]
        return here.squeeze(2) if self.functionals.shared else here.diagonal(dim1=1, dim2=2).movedim(-1, 1)

    def pair_minimum(self, columns: slice, case: int) -> Tensor:
        """φ of the pairs in these columns for each rule of the anchor's own line, ``(R, I, rules M)``; if the total
        budget is a limit, followed by φ with no edge lost by j and by the most that each lost edge can lower it."""
        tau = self.pairs.tau[case].at(slice(None), columns, None, None)
        here = slice(columns.start - self.start, columns.stop - self.start)
        product = self.scale.times(tau)
        value = best(
            [self.interval, *(line[:, here] + product.least(c_back[:, here]) for line, c_back in self.lines)]
        )  # the best rule for every neighbour and count
        if self.patterned:  # and for every pattern
            by_pattern = best(line[:, here] + product.least(c_back[:, here]) for line, c_back in self.patterned)
            value = best([value, least(by_pattern.unflatten(-1, (self.functionals.number, -1)), dim=-1)])
        squared, left = tau.times(tau), self.pairs.left[case]
        phi, clean, density = [], [], []
        for rule in range(self.functionals.rules):
            own = self.functionals.pair_terms(self.pairs.pair[:, columns], case, rule)
            term = self.scale.least(value + squared.least(own[:, :, None]))
            if self.pairs.out_of_reach is not None:
                term = term + self.pairs.out_of_reach[:, columns, :, None]
            if left is not None:
                first = self.block.cases.first[:, None]
                term = term + infinite_unless(first <= left[:, columns, None], term.dtype)[..., None]
                clean.append(term[:, :, 0])
                lost = (term[:, :, :1] - term) / first.clamp(min=1)[..., None]
                density.append(lost.clamp(min=0).amax(dim=2))
            phi.append(least(term, dim=2))
        parts = phi + clean + density
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=2)


def _ways_of_pairs(block: Block, values: Tensor, width: int) -> list[Terms]:
    """The terms φ at the anchors: each at its least; and if the total budget is a limit, each as if its neighbour lost
    nothing, less what so few drops can gain."""
    phi, *limited = values.split(width, dim=-1)
    if block.units is None or not limited:
        return [Terms(phi)]
    clean, density = limited
    return [Terms(phi), Terms(clean, largest_gain(block, density))]
