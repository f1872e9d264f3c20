"""Certified accuracy against every admissible drop of a small graph."""

import pytest
import torch
from sklearn.linear_model import LogisticRegression

from certgcl.certify.accuracy import certified_accuracy, certified_accuracy_curve
from certgcl.errors import InputError
from certgcl.graphs.graph import Graph
from certgcl.models.gcn_encoder import GCNEncoder
from tests.toys import admissible_sets, random_graph, random_tensor, without


@pytest.fixture
def setting() -> tuple[GCNEncoder, Graph]:
    return GCNEncoder(3, 8, 4).double(), random_graph(nodes=6, density=0.4, seed=4)


def robust(encoder: GCNEncoder, graph: Graph, vectors: torch.Tensor, intercepts: torch.Tensor, y: torch.Tensor,
           budget: int) -> torch.Tensor:
    """The nodes whose prediction is right in every admissible view."""
    right = [((encoder(graph.x, view.edge_index) @ vectors.T + intercepts).argmax(dim=1) == y)
             for view in (without(graph, dropped) for dropped in admissible_sets(graph, torch.full((6,), budget)))]
    return torch.stack(right).all(dim=0)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("budget", [1, 2])
def test_it_brackets_the_share_that_is_right_in_every_view(setting, seed: int, budget: int) -> None:
    encoder, graph = setting
    vectors, intercepts = random_tensor(3, 4, seed=seed), random_tensor(3, seed=seed + 9) / 5
    z = encoder(graph.x, graph.edge_index).detach()
    y = (z @ vectors.T + intercepts).argmax(dim=1)
    y[seed] = (y[seed] + 1) % 3  # one wrong prediction
    found = certified_accuracy(encoder, (vectors, intercepts), graph, y, budget)
    truth = robust(encoder, graph, vectors, intercepts, y, budget)
    assert found.clean == pytest.approx(5 / 6)
    assert not (found.certified & ~truth).any()
    assert not (found.broken & truth).any()
    assert found.lower <= float(truth.double().mean()) <= found.upper
    assert "certified" in str(found)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_classifier_of_scikit_learn_is_read(setting, classes: int) -> None:
    encoder, graph = setting
    z = encoder(graph.x, graph.edge_index).detach()
    y = torch.arange(6) % classes + 5
    probe = LogisticRegression(C=100).fit(z.numpy(), y.numpy())
    found = certified_accuracy(encoder, probe, graph, y, 0)
    right = torch.from_numpy(probe.predict(z.numpy())) == y
    assert torch.equal(found.correct, right)
    assert torch.equal(found.certified, right)


def test_only_the_nodes_asked_for_count(setting) -> None:
    encoder, graph = setting
    y = torch.zeros(6, dtype=torch.long)
    found = certified_accuracy(encoder, torch.tensor([[1.0] * 4, [-1.0] * 4]), graph, y, 1, nodes=[2, 5], search=False)
    assert found.nodes.tolist() == [2, 5]
    assert found.upper == found.clean


def test_a_method_that_proves_nothing_certifies_nothing(setting) -> None:
    encoder, graph = setting
    found = certified_accuracy(encoder, torch.tensor([[1.0] * 4, [-1.0] * 4]), graph, torch.zeros(6, dtype=torch.long),
                               1, method="released")
    assert found.lower == 0


@pytest.mark.parametrize(("classifier", "y"), [
    (torch.rand(3, 5), torch.zeros(6, dtype=torch.long)), (torch.rand(1, 4), torch.zeros(6, dtype=torch.long)),
    (torch.rand(3, 4), torch.zeros(5, dtype=torch.long)), (torch.rand(3, 4), torch.zeros(6)),
    (torch.rand(3, 4), torch.full((6,), 3))])
def test_what_does_not_fit_is_refused(setting, classifier: torch.Tensor, y: torch.Tensor) -> None:
    with pytest.raises(InputError):
        certified_accuracy(*setting[:1], classifier, setting[1], y, 1)


def test_a_curve_has_the_accuracy_under_each_budget(setting) -> None:
    encoder, graph = setting
    vectors = random_tensor(3, 4, seed=0)
    y = (encoder(graph.x, graph.edge_index).detach() @ vectors.T).argmax(dim=1)
    curve = certified_accuracy_curve(encoder, vectors, graph, y, (0, 1, 0.5))
    assert list(curve) == [0, 1, 0.5]
    for budget, found in curve.items():
        alone = certified_accuracy(encoder, vectors, graph, y, budget)
        assert (found.lower, found.upper) == (alone.lower, alone.upper)
    assert curve[0].lower >= curve[1].lower
