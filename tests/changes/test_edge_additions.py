"""Budgets of added and flipped edges, and what they allow on a graph."""

from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch

import certgcl
from certgcl import Changes, EdgeAddBudget, EdgeFlipBudget
from certgcl.errors import BudgetError, MethodError
from certgcl.graphs.graph import Graph
from tests.toys import random_graph, toy_network


def graph_of(graph: nx.Graph) -> Graph:
    return Graph.from_networkx(graph, torch.ones(len(graph), 2))


def test_a_node_gains_at_most_the_pairs_that_are_free() -> None:
    added = EdgeAddBudget(local=9).on(graph_of(nx.path_graph(4)))
    assert added.local.tolist() == [2, 1, 1, 2]
    assert added.total == 3
    assert added.candidates is None


def test_budgets_are_tightened_until_nothing_changes() -> None:
    # 0 may be joined to 2 and 3 alone, and these may gain nothing.
    added = EdgeAddBudget(local=[5, 5, 0, 0]).on(graph_of(nx.path_graph(4)))
    assert not bool(added.local.any())
    listed = EdgeAddBudget(local=2, candidates=[(0, 3), (0, 1)]).on(graph_of(nx.path_graph(4)))
    assert listed.local.tolist() == [1, 0, 0, 1]  # (0, 1) is an edge already


def test_a_complete_graph_can_gain_nothing() -> None:
    changes = Changes(additions=3).on(graph_of(nx.complete_graph(4)))
    assert changes.additions is None
    assert changes.drops_only


def test_two_hops_are_pairs_with_a_common_neighbour() -> None:
    graph = nx.path_graph(5)
    added = EdgeAddBudget(candidates="two-hop").on(graph_of(graph))
    assert added.candidates is not None
    assert list(zip(added.candidates.row.tolist(), added.candidates.col.tolist(), strict=True)) == [
        (0, 2),
        (1, 3),
        (2, 0),
        (2, 4),
        (3, 1),
        (4, 2),
    ]


def test_all_pairs_are_not_listed() -> None:
    graph = Graph.from_edges(torch.ones(50_000, 1), torch.tensor([[0, 1], [1, 0]]))
    added = EdgeAddBudget(local=1).on(graph)  # nodes × nodes would be 20 GB
    assert added.candidates is None
    assert int(added.local.min()) == 1


def test_flips_are_drops_and_additions_with_one_budget() -> None:
    changes = Changes(flips=EdgeFlipBudget(local=2, total=3)).on(graph_of(nx.path_graph(6)))
    assert changes.additions is not None
    assert changes.drops.local.tolist() == [1, 2, 2, 2, 2, 1]
    assert changes.additions.both.tolist() == [2] * 6
    assert changes.additions.both_total == 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda graph: EdgeAddBudget(local=-1), "must not be negative"),
        (lambda graph: EdgeAddBudget(total=[1, 2]), "one integer for the whole graph"),
        (lambda graph: EdgeAddBudget(candidates="three-hop"), "two-hop"),
        (lambda graph: EdgeAddBudget(candidates=[(0, 1, 2)]), "pairs of nodes"),
        (lambda graph: EdgeAddBudget(candidates=object()), "pairs of nodes"),  # type: ignore[arg-type]
        (lambda graph: EdgeAddBudget(candidates=[(0, 99)]).on(graph), "from 0 to 7"),
        (lambda graph: EdgeAddBudget(candidates=[(1, 1)]).on(graph), "joins two different nodes"),
        (lambda graph: EdgeAddBudget(local=[1, 2]).on(graph), "one per node"),
        (lambda graph: Changes(drops=1, flips=1), "flips with drops"),
    ],
)
def test_bad_budgets_are_refused_in_words(make: Any, message: str) -> None:
    with pytest.raises(BudgetError, match=message):
        make(graph_of(nx.path_graph(8)))


@pytest.mark.parametrize(
    "changes",
    [
        Changes(drops=1, additions=1),
        Changes(flips=EdgeFlipBudget(1, 2)),
        Changes(additions=EdgeAddBudget(2, 3, candidates=[(0, 5), (1, 7), (2, 6)])),
        Changes(additions=EdgeAddBudget(1, candidates=[(0, 5), (1, 7)]), features=certgcl.FeatureBudget(box=0.1)),
    ],
    ids=repr,
)
def test_a_certificate_keeps_what_could_be_added(changes: Changes, tmp_path: Path) -> None:
    graph, network = random_graph(), toy_network()
    certificate = certgcl.node_compactness(network, graph, changes)
    assert certificate.additions is not None
    assert "added" in str(certificate)
    certificate.save(tmp_path / "certificate.npz")
    again = certgcl.Certificate.load(tmp_path / "certificate.npz")
    assert certificate.additions.same(again.additions)
    assert again.verify(network, graph).ok
    same = certgcl.node_compactness(network, graph, again.changes)
    assert torch.equal(same.lower, certificate.lower)
    together = certgcl.collective_certificate([certificate], network, graph)
    assert together.lower >= together.alone == int(certificate.positive.sum())


def test_methods_and_searches_refuse_what_they_do_not_know() -> None:
    graph, network = random_graph(), toy_network()
    with pytest.raises(MethodError, match="supports dropped edges only"):
        certgcl.node_compactness(network, graph, Changes(additions=1), method="paper")
    with pytest.raises(BudgetError, match="search_drops"):
        certgcl.search_drops(network, graph, Changes(additions=1), nodes=[0])
