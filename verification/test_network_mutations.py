"""Wrong bounds of networks, one for each idea of the propagation: the enumeration must catch every one of them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from certgcl.bounds.compiled import entries
from certgcl.bounds.propagation import (
    balls,
    box,
    chain,
    leaves,
    limits,
    lines_below,
    neighbours,
    network_bound,
    patterned_neighbours,
    set_minima,
    sign_patterns,
)
from certgcl.bounds.propagation.balls import Ball
from certgcl.bounds.propagation.drop_counts import Scale
from certgcl.bounds.propagation.falling_terms import FallingTerms
from certgcl.bounds.propagation.functionals import Functionals
from certgcl.bounds.propagation.ranges import NetworkRanges
from certgcl.bounds.propagation.set_minima import SetMinima
from certgcl.bounds.propagation.term_sets import TermSets
from certgcl.bounds.propagation.visits import Visits
from certgcl.errors import BoundError
from certgcl.models.layer import Layer
from verification.network_audit import certify_network, truth
from verification.network_tightness import ROWS, Row, random_case

pytestmark = pytest.mark.thorough

CASES = 60
MIXED = Row("mixed", 3)
Mutation = Callable[[pytest.MonkeyPatch], None]


def caught(method: str, row: Row) -> bool:
    """Whether generated cases show the (by now wrong) method above the enumerated minimum."""
    random = np.random.default_rng(1)
    for number in range(CASES):
        case = random_case(row, random, number)
        minimum, _ = truth(case)
        try:
            lower = certify_network(case, method).lower
        except BoundError:  # the library's own last check
            return True
        if bool((lower > minimum + 1e-7).any()):
            return True
    return False


def spread_of_the_own_scale_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        NetworkRanges,
        "largest_product",
        lambda self, layer, cells, omega: torch.zeros_like(self.interval_below(layer, cells, omega)),
    )
    at_the_node = neighbours.SharedFunctionals.at_the_node

    def wrong(self: neighbours.SharedFunctionals, *given: Any) -> tuple[Tensor, Tensor]:
        self.interval, interval = torch.zeros_like(self.interval), self.interval
        try:
            return at_the_node(self, *given)
        finally:
            self.interval = interval

    patch.setattr(neighbours.SharedFunctionals, "at_the_node", wrong)


def scales_have_no_range(patch: pytest.MonkeyPatch) -> None:
    whole = balls.extent
    for module in (balls, box):
        patch.setattr(module, "extent", lambda *given: Scale(whole(*given).low, None))


def a_neighbour_can_lose_one_edge_less(patch: pytest.MonkeyPatch) -> None:
    around = Ball.around.__func__  # type: ignore[attr-defined]

    def wrong(cls: Any, *given: Any) -> Ball:
        ball = around(cls, *given)
        return replace(ball, reach=(ball.reach - 1).clamp(min=0))

    patch.setattr(Ball, "around", classmethod(wrong))


def the_row_lemma_drops_one_edge_less(patch: pytest.MonkeyPatch) -> None:
    minima = TermSets.minima

    def wrong(self: TermSets, terms: Tensor, **options: Any) -> Tensor:
        less = replace(self, first=(self.first - 1).clamp(min=0), last=(self.last - 1).clamp(min=0))
        return minima(less, terms, **options)

    patch.setattr(TermSets, "minima", wrong)


def the_parent_may_always_be_replaced_in_the_row(patch: pytest.MonkeyPatch) -> None:
    minima = Visits.minima

    def wrong(self: Visits, rules: int, without: Tensor, following: Tensor, *others: Tensor) -> Tensor:
        constant, interval, values, terms, pairs = others
        return minima(self, rules, without + terms.abs().max(), following, constant, interval, values, terms, pairs)

    patch.setattr(Visits, "minima", wrong)


def ranges_of_hidden_layers_are_half_as_wide(patch: pytest.MonkeyPatch) -> None:
    given = NetworkRanges.set

    def wrong(self: NetworkRanges, layer: int, lower: Tensor, upper: Tensor) -> None:
        middle, radius = (lower + upper) / 2, (upper - lower) / 4
        given(self, layer, middle - radius, middle + radius)

    patch.setattr(NetworkRanges, "set", wrong)


def constants_of_lines_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    through = Functionals.through

    def wrong(self: Functionals, *given: Any) -> tuple[Functionals, Tensor]:
        functionals, constant = through(self, *given)
        return functionals, torch.zeros_like(constant)

    patch.setattr(Functionals, "through", wrong)


def all_aggregations_have_the_scales_of_the_main_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leaves, "_ratio", lambda sets, of, to, dtype: Scale(torch.ones(len(sets.slot), dtype=dtype), None))


def the_anchor_forgets_its_neighbours_features(patch: pytest.MonkeyPatch) -> None:
    descend = chain.descend

    def wrong(*given: Any) -> chain.Descent:
        constant, mixes = descend(*given)
        return chain.Descent(constant, mixes[:1])

    for module in (lines_below, network_bound):
        patch.setattr(module, "descend", wrong)


def the_node_scales_as_the_layer_below(patch: pytest.MonkeyPatch) -> None:
    serves = neighbours.SharedFunctionals.serves

    def wrong(self: neighbours.SharedFunctionals, layer: Layer) -> bool:
        scales, self.scales = self.scales, self.mix.term.aggregation
        try:
            return serves(self, layer)
        finally:
            self.scales = scales

    patch.setattr(neighbours.SharedFunctionals, "serves", wrong)


def the_node_counts_itself_once_too_often(patch: pytest.MonkeyPatch) -> None:
    at_the_node = neighbours.SharedFunctionals.at_the_node
    patch.setattr(
        neighbours.SharedFunctionals,
        "at_the_node",
        lambda self, cells, sets, times: at_the_node(self, cells, sets, times + 1),
    )


def all_cells_of_a_node_have_the_range_of_one(patch: pytest.MonkeyPatch) -> None:
    by_node = NetworkRanges.by_node

    def wrong(self: NetworkRanges) -> NetworkRanges:
        found = by_node(self)
        for layer, (lower, upper) in self.bounds.items():
            first = self.ball_of(layer).cells.start[:-1]
            found.set(layer, lower[first], upper[first])
        return found

    patch.setattr(NetworkRanges, "by_node", wrong)


def nodes_one_layer_down_are_at_the_middle_of_their_ranges(patch: pytest.MonkeyPatch) -> None:
    least_below = entries.least_below

    def wrong(*given: Any) -> Tensor:
        *others, radius = given
        return least_below(*others, torch.zeros_like(radius))

    patch.setattr(entries, "least_below", wrong)


def the_largest_is_minus_the_least(patch: pytest.MonkeyPatch) -> None:
    """Over the sets of edges of a neighbour."""
    of_edges = SetMinima.of_edges

    def wrong(*given: Any) -> FallingTerms:
        least, _ = of_edges(*given).least.chunk(2, dim=1)
        return FallingTerms(torch.cat([least, -least], dim=1))

    patch.setattr(SetMinima, "of_edges", wrong)


WIDE = "degree, as for wide networks"


def patterns_are_of_the_other_sign(patch: pytest.MonkeyPatch) -> None:
    def wrong(omega: Tensor, *given: Any) -> sign_patterns.SignPatterns:
        found = sign_patterns.dearest(-omega, *given)
        return found._replace(first=-found.first, other=-found.other)

    for module in (network_bound, patterned_neighbours):
        patch.setattr(module, "dearest", wrong)


def patterns_pay_for_nothing(patch: pytest.MonkeyPatch) -> None:
    def wrong(omega: Tensor, *given: Any) -> sign_patterns.SignPatterns:
        found = sign_patterns.dearest(omega, *given)
        return found._replace(gain=2 * found.gain)

    for module in (network_bound, patterned_neighbours):
        patch.setattr(module, "dearest", wrong)


def the_best_pattern_of_a_neighbour_counts(patch: pytest.MonkeyPatch) -> None:
    lines = Visits.lines

    def wrong(self: Visits, *given: Any) -> Tensor:
        found = lines(self, *given)
        return found.unflatten(1, (-1, 4)).amax(dim=2, keepdim=True).expand(-1, -1, 4).flatten(1)

    patch.setattr(Visits, "lines", wrong)


def with_lines_everywhere(mutation: Mutation) -> Mutation:
    """Of lines at nodes whose sets of edges would all be tried."""

    def mutated(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(limits, "MOST_SETS", 0)
        mutation(patch)

    mutated.__name__ = f"{mutation.__name__} with lines everywhere"
    return mutated


def a_neighbour_of_few_sets_keeps_one_edge_more(patch: pytest.MonkeyPatch) -> None:
    asked = set_minima.Asked.of
    patch.setattr(
        set_minima.Asked,
        "of",
        lambda *given: (found := asked(*given))._replace(reach=(found.reach - 1).clamp(min=0)),
    )


def lost_neighbours_still_count(patch: pytest.MonkeyPatch) -> None:
    of_nodes = set_minima.SetMinima.of_nodes

    def wrong(self: set_minima.SetMinima, *given: Any) -> Tensor:
        blocks = [replace(sets, gone=torch.zeros_like(sets.gone)) for sets in self.blocks]
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(vars(self), "blocks", blocks)
            return of_nodes(self, *given)

    patch.setattr(set_minima.SetMinima, "of_nodes", wrong)


MUTANTS: list[tuple[Mutation, str, Row]] = [
    (spread_of_the_own_scale_is_forgotten, "degree-fast", ROWS["SGC"]),
    (scales_have_no_range, "crown", ROWS["GCN, 3 layers"]),
    (a_neighbour_can_lose_one_edge_less, "degree", ROWS["GCN, loop weight 2"]),
    (the_row_lemma_drops_one_edge_less, "degree", ROWS["SAGE mean"]),
    (the_row_lemma_drops_one_edge_less, "degree", ROWS["GIN"]),
    (with_lines_everywhere(the_parent_may_always_be_replaced_in_the_row), "degree", ROWS["SAGE sum"]),
    (ranges_of_hidden_layers_are_half_as_wide, "degree", ROWS["GCN, 3 layers"]),
    (constants_of_lines_are_forgotten, "degree", ROWS["SAGE mean"]),
    (all_aggregations_have_the_scales_of_the_main_one, "degree", MIXED),
    (with_lines_everywhere(the_anchor_forgets_its_neighbours_features), "degree", ROWS["SAGE mean"]),
    (the_node_scales_as_the_layer_below, "degree", MIXED),
    (with_lines_everywhere(the_node_counts_itself_once_too_often), "degree", Row("GIN, eps = 0", 2)),
    (all_cells_of_a_node_have_the_range_of_one, WIDE, ROWS["GCN, 3 layers"]),
    (nodes_one_layer_down_are_at_the_middle_of_their_ranges, WIDE, ROWS["GCN, 3 layers"]),
    (the_largest_is_minus_the_least, "degree", ROWS["SAGE sum"]),
    (patterns_are_of_the_other_sign, "degree", ROWS["SAGE mean"]),
    (patterns_pay_for_nothing, "degree", ROWS["GCN, 3 layers"]),
    (with_lines_everywhere(the_best_pattern_of_a_neighbour_counts), "degree", ROWS["SAGE mean"]),
    (a_neighbour_of_few_sets_keeps_one_edge_more, "degree", ROWS["SAGE sum"]),
    (lost_neighbours_still_count, "degree", ROWS["SAGE sum"]),
    (lost_neighbours_still_count, "degree", ROWS["SAGE mean"]),
    (the_best_pattern_of_a_neighbour_counts, "degree", ROWS["GCN, no self-loops"]),
]


@pytest.mark.parametrize(
    ("mutation", "method", "row"), MUTANTS, ids=[f"{mutant[0].__name__}, {mutant[2].kind}" for mutant in MUTANTS]
)
def test_a_wrong_bound_is_caught(mutation: Mutation, method: str, row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation(monkeypatch)
    assert caught(method, row)


@pytest.mark.parametrize("row", [*{mutant[2].kind: mutant[2] for mutant in MUTANTS}.values()], ids=lambda row: row.kind)
def test_without_a_mutation_nothing_is_caught(row: Row) -> None:
    assert not caught("degree", row)
