"""All that can be asked of a two-layer GCN, asked of other networks."""

from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

import certgcl
from certgcl.certify.audit import audit
from certgcl.certify.evidence import weights_part
from certgcl.changes.embedding_without_edges import DropEvaluation
from certgcl.report import ReportSource, build_report
from certgcl.report.content import Missing
from tests.toys import admissible_sets, random_graph, random_tensor, without
from tests.zoo import FACTORIES, model_of, network_of

GRAPH = random_graph(nodes=10, density=0.3)

every_kind = pytest.mark.parametrize("kind", FACTORIES)


@every_kind
def test_one_embedding_is_that_of_the_whole_graph_without_these_edges(kind: str) -> None:
    network = network_of(kind, GRAPH)
    evaluation = DropEvaluation.of(network, GRAPH)
    for dropped in list(admissible_sets(GRAPH, total=1)):
        expected = network.embed(without(GRAPH, dropped))
        edges = torch.tensor(dropped, dtype=torch.long).reshape(-1, 2).T
        for node in range(GRAPH.num_nodes):
            torch.testing.assert_close(evaluation.embedding(node, edges), expected[node], rtol=1e-12, atol=1e-12)


@every_kind
def test_no_admissible_view_is_below_the_certificate_and_it_can_be_verified(kind: str, tmp_path: Path) -> None:
    model = model_of(kind)
    certificate = certgcl.node_compactness(model, GRAPH, 1)
    for dropped in admissible_sets(GRAPH, local=1, total=2):
        z = model(GRAPH.x, without(GRAPH, dropped).edge_index)
        assert (
            (z * certificate.directions).sum(dim=1) >= certificate.lower - certificate.rounding - certificate.run_error
        ).all()
    loaded = certgcl.Certificate.load(certificate.save(tmp_path / "certificate.npz"))
    assert loaded.verify(model, GRAPH).ok
    assert not loaded.verify(model_of(kind, seed=1), GRAPH).ok


@every_kind
def test_an_audit_runs_the_model_and_searches_for_drops(kind: str) -> None:
    report = audit(model_of(kind), GRAPH, 1, samples=6, searches=6)
    assert not len(report.violations)
    assert len(report.searched) == 6


@every_kind
def test_shards_are_the_certificate(kind: str, tmp_path: Path) -> None:
    network = network_of(kind, GRAPH)
    certgcl.certify_shards(network, GRAPH, 1, tmp_path, shards=3)
    merged, whole = certgcl.merge_shards(tmp_path), certgcl.node_compactness(network, GRAPH, 1)
    torch.testing.assert_close(merged.lower, whole.lower, rtol=1e-9, atol=1e-12)
    assert merged.evidence == whole.evidence


@every_kind
def test_accuracy_is_certified_between_what_is_proved_and_what_is_broken(kind: str) -> None:
    network = network_of(kind, GRAPH)
    classifier = random_tensor(3, network.width, seed=1)
    y = (network.embed(GRAPH) @ classifier.T).argmax(dim=1)
    found = certgcl.certified_accuracy(network, classifier, GRAPH, y, 1)
    assert found.clean == 1
    kept = torch.ones(GRAPH.num_nodes, dtype=torch.bool)
    for dropped in admissible_sets(GRAPH, local=1):
        kept &= (network.embed(without(GRAPH, dropped)) @ classifier.T).argmax(dim=1) == y
    assert not (found.certified & ~kept).any()
    assert not (found.broken & kept).any()


@every_kind
def test_a_report_is_made_of_it(kind: str) -> None:
    graph, network = random_graph(20, 0.2), network_of(kind, random_graph(20, 0.2))
    certificate = certgcl.node_compactness(network, graph, 1)
    data = Data(x=graph.x, edge_index=graph.edge_index, y=torch.arange(20) % 2)
    report = build_report(ReportSource(kind, certificate, "random", data, network), sample=2)
    assert not isinstance(report.curve, Missing)


@every_kind
def test_the_regularizer_trains_it(kind: str) -> None:
    model = model_of(kind).train()
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    term = certgcl.CompactnessRegularizer(budget=1)(model, GRAPH, GRAPH, GRAPH)
    term.backward()
    assert all(module.training for module in model.modules())
    assert all(torch.equal(buffer, before[name]) for name, buffer in model.named_buffers())
    gradients = [parameter.grad for parameter in model.parameters()]
    assert all(gradient is not None and gradient.isfinite().all() for gradient in gradients)
    assert any(bool(gradient.any()) for gradient in gradients if gradient is not None)


def test_evidence_tells_structures_apart_and_shows_them() -> None:
    shown = {kind: weights_part(network_of(kind, GRAPH)) for kind in FACTORIES}
    assert shown["SAGE"].shown == "3 -> 4 -> 4 -> 3 channels, float64: 2 x mean + local, two-piece linear; mean + local"
    assert len({part.sha256 for part in shown.values()}) == len(shown)


def test_the_term_is_that_of_the_network_in_eval_mode() -> None:
    model, regularizer = model_of("GIN with BatchNorm"), certgcl.CompactnessRegularizer(budget=1)
    network = certgcl.read_network(model, GRAPH)
    terms = [regularizer(encoder, GRAPH, GRAPH, GRAPH) for encoder in (network, model, model.train())]
    assert torch.equal(terms[1], terms[2])
    torch.testing.assert_close(terms[0], terms[1])
