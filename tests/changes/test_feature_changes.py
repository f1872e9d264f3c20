"""Feature budgets: what they allow on a graph, and what they refuse."""

import pytest
import torch

import certgcl
from certgcl import FeatureBudget, Graph
from certgcl.errors import BudgetError
from certgcl.graphs.sparse import csr_matrix
from tests.toys import random_graph, toy_network


def graph_of(rows: list[list[float]]) -> Graph:
    x = torch.tensor(rows, dtype=torch.float64)
    nodes = torch.arange(len(x) - 1)
    edges = torch.stack([nodes, nodes + 1])
    return Graph.from_edges(x, torch.cat([edges, edges.flip(0)], dim=1))


BITS = graph_of([[1, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]])


def test_budgets_are_lowered_to_the_features_that_are_there() -> None:
    allowed = FeatureBudget(turned_off=2, turned_on=3).on(BITS)
    assert allowed.off.tolist() == [2, 0, 2]
    assert allowed.on.tolist() == [2, 3, 0]
    assert allowed.total == 9
    assert not allowed.limited


def test_a_total_is_a_limit_of_every_node_too() -> None:
    allowed = FeatureBudget(masked=[4, 4, 4], total=1).on(BITS)
    assert allowed.off.tolist() == [1, 0, 1]
    assert allowed.limited


def test_stored_zeros_are_zeros() -> None:
    x = csr_matrix(torch.tensor([0, 2, 3]), torch.tensor([0, 1, 1]), torch.tensor([1.0, 0.0, 1.0]), (2, 2))
    allowed = FeatureBudget(turned_on=2).on(Graph.from_edges(x, torch.tensor([[0, 1], [1, 0]])))
    assert allowed.on.tolist() == [1, 1]


def test_columns_are_those_that_are_not_zero_everywhere() -> None:
    graph = graph_of([[1, 0, 2], [0, 0, 3]])
    allowed = FeatureBudget(columns=5).on(graph)
    assert allowed.columns == 2
    assert allowed.off.tolist() == [2, 1]


def test_a_mask_rate_is_covered_with_the_stated_probability() -> None:
    graph = Graph.from_edges(torch.ones(2, 200), torch.tensor([[0, 1], [1, 0]]))
    columns = FeatureBudget.from_mask_rate(0.3, coverage=0.9).on(graph).columns
    masked = (torch.rand(4000, 200, generator=torch.Generator().manual_seed(0)) < 0.3).sum(dim=1)
    assert 0.9 <= float((masked <= columns).double().mean()) <= 0.95
    each = FeatureBudget.from_mask_probabilities(torch.full((200,), 0.3), coverage=0.9).on(graph).columns
    assert each == columns


def test_a_budget_read_back_from_what_it_allows_allows_the_same() -> None:
    for budget in (
        FeatureBudget(masked=1),
        FeatureBudget(turned_on=[1, 2, 0], total=2),
        FeatureBudget(box=0.5),
        FeatureBudget(columns=2),
    ):
        allowed = budget.on(BITS)
        assert allowed.same(allowed.budget().on(BITS))


REFUSED = {
    "nothing named": ("no feature", lambda: FeatureBudget()),
    "two kinds": ("masked and box", lambda: FeatureBudget(masked=1, box=0.1)),
    "a total of a box": ("total=3", lambda: FeatureBudget(box=0.1, total=3)),
    "a negative number": ("masked", lambda: FeatureBudget(masked=-1)),
    "half a feature": ("turned_on", lambda: FeatureBudget(turned_on=0.5)),
    "a box that is no number": ("box", lambda: FeatureBudget(box=float("nan"))),
    "a negative total": ("total=-1", lambda: FeatureBudget(masked=1, total=-1)),
    "a rate of one": ("rate", lambda: FeatureBudget.from_mask_rate(1.0)),
    "a coverage of one": ("coverage", lambda: FeatureBudget.from_mask_rate(0.3, coverage=1.0)),
    "one number too few": ("2 feature budgets", lambda: FeatureBudget(masked=[1, 1]).on(BITS)),
    "probabilities of other features": (
        "3 probabilities",
        lambda: FeatureBudget.from_mask_probabilities(torch.full((3,), 0.1)).on(BITS),
    ),
    "bits of features that have none": (
        "the value 2",
        lambda: FeatureBudget(turned_off=1).on(graph_of([[2.0], [1.0]])),
    ),
    "a number in the place of a budget": ("features=3", lambda: certgcl.Changes(features=3)),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("what", REFUSED)
def test_bad_budgets_are_refused_with_what_was_found(what: str) -> None:
    found, call = REFUSED[what]
    with pytest.raises(BudgetError, match=found):
        call()


def test_what_knows_drops_alone_says_so() -> None:
    graph, changes = random_graph(), certgcl.Changes(features=FeatureBudget(masked=1))
    with pytest.raises(certgcl.errors.MethodError, match="supports dropped edges only"):
        certgcl.node_compactness(toy_network(), graph, changes, method="paper")
    with pytest.raises(BudgetError, match="search_drops under"):
        certgcl.search_drops(toy_network(), graph, changes)


def test_a_certificate_keeps_its_features(tmp_path: object) -> None:
    graph, network = random_graph(), toy_network()
    changes = certgcl.Changes(drops=1, features=FeatureBudget(masked=2, total=5))
    certificate = certgcl.node_compactness(network, graph, changes)
    path = certificate.save(f"{tmp_path}/certificate.npz")
    again = certgcl.Certificate.load(path)
    assert again.features is not None
    assert again.features.same(changes.on(graph).features)
    assert again.verify(network, graph).ok
    assert "features masked, 5 in all" in str(again)
    fewer = certgcl.Changes(drops=1, features=FeatureBudget(masked=2, total=4))
    other = certgcl.node_compactness(network, graph, fewer)
    assert other.evidence.budget != again.evidence.budget
    assert torch.equal(certgcl.node_compactness(network, graph, again.changes).lower, again.lower)


def test_a_box_is_as_wide_as_it_was_asked_for() -> None:
    graph = Graph.of((torch.zeros(2, 3), torch.tensor([[0, 1], [1, 0]])))
    for box in (0.7, [0.7, 0.7], torch.tensor(0.7, dtype=torch.float64)):
        assert FeatureBudget(box=box).on(graph).radius.tolist() == [0.7, 0.7]
    assert FeatureBudget(box=1e300).on(graph).radius.tolist() == [1e300, 1e300]
