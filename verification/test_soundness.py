"""No certified bound lies above the enumerated minimum: the statement on which certgcl rests."""

import torch
from hypothesis import given, settings

from certgcl.bounds import compiled
from verification.audit import CERTIFIED, KERNELS, LEDGER, UNCERTIFIED, certify, tolerance
from verification.case import Case
from verification.oracle import enumerated_minimum, nominal
from verification.strategies import cases, smooth_cases

MORE = settings(max_examples=4 * settings().max_examples)  # everything else rests on this


def audit(case: Case) -> None:
    truth, clean = enumerated_minimum(case), nominal(case)
    for name in CERTIFIED:
        lower = certify(case, name).lower
        wrong = LEDGER.enter(name, case, lower, truth, clean)
        assert not len(wrong), f"{name} certifies {lower[wrong].tolist()} where {truth[wrong].tolist()} is reached"
    for name in KERNELS:
        with compiled.switched_off():
            lower = certify(case, name).lower
        wrong = LEDGER.enter(f"{name} (without kernels)", case, lower, truth, clean)
        assert not len(wrong), f"{name} certifies {lower[wrong].tolist()} where {truth[wrong].tolist()} is reached"
    for name in UNCERTIFIED:
        certificate = certify(case, name)
        LEDGER.enter(f"{name} (not a bound)", case, certificate.lower, truth, clean)
        assert not certificate.certified
        assert not certificate.positive.any()


@MORE
@given(cases())
def test_every_certified_bound_is_below_the_enumerated_minimum(case: Case) -> None:
    audit(case)


@MORE
@given(smooth_cases(gammas=(0.0, 0.25, -0.3, 1.7)))
def test_the_same_at_larger_widths_and_without_ties(case: Case) -> None:
    audit(case)


@given(cases())
def test_without_a_budget_every_bound_is_the_clean_value(case: Case) -> None:
    case = case.with_budget(0)
    clean = nominal(case)
    for name in CERTIFIED:
        assert ((certify(case, name).lower - clean).abs() <= tolerance(case)).all(), name


@given(cases())
def test_the_certificate_knows_the_clean_value(case: Case) -> None:
    certificate = certify(case, "interval")
    assert ((certificate.nominal - nominal(case)).abs() <= tolerance(case)).all()
    assert torch.equal(certificate.directions, case.directions)
