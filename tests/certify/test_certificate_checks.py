"""What no certification gives is refused, whatever the checksum says."""

from dataclasses import replace
from typing import Any

import pytest
import torch

import certgcl
from certgcl.bounds import METHODS, SEARCHES, Paper
from certgcl.certify.certificate import Certificate
from certgcl.certify.certificate_checks import check_certificate
from certgcl.certify.evidence import Fact
from certgcl.errors import CertificateError
from tests.certify.certificates import certificate_by_hand, certificate_of_a_search
from tests.toys import random_graph, toy_network

BY_HAND, SEARCHED = certificate_by_hand(), certificate_of_a_search()
NAN, INF = torch.nan, torch.inf


def changed(name: str, value: float, certificate: Certificate = BY_HAND) -> dict[str, Any]:
    """A field with another last entry."""
    tensor = getattr(certificate, name).clone()
    tensor.view(-1)[-1] = value
    return {name: tensor}


@pytest.mark.parametrize("method", [*METHODS, *SEARCHES])
def test_what_is_certified_passes(method: str) -> None:
    check_certificate(certgcl.node_compactness(toy_network(), random_graph(), 2, method=method))
    check_certificate(certgcl.node_compactness(toy_network(), random_graph(), 0.4, method=method, dtype=torch.float32))


def test_both_views_and_several_directions_pass() -> None:
    check_certificate(certgcl.node_compactness(toy_network(), random_graph(), 1, views="both"))
    check_certificate(certgcl.linear_bounds(toy_network(), random_graph(), 1, torch.ones(12, 2, 3), nodes=[3, 1]))
    check_certificate(certgcl.node_compactness(toy_network(), random_graph(), 0, method="exact"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        # values
        *(
            (changed(name, value), f"a {name} that is not finite at node 4")
            for name in ("lower", "nominal", "directions")
            for value in (NAN, INF, -INF)
        ),
        *(
            (changed(name, value), f"a {name} that is negative or not a number at node 4")
            for name in ("rounding", "run_error")
            for value in (NAN, -1e-9, -INF)
        ),
        (changed("norms", NAN), "a norm that is negative or not a number at node 4"),
        (changed("norms", -1), "a norm that is"),
        ({"norms": torch.ones(2)}, r"norms of shape \(2,\)"),
        ({"norms": torch.ones(3).double()}, "norms of .* float64"),
        ({"lower": BY_HAND.lower + 100}, "a lower bound above the clean value at node 3"),
        (changed("lower", 0.2500002), "a lower bound above the clean value at node 4"),
        # nodes
        (changed("nodes", 3), "node 3 twice"),
        (changed("nodes", 5), r"node 5: nodes are numbered 0 to 4"),
        (changed("nodes", -1), "node -1"),
        # budgets
        (changed("local_budget", -1), "a budget of -1 edges at node 4"),
        (changed("local_budget", 4), "a budget of 4 edges at node 4, where 3 were requested"),
        ({"total_budget": 2}, "a budget of 3 edges at node 4, where 3 were requested, and 2 in all"),
        ({"total_budget": -1}, "a total budget of -1"),
        ({"total_budget": 4.0}, r"total_budget 4\.0"),
        ({"total_budget": True}, "total_budget True"),
        ({"local_budget": torch.ones(5)}, "local_budget of dtype float32"),
        ({"local_budget": torch.ones(5, 1).long()}, r"local_budget of shape \(5, 1\)"),
        ({"local_budget": torch.ones(0).long()}, r"local_budget of shape \(0,\)"),
        ({"requested_budget": torch.ones(4).long()}, r"requested_budget of shape \(4,\)"),
        # shapes and types
        ({"lower": torch.zeros(2)}, r"lower of shape \(2,\)"),
        ({"nominal": torch.zeros(3, 1)}, r"nominal of shape"),
        ({"rounding": torch.zeros(())}, r"rounding of shape \(\)"),
        ({"run_error": torch.zeros(3, 2)}, "run_error of shape"),
        ({"directions": torch.zeros(3)}, r"directions of shape \(3,\)"),
        ({"directions": torch.zeros(3, 0)}, r"directions of shape \(3, 0\)"),
        ({"nodes": torch.zeros(2).long()}, r"nodes of shape \(2,\)"),
        ({"nodes": torch.ones(3)}, "nodes of dtype float32"),
        ({"lower": BY_HAND.lower.double()}, "lower of dtype float64: all values are in .* float32"),
        ({"directions": BY_HAND.directions.half()}, "directions of dtype float16"),
        ({"upper": BY_HAND.nominal}, "upper values or witnesses alone"),
        # words
        ({"certified": "yes"}, "certified 'yes'"),
        ({"certified": 1}, "certified 1"),
        ({"method": None}, "method None"),
        ({"precision": "float8"}, "precision 'float8': it is one of float16"),
        ({"precision": 32}, "precision 32"),
        ({"reading": "guessed"}, "reading 'guessed'"),
        ({"method": "paper"}, "certified by paper: that method proves nothing"),
        ({"method": "released"}, "certified by released"),
        ({"evidence": replace(BY_HAND.evidence, method=Fact(repr(Paper())))}, "certified by Paper"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(change: dict[str, Any], message: str) -> None:
    check_certificate(BY_HAND)
    with pytest.raises(CertificateError, match=message):
        check_certificate(replace(BY_HAND, **change))


def test_an_error_that_is_infinite_claims_nothing_and_passes() -> None:
    check_certificate(replace(BY_HAND, run_error=torch.full((3,), INF)))


def test_a_score_may_lie_above_the_clean_value() -> None:
    check_certificate(replace(BY_HAND, certified=False, method="paper", lower=BY_HAND.lower + 100))


def test_nothing_at_all_is_refused() -> None:
    nothing = {
        name: getattr(BY_HAND, name)[:0]
        for name in ("nodes", "lower", "nominal", "rounding", "run_error", "directions")
    }
    with pytest.raises(CertificateError, match=r"directions of shape \(0, 2\)"):
        check_certificate(replace(BY_HAND, **nothing))


def with_witness(place: int, edges: list[list[int]]) -> dict[str, Any]:
    witnesses = list(SEARCHED.witnesses or ())
    witnesses[place] = torch.tensor(edges, dtype=torch.long).reshape(2, -1)
    return {"witnesses": tuple(witnesses)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed("upper", NAN, SEARCHED), "a upper that is not finite at node 8"),
        ({"upper": SEARCHED.lower - 1}, "a lower bound above its upper value at node 0"),
        ({"witnesses": (SEARCHED.witnesses or ())[:-1]}, "8 witnesses"),
        ({"witnesses": tuple(witness.int() for witness in SEARCHED.witnesses or ())}, "9 witnesses"),
        ({"witnesses": None}, "upper values or witnesses alone"),
        (with_witness(2, [[0, 0], [1, 1]]), "an edge twice"),
        (with_witness(2, [[0, 1], [1, 0]]), "an edge twice"),
        (with_witness(2, [[4], [4]]), r"a witness with the edge \(4, 4\)"),
        (with_witness(2, [[4], [9]]), r"a witness with the edge \(4, 9\)"),
        (with_witness(2, [[-1], [3]]), r"a witness with the edge \(-1, 3\)"),
        (with_witness(2, [[0, 0, 0], [1, 2, 3]]), "a witness of node 2 that drops 3 edges at node 0"),
        (
            {
                **with_witness(2, [[0, 2, 4], [1, 3, 5]]),
                "total_budget": 2,
                "local_budget": SEARCHED.local_budget.clamp(max=2),
            },
            "a witness beyond the total budget at node",
        ),
    ],
    ids=str,
)
def test_a_witness_that_cannot_be_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(CertificateError, match=message):
        check_certificate(replace(SEARCHED, **change))


def test_a_damaged_certificate_is_not_saved(tmp_path: Any) -> None:
    with pytest.raises(CertificateError, match="above the clean value"):
        replace(BY_HAND, lower=BY_HAND.lower + 100).save(tmp_path / "c.npz")
    assert not list(tmp_path.iterdir())
