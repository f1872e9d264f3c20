"""Lower bounds of functionals of a network: lines at the anchor, lines at its neighbours, ranges beyond."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from certgcl.bounds.propagation import limits
from certgcl.bounds.propagation.added_edges import Refinement, added_edges
from certgcl.bounds.propagation.balls import Ball
from certgcl.bounds.propagation.chain import Cells, Descent, Mix, descend
from certgcl.bounds.propagation.drop_sets import few_sets, near_layers, output_by_sets, range_by_sets
from certgcl.bounds.propagation.extremes import best
from certgcl.bounds.propagation.falling_terms import FallingTerms
from certgcl.bounds.propagation.functionals import Functionals
from certgcl.bounds.propagation.leaves import leaves_of
from certgcl.bounds.propagation.levels import consecutive, in_portions
from certgcl.bounds.propagation.neighbours import SharedFunctionals, own_minima
from certgcl.bounds.propagation.new_neighbours import NewNeighbours
from certgcl.bounds.propagation.ranges import NetworkRanges, channels_asked_for, least_by_row
from certgcl.bounds.propagation.recompute import recomputed
from certgcl.bounds.propagation.set_minima import Asked, SetMinima, next_layers
from certgcl.bounds.propagation.sign_patterns import NONE, dearest, improved
from certgcl.bounds.propagation.term_sets import TermSets
from certgcl.models.two_piece import TwoPieceLinear


class NetworkBound:
    """Ranges of all layers, and then the least ``w · z``; see ``docs/theory.md``.

    Args:
        directions: all w that will be asked for, ``(…, width of z)``; any by default.
    """

    def __init__(self, ranges: NetworkRanges, directions: Tensor | None = None) -> None:
        self.ranges, self.rules = ranges, ranges.settings.rules
        network = ranges.network
        self.near = ranges.near = self._near()
        self.next = next_layers(network) if self.near else set()
        for number in range(1, len(network.layers) + 1):
            lower, upper = ranges.by_ranges(number)
            if ranges.settings.functional and self._worthwhile(number):
                asked = channels_asked_for(network, number, directions)
                lower, upper = self._by_functionals(number, lower, upper, asked)
                if number in self.near:
                    lower, upper = range_by_sets(ranges, number, lower, upper)
            ranges.set(number, lower, upper)

    def _near(self) -> set[int]:
        """The layers for which all sets of edges that a node can lose are tried, if there are few."""
        ranges = self.ranges
        return near_layers(ranges.network) if ranges.settings.functional and ranges.changed is None else set()

    def _by_sets(self, number: int) -> SetMinima | None:
        """The sets for a layer next to near ones and its neighbours; None for others."""
        if number not in self.next:
            return None
        term = next(term for term in self.ranges.network.layers[number - 1].terms if term.aggregation.mixes)
        return self.ranges.by_sets(self.ranges.radius[number] + 1, term)

    def _worthwhile(self, number: int) -> bool:
        """Whether functionals can improve the ranges of a layer, and these ranges are needed."""
        layer, network = self.ranges.network.layers[number - 1], self.ranges.network
        used = any(term.source == number for other in network.layers for term in other.terms)
        exact = (
            all(term.source == 0 for term in layer.terms)
            and len(layer.terms) <= 2
            and sum(term.aggregation.mixes for term in layer.terms) <= 1
        )
        diagonal = all(term.weight.dim() == 1 and not term.aggregation.mixes for term in layer.terms) and (
            len(layer.terms) == 1
        )
        return (used or not layer.linear) and not exact and not diagonal

    # -- channels ----------------------------------------------------------------------------------

    def _by_functionals(self, number: int, lower: Tensor, upper: Tensor, asked: Tensor) -> tuple[Tensor, Tensor]:
        """Bounds of a layer's channels, no worse than those given; where asked for, by the functionals ``±p_m``."""
        identity = torch.eye(lower.shape[1], dtype=lower.dtype, device=lower.device)
        for columns in asked.split(limits.CHANNELS) if len(asked) else ():
            units = torch.cat([identity[columns], -identity[columns]])[None, None]
            positive, negative = self._of_channels(number, Functionals(units, paired=True)).chunk(2, dim=1)
            lower = lower.index_copy(1, columns, best([lower[:, columns], positive]))
            upper = upper.index_copy(1, columns, -best([-upper[:, columns], negative]))
        return lower, upper

    def _of_channels(self, number: int, units: Functionals) -> Tensor:
        """The least ``λ · p`` of a layer for functionals that all nodes share, in all cells of its ball,
        ``(cells, M)``."""
        ball, each = self.ranges.ball_of(number), units.number * self.ranges.network.width_of(number)
        layer = self.ranges.network.layers[number - 1]
        if len(layer.terms) == 1 and not layer.mixes and self._by_node(layer.terms[0].source):
            return self._of_local_channels(number, units)
        by_sets = self._by_sets(number)
        shared = self._shared_neighbours(number, units, by_sets)
        known = shared is not None and shared.serves(layer) and ball.additions is None
        meetings = len(ball.cells.row) * len(self.rules) * each * len(self.ranges.widest.nodes)
        deep = any(map(self.ranges.network.takes_layers, (term.source for term in layer.terms))) and not known
        # What is known already has values at the slots; otherwise there are functionals in every cell.
        at_slots = (ball.degree[ball.cells.row] + 1) * units.number
        size = at_slots if known else torch.full_like(at_slots, each)
        at_once = max(1, (limits.terms_at_once() if known else limits.values_at_once(deep)) // len(self.rules))
        affordable = self._affordable(ball, number)[ball.cells.row]

        def work(chunk: Tensor, deep: bool) -> Tensor:
            cells = Cells(ball, chunk)
            if shared is not None and known:
                return self._minimum_of_shared(cells, shared, len(layer.terms) - 1) + units.dot(layer.bias)[0]
            return self._minimum(
                cells,
                descend(self.ranges, cells, self.rules, {}, (number, units)),
                shared,
                deep,
                meet=meetings <= limits.MOST_MEETINGS,
            )

        by_lines = torch.ones_like(affordable)
        if number in self.near and ball.additions is None:
            by_lines = ~few_sets(ball)[ball.cells.row]
        elif by_sets is not None:
            by_lines = ~by_sets.few[by_sets.ball.place[ball.nodes]][ball.cells.row]
        places, parts = [], []
        rest = (~by_lines).nonzero()[:, 0]
        for chunk in in_portions(rest, at_slots[rest], limits.terms_at_once()):
            places.append(chunk)
            if by_sets is None or shared is None:  # near: all sets are tried below
                parts.append(units.vector.new_full((len(chunk), units.number), -torch.inf))
            else:
                work_near = partial(self._next_to_near, by_sets, number, chunk, units, shared)
                parts.append(recomputed(work_near, len(by_lines) * each))
        for deep in affordable[by_lines].unique().tolist():
            rest = ((affordable == deep) & by_lines).nonzero()[:, 0]
            for chunk in in_portions(rest, size[rest], at_once):
                places.append(chunk)
                parts.append(recomputed(partial(work, chunk, deep), len(ball.cells.row) * each))
        return torch.cat(parts)[torch.argsort(torch.cat(places))]

    def _next_to_near(
        self, by_sets: SetMinima, number: int, chunk: Tensor, units: Functionals, shared: SharedFunctionals
    ) -> Tensor:
        """Functionals that all nodes share, of a layer next to near ones, at nodes of few sets of edges, ``(E, M)``."""
        cells = Cells(self.ranges.ball_of(number), chunk)
        sets = TermSets.of_cells(cells.ball, None, chunk)
        nothing = units.vector.new_zeros(len(sets.slot), len(self.rules) * units.number)
        phi = shared.minima(cells, sets, nothing).first(units.number)
        return by_sets.of_nodes(cells, sets, number, units.vector[0], phi)

    def _shared_neighbours(
        self, number: int, units: Functionals, by_sets: SetMinima | None
    ) -> SharedFunctionals | None:
        """The neighbours' side of functionals that all nodes share: computed once."""
        for term in self.ranges.network.layers[number - 1].terms:
            if term.aggregation.mixes:
                if term.source == 0:
                    return None
                ranges = self.ranges.by_node() if self._by_node(term.source) else self.ranges
                mix, ball = Mix(term, units.back(term)), ranges.balls[ranges.radius[number] + 1]
                return SharedFunctionals(ranges, ball, mix, by_sets, ranges.ball_of(number))
        return None

    def _by_node(self, source: int) -> bool:
        """Whether shared functionals of a layer have one set of lines a node: in wide networks, below a layer that
        takes others, where every set of lines costs a matrix product for each channel."""
        return self.ranges.network.takes_layers(source) and self.ranges.settings.lines == "mixed"

    def _of_local_channels(self, number: int, units: Functionals) -> Tensor:
        """The same for a layer of each node alone, with one set of lines a node and the ranges of its neighbours; or by
        sets of near layers at the neighbours, where these and the node itself can lose few sets of edges."""
        layer, ball, ranges = self.ranges.network.layers[number - 1], self.ranges.ball_of(number), self.ranges.by_node()
        mix, by_sets = Mix(layer.terms[0], units.back(layer.terms[0])), self._by_sets(layer.terms[0].source)
        few = torch.zeros_like(ball.degree, dtype=torch.bool)
        if by_sets is not None:
            few = by_sets.few[by_sets.ball.place[ball.nodes]]
            many = (~by_sets.few[by_sets.ball.place[ball.neighbour]]).long()
            few &= torch.zeros_like(ball.degree).index_add_(0, ball.row, many) == 0
        found = units.vector.new_full((len(ball.cells.row), units.number), -torch.inf)
        if by_sets is not None and bool(few.any()):
            found = found.index_copy(0, *self._local_by_sets(by_sets, few, mix))
        if not bool(few.all()):
            rest = ranges.ball_of(number)
            if bool(few.any()):
                rest = Ball.around(ball.graph, ball.drops, ball.nodes[~few], ranges.settings.resolution, "shared")
            by_case = SharedFunctionals(ranges, rest, mix).by_case()
            case = (~few)[ball.cases.row].nonzero()[:, 0]
            cell, place = torch.unique(ball.cell_of_case[case], return_inverse=True)
            found = found.index_copy(0, cell, least_by_row(place, by_case, len(cell)))
        return found + units.dot(layer.bias)[0]

    def _local_by_sets(self, by_sets: SetMinima, few: Tensor, mix: Mix) -> tuple[Tensor, Tensor]:
        """The cells of some nodes and, there, the least of functionals of a layer next to near ones."""
        ranges, source, ball = self.ranges.by_node(), mix.term.source, self.ranges.ball_of(mix.term.source)
        nodes, term = ranges.ball_of(source), by_sets.mix(source)
        values = [term.project(each) for each in by_sets.outputs(term.source)]
        count, (_, _, number, width) = len(self.rules), mix.functionals.vector.shape
        cells, parts = [], []

        def work(rows: Tensor) -> Tensor:
            # One set of lines for a node, whose cells are its levels: there is only one.
            here = Cells(nodes, nodes.cells.start[rows])
            lines, constant = ranges.lines_below(source, here, self.rules, mix.functionals)
            constant = constant.expand(len(rows), count, number).flatten(1)
            vectors = lines.by_rule(count).explicit().expand(len(rows), -1, -1, -1).flatten(1, 2)
            sets = TermSets.of_cells(nodes, None, here.place)
            asked = Asked.of(by_sets, here, sets)
            phi = by_sets.of_visits(asked.slot, asked.reach, values, vectors, sets.owner[asked.term], nodes.most_lost)
            there = Cells(ball, consecutive(ball.cells.start[rows], ball.cells.start.diff()[rows]))
            place = torch.searchsorted(rows, there.row)
            own = TermSets.of_cells(ball, None, there.place)
            rank = torch.arange(len(own.slot), device=rows.device) - own.start[own.owner]
            phi = phi.at(sets.start[place[own.owner]] + rank)
            found = by_sets.of_nodes(there, own, source, vectors[place], phi) + constant[place]
            return found.unflatten(1, (count, number)).amax(dim=1)

        rows = few.nonzero()[:, 0]
        for some in rows.split(max(1, limits.CACHED_VALUES // (count * number * width))):
            cells.append(consecutive(ball.cells.start[some], ball.cells.start.diff()[some]))
            parts.append(recomputed(partial(work, some), len(rows) * number * count * width))
        return torch.cat(cells), torch.cat(parts)

    def _affordable(self, ball: Ball, number: int) -> Tensor:
        """The nodes that can use lines of their neighbours for each channel of a layer, if functionals are not shared:
        this takes products for every neighbour and each of its cells, with the weights on the way down and with each of
        the neighbour's neighbours."""
        network = self.ranges.network
        wider = self.ranges.balls[min(self._radius(ball) + 1, len(self.ranges.balls) - 1)]
        width = max(network.width_of(layer) for layer in range(1, number + 1))
        weights = sum(
            term.weight.numel()
            for layer in network.layers[: number - 1]
            for term in layer.terms
            if term.source and term.weight.dim() == 2
        )
        each = (wider.cells.start.diff() * (width * wider.degree + weights))[wider.place[ball.neighbour]]
        around = torch.zeros_like(ball.degree).index_add_(0, ball.row, each)
        return around * (2 * network.width_of(number) * len(self.rules) ** 2) <= limits.MOST_PRODUCTS

    # -- the output --------------------------------------------------------------------------------

    def output(self, directions: Tensor, *, lines: bool = True) -> Tensor:
        """The least ``w · z`` at the anchors, in the order of their ball: ``(A, C, width)`` to ``(A, C)``; by lines,
        or by the range of the embeddings alone."""
        ranges, ball = self.ranges, self.ranges.balls[0]
        widths = [ranges.network.width_of(number) for number in ranges.network.readout]
        each = directions.shape[1] * max(ranges.network.width_of(n) for n in range(1, len(ranges.network.layers) + 1))
        ways = max(len(self.rules), ranges.settings.patterns.output)
        chunks = torch.arange(len(ball.cells.row), device=directions.device).split(
            max(1, limits.MAX_VALUES // (each * len(self.rules) * ways))
        )

        def work(chunk: Tensor) -> Tensor:
            cells = Cells(ball, chunk)
            parts = directions[cells.row][:, None].split(widths, dim=-1)
            omega: dict[int, Functionals] = {}
            for number, part in zip(ranges.network.readout, parts, strict=True):
                omega[number] = Functionals(part).plus(omega.get(number))
            interval = sum(ranges.interval_below(number, cells, part)[:, 0] for number, part in omega.items())
            assert isinstance(interval, Tensor)
            return self._below(cells, omega, interval) if lines else interval

        bound = torch.cat([recomputed(partial(work, chunk), len(chunks)) for chunk in chunks])
        if self.near.issuperset(ranges.network.readout):
            bound = output_by_sets(ranges, directions, bound)
        least = bound.new_full((len(ball.nodes), bound.shape[1]), torch.inf)
        return least.scatter_reduce(0, ball.cells.row[:, None].expand_as(bound), bound, "amin")

    def _below(self, cells: Cells, omega: Mapping[int, Functionals], interval: Tensor) -> Tensor:
        """The least ``Σ_l ω_l · h_l``: the last layer's lines by each rule are functionals of their own, and so are
        those of the best rule with the sign patterns of the channels with the costliest relaxations."""
        last = max(omega)
        through, constant = self.ranges.lines_below(last, cells, self.rules, omega[last])
        slope = through.explicit()
        value = self._through_lines(cells, omega, slope) + constant
        bound, activation = best([interval, value.amax(dim=1)]), self.ranges.network.layers[last - 1].activation
        patterns, gamma = self.ranges.settings.patterns, torch.ones_like(slope[0, 0, 0])
        if isinstance(activation, TwoPieceLinear) and not activation.linear:
            gamma = activation.slope.expand_as(gamma)
        else:
            patterns = patterns._replace(output=1)
        if patterns == NONE:
            return bound
        rule = value.detach().argmax(dim=1, keepdim=True)
        chosen_constant = constant.expand_as(value).gather(1, rule)[:, 0]
        chosen_slope = slope.gather(1, rule[..., None].expand(-1, -1, -1, slope.shape[3]))[:, 0]
        lower, upper = (part[cells.states_in(self.ranges.ball_of(last))] for part in self.ranges.bounds[last])

        def by_pattern(chosen: Tensor) -> Tensor:
            found = dearest(
                omega[last].vector[chosen, 0], lower[chosen, None], upper[chosen, None], gamma, patterns.output
            )
            slopes = found.slopes(chosen_slope[chosen]).transpose(1, 2)  # (E, P, M, d)
            here = {layer: replace(part, vector=part.vector[chosen]) for layer, part in omega.items()}
            value = self._through_lines(Cells(cells.ball, cells.place[chosen]), here, slopes, patterns.rows)
            return (value + (chosen_constant[chosen] + found.gain)[:, None]).amin(dim=1)

        graph, ball = self.ranges.graph, cells.ball
        around = torch.zeros_like(ball.degree).index_add_(0, ball.row, graph.degree[ball.neighbour])
        return improved(bound, cells.row, around[cells.row], by_pattern)

    def _through_lines(
        self, cells: Cells, omega: Mapping[int, Functionals], slope: Tensor, patterns: int = 1
    ) -> Tensor:
        """The least value, with K choices of lines ``(E, K, M, d)`` instead of the last layer's outputs,
        ``(E, K, M)``; with the given number of sign patterns at neighbours."""
        by_sets = self._by_sets(self._below_heads(max(omega))) if len(omega) == 1 else None
        if by_sets is None:
            return self._through_own_lines(cells, omega, slope, patterns)
        few = by_sets.few[by_sets.ball.place[cells.node]]
        parts, (chosen, others) = [], (part.nonzero()[:, 0] for part in (few, ~few))
        if len(chosen):
            here = Cells(cells.ball, cells.place[chosen])
            parts.append(self._through_sets(by_sets, here, max(omega), slope[chosen], patterns))
        if len(others):
            here = Cells(cells.ball, cells.place[others])
            rest = {number: part.some(others) for number, part in omega.items()}
            parts.append(self._through_own_lines(here, rest, slope[others], patterns))
        return torch.cat(parts).index_select(0, torch.argsort(torch.cat([chosen, others])))

    def _below_heads(self, number: int) -> int:
        """The layer below all layers that only act on each node by itself."""
        terms = self.ranges.network.layers[number - 1].terms
        while number not in self.next and len(terms) == 1 and terms[0].source and not terms[0].aggregation.mixes:
            number = terms[0].source
            terms = self.ranges.network.layers[number - 1].terms
        return number

    def _through_sets(self, by_sets: SetMinima, cells: Cells, last: int, slope: Tensor, patterns: int) -> Tensor:
        """The same for a layer that comes down to one next to near ones, at nodes of few sets of edges: by lines of the
        layers between."""
        ranges, number, rules = self.ranges, last, len(self.rules)
        through, constant = Functionals(slope.flatten(1, 2)[:, None]), slope.new_zeros(())
        while number not in self.next:
            layer = ranges.network.layers[number - 1]
            number, constant = layer.terms[0].source, constant + through.dot(layer.bias)
            through, value = ranges.lines_below(number, cells, self.rules, through.back(layer.terms[0]))
            constant = constant + value
        mix, vectors = by_sets.mix(number), through.explicit()
        ways = vectors.shape[1:3]
        vectors = vectors.flatten(1, 2)
        sets = TermSets.of_cells(cells.ball, None, cells.place)
        nothing = vectors.new_zeros(len(sets.slot), rules * vectors.shape[1])
        below = [Mix(mix, Functionals(vectors[:, None]).back(mix))]
        phi = own_minima(ranges, cells, sets, by_sets.ball, below, nothing, patterns).first(vectors.shape[1])
        value = by_sets.of_nodes(cells, sets, number, vectors, phi).unflatten(1, ways) + constant
        return value.amax(dim=1).unflatten(1, slope.shape[1:3])

    def _through_own_lines(
        self, cells: Cells, omega: Mapping[int, Functionals], slope: Tensor, patterns: int
    ) -> Tensor:
        """The same by the lines of the node's own layers."""
        last, (ways, functionals) = max(omega), slope.shape[1:3]
        others = {
            number: Functionals(part.vector.expand(-1, ways, -1, -1).flatten(1, 2)[:, None])
            for number, part in omega.items()
            if number != last
        }
        top = last, Functionals(slope.flatten(1, 2)[:, None])
        descent = descend(self.ranges, cells, self.rules, others, top)
        return self._minimum(cells, descent, None, patterns=patterns).unflatten(1, (ways, functionals))

    # -- a functional at some cells ----------------------------------------------------------------

    def _minimum(
        self,
        cells: Cells,
        descent: Descent,
        shared: SharedFunctionals | None,
        deep: bool = True,
        patterns: int = 1,
        meet: bool = True,
    ) -> Tensor:
        """The least value of a functional that was passed down, ``(E, M)``: the best over the rules of the node's own
        lines.

        Args:
            deep: whether lines or only ranges of the neighbours are used if functionals are not shared.
            patterns: sign patterns of the neighbours, if functionals are not shared.
            meet: whether the node's own functionals may be multiplied with all candidates for new edges.
        """
        constant, mixes = descent
        count, functionals = len(self.rules), constant.shape[2]
        constant = constant.expand(len(cells.place), count, functionals)
        if not mixes:
            return constant.amax(dim=1)
        main, ball, scales = mixes[0], cells.ball, mixes[0].term.aggregation
        sets = TermSets.of_cells(ball, ball.by_count(scales.out, self.ranges.dtype), cells.place)
        if main.term.source == 0 or (shared is None and not deep):
            terms = leaves_of(self.ranges, sets, self._by_rule(mixes), scales).terms
        else:
            terms = self._neighbours(cells, sets, mixes, shared, patterns)
        met = self._by_rule([mix for mix in mixes if shared is None or mix is not main])
        refine = self._candidates(cells, met) if shared is None and deep and main.term.source else None
        added = added_edges(
            self.ranges, cells, scales, met, None if shared is None else shared.of_candidates(), meet, refine=refine
        )
        value = sets.best_minima(terms, added).unflatten(1, (count, functionals))
        return (value + constant).amax(dim=1)

    def _minimum_of_shared(self, cells: Cells, shared: SharedFunctionals, times: int) -> Tensor:
        """The least value of functionals that all nodes share, of a node and its neighbours, ``(E, M)``: their result
        at the node is the same as at a neighbour."""
        ball, count = cells.ball, len(self.rules)
        scales = shared.mix.term.aggregation
        sets = TermSets.of_cells(ball, ball.by_count(scales.out, self.ranges.dtype), cells.place)
        constant, pairs = shared.at_the_node(cells, sets, times)
        value = sets.best_minima(shared.minima(cells, sets, pairs)) + constant
        return value.unflatten(1, (count, -1)).amax(dim=1)

    def _by_rule(self, mixes: list[Mix]) -> list[Mix]:
        """The same with functionals by every rule, where they are the same for all."""
        return [Mix(mix.term, mix.functionals.by_rule(len(self.rules))) for mix in mixes]

    def _neighbours(
        self, cells: Cells, sets: TermSets, mixes: list[Mix], shared: SharedFunctionals | None, patterns: int
    ) -> FallingTerms:
        """The terms of the neighbours at every slot of the cells, ``(slots, R M)``: through their lines, for the first
        mix and those scaled alike; by ranges, for the others."""
        main, count = mixes[0], len(self.rules)
        functionals, scales = main.functionals.number, main.term.aggregation
        together = [mix for mix in mixes if mix.term.source and mix.term.aggregation == scales]
        together = [main] if shared is not None else together
        rest = [mix for mix in mixes if mix not in together]
        pairs = (
            main.functionals.vector.new_zeros(len(sets.slot), count * functionals)
            if not rest
            else leaves_of(self.ranges, sets, self._by_rule(rest), scales, by_cell=False).values
        )
        by_rule = any(mix.functionals.vector.shape[1] > 1 or mix.functionals.slopes is not None for mix in together)
        if by_rule and count > 1:  # by the rules of the node's own lines: any of the neighbours' rules may serve each
            together = self._by_rule(together)
            pairs = pairs[:, None].expand(-1, count, -1).flatten(1)
        phi = (
            shared.minima(cells, sets, pairs)
            if shared is not None
            else own_minima(
                self.ranges, cells, sets, self.ranges.balls[self._radius(cells.ball) + 1], together, pairs, patterns
            )
        )
        return phi.first(count * functionals)

    def _candidates(self, cells: Cells, mixes: list[Mix]) -> Refinement | None:
        """The terms of candidates for new edges through their lines, for the first mix and those scaled alike."""
        if cells.ball.additions is None:
            return None
        alike = [mix for mix in mixes if mix.term.aggregation == mixes[0].term.aggregation]
        return NewNeighbours(self.ranges, cells, self.ranges.balls[self._radius(cells.ball) + 1], alike).terms

    def _radius(self, ball: Ball) -> int:
        return next(radius for radius, other in enumerate(self.ranges.balls) if other is ball)
