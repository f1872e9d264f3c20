"""The sizes of the sums that lead to an embedding, and how far a run of the model can be from exact arithmetic.

Layer by layer, for every admissible view at once: the forward pass over absolute values, with each scale of an
aggregation at its largest; and along with it the errors that roundings at each node add: equations (R1) to (R4) and
(R6) of ``docs/theory.md``, section 10, with their proofs.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from certgcl.bounds.prepared import ChangeProblem
from certgcl.bounds.rounding.largest_mixing import LargestMixing
from certgcl.changes.feature_changes import AdmissibleFeatures
from certgcl.graphs.graph import Graph
from certgcl.graphs.row_chunks import row_chunks
from certgcl.models.activations import Activation
from certgcl.models.layer import Layer, Term
from certgcl.models.mixing import features_times
from certgcl.models.network import GraphNetwork
from certgcl.models.two_piece import TwoPieceLinear

LAYER = 20  # roundings of a layer besides its sums: an entry of Â (two inverse roots, each good to 4 ulp, and their
# product), or a mean's division; its product; the bias; a factor such as 1 + eps
TWO_PIECE = 3  # of a two-piece linear activation
SMOOTH = 16  # of any other activation, which is accurate to 8 ulp of its size
DERIVED = 6  # of a weight that was computed from the model's own, as a BatchNorm's


def smallest_size(dtype: torch.dtype) -> float:
    """``τ``, the size at which one rounding changes a number by the smallest normal one: the most that an underflow can
    lose."""
    return 2 * torch.finfo(dtype).tiny / torch.finfo(dtype).eps


def room_for(roundings: int, dtype: torch.dtype) -> float:
    """The factor by which a number that results from n roundings of nonnegative numbers is multiplied to be no less
    than the exact one, (R8): ``1 / (1 - n u) <= 1 + 2 n u`` for ``2 n u <= 1``; infinite beyond."""
    share = roundings * torch.finfo(dtype).eps
    return 1 + 2 * share if share <= 0.5 else torch.inf


def roundings_of(activation: Activation | None) -> int:
    """The roundings of an activation, relative to the size of its values."""
    if activation is None:
        return 0
    return TWO_PIECE if isinstance(activation, TwoPieceLinear) else SMOOTH


def longest_sums(network: GraphNetwork, most_edges: int) -> int:
    """The roundings of all layers together, for sums of dense rows at the node with the most edges."""
    return sum(
        sum(1 if term.weight.dim() == 1 else term.inputs for term in layer.terms)
        + LAYER
        + DERIVED
        + layer.mixes * (most_edges + 1)
        + roundings_of(layer.activation)
        for layer in network.layers
    )


@dataclass(frozen=True)
class Growth:
    """``γ_n = n u / (1 - n u)``, the most that n roundings of at most u can change a number by, relative to it;
    infinite where ``n u`` is not below 1/2.

    Args:
        most_edges: of a node. A format counts up to 1 / u; beyond, degrees have an error of their own.
    """

    precision: torch.dtype
    most_edges: int

    def of(self, count: int) -> float:
        share = count * torch.finfo(self.precision).eps / 2
        return share / (1 - share) if share < 0.5 else torch.inf

    def __call__(self, counts: Tensor) -> Tensor:
        """γ of many counts, in the dtype in which sizes are computed."""
        unit = torch.finfo(self.precision).eps / 2
        uncounted = self.most_edges + 1 if (self.most_edges + 1) * unit > 1 else 0
        share = (counts + uncounted).to(torch.promote_types(self.precision, torch.float32)) * unit
        return torch.where(share < 0.5, share / (1 - share), torch.inf)


class Sized(NamedTuple):
    """Size and error of one table of values: ``|v̂| <= size`` with every subtotal on the way, and ``|v̂ - v| <=
    error``; ``(R, d)``."""

    size: Tensor
    error: Tensor


class ForwardError:
    """Sizes and errors of every layer of a network that is run in some precision.

    Those of a run in float32 or less are computed in float32, with room for their own rounding: they overflow where the
    run would.

    Args:
        network: in the dtype in which sizes are computed.
        field: in the same dtype.
        precision: of the run.
        derived: whether weights were computed from the model's own.
        bounds: whether they are also for bounds: products of functionals that underflow are then included.

    Attributes:
        terms: the roundings of all layers together, at most.
        everything: at least the sum of all sizes that an embedding is made of, ``X`` of (R6): what the entries of
            functionals that are lost to underflow are multiplied by.
    """

    def __init__(
        self,
        network: GraphNetwork,
        field: LargestMixing,
        precision: torch.dtype,
        derived: bool,
        bounds: bool,
        features: AdmissibleFeatures | None = None,
    ) -> None:
        self.network, self.field, self.features, self._bounds = network, field, features, bounds
        self.growth, self.limit = Growth(precision, field.most_edges), torch.finfo(precision).max / 2
        self._fixed, self._converted_product = LAYER + DERIVED * derived, 2 + DERIVED * derived  # roundings
        self._paths = None if features is None else longest_paths(network, field, features)
        more = 0 if self._paths is None else len(network.layers) * int(self._paths.max())
        self.terms = longest_sums(network, field.most_edges) + more
        # The second half is for what underflows while sizes are computed.
        self.smallest = smallest_size(precision) * (1 + (precision == field.dtype))
        self.everything = 0.0
        self.largest: list[float] = [largest_feature(field.graph, precision, network, features)]  # of each layer
        self._layers: list[Sized] = []
        self._lost: list[Tensor] = []  # what underflow can cost each layer's channels, as a size
        for number, layer in enumerate(network.layers, 1):
            self._layers.append(self._activated(layer, *self._layer(number, layer)))

    @classmethod
    def of(cls, network: GraphNetwork, problem: ChangeProblem, precision: torch.dtype, bounds: bool) -> "ForwardError":
        wide = torch.promote_types(precision, torch.float32)
        sized = network.to(wide)
        return cls(
            sized,
            LargestMixing(sized, problem, wide),
            precision,
            network.dtype != network.precision,
            bounds,
            problem.changes.features,
        )

    def embeddings(self) -> Sized:
        """At the anchors, ``(A, width)``, raised to cover the roundings on the way here, (R8)."""
        parts = [
            [self.field.at_anchors(number, table) for table in self._layers[number - 1]]
            for number in self.network.readout
        ]
        room = room_for(self.terms, self.field.dtype)
        return Sized(
            *(
                room * (tables[0] if len(tables) == 1 else torch.cat(tables, dim=1))
                for tables in zip(*parts, strict=True)
            )
        )

    def _layer(self, number: int, layer: Layer) -> Sized:
        """Size and error before the activation, (R3): ``Σ_terms mixed`` with the errors of what is mixed, and γ of the
        roundings here; sizes are raised by what underflow can cost, (R2) and (R6)."""
        # Matrices may be blocks of one, whose sums are not separate.
        weight_first = (
            all(term.aggregation.weight_first for term in layer.terms)
            and sum(term.weight.dim() == 2 for term in layer.terms) == 1
        )
        count, lost, mixed = self.field.degree(number) * layer.mixes + self._fixed + len(layer.terms) - 1, [], []
        if self._paths is not None:
            nodes = self.field.nodes[number]
            count = count + (self._paths if nodes is None else self._paths[nodes])
        reach, met = 0.0, 0.0
        for term in layer.terms:
            weight = term.weight.abs()
            lost.append(self.smallest * (1 + (weight.sum(dim=0) if weight.dim() == 2 else weight)))
            if term.source and weight.dim() == 1:
                lost[-1] = lost[-1] + weight * self._lost[term.source - 1]  # a matrix before it may be applied later
            product, counted = self._product(number, term, weight + self.smallest, lost[-1], weight_first)
            if self._bounds:
                reach += self.field.largest_sum(term.aggregation, term.source, number)
                met += _largest(product.size)
            mixed.append([self.field.mix(term.aggregation, term.source, number, table) for table in product])
            if not weight_first:
                self._check_sums(number, term, mixed[-1][1])
            count = count + counted
        (size, error), *others = mixed
        for other in others:
            size, error = size.add_(other[0]), error.add_(other[1])
        self._lost.append(sum(lost[1:], lost[0]))
        self.everything = max(1.0, reach) * (self.everything + layer.width * met)
        functionals = (
            self.terms / LAYER * self.smallest * self.everything
        )  # of which each layer has that many roundings
        size = size.add_(layer.bias.abs() + (self.smallest + functionals) + self._lost[-1])
        error = error.addcmul_(size, self.growth(count)[:, None])
        if self._bounds:  # 0 · inf is not a number
            self.everything += layer.width * _largest(size)
        return Sized(size.add_(error), error)

    def _activated(self, layer: Layer, size: Tensor, error: Tensor) -> Sized:
        """``|σ̂(p̂) - σ(p)| <= g e + jump + γ H`` with ``|σ(p)| <= H = g size + |σ(0)|``."""
        activation, largest = layer.activation, self._check(size, error)
        if activation is not None:
            gain, roundings = torch.as_tensor(activation.gain()).to(size), self.growth.of(roundings_of(activation))
            changed = not bool((gain == 1).all()) or activation.at_zero() > 0
            if changed:
                size, error = size.mul_(gain).add_(activation.at_zero()), error.mul_(gain)
            if not isinstance(activation, TwoPieceLinear):
                # A formula such as e^p - 1 is as precise as the numbers in it, which are no larger than the gain.
                error.add_(roundings * (gain + activation.at_zero()) + activation.jump)
            error.add_(size, alpha=roundings)
            largest = self._check(size, error) if changed else largest
        self.largest.append(largest)
        if self._bounds:
            self.everything += layer.width * largest
        return Sized(size, error)

    # -- products ----------------------------------------------------------------------------------

    def _product(
        self, number: int, term: Term, weight: Tensor, lost: Tensor, weight_first: bool
    ) -> tuple[Sized, Tensor | int]:
        """Values times ``|W|``, and how many of these products there are in a sum, if it is not in the error yet."""
        if term.source:
            size, error = (
                (table * weight if weight.dim() == 1 else table @ weight) for table in self._layers[term.source - 1]
            )
            self._check(size.add_(lost), error)
            return Sized(size, error), 1 if weight.dim() == 1 else term.inputs
        graph, nodes, growth = self.field.graph, self.field.nodes[0], self.growth
        absolute = features_times(graph, weight, nodes, absolute=True).add_(lost)
        if self.features is not None:
            return self._changed_product(number, term, weight, absolute, weight_first)
        if not weight_first:
            error = absolute * growth.of(self._converted_product)
            return Sized(absolute, self._converted(error)), self._summed_features(number, term)
        # (R4): products that are taken before mixing do not depend on the view and enter with their own values.
        # Subtotals are no larger than the sum of the terms of one sign, (|x| |W| + |x W|) / 2.
        size = features_times(graph, term.weight, nodes).abs_()
        count = graph.features.terms(torch.arange(len(size), device=size.device) if nodes is None else nodes)
        sums, all_roundings = growth(count)[:, None], growth(count + self._converted_product)[:, None]
        error = (
            (absolute + size)
            .mul_(sums / 2)
            .addcmul_(absolute, growth.of(self._converted_product) + 2 * sums * all_roundings)
        )
        self._check(absolute, error)
        return Sized(size.add_(error, alpha=2), self._converted(error)), 0  # once for the run, and once for this sum

    def _changed_product(
        self, number: int, term: Term, weight: Tensor, absolute: Tensor, weight_first: bool
    ) -> tuple[Sized, Tensor | int]:
        """The same for features that can change: they enter by ``|x̃| |W|``, which is no more than
        ``|x| |W| + on max_f |W_f| + radius Σ_f |W_f|``. A bound has a product with x and a fall, each no larger than
        that, and each a sum over features of sums over channels: twice the roundings of both."""
        assert self.features is not None
        features, nodes = self.features, self.field.nodes[0]
        on, radius = (part if nodes is None else part[nodes] for part in (features.on, features.radius))
        largest, whole = (weight.amax(dim=0), weight.sum(dim=0)) if weight.dim() == 2 else (weight, weight)
        absolute = absolute + on.to(absolute)[:, None] * largest + radius.to(absolute)[:, None] * whole
        if not weight_first:
            error = absolute * self.growth.of(self._converted_product)
            return Sized(absolute, self._converted(error)), 2 * (self._summed_features(number, term) + term.outputs)
        count = self._filled(torch.arange(len(absolute), device=absolute.device) if nodes is None else nodes)
        error = 2 * absolute * self.growth(2 * (count + term.outputs) + self._converted_product)[:, None]
        self._check(absolute, error)
        return Sized(absolute.add_(error, alpha=2), self._converted(error)), 0

    def _filled(self, nodes: Tensor) -> Tensor:
        """The largest number of nonzero features of some nodes."""
        graph, features = self.field.graph, self.features
        count = graph.features.terms(nodes)
        if features is None:
            return count
        count = (count + features.on[nodes]).clamp(max=graph.num_features)
        return torch.where(features.radius[nodes] > 0, graph.num_features, count)

    def _summed_features(self, number: int, term: Term) -> Tensor | int:
        """The largest number of nonzero features in a sum over neighbours that is multiplied by W later."""
        features, graph = self.field.graph.features, self.field.graph
        if term.weight.dim() == 1 or features.sparse is None:
            return 1 if term.weight.dim() == 1 else term.inputs
        count = self._filled(torch.arange(graph.num_nodes, device=graph.col.device))
        for _ in range(1 + steps_after(self.network, number)):
            joined = count.index_add(0, graph.row, count[graph.col]) + self.field.gain * count.max()
            count = joined.clamp(max=term.inputs)
        nodes = self.field.nodes[number]
        return count if nodes is None else count[nodes]

    # -- overflow ----------------------------------------------------------------------------------

    def _converted(self, error: Tensor) -> Tensor:
        """That of products with features, which may be too large for the format."""
        return error if self.largest[0] < self.limit else error.fill_(torch.inf)

    def _check(self, size: Tensor, error: Tensor) -> float:
        """Make an error infinite where half of the largest number may be exceeded, and so every error that follows from
        it. Returns the largest size."""
        largest = _largest(size)
        if not largest < self.limit:
            error[~(size.amax(dim=1) < self.limit)] = torch.inf
        return largest

    def _check_sums(self, number: int, term: Term, error: Tensor) -> None:
        """The same for sums over neighbours that are multiplied by W later, perhaps after more of them; a mean is
        summed before it is divided."""
        known = self.field.nodes[term.source]
        ones = error.new_ones(self.field.graph.num_nodes if known is None else known.numel(), 1)
        total = self.field.mix(term.aggregation, term.source, number, ones)[:, 0]
        growth = max(1.0, float(total.max())) ** steps_after(self.network, number)
        total = total * self.field.before_scaling(term.aggregation, number)
        error[~(total * (growth * self.largest[term.source]) < self.limit)] = torch.inf


def _largest(size: Tensor) -> float:
    return float(size.max()) if size.numel() else 0.0  # where a layer that nothing depends on has no rows


def longest_paths(network: GraphNetwork, field: LargestMixing, features: AdmissibleFeatures) -> Tensor:
    """How many numbers a functional of changed features adds up at each node beyond the sums of its layers, ``(N,)``:
    one for every node within its hops, and one for every feature that may change."""
    graph = field.graph
    count = torch.ones_like(graph.degree)
    for _ in range(network.hops):
        count = (count + count.index_add(0, graph.row, count[graph.col])).clamp(max=graph.num_nodes)
    each = features.off + features.on
    return count + each.max() + min(features.total, int(each.sum())) + features.columns


def largest_feature(
    graph: Graph, precision: torch.dtype, network: GraphNetwork, features: AdmissibleFeatures | None = None
) -> float:
    """At least ``|x_jf|`` of all features, where that matters: if they may overflow, or sums of them; else zero."""
    summed = any(
        term.source == 0 and not term.aggregation.weight_first for layer in network.layers for term in layer.terms
    )
    x = graph.x if graph.features.sparse is None else graph.features.sparse.values()
    if not x.numel() or not (summed or torch.finfo(precision).max < torch.finfo(x.dtype).max):
        return 0.0
    largest = max(float(abs(end)) for part in row_chunks(x) for end in torch.aminmax(part))
    if features is None:
        return largest
    return max(largest, float(features.on.any())) + float(features.radius.max())


def steps_after(network: GraphNetwork, number: int) -> int:
    """How many more times a layer's output is mixed with only diagonal matrices in between: a model may mix that often
    before it multiplies by the layer's matrix, as SGConv does."""
    return max(
        (
            term.aggregation.mixes + steps_after(network, later)
            for later in range(number + 1, len(network.layers) + 1)
            for term in network.layers[later - 1].terms
            if term.source == number and term.weight.dim() == 1
        ),
        default=0,
    )
