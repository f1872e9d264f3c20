"""Brackets where edges may be added: they contain the minimum, meet where the tree ends, and have a witness."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import networkx as nx
import pytest
import torch

import certgcl
from certgcl import Changes, EdgeAddBudget, EdgeFlipBudget, FeatureBudget
from certgcl.attacks import edge_search
from certgcl.bounds import BranchAndBound, Degree
from certgcl.bounds.exact.edge_changes import brackets, tree
from certgcl.bounds.exact.edge_changes.branches import CHANGED, STAYS, EdgeBranches
from certgcl.certify.audit import audit
from certgcl.errors import CertificateError
from tests.toys import random_graph, toy_graph, toy_network

PATH = toy_graph(nx.path_graph(5))
CHANGES = [
    Changes(additions=1),
    Changes(drops=1, additions=EdgeAddBudget(1, 2)),
    Changes(flips=EdgeFlipBudget(1, 2)),
    Changes(additions=EdgeAddBudget(candidates=[(0, 3), (1, 4), (0, 4)])),
]


def minima(changes: Changes, graph: certgcl.Graph = PATH) -> torch.Tensor:
    """By trying every set of pairs, for the directions of compactness."""
    network, allowed = toy_network(), changes.on(graph)
    assert allowed.additions is not None
    z, n = network.embed(graph), graph.num_nodes
    directions = certgcl.compactness_directions(z)
    there = {tuple(sorted(edge)) for edge in graph.edge_index.T.tolist()}
    listed = allowed.additions.candidates
    free = (
        set(combinations(range(n), 2))
        if listed is None
        else set(zip(listed.row.tolist(), listed.col.tolist(), strict=True))
    )
    least, pairs = (z * directions).sum(dim=1), sorted(there | {pair for pair in free if pair[0] < pair[1]})

    def counts(edges: set[tuple[int, int]]) -> torch.Tensor:
        return torch.bincount(torch.tensor(sorted(edges), dtype=torch.long).flatten(), minlength=n)

    for size in range(allowed.additions.both_total + 1):
        for chosen in combinations(pairs, size):
            gone, new = set(chosen) & there, set(chosen) - there
            lost, gained = counts(gone), counts(new)
            if (
                len(gone) > allowed.drops.total
                or len(new) > allowed.additions.total
                or bool((lost > allowed.drops.local).any())
                or bool((gained > allowed.additions.local).any())
                or bool((lost + gained > allowed.additions.both).any())
            ):
                continue
            index = torch.tensor(sorted(there - gone | new), dtype=torch.long).reshape(-1, 2).T
            view = certgcl.Graph.from_edges(graph.x, torch.cat([index, index.flip(0)], dim=1))
            least = least.minimum((network.embed(view) * directions).sum(dim=1))
    return least


@pytest.mark.parametrize("enumerated", [True, False], ids=["all tried", "by the tree"])
@pytest.mark.parametrize("changes", CHANGES, ids=repr)
def test_exact_is_the_minimum(changes: Changes, enumerated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not enumerated:
        monkeypatch.setattr(edge_search, "FEW_CHANGES", 0)
        monkeypatch.setattr(tree, "FEW_CHANGE_SETS", 8)
    nodes = torch.arange(5) if enumerated else torch.tensor([2])
    found = certgcl.node_compactness(toy_network(), PATH, changes, method="exact", nodes=nodes)
    assert bool(found.exact.all())
    assert (found.lower - minima(changes)[nodes]).abs().max() <= 1e-8
    assert found.verify(toy_network(), PATH).ok


def test_a_few_branches_bracket_the_minimum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge_search, "FEW_CHANGES", 0)
    monkeypatch.setattr(tree, "FEW_CHANGE_SETS", 1)
    least, bound = minima(CHANGES[1])[:2], certgcl.node_compactness(toy_network(), PATH, CHANGES[1], nodes=[0, 1])
    for limit in (0, 8):
        method = BranchAndBound(branch_limit=limit)
        found = certgcl.node_compactness(toy_network(), PATH, CHANGES[1], method=method, nodes=[0, 1])
        assert found.upper is not None
        assert bool((bound.lower - 1e-12 <= found.lower).all())
        assert bool((found.lower <= least + 1e-9).all())
        assert bool((least <= found.upper + 1e-9).all())


def highest_gap() -> float:
    """How far the bound of a branch is above a change that agrees with its decisions, at most: branches by hand."""
    network, changes = toy_network(), CHANGES[1].on(PATH)
    directions = certgcl.compactness_directions(network.embed(PATH))
    pairs = brackets._pairs(edge_search.EdgeSearch(network, PATH, changes))
    assert pairs is not None
    branches = EdgeBranches(network, PATH, changes, Degree(), 2, directions[2], *pairs)
    generator, gaps = torch.Generator().manual_seed(0), []
    for _ in range(6):
        state = branches.undecided[0].clone()
        for pair in torch.randperm(len(state), generator=generator)[:4].tolist():
            if bool(usual_left(branches, state[None]).open[0, pair]):
                state[pair] = CHANGED if torch.rand((), generator=generator) < 0.4 else STAYS
        least = float(branches.values(torch.stack(_agreeing(branches, state))).min())
        gaps.append(float(branches.bounds(state[None])[0]) - least)
    return max(gaps)


usual_left = EdgeBranches.left


def _agreeing(branches: EdgeBranches, state: torch.Tensor) -> list[torch.Tensor]:
    """All states of the branch, by budgets that no test has changed."""
    found = [state]
    for pair in range(len(state)):
        for other in list(found):
            if bool(usual_left(branches, other[None]).open[0, pair]):
                more = other.clone()
                more[pair] = CHANGED
                found.append(more)
    return found


def test_a_branch_is_bounded_below_its_changes() -> None:
    assert highest_gap() <= 1e-9


def test_branches_that_leave_one_edge_too_few_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_less(self: EdgeBranches, state: torch.Tensor) -> object:
        left = usual_left(self, state)
        return replace(left, gained=left.gained - 1, open=left.open & ~self.new)

    monkeypatch.setattr(EdgeBranches, "left", one_less)
    assert highest_gap() > 1e-6


def test_too_many_pairs_leave_a_bracket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brackets, "MOST_LISTED", 4)
    monkeypatch.setattr(edge_search, "FEW_CHANGES", 0)
    graph = random_graph()
    found = certgcl.node_compactness(toy_network(), graph, Changes(additions=1), method="exact", nodes=[0, 1])
    assert found.upper is not None
    assert bool((found.lower <= found.upper).all())
    assert found.verify(toy_network(), graph).ok


def test_without_time_there_is_the_clean_value() -> None:
    method = BranchAndBound(time_limit=0)
    found = certgcl.node_compactness(toy_network(), random_graph(), Changes(additions=2), method=method)
    assert torch.equal(found.upper, found.nominal)
    assert all(not found.added_edges(node).numel() for node in range(12))


def test_a_witness_says_all_that_changed_and_is_kept_in_files(tmp_path: Path) -> None:
    graph, network = random_graph(7, 0.4), toy_network()
    changes = Changes(flips=EdgeFlipBudget(1, 2), features=FeatureBudget(masked=1, total=2))
    method = BranchAndBound(branch_limit=2)
    found = certgcl.node_compactness(network, graph, changes, method=method, nodes=[0, 3])
    assert found.added is not None
    assert any(edges.numel() for edges in found.added)
    assert any(len(found.changed_features(node)) for node in (0, 3))
    assert found.verify(network, graph).ok
    found.save(tmp_path / "result.npz")
    again = certgcl.Certificate.load(tmp_path / "result.npz")
    for node in (0, 3):
        assert torch.equal(again.added_edges(node), found.added_edges(node))
    assert again.verify(network, graph).ok
    assert certgcl.Certificate.joined([found.at([0]), found.at([1])]).verify(network, graph).ok


def _edited(found: certgcl.Certificate, edges: list[list[int]]) -> certgcl.Certificate:
    return replace(found, added=(torch.tensor(edges), *(found.added or ())[1:]))


def test_forged_new_edges_are_refused_or_found(tmp_path: Path) -> None:
    graph, network = PATH, toy_network()
    changes = Changes(additions=EdgeAddBudget(1, 1, candidates=[(0, 3), (1, 4), (0, 4)]))
    found = certgcl.node_compactness(network, graph, changes, method="exact")
    for edges, reason in (
        ([[0, 0], [3, 4]], "adds 2 edges at node 0"),
        ([[0, 1], [3, 4]], "beyond the total"),
        ([[0], [0]], "join two of the nodes"),
    ):
        with pytest.raises(CertificateError, match=reason):
            _edited(found, edges).save(tmp_path / "forged.npz")
    for edges in ([[0], [2]], [[0], [1]]):  # no candidate; an edge of the graph
        assert not _edited(found, edges).verify(network, graph).ok


def test_the_audit_adds_edges() -> None:
    graph, network = random_graph(), toy_network()
    report = audit(network, graph, Changes(drops=1, additions=1), samples=12, searches=2)
    assert not len(report.violations)
    plain = audit(network, graph, 1, samples=12, searches=2)
    assert float((report.lowest - plain.lowest).mean()) < 0
