"""What is built for a graph and a budget is built once, where the user keeps it."""

import pickle
import weakref

import pytest
import torch

import certgcl
from certgcl import EdgeDropBudget, Graph, PreparedGraph
from certgcl.bounds import prepared as problems
from certgcl.bounds.prepared import ChangeProblem
from certgcl.certify.certification import Question
from certgcl.errors import BudgetError
from certgcl.graphs import datasets
from tests.toys import toy_network

EVERYONE = torch.arange(34)
ENCODER = toy_network(34)


@pytest.fixture
def graph() -> Graph:
    return Graph.of(datasets.load_dataset("karate"))


@pytest.mark.parametrize("method", ["degree", "crown", "optimized"])
def test_certificates_are_those_of_graph_and_budget(graph: Graph, method: str) -> None:
    prepared = PreparedGraph(graph, 2)
    expected = certgcl.node_compactness(ENCODER, graph, 2, method=method, nodes=[0, 5])
    for _ in range(2):
        found = certgcl.node_compactness(ENCODER, prepared, method=method, nodes=[0, 5])
        assert torch.equal(found.lower, expected.lower)
        assert found.evidence == expected.evidence
    directions = torch.ones(34, expected.directions.shape[-1], dtype=torch.float64)
    assert torch.equal(
        certgcl.linear_bounds(ENCODER, prepared, None, directions).lower,
        certgcl.linear_bounds(ENCODER, graph, 2, directions).lower,
    )


def test_the_same_nodes_find_what_was_built_before(graph: Graph) -> None:
    prepared = PreparedGraph(graph, 2)
    first = prepared.problem(EVERYONE)
    assert prepared.problem(EVERYONE.clone()) is first
    assert prepared.problem(EVERYONE[:3]) is not first


def test_a_graph_alone_keeps_nothing(graph: Graph) -> None:
    first, second = (PreparedGraph.of(graph, 2) for _ in range(2))
    assert first.problem(EVERYONE) is not second.problem(EVERYONE)


def test_nothing_is_kept_of_a_large_graph(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problems, "MAX_KEPT", 10)
    prepared = PreparedGraph(graph, 2)
    assert prepared.problem(EVERYONE) is not prepared.problem(EVERYONE)


def test_it_does_not_follow_a_budget_or_edges_that_are_written_to(graph: Graph) -> None:
    local = torch.full((34,), 2)
    data = datasets.load_dataset("karate")
    prepared = PreparedGraph(data, EdgeDropBudget(local=local))
    expected = certgcl.node_compactness(ENCODER, graph, 2)
    local.fill_(0)
    data.edge_index.zero_()
    assert torch.equal(certgcl.node_compactness(ENCODER, prepared).lower, expected.lower)


def test_features_are_those_of_the_moment_of_the_call() -> None:
    data = datasets.load_dataset("karate")
    prepared = PreparedGraph(data, 2)
    certgcl.node_compactness(ENCODER, prepared)
    data.x.mul_(0.5)
    expected = certgcl.node_compactness(ENCODER, data, 2)
    found = certgcl.node_compactness(ENCODER, prepared)
    assert torch.equal(found.lower, expected.lower)
    assert found.evidence == expected.evidence


def test_a_question_is_sent_without_it(graph: Graph) -> None:
    question = Question.compactness(ENCODER, graph, 2, method="degree", view=None, dtype=torch.float64)
    received = pickle.loads(pickle.dumps(question))
    assert received.prepared is None
    assert torch.equal(received.certify(EVERYONE).lower, question.certify(EVERYONE).lower)


def test_what_may_change_is_said_once(graph: Graph) -> None:
    with pytest.raises(BudgetError, match="budgets with a PreparedGraph"):
        certgcl.node_compactness(ENCODER, PreparedGraph(graph, 2), 2)
    with pytest.raises(BudgetError, match=r"budgets=None.*Pass budgets=2"):
        certgcl.node_compactness(ENCODER, graph)
    with pytest.raises(BudgetError, match=r"budgets=None"):
        PreparedGraph(graph, None)


def test_what_was_built_for_a_large_graph_can_be_freed(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    for most, built in ((10**6, 1), (10, 0)):
        monkeypatch.setattr(problems, "MAX_KEPT", most)
        asked = ChangeProblem(graph, EdgeDropBudget(local=2).on(graph), EVERYONE)
        tables = weakref.ref(asked.plan(torch.float64, 1, "shared").flat_tables)
        asked.release()
        assert len(asked.neighbourhoods) == built
        assert (tables() is not None) == bool(built)
