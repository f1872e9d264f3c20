"""What is built for a graph and a budget is built once."""

import pickle
import weakref

import pytest
import torch

from certgcl import EdgeDropBudget, Graph
from certgcl.bounds import prepared
from certgcl.bounds.prepared import DropProblem
from certgcl.graphs import datasets

EVERYONE = torch.arange(34)


@pytest.fixture
def graph() -> Graph:
    return Graph.of(datasets.load_dataset("karate"))


def ask(graph: Graph, budget: EdgeDropBudget, nodes: int = 34) -> DropProblem:
    return DropProblem.on(graph, budget.on(graph), EVERYONE[:nodes])


def test_the_same_question_finds_what_was_built_before(graph: Graph) -> None:
    assert ask(graph, EdgeDropBudget(local=2)) is ask(graph, EdgeDropBudget(local=2))


def test_another_question_does_not(graph: Graph) -> None:
    first = ask(graph, EdgeDropBudget(local=2))
    assert ask(graph, EdgeDropBudget(local=3)) is not first
    assert ask(graph, EdgeDropBudget(local=2, total=3)) is not first
    assert ask(graph, EdgeDropBudget(local=2), nodes=3) is not first
    assert ask(Graph.of(datasets.load_dataset("karate")), EdgeDropBudget(local=2)) is not first


def test_nothing_is_kept_beside_a_large_graph(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "MAX_KEPT", 10)
    assert ask(graph, EdgeDropBudget(local=2)) is not ask(graph, EdgeDropBudget(local=2))


def test_a_copy_of_a_graph_comes_without_it(graph: Graph) -> None:
    ask(graph, EdgeDropBudget(local=2))
    assert not pickle.loads(pickle.dumps(graph)).beside


def test_what_was_built_for_a_large_graph_can_be_freed(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    for most, built in ((10**6, 1), (10, 0)):
        monkeypatch.setattr(prepared, "MAX_KEPT", most)
        asked = DropProblem(graph, EdgeDropBudget(local=2).on(graph), EVERYONE)
        layout = weakref.ref(asked.plan(torch.float64, 1, "shared").flat_tables)
        asked.release()
        assert len(asked.neighbourhoods) == built
        assert (layout() is not None) == bool(built)
