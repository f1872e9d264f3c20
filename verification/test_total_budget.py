"""A total budget counts: with one edge in all the bound is the minimum, and with a few it gains. It stays sound."""

from dataclasses import replace

import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import certgcl
from verification.audit import certify, tolerance, violations, weights
from verification.case import Case
from verification.oracle import enumerated_minimum, nominal
from verification.strategies import cases, gaussian_case

METHODS = ("degree", "degree-cheap", "degree-fast")


@given(cases())
def test_with_one_edge_in_all_the_bound_is_the_enumerated_minimum(case: Case) -> None:
    case = case.with_budget(case.local, 1)
    truth = enumerated_minimum(case)
    for name in METHODS:
        assert ((certify(case, name).lower - truth).abs() <= tolerance(case)).all(), name


@given(cases(), st.integers(2, 4))
def test_with_a_few_edges_in_all_every_bound_is_below_it(case: Case, total: int) -> None:
    case = case.with_budget(case.local, total)
    truth = enumerated_minimum(case)
    for name in METHODS:
        assert not len(violations(case, certify(case, name).lower, truth)), name


@pytest.mark.parametrize(("total", "share"), [(2, 0.85), (3, 0.95)])
def test_a_total_of_a_few_edges_raises_the_bound(total: int, share: float) -> None:
    ignored, counted = 0.0, 0.0
    for seed in range(5):
        case = gaussian_case(nx.random_labeled_tree(14, seed=seed), seed)
        clean = nominal(case)
        ignored += float((clean - certify(case.with_budget(2), "degree").lower).sum())
        counted += float((clean - certify(case.with_budget(2, total), "degree").lower).sum())
    assert counted < share * ignored


@pytest.mark.parametrize("total", [1, 2, 3])
def test_gradients_under_a_total_are_those_of_finite_differences(total: int) -> None:
    case = gaussian_case(nx.gnp_random_graph(6, 0.5, seed=1), 1, widths=(2, 3, 2))
    graph = certgcl.Graph.from_networkx(case.graph, case.x)
    drops = certgcl.EdgeDropBudget(2, total).on(graph)
    problem = certgcl.bounds.ChangeProblem(graph, drops, torch.arange(case.nodes))

    def lower(w1: torch.Tensor, w2: torch.Tensor) -> torch.Tensor:
        return certgcl.bounds.Degree()(weights(replace(case, w1=w1, w2=w2)), problem, case.directions[:, None])

    assert torch.autograd.gradcheck(lower, (case.w1.clone().requires_grad_(), case.w2.clone().requires_grad_()))
