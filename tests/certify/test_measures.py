"""Numbers that do not grow with the embeddings."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import certgcl
from certgcl.certify.certificate import Certificate
from tests.certify.certificates import certificate_by_hand, rewritten
from tests.toys import random_graph, toy_network

GRAPH, NETWORK = random_graph(14, 0.25), toy_network()
CERTIFICATE = certgcl.node_compactness(NETWORK, GRAPH, 1)


def test_they_are_what_they_say() -> None:
    measures, z = CERTIFICATE.measures, NETWORK.to(torch.float64).embed(GRAPH)
    assert measures.positive == CERTIFICATE.share_positive
    assert measures.kept == pytest.approx(float(CERTIFICATE.lower.sum() / CERTIFICATE.nominal.sum()))
    assert measures.over_norm == pytest.approx(float(CERTIFICATE.lower.mean() / z.norm(dim=1).mean()))
    assert measures.nominal_over_norm == pytest.approx(float(CERTIFICATE.nominal.mean() / z.norm(dim=1).mean()))


def test_longer_embeddings_change_none_of_them() -> None:
    names = ("lower", "nominal", "rounding", "run_error", "norms")
    values = {name: 1000 * getattr(CERTIFICATE, name) for name in names}
    assert replace(CERTIFICATE, **values).measures.to_dict() == pytest.approx(CERTIFICATE.measures.to_dict())


def test_a_clean_value_near_zero_decides_nothing() -> None:
    by_hand = replace(
        certificate_by_hand(), lower=torch.tensor([0.5, 0.5, -0.5]), nominal=torch.tensor([1.0, 1.0, 1e-9])
    )
    assert by_hand.measures.kept == pytest.approx(0.25)


def test_what_is_not_known_is_none() -> None:
    by_hand = certificate_by_hand()
    assert replace(by_hand, nominal=torch.tensor([-1.0, 0.5, 0.5])).measures.kept is None
    for norms in (None, torch.zeros(3), torch.full((3,), torch.inf)):
        nothing = replace(by_hand, norms=norms)
        assert (nothing.measures.over_norm, nothing.measures.nominal_over_norm) == (None, None)
        assert "per norm" not in str(nothing)


def test_parts_and_files_keep_the_norms(tmp_path: Path) -> None:
    norms = CERTIFICATE.norms
    assert norms is not None
    first, second = CERTIFICATE.at(torch.arange(5)), CERTIFICATE.at(torch.arange(5, 14))
    for again in (Certificate.joined([first, second]), Certificate.load(CERTIFICATE.save(tmp_path / "c.npz"))):
        assert again.norms is not None
        assert torch.equal(again.norms, norms)
    assert Certificate.joined([first, replace(second, norms=None)]).norms is None


def test_a_file_of_the_format_before_is_read_without_norms(tmp_path: Path) -> None:
    path = rewritten(
        CERTIFICATE.save(tmp_path / "c.npz"),
        honest=True,
        norms=None,
        meta=lambda content: content.update(format="certgcl-certificate-2"),
    )
    old = Certificate.load(path)
    assert old.norms is None
    assert torch.equal(old.lower, CERTIFICATE.lower)
    found = old.verify(NETWORK, GRAPH)
    assert found.ok
    assert [check.name for check in found.checks if check.ok is None] == ["norms", "witnesses", "bounds"]


def test_norms_of_other_embeddings_are_found_out(tmp_path: Path) -> None:
    assert CERTIFICATE.norms is not None
    path = rewritten(CERTIFICATE.save(tmp_path / "c.npz"), honest=True, norms=1.01 * np.asarray(CERTIFICATE.norms))
    assert [check.name for check in Certificate.load(path).verify(NETWORK, GRAPH).checks if check.ok is False] == [
        "norms"
    ]
