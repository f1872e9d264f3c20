"""Changes: several budgets as one, and what they allow on a graph."""

import re
from html import unescape
from typing import Any

import pytest
import torch

import certgcl
from certgcl.bounds.prepared import ChangeProblem
from certgcl.changes.changes import AdmissibleChanges
from tests.toys import random_graph, toy_network


def test_what_stands_for_edge_drops_is_changes_with_these_drops() -> None:
    graph = random_graph()
    for budget in (2, 0.4, [1] * graph.num_nodes, certgcl.EdgeDropBudget(total=3)):
        assert certgcl.Changes.of(budget).on(graph).drops.same(certgcl.EdgeDropBudget.of(budget).on(graph))


def test_changes_of_nothing_allow_nothing() -> None:
    graph = random_graph()
    drops = certgcl.Changes().on(graph).drops
    assert not bool(drops.local.any())
    assert not bool(drops.droppable.any())


def test_changes_are_their_own() -> None:
    changes = certgcl.Changes(drops=1)
    assert certgcl.Changes.of(changes) is changes
    with pytest.raises(certgcl.errors.BudgetError, match="its own kind of budget"):
        certgcl.Changes(drops=changes)


def test_a_problem_takes_drops_for_changes_and_keeps_a_copy() -> None:
    graph = random_graph()
    drops = certgcl.EdgeDropBudget(local=1).on(graph)
    problem = ChangeProblem(graph, drops, torch.tensor([0]))
    drops.local.zero_()
    assert isinstance(problem.changes, AdmissibleChanges)
    assert bool(problem.drops.local.any())


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (certgcl.EdgeDropBudget(2, total=5), "at each node at most 2 edges in all at most 5 edges"),
        (certgcl.EdgeAddBudget([0, 3], candidates="two-hop"), "at most 0 … 3 (mean 1.50) edges in all any number"),
        (certgcl.EdgeFlipBudget(1), "new edges among 'all'"),
        (certgcl.FeatureBudget(masked=1), "features (masked=1)"),
        (certgcl.Changes(drops=1, additions=2), "drops EdgeDropBudget(local=1, total=None) additions EdgeAddBudget("),
        (certgcl.Changes(flips=1), "flips EdgeFlipBudget("),
    ],
)
def test_a_notebook_shows_every_budget(budget: Any, words: str) -> None:
    html = budget._repr_html_()
    assert html.startswith("<table>")
    assert words in " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


def test_every_call_takes_changes_where_it_takes_a_budget() -> None:
    graph, encoder = random_graph(), toy_network()
    plain, changes = (certgcl.node_compactness(encoder, graph, budget) for budget in (1, certgcl.Changes(drops=1)))
    assert torch.equal(plain.lower, changes.lower)
    assert plain.evidence.budget == changes.evidence.budget
    assert changes.verify(encoder, graph).ok
    assert (
        certgcl.CompactnessRegularizer(budget=certgcl.Changes(drops=1))
        .changes_on(graph)
        .drops.same(certgcl.EdgeDropBudget(local=1).on(graph))
    )
