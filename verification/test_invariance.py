"""Transformations that must not change a bound, and those that may change it in one direction only."""

from random import Random

import torch
from hypothesis import given
from hypothesis import strategies as st

from verification.audit import CERTIFIED, LEDGER, certify, tolerance, violations
from verification.case import Case
from verification.oracle import enumerated_minimum
from verification.strategies import cases, smooth_cases


@given(cases(), st.randoms(use_true_random=False))
def test_names_of_nodes_do_not_matter(case: Case, random: Random) -> None:
    order = list(range(case.nodes))
    random.shuffle(order)
    for name in CERTIFIED:
        here, there = certify(case, name).lower[torch.tensor(order)], certify(case.relabelled(order), name).lower
        assert ((here - there).abs() <= tolerance(case)[torch.tensor(order)]).all(), name


@given(cases(), st.data())
def test_a_subset_of_anchors_gets_the_same_bounds(case: Case, data: st.DataObject) -> None:
    nodes = data.draw(st.lists(st.integers(0, case.nodes - 1), unique=True, min_size=1))
    for name in CERTIFIED:
        some, every = certify(case, name, nodes=nodes).lower, certify(case, name).lower[torch.tensor(nodes)]
        assert ((some - every).abs() <= tolerance(case)[torch.tensor(nodes)]).all(), name


@given(smooth_cases())
def test_float32_gives_the_same_within_its_rounding(case: Case) -> None:
    # Without ties: where two slopes are equally good, rounding may pick the other one, and both are sound.
    truth = enumerated_minimum(case)
    for name in CERTIFIED:
        single, double = certify(case, name, dtype=torch.float32), certify(case, name)
        assert single.lower.dtype == torch.float32
        assert ((single.lower - double.lower).abs() <= single.rounding).all(), name
        assert (single.lower <= truth + single.rounding).all(), name


def enlarged(case: Case, data: st.DataObject) -> Case:
    extra = data.draw(st.lists(st.integers(0, 2), min_size=case.nodes, max_size=case.nodes))
    return case.with_budget([q + more for q, more in zip(case.node_budgets(), extra, strict=True)], None)


@given(cases(), st.data())
def test_a_larger_budget_never_raises_the_interval_bound(case: Case, data: st.DataObject) -> None:
    larger = enlarged(case, data)
    assert (certify(larger, "interval").lower <= certify(case, "interval").lower + tolerance(case)).all()


@given(smooth_cases(), st.data())
def test_a_bound_for_a_larger_budget_holds_for_the_smaller_one(case: Case, data: st.DataObject) -> None:
    """It may even be better there, because slopes are chosen heuristically: the ledger counts how often."""
    larger, truth = enlarged(case, data), enumerated_minimum(case)
    for name in ("crown", "degree"):
        bound = certify(larger, name).lower
        assert not len(violations(case, bound, truth)), name
        raised = int((bound > certify(case, name).lower + tolerance(case)).sum())
        LEDGER.count(f"nodes (of all) where a larger budget raised {name}", raised, case.nodes)


@given(cases())
def test_the_degree_exact_bound_is_never_below_the_interval_bound(case: Case) -> None:
    interval = certify(case, "interval").lower
    for name in ("crown", "degree", "degree-cheap"):
        assert (certify(case, name).lower >= interval - tolerance(case)).all(), name
