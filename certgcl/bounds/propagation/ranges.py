"""Ranges of the pre-activations of every layer, in every cell of the nodes that matter, layer by layer."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from certgcl.bounds.propagation import limits
from certgcl.bounds.propagation.added_edges import added_edges
from certgcl.bounds.propagation.balls import Ball, balls_around
from certgcl.bounds.propagation.candidates import Shared
from certgcl.bounds.propagation.chain import Cells
from certgcl.bounds.propagation.changed_features import ChangedFeatures
from certgcl.bounds.propagation.extremes import best
from certgcl.bounds.propagation.falling_terms import FallingTerms
from certgcl.bounds.propagation.functionals import Functionals, LineBand
from certgcl.bounds.propagation.recompute import once
from certgcl.bounds.propagation.set_minima import SetMinima, plain
from certgcl.bounds.propagation.sign_patterns import NONE, Patterns
from certgcl.bounds.propagation.term_sets import TermSets
from certgcl.bounds.two_layer.row_plan import LineSharing
from certgcl.changes.changes import AdmissibleChanges
from certgcl.graphs.graph import Graph
from certgcl.models.activations import Activation, SlopeRule
from certgcl.models.aggregations import Mean
from certgcl.models.layer import Term
from certgcl.models.mixing import features_times
from certgcl.models.network import GraphNetwork


@dataclass(frozen=True)
class Settings:
    """See :class:`certgcl.bounds.degree.Degree`."""

    rules: tuple[SlopeRule, ...]
    lines: LineSharing
    resolution: int
    hubs: int | None
    functional: bool  # whether channels are bounded by functionals, or only by the ranges below them
    patterns: Patterns = NONE
    brief: bool = False  # whether lines of a node stop at its neighbours, or continue to the features


def radii(network: GraphNetwork) -> list[int]:
    """The number of hops around the anchors at which each layer is needed, features first: the number of aggregations
    after it."""
    radius = [0] * (len(network.layers) + 1)
    for number in range(len(network.layers), 0, -1):
        for term in network.layers[number - 1].terms:
            radius[term.source] = max(radius[term.source], radius[number] + term.aggregation.mixes)
    return radius


def channels_asked_for(network: GraphNetwork, number: int, directions: Tensor | None) -> Tensor:
    """The channels of a layer whose ranges are needed. If it is only read out, those that are not zero in all
    directions, ``(…, width of z)``: outputs that are dead at every node are zero in the directions of compactness. None
    of a layer that nothing reads."""
    used = any(term.source == number for layer in network.layers for term in layer.terms)
    if directions is None or used or (torch.is_grad_enabled() and directions.requires_grad):
        return torch.arange(network.width_of(number), device=network.device)
    widths = [network.width_of(layer) for layer in network.readout]
    parts = zip(network.readout, directions.flatten(0, -2).any(dim=0).split(widths), strict=True)
    asked = torch.zeros(network.width_of(number), dtype=torch.bool, device=network.device)
    for layer, part in parts:
        if layer == number:
            asked |= part
    return asked.nonzero()[:, 0]


def nested_states(network: GraphNetwork, graph: Graph, changes: AdmissibleChanges) -> bool:
    """Whether the range of a node that has spent its whole budget contains, nearly, those of all its other states, so
    that its cells can share their lines with hardly any loss.

    The least mean of all but t numbers falls with t, and so do bounds of means. This is not quite true where some edges
    cannot be dropped, and not true where a node may lose all edges, or where neighbours can lose fewer if the node
    itself loses more.
    """
    drops, terms = changes.drops, [term for layer in network.layers for term in layer.terms]
    return (
        changes.additions is None
        and all(isinstance(term.aggregation, Mean) for term in terms if term.aggregation.mixes)
        and bool((drops.local < graph.degree.clamp(min=1)).all())
        and not drops.limited
    )


class NetworkRanges:
    """Ranges of all layers around some anchors, filled from the first layer on.

    A layer is needed within as many hops of the anchors as aggregations follow it: its *ball*.
    """

    def __init__(
        self, network: GraphNetwork, graph: Graph, changes: AdmissibleChanges, anchors: Tensor, settings: Settings
    ) -> None:
        self.network, self.graph, self.settings = network, graph, settings
        self.dtype = network.dtype
        self.radius = radii(network)
        shared = settings.lines == "mixed" and nested_states(network, graph, changes)
        self.lines: LineSharing = "shared" if shared else settings.lines
        self.balls = balls_around(
            graph,
            changes.drops,
            anchors,
            max(self.radius),
            settings.resolution,
            (self.lines if shared else "by-count", self.lines),
            changes.additions,
        )
        self.changed = (
            None if changes.features is None else (ChangedFeatures.at(graph, changes.features, self.widest.nodes))
        )
        self.bounds: dict[int, tuple[Tensor, Tensor]] = {}
        self._outputs: dict[int, tuple[Tensor, Tensor]] = {}
        self._by_node: dict[int, tuple[Tensor, Tensor]] = {}
        self._projected: dict[int, Tensor] = {}
        self._feature_ranges: dict[int, tuple[Tensor, Tensor]] = {}
        self._lines: dict[tuple[int, tuple[SlopeRule, ...]], LineBand] = {}
        self.near: set[int] = set()  # layers for which the sets of edges that a node can lose are tried
        self._by_sets: dict[int, SetMinima] = {}

    # -- what is known ----------------------------------------------------------------------------

    @property
    def widest(self) -> Ball:
        return self.balls[-1]

    def ball_of(self, layer: int) -> Ball:
        return self.balls[self.radius[layer]]

    def set(self, layer: int, lower: Tensor, upper: Tensor) -> None:
        """The range of a layer's pre-activations, ``(cells, d)``."""
        self.bounds[layer] = lower, upper
        activation = self.network.layers[layer - 1].activation
        low, high = (lower, upper) if activation is None else activation.interval(lower, upper)
        self._outputs[layer] = (low + high) / 2, (high - low) / 2

    def outputs(self, layer: int) -> tuple[Tensor, Tensor]:
        """Middle and radius of a layer's outputs, in all cells of its ball."""
        return self._outputs[layer]

    def node_range(self, layer: int) -> tuple[Tensor, Tensor]:
        """Middle and radius of a layer's outputs at the nodes of its ball, over all their states."""
        return once(self._by_node, layer, lambda: self._over_states(layer))

    def _over_states(self, layer: int) -> tuple[Tensor, Tensor]:
        (middle, radius), cells = self._outputs[layer], self.ball_of(layer).cells
        if len(cells.row) == len(self.ball_of(layer).nodes):
            return middle, radius
        low = least_by_row(cells.row, middle - radius, len(cells.start) - 1)
        high = -least_by_row(cells.row, -middle - radius, len(cells.start) - 1)
        return (low + high) / 2, (high - low) / 2

    def by_node(self) -> "NetworkRanges":
        """The ranges known so far, with one range for all cells of a node at each level: fewer and looser lines."""
        found = copy.copy(self)
        found.settings, found.lines = replace(self.settings, lines="shared", brief=True), "shared"
        found.balls = [ball.by_node for ball in self.balls]
        found.bounds, found._outputs, found._by_node, found._lines = {}, {}, {}, {}
        for layer, (lower, upper) in self.bounds.items():
            ball = self.ball_of(layer)
            cell, number = ball.cells_in(ball.by_node), len(ball.by_node.cells.row)
            found.set(layer, least_by_row(cell, lower, number), -least_by_row(cell, -upper, number))
        return found

    def by_sets(self, radius: int, term: Term) -> SetMinima | None:
        """The minima over sets for what a term takes from neighbours that can lose few sets of edges; None where sets
        do not determine it: for other layers, and where edges can be added, as sets only contain lost edges."""
        if term.source not in self.near or not plain(term) or self.widest.additions is not None:
            return None
        if radius not in self._by_sets:
            self._by_sets[radius] = SetMinima(self, self.balls[radius])
        return self._by_sets[radius]

    def projected(self, term: Term) -> Tensor:
        """``W' x`` of all nodes that are needed, in the order of the widest ball."""
        return once(
            self._projected, id(term.weight), lambda: features_times(self.graph, term.weight, self.widest.nodes)
        )

    def feature_range(self, term: Term) -> tuple[Tensor, Tensor]:
        """Middle and radius of ``W' x̃`` at the same nodes, over all features that they may have."""
        changed, values = self.changed, self.projected(term)
        if changed is None:
            return values, torch.zeros_like(values)

        def around() -> tuple[Tensor, Tensor]:
            lower, upper = changed.range(term.weight, values)
            return (lower + upper) / 2, (upper - lower) / 2

        return once(self._feature_ranges, id(term.weight), around)

    def features_below(self, term: Term, functionals: Functionals, place: Tensor) -> Tensor:
        """The least ``λ · W' x̃`` at one node for each entry, ``(E, R or 1, M)``."""
        if self.changed is None:
            return functionals.dot_rows(self.projected(term), place)
        by_range = functionals.lowest(*self.feature_range(term), place)
        if not self.falls_affordable(term, functionals):
            return by_range
        product = functionals.dot_rows(self.projected(term), place)
        vectors = functionals.explicit().expand(len(place), -1, -1, -1).flatten(1, 2)
        return best([by_range, product - self.falls(term, vectors, place).view_as(product)])

    def falls_affordable(self, term: Term, functionals: Functionals) -> bool:
        """Whether functionals of ``W' x`` at a node can have their own falls, not those of ranges."""
        assert self.changed is not None
        number = functionals.rules * functionals.number
        return number * self.changed.cost(term.weight) <= limits.MOST_FEATURE_PRODUCTS

    def falls(self, term: Term, vectors: Tensor, place: Tensor) -> Tensor:
        """How far functionals ``(n, M, d)`` of ``W' x`` can fall at nodes of the widest ball, ``(n, M)``."""
        assert self.changed is not None
        number = vectors.shape[1]
        return (
            self.changed.falls([(term.weight, vectors.flatten(0, 1))], place.repeat_interleave(number))
            .sum()
            .view(len(place), number)
        )

    def lines_below(
        self, layer: int, cells: Cells, rules: Sequence[SlopeRule], omega: Functionals
    ) -> tuple[Functionals, Tensor]:
        """``ω · h >= λ · p + c`` at some cells, by each rule."""
        activation = self.network.layers[layer - 1].activation
        if activation is None or activation.linear:
            return omega, omega.vector.new_zeros(())
        place, (lower, upper) = cells.states_in(self.ball_of(layer)), self.bounds[layer]
        if torch.is_grad_enabled() or lower.numel() * len(rules) > limits.MAX_LINES:
            # Many entries may be in the same cell: its lines are computed once.
            some, entry = torch.unique(place, return_inverse=True)
            return omega.through(_lines(activation, lower[some], upper[some], rules), entry)
        if (layer, tuple(rules)) not in self._lines:
            self._lines[layer, tuple(rules)] = _lines(activation, lower, upper, rules)
        return omega.through(self._lines[layer, tuple(rules)], place)

    def interval_below(self, layer: int, cells: Cells, omega: Functionals) -> Tensor:
        """The least ``ω · h`` by ranges, ``(E, R or 1, M)``."""
        return omega.lowest(*self._outputs[layer], cells.states_in(self.ball_of(layer)))

    def largest_product(self, layer: int, cells: Cells, omega: Functionals) -> Tensor:
        """The largest ``|ω · h|`` by ranges."""
        known = *self._outputs[layer], cells.states_in(self.ball_of(layer))
        return torch.maximum(-omega.lowest(*known), -omega.negated().lowest(*known))

    # -- by ranges alone ---------------------------------------------------------------------------

    def by_ranges(self, layer: int) -> tuple[Tensor, Tensor]:
        """The range of a layer from those below it, by the row lemma on every channel and on its negative."""
        ball, total = self.ball_of(layer), None
        for term in self.network.layers[layer - 1].terms:
            both = self._local(term, ball) if not term.aggregation.mixes else self._aggregated(term, ball)
            total = both if total is None else total + both
        assert total is not None
        lower, negative_upper = total.chunk(2, dim=1)
        bias = self.network.layers[layer - 1].bias
        return bias + lower, bias - negative_upper

    def _values(self, term: Term) -> Tensor:
        """The least ``v = W' h`` and the least ``-v``, in the cells of the source's ball (of features, at the nodes of
        the widest), ``(…, 2 d)``."""
        if term.source == 0:
            if self.changed is None:
                values = self.projected(term)
                return torch.cat([values, -values], dim=1)
            middle, radius = self.feature_range(term)
        else:
            middle, radius = self._outputs[term.source]
            middle, radius = term.project(middle), term.project_sizes(radius)
        return torch.cat([middle - radius, -middle - radius], dim=1)

    def _at_cells(self, term: Term, ball: Ball, values: Tensor) -> Tensor:
        """Values of the node itself, in all cells of a ball."""
        if term.source == 0:
            return values[self.widest.place[ball.nodes[ball.cells.row]]]
        source = self.ball_of(term.source)
        return values if source is ball else values[ball.cells_in(source)]

    def _local(self, term: Term, ball: Ball) -> Tensor:
        return self._at_cells(term, ball, self._values(term))

    def _aggregated(self, term: Term, ball: Ball) -> Tensor:
        values, aggregation = self._values(term), term.aggregation
        within = self._features_within if term.source == 0 else self._outputs_within
        terms = FallingTerms.of(within(term, ball, values), ball.most_lost)
        sets_of = TermSets.of_levels if ball.most_lost is None else TermSets.of_cells  # with a price for each
        sets = sets_of(ball, ball.by_count(aggregation.out, self.dtype))
        own = ball.cells.extent(aggregation.own, self.dtype)
        if len(sets.level) > len(ball.nodes):
            terms = terms.each(lambda part: part[sets.slot])
        return sets.best_minima(terms, self._added(term, ball, values)) + own.column.least(
            self._at_cells(term, ball, values)
        )

    def _added(self, term: Term, ball: Ball, values: Tensor) -> Tensor | None:
        """The least contribution of gained edges, in all cells of a ball, ``(cells, 2 d)``."""
        if ball.additions is None:
            return None
        widest = self.widest
        shared = (
            Shared(widest.by_node, values[widest.by_node.cells.row])
            if term.source == 0
            else Shared(self.ball_of(term.source), values)
        )
        everywhere = Cells(ball, torch.arange(len(ball.cells.row), device=values.device))
        return added_edges(self, everywhere, term.aggregation, (), shared)

    def _features_within(self, term: Term, ball: Ball, values: Tensor) -> Callable[[int | None], Tensor]:
        """The least ``in(n_k) v_k`` at every slot while its edge is kept and k loses at most so many edges."""
        here = values[self.widest.place[ball.neighbour]]
        return lambda most: ball.of_neighbours(term.aggregation.into, self.dtype, most).column.least(here)

    def _outputs_within(self, term: Term, ball: Ball, values: Tensor) -> Callable[[int | None], Tensor]:
        """The same over the states of k that are possible then: all that lose no more, but for the full budget, which
        is a separate state, where it is beyond reach."""
        source = self.ball_of(term.source)
        cells, rows = source.cells, source.place[ball.neighbour]
        scaled = cells.extent(term.aggregation.into, self.dtype).column.least(values)
        full = cells.first == source.budget[cells.row]
        apart = torch.zeros_like(source.by_case).index_fill(0, cells.row[full], True)
        beyond = (ball.reach < source.budget[rows]) & apart[rows]

        def without(blocked: Tensor) -> Tensor:
            open_to = torch.where(blocked[:, None], torch.inf, scaled) if bool(blocked.any()) else scaled
            return least_by_row(cells.row, open_to, len(source.nodes))[rows]

        def within(most: int | None) -> Tensor:
            more = torch.zeros_like(full) if most is None else cells.first > most
            everywhere = without(more)
            return torch.where(beyond[:, None], without(more | full), everywhere) if bool(beyond.any()) else everywhere

        return within


def _lines(activation: Activation, lower: Tensor, upper: Tensor, rules: Sequence[SlopeRule]) -> LineBand:
    return LineBand.of([activation.lines(lower, upper, rule) for rule in rules])


def least_by_row(row: Tensor, values: Tensor, rows: int) -> Tensor:
    """The least of all that belongs to each row."""
    least = values.new_full((rows, values.shape[1]), torch.inf)
    return least.scatter_reduce(0, row[:, None].expand_as(values), values, "amin")
