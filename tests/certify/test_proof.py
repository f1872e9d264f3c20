from dataclasses import replace
from pathlib import Path

import pytest
import torch

import certgcl
from certgcl.bounds import Degree, get_method
from certgcl.bounds.propagation.drop_counts import Losses, drop_cases
from certgcl.certify.certificate import Certificate
from certgcl.certify.proof import ProofTrace, check_provable
from certgcl.errors import CertificateError, InputError
from certgcl.models.registry import OwnActivation
from tests.certify.certificates import rewritten
from tests.toys import random_graph, toy_network

GRAPH, WEIGHTS = random_graph(nodes=30, density=0.3), toy_network()


def trace(method: object = "degree", budgets: object = 3) -> ProofTrace:
    found = certgcl.node_compactness(WEIGHTS, GRAPH, budgets, method=method, proof=True).proof
    assert found is not None
    return found


def test_a_certificate_has_a_proof_where_it_is_asked_for() -> None:
    assert certgcl.node_compactness(WEIGHTS, GRAPH, 1).proof is None
    assert trace().words == {"rules": ["adaptive", "flat", "parallel"], "output": 4, "rows": 4, "functional": True}
    assert trace("degree-cheap").functional is False
    assert trace("interval").words == {"rules": ["adaptive"], "output": 1, "rows": 1, "functional": False}
    assert trace(get_method("optimized", branch_limit=2)).words == trace().words


def test_single_counts_need_no_bytes() -> None:
    assert trace().size == 0
    assert trace(Degree(lines="shared")).starts.tolist() == [0] * int((GRAPH.degree > 0).sum())


def test_groups_are_those_of_the_bound() -> None:
    found, drops = trace(Degree(resolution=3), 5), certgcl.EdgeDropBudget(5).on(GRAPH)
    cases = drop_cases(Losses(GRAPH.degree, drops.local), 3)
    for node, starts in zip(found.nodes.tolist(), found.starts.split(found.sizes.tolist()), strict=True):
        assert drops.local[node] >= 3
        assert starts.tolist() == cases.first[node, : int(cases.number[node])].tolist()


def test_a_file_gives_it_back_and_parts_agree_on_it(tmp_path: Path) -> None:
    whole = certgcl.node_compactness(WEIGHTS, GRAPH, 5, method=Degree(resolution=2), proof=True)
    assert whole.proof is not None
    loaded = Certificate.load(whole.save(tmp_path / "certificate.npz"))
    assert whole.proof.same(loaded.proof)
    halves = [loaded.at(torch.arange(15)), whole.at(torch.arange(15, 30))]
    assert whole.proof.same(Certificate.joined(halves).proof)
    with pytest.raises(CertificateError, match="with and without a proof"):
        Certificate.joined([halves[0], replace(halves[1], proof=None)])
    rewritten(tmp_path / "certificate.npz", honest=True, proof_sizes=whole.proof.sizes.numpy()[1:])
    with pytest.raises(CertificateError, match="do not belong together"):
        Certificate.load(tmp_path / "certificate.npz")


def test_shards_without_a_proof_are_computed_again(tmp_path: Path) -> None:
    assert len(certgcl.certify_shards(WEIGHTS, GRAPH, 1, tmp_path, shards=2).computed) == 2
    assert certgcl.merge_shards(tmp_path).proof is None
    assert len(certgcl.certify_shards(WEIGHTS, GRAPH, 1, tmp_path, shards=2, proof=True).computed) == 2
    assert certgcl.merge_shards(tmp_path).proof is not None
    assert certgcl.certify_shards(WEIGHTS, GRAPH, 1, tmp_path, shards=2, proof=True).computed == []


@pytest.mark.parametrize("method", ["released", "paper"])
def test_what_is_no_bound_has_none(method: str) -> None:
    with pytest.raises(InputError, match="proof=True"):
        certgcl.node_compactness(WEIGHTS, GRAPH, 1, proof=True, method=method)


def test_activations_of_users_have_none() -> None:
    own = OwnActivation("of a user", torch.sin, (), 1.0)
    network = replace(WEIGHTS, layers=tuple(replace(layer, activation=own) for layer in WEIGHTS.layers))
    with pytest.raises(InputError, match="an activation of your own"):
        check_provable(get_method("degree"), network)
