import re
from dataclasses import dataclass

import networkx as nx
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv
from torch_geometric.utils import degree

import certgcl
from certgcl.attacks import field as receptive
from certgcl.bounds import METHODS, ChangeProblem, Degree, get_method
from certgcl.certify import audit as audits
from certgcl.certify import certification
from certgcl.certify.audit import AuditReport, audit
from certgcl.errors import EncoderError, InputError
from certgcl.models import GraphNetwork, gcn_network
from tests.toys import admissible_sets, random_graph, run_in, toy_graph, toy_network, without

GRAPH, WEIGHTS = random_graph(nodes=30, density=0.1), toy_network()


@dataclass(frozen=True)
class Raised(Degree):
    """A method that claims more than it can prove: the bound, moved up by a share of the way to the clean value."""

    share: float = 1.0

    def __call__(self, weights: GraphNetwork, problem: ChangeProblem, directions: Tensor) -> Tensor:
        lower = super().__call__(weights, problem, directions)
        clean = (directions * weights.embed(problem.graph)[:, None]).sum(dim=2)[problem.anchors]
        return lower + self.share * (clean - lower)


@pytest.mark.parametrize("method", [name for name in METHODS if get_method(name).certified])
@pytest.mark.parametrize("budget", [1, 0.4, certgcl.EdgeDropBudget(local=2, total=3)])
def test_no_view_falls_below_a_bound(method: str, budget: certgcl.EdgeDropBudget | float) -> None:
    report = audit(WEIGHTS, GRAPH, budget, method=method, samples=40, searches=30)
    assert len(report.violations) == 0
    assert float(report.slack.min()) >= 0
    assert float(report.gap.min()) >= 0
    assert len(report.searched) == 30


@pytest.mark.parametrize("method", ["paper", "released", Raised()])
def test_what_is_no_bound_is_caught(method: str | Raised) -> None:
    report = audit(WEIGHTS, GRAPH, 2, method=method, samples=40, searches=8)
    assert len(report.violations) > 0
    below = report.lowest < report.certificate.lower - report.certificate.rounding
    assert report.violations.tolist() == report.certificate.nodes[below].tolist()
    assert f"{len(report.violations)} violations" in str(report)


def test_a_small_lie_is_caught_by_the_search() -> None:
    """On small graphs the bound is nearly the minimum, which the search finds and random views do not."""
    graph = toy_graph(nx.random_regular_graph(4, 12, seed=0))
    lie = Raised(share=0.5)
    sampled, searched = (
        audit(WEIGHTS, graph, 2, method=lie, samples=samples, searches=12 - samples) for samples in (12, 0)
    )
    assert len(searched.violations) > len(sampled.violations)


def test_lowest_is_the_value_of_some_admissible_view() -> None:
    graph = random_graph(nodes=7, density=0.4)
    report = audit(WEIGHTS, graph, 1, samples=20, searches=7)
    directions = report.certificate.directions
    values = torch.stack(
        [(WEIGHTS.embed(without(graph, dropped)) * directions).sum(dim=1) for dropped in admissible_sets(graph, 1)]
    )
    distance = (values - report.lowest).abs().amin(dim=0)
    assert float(distance.max()) < 1e-12
    assert bool((report.lowest <= report.certificate.nominal).all())


def test_some_nodes_are_checked_and_a_trained_module_is_read() -> None:
    encoder = certgcl.GCNEncoder(3, 8, 4, activation="prelu").eval()
    report = audit(encoder, GRAPH, 1, nodes=[4, 20, 9], samples=6, searches=2)
    assert report.certificate.nodes.tolist() == [4, 20, 9]
    assert (report.lowest.shape, report.sampled, len(report.searched)) == ((3,), 6, 2)


def test_the_same_seed_gives_the_same_report_and_leaves_the_generator_alone() -> None:
    before = torch.get_rng_state()
    first, again, other = (audit(WEIGHTS, GRAPH, 2, samples=4, searches=2, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first.lowest, again.lowest)
    assert not torch.equal(first.lowest, other.lowest)


def test_progress_counts_the_views() -> None:
    seen: list[tuple[int, int]] = []
    audit(WEIGHTS, GRAPH, 1, samples=3, searches=2, progress=lambda done, whole: seen.append((done, whole)))
    assert seen == [(done, 5) for done in range(1, 6)]


def test_a_report_in_numbers() -> None:
    certificate = certgcl.node_compactness(WEIGHTS, GRAPH, 1, nodes=[0, 1, 2])
    slack = torch.tensor([0.5, 0.1, -0.2], dtype=torch.float64)
    report = AuditReport(certificate, certificate.lower + slack, 10, torch.tensor([1]), "the weights")
    found = report.to_dict()
    assert (found["nodes"], found["views_sampled"], found["views_searched"]) == (3, 10, 1)
    assert (found["violations"], found["violated_nodes"]) == (1, [2])
    assert found["smallest_slack"] == pytest.approx(-0.2)
    assert found["mean_gap"] == pytest.approx(0.4 / 3)
    assert found["mean_gap_searched"] == pytest.approx(0.1)
    assert found["ran"] == "the weights"
    assert found["largest_allowance"] == pytest.approx(float(certificate.rounding.max()), rel=1e-3)
    nothing = AuditReport(certificate, certificate.lower, 0, torch.tensor([], dtype=torch.long), "the weights")
    assert nothing.to_dict()["mean_gap_searched"] is None
    assert "where searched" not in str(nothing)


def test_a_value_that_is_not_a_number_is_a_violation() -> None:
    certificate = certgcl.node_compactness(WEIGHTS, GRAPH, 1, nodes=[0, 1])
    lowest = torch.tensor([torch.nan, 1e9], dtype=torch.float64)
    report = AuditReport(certificate, lowest, 1, torch.tensor([], dtype=torch.long), "the weights")
    assert report.violations.tolist() == [0]


def test_the_slack_that_is_printed_is_below_zero_only_with_a_violation() -> None:
    """A value below the bound by a part of the rounding is no violation, and does not look like one."""
    certificate = certgcl.node_compactness(WEIGHTS, GRAPH, 1)
    allowed = AuditReport(certificate, certificate.lower, 0, torch.tensor([], dtype=torch.long), "").allowance
    for share, expected in ((0.5, 0), (2.0, len(certificate.nodes))):
        report = AuditReport(certificate, certificate.lower - share * allowed, 1, torch.tensor([0]), "the weights")
        assert len(report.violations) == expected
        for name in ("smallest slack", "mean gap", "where searched"):
            assert bool(re.search(f"{name} +-", str(report))) == (expected > 0)


def test_anchors_that_see_too_much_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receptive, "LARGEST_FIELD", -1)
    assert len(audit(WEIGHTS, GRAPH, 1, samples=1, searches=3).searched) == 0


@pytest.mark.parametrize("counts", [{"samples": -1}, {"searches": 1.5}, {"samples": True}])
def test_counts_are_checked(counts: dict[str, int]) -> None:
    with pytest.raises(InputError, match="it counts views"):
        audit(WEIGHTS, GRAPH, 1, **counts)


# -- the model itself ------------------------------------------------------------------------------


class Net(nn.Module):
    """A two-layer GCN in float64, and what a subclass makes of its output."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = GCNConv(3, 4), GCNConv(4, 3)
        self.double().eval()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.changed(self.conv2(self.conv1(x, edge_index).relu(), edge_index), edge_index)

    def changed(self, z: Tensor, edge_index: Tensor) -> Tensor:
        return z


class ZeroesIsolatedNodes(Net):
    def changed(self, z: Tensor, edge_index: Tensor) -> Tensor:
        return z * (degree(edge_index[0], len(z)) > 0)[:, None]


class FailsWithFewEdges(Net):
    def changed(self, z: Tensor, edge_index: Tensor) -> Tensor:
        return z.reshape(len(z), 3 if edge_index.shape[1] > 20 else -2)


class OtherShapeWithFewEdges(Net):
    def changed(self, z: Tensor, edge_index: Tensor) -> Tensor:
        return z if edge_index.shape[1] > 20 else z[:, :1]


class SeedsTorch(Net):
    def changed(self, z: Tensor, edge_index: Tensor) -> Tensor:
        torch.manual_seed(0)
        return z


class DiffersInTheSign(Net):
    def changed(self, z: Tensor, edge_index: Tensor) -> Tensor:
        return -z


RING = toy_graph(nx.cycle_graph(12))  # every node keeps its edges but in dropped views


def believed(model: Net | GraphNetwork, graph: object, *_: object, **__: object) -> GraphNetwork:
    """Two layers with a ReLU between them, without a look at what else the model does."""
    if isinstance(model, GraphNetwork):
        return model
    first, second = model.conv1, model.conv2
    return gcn_network((first.lin.weight.T, first.bias, 0.0), (second.lin.weight.T, second.bias, 1.0))


@pytest.fixture
def _believing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models are read by :func:`believed`."""
    for module in (audits, certification):
        monkeypatch.setattr(module, "read_network", believed)


@pytest.mark.usefixtures("_believing")
def test_a_lie_that_only_dropped_views_show_is_found_by_running_the_module() -> None:
    net = ZeroesIsolatedNodes()
    report = audit(net, RING, 2, samples=20, searches=0)
    assert len(report.violations) > 0
    assert bool((report.certificate.lower > report.certificate.rounding).any())
    assert "the module itself, a ZeroesIsolatedNodes in float64" in str(report)
    assert len(audit(believed(net, RING), RING, 2, samples=20, searches=0).violations) == 0


@pytest.mark.usefixtures("_believing")
def test_the_graph_as_it_is_is_a_view_as_well() -> None:
    assert len(audit(DiffersInTheSign(), RING, 1, samples=0, searches=0).violations) > 0


@pytest.mark.usefixtures("_believing")
@pytest.mark.parametrize(
    ("model", "words"),
    [(FailsWithFewEdges(), "FailsWithFewEdges.forward failed on a view"), (OtherShapeWithFewEdges(), r"\(12, 1\)")],
)
def test_a_model_that_gives_no_embeddings_on_a_view_is_named(model: Net, words: str) -> None:
    with pytest.raises(EncoderError, match=words):
        audit(model, RING, 2, samples=20, searches=0)


@pytest.mark.usefixtures("_believing")
def test_a_model_that_seeds_torch_does_not_choose_the_views() -> None:
    first, second = (audit(model, RING, 1, samples=20, searches=4) for model in (SeedsTorch(), Net()))
    assert torch.equal(first.searched, second.searched)
    model, before = SeedsTorch(), torch.get_rng_state()
    audit(model, RING, 1, samples=2, searches=1)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("sparse", [False, True])
def test_an_honest_module_is_run_and_passes(sparse: bool) -> None:
    graph = random_graph(nodes=30, density=0.1, sparse=sparse)
    model = certgcl.GCNEncoder(3, 8, 4, activation="prelu").double().eval()
    before = graph.x.to_dense().clone()
    report = audit(model, graph, 2, samples=20, searches=8)
    assert len(report.violations) == 0
    assert report.ran == "the module itself, a GCNEncoder in float64"
    assert torch.equal(graph.x.to_dense(), before)


def test_without_a_module_the_weights_are_run() -> None:
    report = audit(run_in(WEIGHTS, torch.float32), GRAPH, 1, samples=4, searches=2)
    assert report.ran == "the weights, in float64"
    assert len(report.violations) == 0


def test_a_fitted_method_is_run_by_its_encoder() -> None:
    method = certgcl.GRACE(hidden=4, epochs=1).fit(GRAPH)
    assert audit(method, GRAPH, 1, samples=2, searches=1).ran == "the module itself, a GCNEncoder in float32"
