"""No bound of a pooled embedding lies above the minimum over all admissible changes of its graph, of any kind."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from certgcl.certify.pooling.items import Items
from certgcl.certify.pooling.set_changes import SetChanges
from certgcl.certify.pooling.shared_changes import Limits
from certgcl.errors import BoundError
from certgcl.models.pooled_network import Pool
from verification.network_audit import library_graph, library_network
from verification.pooled_changes import (
    CHANGES,
    certify_pooled_changes,
    changed_tightness,
    pooled_changes_tolerance,
    pooled_truth,
    trained_with_changes,
    tree,
)
from verification.pooling_audit import POOLS
from verification.together import TogetherCase, pooled_cases

METHODS = ("degree", "crown", "interval")
half = settings(max_examples=max(6, settings().max_examples // 2))  # every example is certified several times


@half
@given(pooled_cases(), st.sampled_from(POOLS), st.sampled_from(METHODS))
def test_no_bound_is_above_the_enumerated_minimum(case: TogetherCase, pool: Pool, method: str) -> None:
    least, allowed = pooled_truth(case, pool)[0], pooled_changes_tolerance(case)
    found = certify_pooled_changes(case, pool, method=method)
    assert float(found.lower[0]) <= least + allowed
    assert case.features.kind == "box" or float(found.upper[0]) >= least - allowed


@half
@given(pooled_cases(), st.sampled_from(POOLS))
def test_what_is_enumerated_is_the_minimum(case: TogetherCase, pool: Pool) -> None:
    found, least = certify_pooled_changes(case, pool, enumerate_up_to=1 << 14), pooled_truth(case, pool)[0]
    if case.features.kind == "box" and case.features.radius:
        assert not bool(found.enumerated.any())
        return
    assert bool(found.enumerated.all())
    for value in (found.lower, found.upper):
        assert abs(float(value[0]) - least) <= pooled_changes_tolerance(case)


@half
@given(pooled_cases(), st.sampled_from(POOLS))
def test_float32_is_sound_within_its_rounding(case: TogetherCase, pool: Pool) -> None:
    found = certify_pooled_changes(case, pool, dtype=torch.float32)
    rounded = case.edges.case.directions.astype(np.float32).astype(float)  # those of the computation
    least = pooled_truth(replace(case, edges=case.edges.with_directions(rounded)), pool)[0]
    assert float(found.lower[0] - found.rounding[0]) <= least


@half
@given(pooled_cases(), st.sampled_from(POOLS), st.sampled_from(METHODS))
def test_the_bound_of_a_loss_is_no_higher(case: TogetherCase, pool: Pool, method: str) -> None:
    least, allowed = pooled_truth(case, pool)[0], pooled_changes_tolerance(case)
    assert trained_with_changes(case, pool, method) <= least + allowed


@half
@given(pooled_cases(), st.sampled_from(POOLS))
def test_a_witness_reaches_its_value(case: TogetherCase, pool: Pool) -> None:
    for enumerated in (0, 1 << 14):
        found = certify_pooled_changes(case, pool, enumerate_up_to=enumerated)
        network = case.edges.case
        checked = found.verify(
            library_network(network),
            [library_graph(network)],
            pool=pool,
            directions=torch.from_numpy(network.directions[:1]),
        )
        assert checked.ok, checked


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("kind", ["GCN", "SAGE mean"])
def test_on_trees_no_bound_is_above_the_minimum(kind: str, what: str) -> None:
    ratio, wrong = changed_tightness(kind, what, "mean", cases=2)
    assert wrong == 0
    assert ratio >= 1 - 1e-9


# -- mutants ---------------------------------------------------------------------------------------


def features_stay_in_sums(patch: pytest.MonkeyPatch) -> None:
    limited = SetChanges.limited_to
    patch.setattr(SetChanges, "limited_to", lambda self, total: replace(limited(self, total), features=None))


def one_item_less_in_a_graph(patch: pytest.MonkeyPatch) -> None:
    limits = Items.limits

    def fewer(self: Items) -> Limits:
        found = limits(self)
        return replace(found, most=found.most - np.isin(np.arange(len(found.most)), found.of_graphs))

    patch.setattr(Items, "limits", fewer)


@pytest.mark.parametrize(
    ("mutation", "what"),
    [
        (one_item_less_in_a_graph, "two flipped"),
        (features_stay_in_sums, "one added, one column"),
    ],
)
def test_wrong_bounds_are_caught(
    mutation: Callable[[pytest.MonkeyPatch], None], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation(monkeypatch)
    for seed in range(20):
        for kind in ("SAGE mean", "SAGE sum", "GCN"):
            case = tree(kind, seed, what)
            try:
                lower = float(certify_pooled_changes(case, "sum").lower[0])
            except BoundError:
                return
            if lower > pooled_truth(case, "sum")[0] + pooled_changes_tolerance(case):
                return
    raise AssertionError("not caught")
