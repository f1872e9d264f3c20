"""Wrong bounds under changed features, one for each idea: the enumeration must catch every one of them."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from certgcl import Changes
from certgcl.bounds import column_sets
from certgcl.bounds.prepared import ChangeProblem
from certgcl.bounds.propagation import changed_features, fixed_graph
from certgcl.bounds.propagation.changed_features import ChangedFeatures, Falls
from certgcl.bounds.propagation.fixed_graph import FixedGraphBound
from certgcl.bounds.propagation.network_bound import NetworkBound
from certgcl.bounds.propagation.paths import Paths
from certgcl.bounds.propagation.ranges import NetworkRanges
from certgcl.changes.feature_changes import AdmissibleFeatures
from certgcl.errors import BoundError
from verification.feature_audit import certify_features, feature_tolerance, feature_truth
from verification.feature_case import PlainFeatures
from verification.feature_tightness import BOX, COLUMNS, FLIPS, MASK, Row, random_case

pytestmark = pytest.mark.thorough

CASES = 24
TOTAL = PlainFeatures("masked", off=2, total=3)
Mutation = Callable[[pytest.MonkeyPatch], None]


def caught(row: Row, method: str = "degree") -> bool:
    """Whether generated cases show the (by now wrong) method above the enumerated minimum."""
    random = np.random.default_rng(1)
    for _ in range(CASES):
        case = random_case(row, random)
        minimum, _ = feature_truth(case)
        try:
            lower = certify_features(case, method).lower
        except BoundError:  # the library's own last check
            return True
        if bool((lower > minimum + feature_tolerance(case) + 1e-9).any()):
            return True
    return False


def a_node_masks_one_feature_less(patch: pytest.MonkeyPatch) -> None:
    largest = changed_features._largest
    patch.setattr(changed_features, "_largest", lambda values, most, count: largest(values, most, count - 1))


def the_total_is_one_less(patch: pytest.MonkeyPatch) -> None:
    sums = fixed_graph.largest_sums
    patch.setattr(
        fixed_graph,
        "largest_sums",
        lambda values, target, targets, most: sums(values, target, targets, max(0, most - 1)),
    )
    _without_states(patch)


def a_mask_is_taken_by_channel(patch: pytest.MonkeyPatch) -> None:
    """The fall of a functional as the mean of the falls of its channels, which one mask cannot have all at once."""
    falls = ChangedFeatures.falls

    def wrong(self: ChangedFeatures, parts: Any, place: Tensor) -> Falls:
        found = falls(self, parts, place)
        return Falls(found.single / max(1, parts[0][1].shape[1]), found.box)

    patch.setattr(ChangedFeatures, "falls", wrong)


def the_range_of_features_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        NetworkRanges,
        "feature_range",
        lambda self, term: (self.projected(term), torch.zeros_like(self.projected(term))),
    )


def bits_are_turned_on_where_they_are_on(patch: pytest.MonkeyPatch) -> None:
    """Nothing rises but what is one already."""

    def wrong(self: ChangedFeatures, parts: Any, place: Tensor) -> Falls:
        self.most_on, most = 0, self.most_on
        try:
            return falls(self, parts, place)
        finally:
            self.most_on = most

    falls = ChangedFeatures.falls
    patch.setattr(ChangedFeatures, "falls", wrong)


def the_box_is_half_as_wide(patch: pytest.MonkeyPatch) -> None:
    at = ChangedFeatures.at.__func__  # type: ignore[attr-defined]

    def wrong(cls: Any, *given: Any) -> ChangedFeatures:
        made = at(cls, *given)
        made.radius = made.radius / 2
        return made

    patch.setattr(ChangedFeatures, "at", classmethod(wrong))


def one_column_less(patch: pytest.MonkeyPatch) -> None:
    tightened = AdmissibleFeatures.tightened.__func__  # type: ignore[attr-defined]
    patch.setattr(
        AdmissibleFeatures,
        "tightened",
        classmethod(
            lambda cls, graph, kind, off, on, radius, columns, total: tightened(
                cls, graph, kind, off, on, radius, columns - 1, total
            )
        ),
    )


def one_merged_column_less(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(column_sets, "MOST_FEATURES", 0)
    one_column_less(patch)


def columns_are_masked_at_the_first_node_alone(patch: pytest.MonkeyPatch) -> None:
    every = column_sets._every

    def wrong(problem: ChangeProblem) -> Iterator[ChangeProblem]:
        x = problem.graph.x
        for masked in every(problem):
            graph = masked.graph.with_features(torch.cat([masked.graph.x[:1], x[1:]]))
            yield replace(masked, graph=graph)

    patch.setattr(column_sets, "_every", wrong)


def edges_stay_where_columns_are_masked(patch: pytest.MonkeyPatch) -> None:
    every = column_sets._every

    def wrong(problem: ChangeProblem) -> Iterator[ChangeProblem]:
        nothing = Changes().on(problem.graph)
        return (replace(masked, changes=nothing) for masked in every(problem))

    patch.setattr(column_sets, "_every", wrong)


def one_set_of_columns_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    every = column_sets._every
    patch.setattr(column_sets, "_every", lambda problem: list(every(problem))[:-1])


def layers_by_sets_of_edges_forget_features(patch: pytest.MonkeyPatch) -> None:
    from certgcl.bounds.propagation.drop_sets import near_layers

    patch.setattr(NetworkBound, "_near", lambda self: near_layers(self.ranges.network))


def lines_of_the_fixed_graph_know_the_clean_values_alone(patch: pytest.MonkeyPatch) -> None:
    def wrong(self: FixedGraphBound, number: int, lower: Tensor, upper: Tensor) -> None:
        middle = (lower + upper) / 2
        kept(self, number, middle, middle)

    kept = FixedGraphBound._set
    patch.setattr(FixedGraphBound, "_set", wrong)
    _without_states(patch)


def one_path_to_a_node_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    fall = FixedGraphBound._fall
    patch.setattr(
        FixedGraphBound,
        "_fall",
        lambda self, paths, parts: fall(
            self,
            paths,
            [(weight, functionals * (paths.node != self.anchors[0])[:, None, None]) for weight, functionals in parts],
        ),
    )


def only_one_piece_of_each_activation_is_tried(patch: pytest.MonkeyPatch) -> None:
    chosen = fixed_graph.dearest
    patch.setattr(
        fixed_graph, "dearest", lambda *given: (found := chosen(*given))._replace(other=torch.zeros_like(found.other))
    )


def patterns_of_another_node(patch: pytest.MonkeyPatch) -> None:
    """Slopes are changed at the next node that a target reaches."""
    pairs = Paths.pairs
    patch.setattr(Paths, "pairs", lambda self, table, width: pairs(self, table.roll(width, dims=3), width))


def _without_states(patch: pytest.MonkeyPatch) -> None:
    """What is merged stands alone."""
    patch.setattr("certgcl.bounds.propagation.limits.FEW_FEATURE_PRODUCTS", 0)


MUTANTS: dict[Mutation, Row] = {
    a_node_masks_one_feature_less: Row("GCN", MASK, True, 0),
    the_total_is_one_less: Row("GCN", TOTAL, False, 0),
    a_mask_is_taken_by_channel: Row("GCN", MASK, True, 0),
    the_range_of_features_is_forgotten: Row("GCN", MASK, True, 0),
    bits_are_turned_on_where_they_are_on: Row("SAGE mean", FLIPS, False, 0),
    the_box_is_half_as_wide: Row("GCN", BOX, False, 0),
    one_column_less: Row("GCN", COLUMNS, False, 0),
    one_merged_column_less: Row("GCN", COLUMNS, False, 0),
    columns_are_masked_at_the_first_node_alone: Row("GCN", COLUMNS, True, 0),
    edges_stay_where_columns_are_masked: Row("GCN", COLUMNS, True, 0),
    one_set_of_columns_is_forgotten: Row("SAGE mean", COLUMNS, True, 0),
    layers_by_sets_of_edges_forget_features: Row("GIN", MASK, True, 0),
    lines_of_the_fixed_graph_know_the_clean_values_alone: Row("GCN", FLIPS, False, 0),
    one_path_to_a_node_is_forgotten: Row("SAGE mean", MASK, False, 0),
    only_one_piece_of_each_activation_is_tried: Row("SAGE mean", FLIPS, False, 0),
    patterns_of_another_node: Row("SAGE mean", FLIPS, False, 0),
}


@pytest.mark.parametrize("row", dict.fromkeys(MUTANTS.values()), ids=lambda row: f"{row.kind}, {row.features.kind}")
def test_the_right_bound_is_not_caught(row: Row) -> None:
    assert not caught(row)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_the_enumeration_catches(mutant: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    assert caught(MUTANTS[mutant])
