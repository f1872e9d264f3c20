"""Bounds under changed features alone: all edges stay, so that every path to a node's features is known.

With the graph fixed, a layer is ``p^l = Σ_terms A W' h + b`` with constant matrices A. Lines take a functional of a
layer's outputs to one of its pre-activations, layer by layer from the top, and all paths to node k end in *one*
functional ``μ_k`` of its features:

    Σ_l ω_l · h^l_i(X̃)  >=  constant  +  Σ_k μ_k · x̃_k    for every admissible X̃.

The right-hand side is linear in X̃, and its least value is known exactly: under budgets of single nodes it falls by the
sum of their falls (:mod:`certgcl.bounds.propagation.changed_features`); under a total, by the largest single falls of
all nodes together, which a greedy choice finds, because budgets of nodes within one total are nested; and under columns
that are masked at all nodes at once, by the largest ``[Σ_k μ_kf x_kf]+``.

At the output, the costliest chords of a layer at all nodes of a target together are replaced by sign patterns
(:mod:`certgcl.bounds.propagation.sign_patterns`): for any X̃ one of the patterns has each of these activations on its
piece, so the least over the patterns is a lower bound, each being linear in X̃ again.
"""

import math
from collections.abc import Iterator, Mapping
from functools import partial

import torch
from torch import Tensor

from certgcl.bounds.propagation import limits
from certgcl.bounds.propagation.changed_features import ChangedFeatures, Falls, Part
from certgcl.bounds.propagation.extremes import best
from certgcl.bounds.propagation.levels import consecutive
from certgcl.bounds.propagation.paths import Paths, Surroundings, largest_sums
from certgcl.bounds.propagation.ranges import Settings, radii
from certgcl.bounds.propagation.recompute import recomputed
from certgcl.bounds.propagation.sign_patterns import NONE, Patterns, SignPatterns, dearest
from certgcl.changes.feature_changes import AdmissibleFeatures
from certgcl.graphs.features import FeatureEntries
from certgcl.graphs.graph import Graph
from certgcl.models.activations import Lines, SlopeRule
from certgcl.models.aggregations import Aggregation
from certgcl.models.layer import Term
from certgcl.models.mixing import features_times
from certgcl.models.network import GraphNetwork
from certgcl.models.two_piece import TwoPieceLinear


class FixedGraphBound:
    """The least ``w · z`` at some anchors, over features alone."""

    def __init__(
        self, network: GraphNetwork, graph: Graph, features: AdmissibleFeatures, anchors: Tensor, settings: Settings
    ) -> None:
        self.network, self.features, self.settings, self.dtype = network, features, settings, network.dtype
        self.radius = radii(network)
        self.around = Surroundings.of(graph, anchors, max(self.radius))
        self.anchors = torch.searchsorted(self.around.nodes, anchors)
        self.changed = ChangedFeatures.at(graph, features, self.around.nodes)
        self.projected = {
            id(term.weight): features_times(graph, term.weight, self.around.nodes)
            for layer in network.layers
            for term in layer.terms
            if term.source == 0
        }
        self.hops = _hops(network)
        self.bounds: dict[int, tuple[Tensor, Tensor]] = {}
        self._outputs: dict[int, tuple[Tensor, Tensor]] = {}
        self._weights: dict[Aggregation, tuple[Tensor, Tensor]] = {}
        for number in range(1, len(network.layers) + 1):
            self._set(number, *self._range(number))

    # -- ranges ------------------------------------------------------------------------------------

    def _set(self, number: int, lower: Tensor, upper: Tensor) -> None:
        """At all nodes around; zero where a layer is not needed."""
        everywhere, places = lower.new_zeros(len(self.around.nodes), lower.shape[1]), self._needed(number)
        lower, upper = (everywhere.index_copy(0, places, part) for part in (lower, upper))
        self.bounds[number] = lower, upper
        activation = self.network.layers[number - 1].activation
        low, high = (lower, upper) if activation is None else activation.interval(lower, upper)
        self._outputs[number] = (low + high) / 2, (high - low) / 2

    def _needed(self, number: int) -> Tensor:
        return self.around.within(self.radius[number])

    def _range(self, number: int) -> tuple[Tensor, Tensor]:
        """Of a layer's pre-activations where they are needed: by the ranges of its inputs, and by functionals."""
        layer, places = self.network.layers[number - 1], self._needed(number)
        if len(layer.terms) == 1 and layer.terms[0].source == 0:
            lower, upper = self._of_features(layer.terms[0], places)
            return lower + layer.bias, upper + layer.bias
        middle = radius = layer.bias.new_zeros(())
        for term in layer.terms:
            if term.source == 0:
                low, high = self.changed.range(term.weight, self.projected[id(term.weight)])
                mid, spread = (low + high) / 2, (high - low) / 2
            else:
                mid, spread = self._outputs[term.source]
                mid, spread = term.project(mid), term.project_sizes(spread)
            middle, radius = middle + self._mixed(term, places, mid), radius + self._mixed(term, places, spread)
        lower, upper = layer.bias + middle - radius, layer.bias + middle + radius
        if not self.settings.functional or (layer.linear and not self._read(number)) or not self._affordable(number):
            return lower, upper
        identity, found = torch.eye(layer.width, dtype=self.dtype, device=places.device), []
        for some in identity.split(limits.CHANNELS):
            units = torch.cat([some, -some])[None].expand(len(places), -1, -1)
            found.append(self._least(places, {}, (number, units)).chunk(2, dim=1))
        low, negative = (torch.cat(parts, dim=1) for parts in zip(*found, strict=True))
        return best([lower, low]), -best([-upper, negative])

    def _affordable(self, number: int) -> bool:
        """Whether the channels of a layer can have their own functionals, at an average node."""
        paths = float(self._pairs(self.hops[number]).double().mean())
        cost = sum(
            self.changed.cost(term.weight)
            for layer in self.network.layers[:number]
            for term in layer.terms
            if term.source == 0
        )
        most = limits.FEW_PATH_PRODUCTS if torch.is_grad_enabled() else limits.MOST_PATH_PRODUCTS
        return 2 * self.network.width_of(number) * paths * cost * len(self.settings.rules) <= most

    def _read(self, number: int) -> bool:
        """Whether other layers use this one: ranges of the others are only needed for lines."""
        return any(term.source == number for layer in self.network.layers for term in layer.terms)

    def _of_features(self, term: Term, places: Tensor) -> tuple[Tensor, Tensor]:
        """The range of ``A W' x̃`` at some nodes, exactly: every path is one entry of A."""
        clean = self._mixed(term, places, self.projected[id(term.weight)])
        own, at_slots = self._scales(term)
        slot, row = self.around.slots(places) if term.aggregation.mixes else (places[:0], places[:0])
        if self.features.columns:
            mixed = self._mixed_features(places, own, slot, row, at_slots)
            nothing = torch.zeros_like(places)
            both = ChangedFeatures(
                mixed, self.changed.features, nothing + self.features.columns, nothing, nothing.to(own)
            )
            return both.range(term.weight, clean)
        down, up = [], []
        for _, falls in self.changed.channel_falls(term.weight):
            fall = self._mixed_falls(places, own, slot, row, at_slots, falls)
            lower, negative = fall.chunk(2, dim=1)
            down.append(lower)
            up.append(negative)
        return clean - torch.cat(down, dim=1), clean + torch.cat(up, dim=1)

    def _mixed_features(
        self, places: Tensor, own: Tensor, slot: Tensor, row: Tensor, at_slots: Tensor
    ) -> FeatureEntries:
        """The features of some rows of A X that are not zero."""
        entries, width = self.changed.entries, self.changed.features
        node = torch.cat([places, self.around.neighbour[slot]])
        goal = torch.cat([torch.arange(len(places), device=places.device), row])
        weight = torch.cat([own[places], at_slots[slot]])
        count = self.changed.filled[node]
        entry = consecutive(entries.start[node], count)
        key = torch.repeat_interleave(goal, count) * width + entries.column[entry]
        kept, inverse = key.unique(return_inverse=True)
        value = entries.value.new_zeros(len(kept)).index_add(
            0, inverse, torch.repeat_interleave(weight, count).double() * entries.value[entry]
        )
        number = torch.bincount(torch.div(kept, width, rounding_mode="floor"), minlength=len(places))
        return FeatureEntries(torch.cat([number.new_zeros(1), number.cumsum(0)]), kept % width, value)

    def _mixed_falls(
        self, places: Tensor, own: Tensor, slot: Tensor, row: Tensor, at_slots: Tensor, falls: Falls
    ) -> Tensor:
        """How far channels of rows of A can fall, ``(rows, M)``."""
        node = self.around.neighbour[slot]
        whole = falls.box if self.features.limited else falls.sum()
        found = (own[places, None] * whole[places]).index_add(0, row, at_slots[slot, None] * whole[node])
        if not self.features.limited:
            return found
        target = torch.cat([torch.arange(len(places), device=places.device), row])
        source, weight = torch.cat([places, node]), torch.cat([own[places], at_slots[slot]])
        return found + largest_sums(
            weight[:, None, None] * falls.single[source], target, len(places), self.features.total
        )

    def _mixed(self, term: Term, places: Tensor, values: Tensor) -> Tensor:
        """``A v`` at some nodes, from values of all."""
        own, at_slots = self._scales(term)
        if not term.aggregation.mixes:
            return values[places]
        slot, row = self.around.slots(places)
        return (own[places, None] * values[places]).index_add(
            0, row, at_slots[slot, None] * values[self.around.neighbour[slot]]
        )

    def _scales(self, term: Term) -> tuple[Tensor, Tensor]:
        if term.aggregation not in self._weights:
            if term.aggregation.mixes:
                self._weights[term.aggregation] = self.around.weights(term.aggregation, self.dtype)
            else:
                one = torch.ones(len(self.around.nodes), dtype=self.dtype, device=self.around.nodes.device)
                self._weights[term.aggregation] = one, one[:0]
        return self._weights[term.aggregation]

    # -- functionals -------------------------------------------------------------------------------

    def output(self, directions: Tensor) -> Tensor:
        """The least ``w · z`` at the anchors, ``(A, C, width)`` to ``(A, C)``: by lines, and by ranges."""
        interval, omega = directions.new_zeros(()), self._of_layers(directions)
        for number, part in omega.items():
            middle, radius = (table[self.anchors, :, None] for table in self._outputs[number])
            interval = interval + (part @ middle - part.abs() @ radius)[..., 0]
        return best([interval, self._least(self.anchors, omega, patterns=self.settings.patterns)])

    def of_graphs(self, directions: Tensor, graph: Tensor) -> Tensor:
        """The least ``Σ_i w · z_i`` over the nodes of each graph, ``(G, C, width)`` to ``(G, C)``, all nodes of a union
        of graphs being anchors: one functional of the features for a whole graph, whereas bounds of single nodes may
        each assume different features.

        Args:
            graph: of every node, ``(N,)``, in increasing order.
        """
        paths, omega = Paths.of_graphs(self.around, graph), self._of_layers(directions)
        ways = dict.fromkeys([NONE, self.settings.patterns])
        return best([self._below(paths, omega, None, rule, each) for rule in self.settings.rules for each in ways])

    def _of_layers(self, directions: Tensor) -> dict[int, Tensor]:
        """Functionals of embeddings, as functionals of the layers that are read out."""
        widths = [self.network.width_of(number) for number in self.network.readout]
        omega: dict[int, Tensor] = {}
        for number, part in zip(self.network.readout, directions.split(widths, dim=2), strict=True):
            omega[number] = part if number not in omega else omega[number] + part
        return omega

    def _least(
        self,
        targets: Tensor,
        omega: Mapping[int, Tensor],
        top: tuple[int, Tensor] | None = None,
        patterns: Patterns = NONE,
    ) -> Tensor:
        """The least of functionals at some nodes, ``(B, M)``: the best over the rules.

        Args:
            omega: of the outputs of layers, ``(B, M, d)``.
            top: a layer, above all of these, and functionals of its pre-activations.
            patterns: at the first and at the second layer of activations on the way down.
        """
        number = max([*omega, *([] if top is None else [top[0]])])
        functionals = (next(iter(omega.values())) if top is None else top[1]).shape[1] * math.prod(patterns)
        widest = max(self.network.width_of(layer) for layer in range(1, number + 1))
        size = int(self._pairs(self.hops[number])[targets].sum()) * functionals * widest
        parts, places = [], []
        for some in self._chunks(targets, self.hops[number], functionals * widest):
            paths = Paths.of(self.around, targets[some], self.hops[number])
            here = {layer: part[some] for layer, part in omega.items()}
            above = None if top is None else (top[0], top[1][some])
            parts.append(
                best(
                    [
                        recomputed(partial(self._below, paths, here, above, rule, number_of), size)
                        for rule in self.settings.rules
                        for number_of in dict.fromkeys([NONE, patterns])
                    ]
                )
            )
            places.append(some)
        return torch.cat(parts)[torch.argsort(torch.cat(places))]

    def _chunks(self, targets: Tensor, hops: int, each: int) -> Iterator[Tensor]:
        """Positions of targets, in blocks whose pairs fit."""
        count = self._pairs(hops)
        order = torch.argsort(count[targets], stable=True)
        group = torch.div((count[targets][order] * each).cumsum(0), limits.MAX_VALUES, rounding_mode="floor")
        yield from order.split(torch.unique_consecutive(group, return_counts=True)[1].tolist())

    def _pairs(self, hops: int) -> Tensor:
        """The largest number of nodes from which a node can be reached within a number of steps."""
        count = torch.ones_like(self.around.degree)
        row = torch.repeat_interleave(torch.arange(len(count), device=count.device), self.around.start.diff())
        for _ in range(hops):
            count = (1 + torch.zeros_like(count).index_add(0, row, count[self.around.neighbour])).clamp(
                max=len(self.around.nodes)
            )
        return count

    def _below(
        self,
        paths: Paths,
        omega: Mapping[int, Tensor],
        top: tuple[int, Tensor] | None,
        rule: SlopeRule,
        patterns: Patterns,
    ) -> Tensor:
        """The same by one rule: down to the features along all paths, and then over their admissible values."""
        waiting = {number: paths.start(part) for number, part in omega.items()}
        features: dict[int, Part] = {}
        some = next(iter(omega.values())) if top is None else top[1]
        constant, left = some.new_zeros(some.shape[:2]), list(patterns)
        for number in range(len(self.network.layers), 0, -1):
            layer = self.network.layers[number - 1]
            if top is not None and number == top[0]:
                here = paths.start(top[1])
            elif number in waiting:
                given = waiting.pop(number)
                here, value = self._through_lines(number, paths.node, given, rule)
                constant = constant + paths.sums(value)
                pieces = isinstance(layer.activation, TwoPieceLinear) and not layer.linear
                number_of = left.pop(0) if pieces and left else 1
                if number_of > 1:
                    found = self._dearest(number, paths, given, number_of)
                    here = paths.pairs(found.slopes(paths.table(here)), layer.width)
                    ways = here.shape[1] // given.shape[1]
                    constant = (constant + found.gain).repeat_interleave(ways, dim=1)
                    waiting = {other: part.repeat_interleave(ways, dim=1) for other, part in waiting.items()}
                    features = {
                        name: (weight, part.repeat_interleave(ways, dim=1)) for name, (weight, part) in features.items()
                    }
            else:
                continue
            constant = constant + paths.sums(here @ layer.bias)
            for term in layer.terms:
                below = self._spread(paths, term, here if term.source == 0 else term.back(here))
                if term.source:
                    waiting[term.source] = below + waiting[term.source] if term.source in waiting else below
                else:
                    known = features.get(id(term.weight))
                    features[id(term.weight)] = term.weight, below if known is None else below + known[1]
        for weight, functionals in features.values():
            product = functionals @ self.projected[id(weight)][paths.node, :, None]
            constant = constant + paths.sums(product[..., 0])
        least = constant - self._fall(paths, list(features.values()))
        return least.unflatten(1, (some.shape[1], -1)).amin(dim=2)

    def _dearest(self, number: int, paths: Paths, omega: Tensor, patterns: int) -> SignPatterns:
        """The patterns of the costliest chords of a layer at all nodes of each target; channels in the order of
        :meth:`~certgcl.bounds.propagation.paths.Paths.table`."""
        activation = self.network.layers[number - 1].activation
        assert isinstance(activation, TwoPieceLinear)
        lower, upper = (paths.table(part[paths.node, None]) for part in self.bounds[number])
        slope = activation.slope.expand(omega.shape[2]).repeat(lower.shape[2] // omega.shape[2])
        return dearest(paths.table(omega), lower, upper, slope, patterns)

    def _through_lines(self, number: int, node: Tensor, omega: Tensor, rule: SlopeRule) -> tuple[Tensor, Tensor]:
        """``ω · h >= λ · p + c`` at every pair: λ and c."""
        layer = self.network.layers[number - 1]
        if layer.activation is None or layer.linear:
            return omega, omega.new_zeros(omega.shape[:2])
        lines = Lines(*(part[node, None] for part in layer.activation.lines(*self.bounds[number], rule)))
        positive, negative = omega.clamp(min=0), omega.clamp(max=0)
        return (
            positive * lines.lower_slope + negative * lines.upper_slope,
            (positive * lines.lower_intercept + negative * lines.upper_intercept).sum(dim=2),
        )

    def _spread(self, paths: Paths, term: Term, functionals: Tensor) -> Tensor:
        """Functionals of the output of a row of A, as functionals of its input."""
        if not term.aggregation.mixes:
            return functionals
        own, at_slots = self._scales(term)
        return (own[paths.node, None, None] * functionals).index_add(
            0, paths.goal, at_slots[paths.slot, None, None] * functionals[paths.source]
        )

    def _fall(self, paths: Paths, parts: list[Part]) -> Tensor:
        """How far ``Σ_k μ_k · x̃_k`` can fall, ``(B, M)``; functionals of every pair, ``(P, M, d)``."""
        if not parts:
            return paths.sums(self.projected[next(iter(self.projected))].new_zeros(len(paths.node), 1))
        number = parts[0][1].shape[1]
        flat = [(weight, functionals.flatten(0, 1)) for weight, functionals in parts]
        place = paths.node.repeat_interleave(number)
        if self.features.columns:
            owner, column, share = self.changed.shares(flat, place)
            whose = paths.target[torch.div(owner, number, rounding_mode="floor")] * number + owner % number
            whole = (
                share.new_zeros(len(paths.own) * number * self.changed.features)
                .index_add(0, whose * self.changed.features + column, share)
                .view(-1, self.changed.features)
            )
            most = min(self.features.columns, whole.shape[1])
            return whole.clamp(min=0).topk(most, dim=1).values.sum(dim=1).view(-1, number)
        falls = self.changed.falls(flat, place)
        if not self.features.limited:
            return paths.sums(falls.sum().view(-1, number))
        single = falls.single.unflatten(0, (-1, number)).transpose(1, 2)
        return paths.sums(falls.box.view(-1, number)) + largest_sums(
            single, paths.target, len(paths.own), self.features.total
        )


def _hops(network: GraphNetwork) -> list[int]:
    """How many aggregations lie between the features and each layer, at most."""
    hops = [0]
    for layer in network.layers:
        hops.append(max(hops[term.source] + term.aggregation.mixes for term in layer.terms))
    return hops
