"""No single admissible drop leaves fewer nodes positive than a collective certificate says."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import certgcl
from certgcl.attacks import field
from certgcl.attacks.field import Reach
from certgcl.certify import touched_edges
from certgcl.certify.collective_bound import CollectiveProblem
from verification.network_audit import certify_network, library_graph, library_network, truth
from verification.network_case import Array, NetworkCase, PlainActivation
from verification.network_oracle import adjacencies, embeddings, values
from verification.networks import RELU, Builder, network_case, network_cases
from verification.together import (
    TogetherCase,
    certify_together,
    pooled_cases,
    together_truth,
    together_values,
)


def pointing_up(case: NetworkCase, clean: Array | None = None) -> NetworkCase:
    """The same case with every direction turned so that the clean value is not negative."""
    clean = values(case.with_budget(0))[0] if clean is None else clean
    return replace(case, directions=case.directions * np.where(clean < 0, -1.0, 1.0)[:, None])


def certificates(case: NetworkCase, *, exact: bool) -> list[certgcl.Certificate]:
    """For every total up to that of the case; with the enumerated minima instead of bounds, the hardest test."""
    found = []
    for total in range(min(case.graph_budget(), 3) + 1):
        limited = case.with_budget(case.local, total)
        certificate = certify_network(limited, "degree")
        found.append(replace(certificate, lower=truth(limited)[0]) if exact else certificate)
    return found


def least_survivors(case: NetworkCase) -> int:
    """By enumeration."""
    return int((values(case) > 0).sum(axis=1).min())


def collective(case: NetworkCase, *, exact: bool = True) -> certgcl.CollectiveCertificate:
    return certgcl.collective_certificate(certificates(case, exact=exact), library_network(case), library_graph(case))


@given(network_cases(max_depth=3), st.booleans())
def test_no_drop_leaves_fewer_positive_than_certified(case: NetworkCase, exact: bool) -> None:
    case = pointing_up(case.with_budget(case.local, min(case.graph_budget(), 3)))
    found = collective(case, exact=exact)
    assert found.alone <= found.lower <= least_survivors(case)


@cache
def tree_case(kind: str, seed: int) -> NetworkCase:
    """A tree that is longer than the receptive fields, with two edges to drop."""
    graph = nx.random_labeled_tree(12, seed=seed)
    builder = Builder(np.random.default_rng(seed), RELU, 3, features=2, shift=0.15)
    return pointing_up(network_case(graph, kind, 2, builder).with_budget(None, 2))


@pytest.mark.parametrize("kind", ["GCN", "SAGE mean", "GIN"])
def test_on_trees_more_survive_together_than_one_by_one(kind: str) -> None:
    found = [collective(tree_case(kind, seed)) for seed in range(6)]
    truths = [least_survivors(tree_case(kind, seed)) for seed in range(6)]
    assert all(one.lower <= least for one, least in zip(found, truths, strict=True))
    assert sum(one.lower for one in found) > sum(one.alone for one in found)


def _shorter(patch: pytest.MonkeyPatch) -> None:
    """A receptive field that is one hop too small."""
    of = Reach.of.__func__  # type: ignore[attr-defined]

    def wrong(cls: type[Reach], network: certgcl.GraphNetwork) -> Reach:
        reach = of(cls, network)
        return replace(reach, counts=reach.counts - 1)

    patch.setattr(field.Reach, "of", classmethod(wrong))
    assert touched_edges.Reach is field.Reach


def _cheaper(patch: pytest.MonkeyPatch) -> None:
    """Nodes that take one more edge than they need."""
    problem = certgcl.certify.collective.collective_problem
    patch.setattr(
        certgcl.certify.collective,
        "collective_problem",
        lambda *given: problem(*given[:-1], given[-1] + np.array([1, 0, 0, 0])),
    )


def rim_case(kind: str, hops: int) -> NetworkCase:
    """A path where only the last edge of node 0's receptive field may be dropped, and node 0 is lost without it."""
    graph = nx.path_graph(6)
    builder = Builder(np.random.default_rng(1), PlainActivation("two-piece linear", 0.3), 3, features=2)
    case = network_case(graph, kind, 2, builder).with_budget([int(node in (hops, hops + 1)) for node in graph])
    clean, changed = embeddings(case, adjacencies(case))[:, 0]
    towards = clean - changed
    directions = np.zeros((6, 3))
    # A positive value that falls below zero with the drop: half of what the drop takes away along this direction.
    directions[0] = towards - (towards @ (clean + changed) / 2) * clean / (clean @ (clean + changed) / 2)
    return pointing_up(replace(case, directions=directions))


@pytest.mark.parametrize("mutation", [_shorter, _cheaper])
@pytest.mark.parametrize(("kind", "hops"), [("GCN", 2), ("SAGE mean", 1), ("GIN", 1)])
def test_wrong_receptive_fields_are_caught(
    monkeypatch: pytest.MonkeyPatch, kind: str, hops: int, mutation: Callable[[pytest.MonkeyPatch], None]
) -> None:
    case = rim_case(kind, hops)
    before, after = values(case)[:, 0]
    assert before > 0 > after
    assert collective(case).lower == 0
    mutation(monkeypatch)
    assert collective(case).lower == 1


def test_multipliers_of_any_kind_prove_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Soundness does not depend on the solver."""
    problems: list[CollectiveProblem] = []
    solve = CollectiveProblem.most_lost
    monkeypatch.setattr(CollectiveProblem, "most_lost", lambda self, limit: problems.append(self) or solve(self, limit))
    for seed in range(6):
        case = tree_case("GCN", seed)
        found, problem = collective(case), problems[-1]
        random, lost = np.random.default_rng(0), int((found.largest_total >= 0).sum()) - least_survivors(case)
        nodes, limits = problem.fields.shape[0], len(problem.most)
        for _ in range(50):
            assert problem.proved(random.exponential(0.2, nodes), random.exponential(0.3, limits)) >= lost
        assert problem.proved(np.full(nodes, np.nan), np.full(limits, np.nan)) >= lost
    assert any(problem.fields.nnz for problem in problems)


# -- added edges, flips and features ---------------------------------------------------------------


def limited(case: TogetherCase, edges: int, features: int) -> TogetherCase:
    """The same case with smaller totals."""
    changed, network = case.edges, case.edges.case
    if changed.flips:
        changed = replace(changed, case=network.with_budget(network.local, edges))
    else:
        changed = replace(changed, total=edges, case=network.with_budget(network.local, edges))
    counted = case.features.kind in ("masked", "bits")
    return TogetherCase(changed, replace(case.features, total=features) if counted else case.features)


def survivors(case: TogetherCase) -> int:
    """The least number of positive nodes after any one change, by enumeration."""
    return int((together_values(case) > 0).sum(axis=1).min())


@given(pooled_cases(), st.integers(0, 2), st.integers(0, 2), st.booleans())
def test_no_change_leaves_fewer_positive_than_certified(
    case: TogetherCase, edges: int, features: int, exact: bool
) -> None:
    clean = together_values(limited(case, 0, 0))[0]
    case = replace(case, edges=case.edges.with_directions(pointing_up(case.edges.case, clean).directions))
    levels = {limited(case, e, f) for e in range(edges + 1) for f in range(features + 1)}
    whole = limited(case, edges, features)
    found = []
    for each in [*levels, whole]:
        certificate = certify_together(each, "degree")
        found.append(replace(certificate, lower=together_truth(each)[0]) if exact else certificate)
    network, graph = library_network(case.edges.case), library_graph(case.edges.case)
    answer = certgcl.collective_certificate(found, network, graph)
    assert answer.alone <= answer.lower <= survivors(whole)


@pytest.mark.parametrize("features", [False, True])
def test_several_survive_what_one_change_cannot_reach(features: bool) -> None:
    """A flipped edge, or a masked feature, on trees that are longer than the receptive fields."""
    lower = alone = 0
    for seed in range(4):
        case = tree_case("SAGE mean", seed)
        network, graph, directions = library_network(case), library_graph(case), torch.from_numpy(case.directions)
        found = []
        for total in range(2):
            flips = certgcl.Changes(flips=certgcl.EdgeFlipBudget(total=total, candidates="two-hop"))
            masked = certgcl.Changes(features=certgcl.FeatureBudget(masked=1, total=total))
            found.append(certgcl.linear_bounds(network, graph, masked if features else flips, directions))
        answer = certgcl.collective_certificate(found, network, graph)
        lower, alone = lower + answer.lower, alone + answer.alone
    assert lower > alone
