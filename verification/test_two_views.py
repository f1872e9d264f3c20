"""Both views free: no bound lies above the least value over all pairs of admissible views."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
import torch
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

import certgcl
from certgcl.bounds.two_views import embedding_ranges, second_view
from certgcl.bounds.two_views.embedding_ranges import Span
from certgcl.bounds.two_views.second_view import Line, TwoViews
from certgcl.errors import BoundError
from verification.audit import CERTIFIED, LEDGER, tolerance, violations, weights
from verification.case import Case
from verification.oracle import compactness_directions, enumerated_minimum, enumerated_minimum_over_pairs
from verification.strategies import cases, smooth_cases

FEWER = settings(max_examples=max(1, settings().max_examples // 4))
SLOPES = (0.0, 0.25, -0.3, 1.0, 1.7)


def certify(case: Case, method: str = "degree", views: str = "both") -> certgcl.Certificate:
    return certgcl.node_compactness(
        weights(case),
        certgcl.Graph.from_networkx(case.graph, case.x),
        certgcl.EdgeDropBudget(case.local, case.total),
        method=method,
        views=views,
    )


def with_any_direction(case: Case) -> Case:
    """For the size of the numbers involved: no channel of ``W^CL`` exceeds 2."""
    return replace(case, directions=torch.full_like(case.directions, 2.0))


def audit(case: Case, method: str) -> None:
    case = with_any_direction(case)
    certificate, truth = certify(case, method), enumerated_minimum_over_pairs(case)
    wrong = LEDGER.enter(certificate.method, case, certificate.lower, truth, certificate.nominal)
    assert not len(wrong), (
        f"{method} certifies {certificate.lower[wrong].tolist()} where {truth[wrong].tolist()} is reached"
    )


@given(cases())
def test_the_bound_is_below_the_enumerated_minimum_over_pairs(case: Case) -> None:
    audit(case, "degree")


@given(smooth_cases(SLOPES))
def test_the_same_at_larger_widths_and_without_ties(case: Case) -> None:
    audit(case, "degree")


@FEWER
@pytest.mark.parametrize("method", sorted(CERTIFIED.keys() - {"degree"}))
@given(st.one_of(cases(), smooth_cases(SLOPES)))
def test_the_same_by_other_methods(method: str, case: Case) -> None:
    audit(case, method)


@FEWER
@given(smooth_cases(SLOPES))
def test_a_free_second_view_is_no_better_than_the_graph_itself(case: Case) -> None:
    both, one = certify(case), certify(case, views="one")
    assert torch.equal(both.nominal, one.nominal)
    assert torch.equal(both.directions, one.directions)
    clean = replace(case, directions=compactness_directions(case))
    assert (both.lower <= enumerated_minimum(clean) + tolerance(with_any_direction(case))).all()
    assert (both.lower <= one.lower + both.rounding).all()


@FEWER
@pytest.mark.parametrize("method", CERTIFIED)
@given(smooth_cases(SLOPES))
def test_without_a_budget_the_bound_is_the_clean_value(method: str, case: Case) -> None:
    certificate = certify(case.with_budget(0), method)
    torch.testing.assert_close(certificate.lower, certificate.nominal, rtol=0, atol=1e-8)


# -- mutants: wrong bounds that the audit must notice ----------------------------------------------


def _turns(change: Callable[[TwoViews], TwoViews]) -> Callable[[pytest.MonkeyPatch], None]:
    original = TwoViews.within

    def apply(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(TwoViews, "within", classmethod(lambda cls, given: change(original(given))))

    return apply


def _halved(span: Span) -> Span:
    middle, radius = (span.low + span.high) / 2, (span.high - span.low) / 4
    return Span(middle - radius, middle + radius)


def no_turn_of_ones_own(patch: pytest.MonkeyPatch) -> None:
    original = TwoViews._own_turn

    def own_turn(self: TwoViews, anchors: torch.Tensor) -> list[Line]:
        return [Line(0 * line.slope, torch.zeros_like(line.constant)) for line in original(self, anchors)]

    patch.setattr(TwoViews, "_own_turn", own_turn)


def no_product_across(patch: pytest.MonkeyPatch) -> None:
    """``δ_i · z_i`` as if embeddings only grew and shrank."""
    original = TwoViews._own_turn

    def own_turn(self: TwoViews, anchors: torch.Tensor) -> tuple[Line, Line]:
        by_channel, by_angle = original(self, anchors)
        return by_channel, by_angle._replace(constant=by_angle.constant.clamp(min=0))

    patch.setattr(TwoViews, "_own_turn", own_turn)


def norms_at_their_largest(patch: pytest.MonkeyPatch) -> None:
    """``z / ‖z‖`` divided by the largest norm on either side of zero."""

    def unit_span(box: Span, norm: torch.Tensor) -> Span:
        longest = box.largest().norm(dim=1, keepdim=True).clamp(min=embedding_ranges.SMALLEST_NORM)
        return Span(box.low / longest, box.high / longest)

    patch.setattr(second_view, "unit_span", unit_span)


def lines_through_the_middle(patch: pytest.MonkeyPatch) -> None:
    """The right slope without its constant."""
    original = second_view.line_below
    patch.setattr(
        second_view,
        "line_below",
        lambda *given: original(*given)._replace(constant=torch.zeros_like(original(*given).constant)),
    )


MUTANTS = {
    "half the turns": _turns(
        lambda views: replace(views, turns=_halved(views.turns), turns_on_axis=_halved(views.turns_on_axis))
    ),
    "half the turns along the axis": _turns(lambda views: replace(views, turns_on_axis=_halved(views.turns_on_axis))),
    "no turn of one's own": no_turn_of_ones_own,
    "no product across": no_product_across,
    "norms at their largest": norms_at_their_largest,
    "lines through the middle": lines_through_the_middle,
}


def caught(examples: int) -> bool:
    def shows(case: Case) -> bool:
        case = with_any_direction(case)
        try:
            lower = certify(case).lower
        except BoundError:  # the library's own last check
            return True
        return len(violations(case, lower, enumerated_minimum_over_pairs(case))) > 0

    search = settings(max_examples=examples, database=None, phases=[Phase.generate])
    try:
        find(st.one_of(cases(), smooth_cases()), shows, settings=search, random=Random(0))
    except NoSuchExample:
        return False
    return True


@pytest.mark.thorough
@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_audit_catches(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[mutant](monkeypatch)
    assert caught(examples=1500)
