"""The question of a certificate again, under growing budgets."""

from pathlib import Path
from typing import Any

import pytest
import torch

import certgcl
from certgcl import Changes, EdgeDropBudget, FeatureBudget
from certgcl.certify.budget_curve import BudgetPoint
from certgcl.certify.other_budgets import COUNTS, RATES
from certgcl.errors import CertificateError, InputError
from tests.certify.certificates import rewritten
from tests.toys import random_graph, toy_network

GRAPH, NETWORK = random_graph(14, 0.25), toy_network()
CERTIFICATE = certgcl.node_compactness(NETWORK, GRAPH, 1)


def test_each_point_is_what_a_certificate_under_that_budget_says() -> None:
    curve = CERTIFICATE.with_curve(NETWORK, GRAPH).curve
    assert curve is not None
    assert (curve.nodes, curve.of, curve.method) == (14, 14, "degree")
    assert [point.budget for point in curve.by_rate] == list(RATES)
    assert [point.budget for point in curve.by_count] == [q for q in COUNTS if q <= int(GRAPH.degree.max())]
    for points in (curve.by_rate, curve.by_count):
        for point in points:  # a bound for a larger budget may be the better one
            assert point.proved >= certgcl.node_compactness(NETWORK, GRAPH, point.budget).share_positive
    assert curve.by_count[0].proved == CERTIFICATE.share_positive


def test_whatever_else_may_change_still_may() -> None:
    features = FeatureBudget(masked=1)
    about = certgcl.node_compactness(NETWORK, GRAPH, Changes(EdgeDropBudget(1), features))
    curve = about.with_curve(NETWORK, GRAPH).curve
    assert curve is not None
    last = curve.by_count[-1]
    under = certgcl.node_compactness(NETWORK, GRAPH, Changes(EdgeDropBudget(int(last.budget)), features))
    assert last == BudgetPoint(last.budget, under.share_positive, under.measures.kept)


def test_few_nodes_are_drawn_from_those_of_the_certificate() -> None:
    curve = CERTIFICATE.at(torch.tensor([3, 1, 5, 7])).with_curve(NETWORK, GRAPH, sample=2).curve
    assert curve is not None
    assert (curve.nodes, curve.of) == (2, 4)


def test_it_is_printed_and_stays_in_the_file_but_not_in_parts(tmp_path: Path) -> None:
    about = CERTIFICATE.with_curve(NETWORK, GRAPH)
    assert "half lost" not in str(CERTIFICATE)
    assert "half lost" in str(about)
    assert certgcl.Certificate.load(about.save(tmp_path / "c.npz")).curve == about.curve
    assert about.at(torch.arange(5)).curve is None


def test_it_is_about_the_same_encoder_and_graph() -> None:
    for model, graph in ((toy_network(seed=1), GRAPH), (NETWORK, random_graph(14, 0.25, seed=1))):
        with pytest.raises(CertificateError, match="made with other"):
            CERTIFICATE.with_curve(model, graph)


def test_what_proves_nothing_has_none() -> None:
    with pytest.raises(CertificateError, match="proves nothing"):
        certgcl.node_compactness(NETWORK, GRAPH, 1, method="paper").with_curve(NETWORK, GRAPH)
    with pytest.raises(CertificateError, match="both views"):
        certgcl.node_compactness(NETWORK, GRAPH, 1, views="both").with_curve(NETWORK, GRAPH)
    with pytest.raises(InputError, match="sample"):
        CERTIFICATE.with_curve(NETWORK, GRAPH, sample=0)


@pytest.mark.parametrize(
    "forged", [[], "x", 3, {}, {"by_rate": [1]}, {"nodes": 99}, {"of": "all"}, {"more": 1}], ids=repr
)
def test_a_curve_that_cannot_be_one_is_refused_though_the_checksum_fits(tmp_path: Path, forged: object) -> None:
    def change(meta: dict[str, Any]) -> None:
        meta["curve"] = meta["curve"] | forged if isinstance(forged, dict) and forged else forged

    path = rewritten(CERTIFICATE.with_curve(NETWORK, GRAPH).save(tmp_path / "c.npz"), honest=True, meta=change)
    with pytest.raises(CertificateError):
        certgcl.Certificate.load(path)
