"""The checker on both views: genuine bounds are proved, and nothing above the least value over pairs is."""

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import networkx as nx
import numpy as np
import pytest
from flint import arb, arb_mat
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from certgcl.bounds import Degree
from certgcl.errors import BoundError
from verification.audit import LEDGER
from verification.checked import Checked, as_claim
from verification.checker.choices import Choices
from verification.checker.claim import Claim
from verification.checker.core import compactness
from verification.checker.core.arithmetic import point, times
from verification.checker.core.compactness import Pairs, line, minus_mean, normalised
from verification.exact_arithmetic import compactness_direction, dot, surely_below
from verification.exact_views import CHANGES, AnyCase, ExactViews
from verification.network_oracle import compactness_directions
from verification.networks import RELU, Builder, network_case
from verification.test_checker import choices
from verification.test_two_views import MUTANTS
from verification.test_views_arithmetic import CASES

FEW = settings(
    max_examples=max(2, settings().max_examples // 25),
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow, HealthCheck.data_too_large],
)
SMALL = network_case(nx.path_graph(3), "SAGE mean", 2, Builder(np.random.default_rng(1), RELU, 3, features=2))
QUICK = Degree(patterns=1, slopes=("adaptive",))
some = st.one_of(*CASES.values())


@cache
def views_of(change: str) -> ExactViews:
    return ExactViews(CHANGES[change](SMALL))


def least_over_pairs(views: ExactViews) -> list[arb]:
    """No less than the exact minimum of every node: that of the lowest pairs."""
    found = []
    for node, pairs in enumerate(views.pairs()):
        values = [dot(compactness_direction(arb_mat(views.at(s)), node), views.at(t)[node]) for s, t in pairs]
        least = values[0]
        for value in values[1:]:
            least = least.min(value)
        found.append(least)
    return found


def beyond(values: np.ndarray, minima: list[arb]) -> set[int]:
    """The nodes at which something is larger than the minimum."""
    return {node for node, least in enumerate(minima) if surely_below(least, float(values[node].max()))}


@pytest.mark.parametrize("change", CHANGES)
def test_every_bound_over_pairs_is_proved(change: str) -> None:
    checked = Checked(CHANGES[change](SMALL))
    failed = checked.failed(checked.compactness("degree" if change == "drops" else QUICK, "both"), branches=0)
    LEDGER.record("checker, both views: genuine bounds not proved", checked.nodes, len(failed), 0.0, 0.0)
    assert not failed, failed


def broken(views: ExactViews, pairs: Pairs) -> int:
    """How many questions ask for too little: ``s · z_i(S1)`` and the constant are above the value of a pair."""
    with np.errstate(all="ignore"):
        directions, found = np.stack([compactness_directions(z) for z in views.z]), 0
    for node in range(views.z.shape[1]):
        for slope, _, constant in pairs.questions(node):
            with np.errstate(all="ignore"):
                left = directions[:, None, node] - slope
                values = (left * views.z[None, :, node]).sum(axis=2) - constant
            if np.isfinite(slope).all() and np.isfinite(constant):
                s, t = divmod(int(np.nan_to_num(values, nan=np.inf).argmin()), len(views.z))
                exact, z = compactness_direction(arb_mat(views.at(s)), node), views.at(t)[node]
                reached = dot(exact, z) - dot(list(map(arb, slope.tolist())), z)
                slack = sum((4e-15 * abs(arb(a)) * abs(b) for a, b in zip(slope.tolist(), z, strict=True)), arb(0))
                found += surely_below(reached + slack, float(constant))
    return found


def pairs_of(case: AnyCase, chosen: Choices) -> Pairs:
    checked = Checked(case)
    changes = as_claim(checked.compactness("interval")).changes(checked.plain_graph)
    with np.errstate(all="ignore"):
        return Pairs(checked.plain, changes, chosen)


@FEW
@given(some, choices)
def test_no_choice_makes_a_question_that_asks_for_too_little(case: AnyCase, chosen: Choices) -> None:
    assert not broken(ExactViews(case), pairs_of(case, chosen))


def alone(claim: Claim, node: int, lower: float) -> Claim:
    """Something else about one node, and nothing about the others."""
    one = {name: getattr(claim, name)[[node]] for name in ("nodes", "rounding", "directions")}
    return replace(claim, **one, lower=np.array([[lower]]), witnesses=[set()])


def test_a_bound_above_the_minimum_or_about_one_view_is_not_proved_over_pairs() -> None:
    checked, minima = Checked(CHANGES["drops"](SMALL)), least_over_pairs(views_of("drops"))
    claim, one = (as_claim(checked.compactness(QUICK, views)) for views in ("both", "one"))
    above = float(minima[0].upper()) + 1e-6 * abs(float(minima[0].mid())) + float(claim.rounding[0, 0])
    assert checked.failed(alone(claim, 0, above))
    wrong = min(beyond(one.lower - one.rounding, minima))
    assert checked.failed(alone(replace(one, source="both"), wrong, float(one.lower[wrong, 0])))


def test_no_witness_belongs_to_a_bound_over_pairs() -> None:
    words = {"directions": {"shown": "compactness, any admissible second view"}}
    with pytest.raises(ValueError, match="of which the checker knows nothing"):
        Claim.of({"format": "certgcl-certificate-3", "certified": True, "evidence": words}, {"upper": np.zeros(1)})


@pytest.mark.thorough
@pytest.mark.parametrize("name", MUTANTS)
def test_what_a_mutant_of_the_library_makes_too_high_is_not_proved(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    for change in ("drops", "box"):
        try:
            claim = as_claim(Checked(CHANGES[change](SMALL)).compactness(QUICK, "both"))
        except BoundError:  # the library itself has seen that the bound is wrong
            continue
        wrong = beyond(claim.lower - claim.rounding, least_over_pairs(views_of(change)))
        assert wrong <= set(Checked(CHANGES[change](SMALL)).failed(claim, branches=0))


# -- mutants of the checker ------------------------------------------------------------------------

Patch = Callable[[pytest.MonkeyPatch], object]


def _function(name: str, wrong: Callable[..., Any]) -> Patch:
    return lambda patch: patch.setattr(compactness, name, wrong)


def _after(method: str, change: Callable[[Pairs], object]) -> Patch:
    original = getattr(Pairs, method)

    def apply(patch: pytest.MonkeyPatch) -> None:
        def mutant(self: Pairs, *given: Any) -> Any:
            found = original(self, *given)
            change(self)
            return found

        patch.setattr(Pairs, method, mutant)

    return apply


def _largest_norm(ranges: np.ndarray, shortest: Any = None) -> np.ndarray:
    length: np.ndarray = np.linalg.norm(np.abs(ranges).max(axis=0), axis=1)[:, None]
    return ranges / length


def _nothing_apart(self: Pairs, i: int) -> Any:
    yield self.least_product[i] * self.unit[i], np.zeros(())


def _no_shift(self: Pairs, i: int) -> Any:
    shift = times(point(self.beta[i])[:, None], point(self.axis))
    yield line(self.others[:, i], self.box[:, i] + shift[::-1])


WRONG: dict[str, Patch] = {
    "the mean divided by all nodes": _function(
        "minus_mean", lambda ranges: minus_mean(ranges) * (1 - 1 / ranges.shape[1])
    ),
    "no turn": _after("_find_angles", lambda pairs: setattr(pairs, "least_product", np.ones_like(pairs.least_product))),
    "no product across": lambda patch: patch.setattr(Pairs, "_own", _nothing_apart),
    "the axis forgotten": lambda patch: patch.setattr(Pairs, "_others", _no_shift),
    "longest for shortest": _after("_find_angles", lambda pairs: setattr(pairs, "shortest", 3 * pairs.shortest)),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mutant_of_the_checker_asks_for_too_little(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    WRONG[name](monkeypatch)
    changes = ("drops", "box")
    assert any(broken(views_of(change), pairs_of(CHANGES[change](SMALL), Choices())) for change in changes)


# -- arithmetic ------------------------------------------------------------------------------------

numbers = st.one_of(st.floats(-1e3, 1e3), st.floats(-1e-300, 1e-300), st.floats(-1e160, 1e160))


@st.composite
def in_ranges(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Ranges, and numbers in them."""
    low = draw(arrays(np.float64, (3, 2), elements=numbers))
    high = low + draw(arrays(np.float64, (3, 2), elements=st.floats(0, 10)))
    share = draw(arrays(np.float64, (3, 2), elements=st.sampled_from([0.0, 0.3, 0.5, 1.0])))
    return np.array([low, -high]), np.clip(low + share * (high - low), low, high)


@given(in_ranges())
def test_normalised_rows_and_their_means_are_in_their_ranges(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    ranges, inside = drawn
    with np.errstate(all="ignore"):
        unit = normalised(ranges)
        means = minus_mean(unit)
    exact = []
    for row in inside.tolist():
        length = sum((arb(x) ** 2 for x in row), arb(0)).sqrt().max(arb(1e-12))
        exact.append([arb(x) / length for x in row])
    for i in range(3):
        for c in range(2):
            mean = -sum((exact[j][c] for j in range(3) if j != i), arb(0)) / 2
            for value, found in ((exact[i][c], unit), (mean, means)):
                assert not surely_below(value, float(found[0, i, c]))
                assert not surely_below(-value, float(found[1, i, c]))


@given(in_ranges(), in_ranges())
def test_products_are_in_their_ranges_and_lines_below_them(
    first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray]
) -> None:
    (w, inside), (z, other) = first, second
    with np.errstate(all="ignore"):
        both, (slope, constant) = times(w, z), line(w[:, 0], z[:, 0])
    products = [[arb(a) * arb(b) for a, b in zip(*rows, strict=True)] for rows in zip(inside, other, strict=True)]
    for row, values in enumerate(products):
        for c, value in enumerate(values):
            assert not surely_below(value, float(both[0, row, c]))
            assert not surely_below(-value, float(both[1, row, c]))
    if np.isfinite(slope).all():
        least = sum((arb(s) * arb(b) for s, b in zip(slope.tolist(), other[0].tolist(), strict=True)), arb(0))
        assert not surely_below(products[0][0] + products[0][1] - least, float(constant))


def test_a_wrong_norm_or_constant_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    here, column = sys.modules[__name__], np.ones((3, 1))
    ranges = np.array([column * [-1.0, 0.0], column * [1.0, -10.0]])  # the first is -1, the second up to 10
    wrong_sides = ranges, column * [-1.0, 0.0]
    monkeypatch.setattr(here, "normalised", _largest_norm)
    with pytest.raises(AssertionError):
        test_normalised_rows_and_their_means_are_in_their_ranges.hypothesis.inner_test(wrong_sides)
    monkeypatch.setattr(here, "line", lambda w, z: (compactness.line(w, z)[0], np.ones(())))
    with pytest.raises(AssertionError):
        test_products_are_in_their_ranges_and_lines_below_them.hypothesis.inner_test(wrong_sides, wrong_sides)
