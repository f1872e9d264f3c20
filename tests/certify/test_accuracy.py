"""Certified accuracy against every admissible drop of a small graph."""

import re

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn
from torch.nn import functional
from torch_geometric.nn import GCNConv

from certgcl import GRACE, node_compactness
from certgcl.certify.accuracy import certified_accuracy, certified_accuracy_curve
from certgcl.errors import EncoderError, InputError
from certgcl.graphs.graph import Graph
from certgcl.models.gcn_encoder import GCNEncoder
from certgcl.models.reading import read_scores
from tests.toys import admissible_sets, random_graph, random_tensor, without


@pytest.fixture
def setting() -> tuple[GCNEncoder, Graph]:
    return GCNEncoder(3, 8, 4).double(), random_graph(nodes=6, density=0.4, seed=4)


def robust(
    encoder: GCNEncoder, graph: Graph, vectors: torch.Tensor, intercepts: torch.Tensor, y: torch.Tensor, budget: int
) -> torch.Tensor:
    """The nodes whose prediction is right in every admissible view."""
    right = [
        ((encoder(graph.x, view.edge_index) @ vectors.T + intercepts).argmax(dim=1) == y)
        for view in (without(graph, dropped) for dropped in admissible_sets(graph, torch.full((6,), budget)))
    ]
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
    found = certified_accuracy(
        encoder, torch.tensor([[1.0] * 4, [-1.0] * 4]), graph, torch.zeros(6, dtype=torch.long), 1, method="released"
    )
    assert found.lower == 0


@pytest.mark.parametrize(
    ("classifier", "y"),
    [
        (torch.rand(3, 5), torch.zeros(6, dtype=torch.long)),
        (torch.rand(1, 4), torch.zeros(6, dtype=torch.long)),
        (torch.rand(3, 4), torch.zeros(5, dtype=torch.long)),
        (torch.rand(3, 4), torch.zeros(6)),
        (torch.rand(3, 4), torch.full((6,), 3)),
    ],
)
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


# -- models that end in class scores ---------------------------------------------------------------


class Classifier(nn.Module):
    """A GCN that ends in class scores, or in something made of them."""

    def __init__(self, last: nn.Module, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        self.first, self.second, self.last = GCNConv(3, 8), GCNConv(8, 3), last
        self.to(dtype).eval()

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        return self.last(self.second(self.first(x, edge_index).relu(), edge_index))


class Functional(Classifier):
    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        return functional.log_softmax(self.second(self.first(x, edge_index).relu(), edge_index), dim=1)


def predictions(model: nn.Module, graph: Graph, budget: int) -> torch.Tensor:
    """Of the model itself, in every admissible view."""
    x = graph.x.to(next(model.parameters()).dtype)
    return torch.stack(
        [
            model(x, view.edge_index).argmax(dim=1)
            for view in (without(graph, dropped) for dropped in admissible_sets(graph, torch.full((6,), budget)))
        ]
    )


@pytest.mark.parametrize("last", [nn.Identity(), nn.LogSoftmax(dim=-1), nn.Softmax(dim=1), None])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("seed", range(3))
def test_a_model_of_class_scores_needs_no_classifier(last: nn.Module | None, dtype: torch.dtype, seed: int) -> None:
    torch.manual_seed(seed)
    graph = random_graph(nodes=6, density=0.4, seed=4)
    model = Functional(nn.Identity(), dtype) if last is None else Classifier(last, dtype)
    views = predictions(model, graph, 1)
    y = views[0].clone()
    y[seed] = (y[seed] + 1) % 3
    found = certified_accuracy(model, graph, y, 1)
    assert found.clean == pytest.approx(5 / 6)
    assert found.predicted == views[0].tolist()
    assert not (found.stable & (views != views[0]).any(dim=0)).any()
    assert not (found.certified & (views != y).any(dim=0)).any()
    assert not (found.broken & (views == y).all(dim=0)).any()
    assert torch.equal(found.certified, found.stable & found.correct)
    as_linear = certified_accuracy(read_scores(model, graph)[0], torch.eye(3, dtype=dtype), graph, y, 1)
    assert torch.equal(found.stable, as_linear.stable)


def test_a_softmax_that_rounding_turns_into_a_tie_is_not_certified() -> None:
    """Scores of 1 and 1 + 1e-7 differ in float32, their softmax does not."""
    graph = random_graph(nodes=6, density=0.4, seed=4)
    model = Classifier(nn.Softmax(dim=1), torch.float32)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.second.bias.copy_(torch.tensor([0.001, 0.001 + 1e-8, 0.0]))
    assert (model(graph.x.float(), graph.edge_index).argmax(dim=1) == 0).all()
    assert not certified_accuracy(model, graph, torch.ones(6, dtype=torch.long), 1).stable.any()
    with torch.no_grad():
        model.second.bias.copy_(torch.tensor([0.1, 0.2, 0.0]))
    assert certified_accuracy(model, graph, torch.ones(6, dtype=torch.long), 1).certified.all()


def test_a_softmax_counts_as_class_scores_alone_and_only_at_the_end(setting) -> None:
    graph = setting[1]
    with pytest.raises(EncoderError, match="certified_accuracy takes it"):
        node_compactness(Classifier(nn.LogSoftmax(dim=1)), graph, 1)
    y = torch.zeros(6, dtype=torch.long)
    for last in (
        nn.Sequential(nn.Softmax(dim=1), nn.Linear(3, 2)),
        nn.Softmax(dim=0),
        nn.Softmax(),
        nn.Sequential(nn.Softmax(dim=1), nn.ReLU()),
    ):
        with pytest.raises(EncoderError, match="softmax"):
            certified_accuracy(Classifier(last), graph, y, 1)


def test_a_method_gives_no_class_scores(setting) -> None:
    method = GRACE(hidden=4, epochs=1).fit(setting[1])
    with pytest.raises(InputError, match="Pass classifier="):
        certified_accuracy(method, setting[1], torch.zeros(6, dtype=torch.long), 1)


@pytest.mark.parametrize("given", [(), (1,), (1, 2, 3, 4, 5)])
def test_arguments_that_are_missing_or_too_many_are_told_as_python_does(setting, given: tuple[int, ...]) -> None:
    with pytest.raises(TypeError, match="graph, y, budgets"):
        certified_accuracy(setting[0], *given)
    with pytest.raises(TypeError, match="colour"):
        certified_accuracy(setting[0], setting[1], torch.zeros(6), 1, colour="red")


def test_the_classifier_may_stand_first_or_go_by_its_name(setting) -> None:
    encoder, graph = setting
    vectors, y = random_tensor(3, 4, seed=0), torch.arange(6) % 3
    first = certified_accuracy(encoder, vectors, graph, y, budgets=1)
    named = certified_accuracy(encoder, graph, y, 1, classifier=vectors)
    assert torch.equal(first.stable, named.stable)
    scores = certified_accuracy_curve(Classifier(nn.Identity()), graph, y, (0, 1))
    assert list(scores) == [0, 1]


def test_classes_have_accuracies_of_their_own(setting) -> None:
    graph, y = setting[1], torch.tensor([0, 0, 1, 1, 1, 2])
    found = certified_accuracy(Classifier(nn.Identity()), graph, y, 1, nodes=[0, 2, 3, 5])
    assert {label: part.nodes.tolist() for label, part in found.by_class.items()} == {0: [0], 1: [2, 3], 2: [5]}
    assert sum(part.lower * len(part.nodes) for part in found.by_class.values()) == pytest.approx(4 * found.lower)
    lines = found.class_table().splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["class", "nodes"],
        ["0", "1"],
        ["1", "2"],
        ["2", "1"],
        ["all", "4"],
    ]
    assert len({len(line) for line in lines}) == 1
    cells = re.findall(r"<t[hd]>([^<]*)</t[hd]>", found._repr_html_())
    assert " ".join(cells) == " ".join(found.class_table().split())
    frame = found.to_frame()
    assert frame["label"].tolist() == [0, 1, 1, 2]
    assert frame["stable"].tolist() == found.stable.tolist()
