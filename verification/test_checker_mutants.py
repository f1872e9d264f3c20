"""The checker on the mutants of all suites: no bound that they make too high is proved."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, find, settings
from hypothesis.errors import NoSuchExample

from certgcl.bounds import compiled
from certgcl.errors import BoundError
from verification import (
    feature_tightness,
    network_tightness,
    test_edge_changes,
    test_feature_mutations,
    test_mutations,
    test_network_mutations,
)
from verification.case import Case
from verification.checked import AnyCase, Checked, as_claim
from verification.network_audit import network_tolerance
from verification.network_audit import truth as network_truth
from verification.network_case import NetworkCase
from verification.oracle import enumerated_minimum
from verification.strategies import cases
from verification.test_checker_changes import truth as changed_truth

pytestmark = pytest.mark.thorough

Patch = Callable[[pytest.MonkeyPatch], object]
NAMED = {
    "budget off by one",
    "no isolated node",
    test_edge_changes._budget_off_by_one,
    test_feature_mutations.one_column_less,
    test_feature_mutations.one_merged_column_less,
}
"""Mutants of the budget itself: their certificates name the smaller budget, of which their bounds hold."""


def truth(case: AnyCase) -> tuple[np.ndarray, np.ndarray]:
    """The minimum of every node, and how far rounding of the oracle can have moved it."""
    match case:
        case Case():
            minimum = enumerated_minimum(case).numpy()
            return minimum, 1e-9 * (1 + np.abs(minimum))
        case NetworkCase():
            return network_truth(case)[0].numpy(), network_tolerance(case).numpy()
    return changed_truth(case)


def stopped(case: AnyCase, method: Any) -> bool:
    """Whether the (by now wrong) bounds of a case are beyond the minimum; then none of these is proved."""
    try:
        claim = as_claim(Checked(case).certificate(method))
    except BoundError:  # the library itself has seen that the bound is wrong
        return True
    minimum, tolerance = truth(case)
    wrong = np.flatnonzero(~(claim.lower[:, 0] - claim.rounding[:, 0] <= minimum + tolerance))
    if not len(wrong):
        return False
    try:
        failed = Checked(case).failed(claim, branches=2)
    except ValueError as reason:
        if "budgets that do not follow" not in str(reason):
            raise
        return True
    assert set(wrong.tolist()) <= set(failed), f"nodes {wrong.tolist()}, of which {sorted(failed)} are not proved"
    return True


def assert_stopped(mutant: Patch, method: Any, suspects: Iterable[AnyCase], patch: pytest.MonkeyPatch) -> None:
    mutant(patch)
    assert any(stopped(case, method) for case in suspects)


def drawn(method: Any, examples: int = 1500, seeds: int = 4) -> bool:
    """Whether a case of two layers that Hypothesis draws is stopped."""
    search = settings(max_examples=examples, database=None, phases=[Phase.generate])
    for seed in range(seeds):
        with suppress(NoSuchExample):
            find(cases(), lambda case: stopped(case, method), settings=search, random=Random(seed))
            return True
    return False


@pytest.mark.parametrize("name", [name for name in test_mutations.MUTANTS if name not in NAMED])
def test_two_layers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant, methods = test_mutations.MUTANTS[name]
    mutant(monkeypatch)
    with compiled.switched_off():
        assert drawn(test_mutations.METHODS[methods[0]])


@pytest.mark.deep  # a wrong bound is as wrong if torch has computed it, as in the test above
@pytest.mark.parametrize("name", test_mutations.KERNEL_MUTANTS)
def test_two_layers_by_kernels(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant, methods = test_mutations.KERNEL_MUTANTS[name]
    mutant(monkeypatch)
    assert drawn(test_mutations.METHODS[methods[0]])


@pytest.mark.parametrize(
    ("mutant", "method", "row"),
    test_network_mutations.MUTANTS,
    ids=[f"{mutant[0].__name__}, {mutant[2].kind}" for mutant in test_network_mutations.MUTANTS],
)
def test_networks(mutant: Patch, method: str, row: network_tightness.Row, monkeypatch: pytest.MonkeyPatch) -> None:
    def suspects() -> Iterator[AnyCase]:
        random = np.random.default_rng(1)
        for number in range(test_network_mutations.CASES):
            yield network_tightness.random_case(row, random, number)

    assert_stopped(mutant, method, suspects(), monkeypatch)


@pytest.mark.parametrize(
    "mutant", [each for each in test_feature_mutations.MUTANTS if each not in NAMED], ids=lambda mutant: mutant.__name__
)
def test_features(mutant: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    row = test_feature_mutations.MUTANTS[mutant]

    def suspects() -> Iterator[AnyCase]:
        random = np.random.default_rng(1)
        for _ in range(test_feature_mutations.CASES):
            yield feature_tightness.random_case(row, random)

    assert_stopped(mutant, "degree", suspects(), monkeypatch)


@pytest.mark.parametrize(
    "mutant",
    [each for each in test_edge_changes.MUTANTS if each not in NAMED],
    ids=lambda mutant: mutant.__name__.strip("_"),
)
def test_edges(mutant: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_stopped(mutant, "degree", test_edge_changes.suspects(), monkeypatch)
