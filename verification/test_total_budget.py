"""A total budget counts: with one edge in all the bound is the minimum, and with a few it gains. It stays sound."""

from collections.abc import Callable
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import certgcl
from certgcl.bounds.propagation import limits
from certgcl.bounds.propagation.balls import Ball
from certgcl.bounds.propagation.falling_terms import FallingTerms
from certgcl.bounds.propagation.term_sets import TermSets
from certgcl.errors import BoundError
from verification.audit import certify, tolerance, violations, weights
from verification.case import Case
from verification.network_audit import (
    NETWORK_METHODS,
    certify_network,
    differentiable_bound,
    library_network,
    network_tolerance,
    truth,
)
from verification.network_case import NetworkCase
from verification.network_tightness import ROWS, Row, total_case
from verification.networks import network_cases
from verification.oracle import enumerated_minimum, nominal
from verification.strategies import cases, gaussian_case

METHODS = ("degree", "degree-cheap", "degree-fast")
WIDE = "degree, as for wide networks"


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


# -- networks of any depth -------------------------------------------------------------------------


@given(network_cases(), st.integers(1, 4), st.sampled_from([0, 3, limits.MOST_SETS]))
def test_with_a_few_edges_in_all_no_bound_of_a_network_is_above_the_minimum(
    case: NetworkCase, total: int, sets: int
) -> None:
    case = case.with_budget(case.local, total)
    minimum, _ = truth(case)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "MOST_SETS", sets)
        for name in NETWORK_METHODS:
            assert (certify_network(case, name).lower <= minimum + network_tolerance(case)).all(), name


@pytest.mark.parametrize("name", ["GCN, 3 layers", "SAGE mean", "SAGE sum", "GIN", "SGC", "APPNP, 3 layers"])
def test_a_price_for_lost_edges_only_raises_the_bound(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    random, drops = np.random.default_rng(2), np.zeros(3)
    for number in range(6):
        case = total_case(ROWS[name], random, number)
        minimum, clean = truth(case)
        counted = certify_network(case, "degree").lower
        with monkeypatch.context() as patch:
            patch.setattr(Ball, "most_lost", None)
            ignored = certify_network(case, "degree").lower
        assert (counted >= ignored - network_tolerance(case)).all()
        drops += [float((clean - value).sum()) for value in (counted, ignored, minimum)]
    assert drops[2] < drops[0] < drops[1]


@pytest.mark.parametrize("method", ["degree", WIDE])
@pytest.mark.parametrize("name", ["GCN, 3 layers", "SAGE mean", "GIN", "SGC"])
def test_gradients_of_networks_under_a_total_are_those_of_finite_differences(name: str, method: str) -> None:
    case = total_case(ROWS[name], np.random.default_rng(3), 1)
    network = library_network(case)
    first = network.layers[0].terms[0].weight

    def lower(weight: Tensor) -> Tensor:
        return differentiable_bound(case, method, network.mapped(lambda tensor: weight if tensor is first else tensor))

    assert torch.autograd.gradcheck(lower, (first.clone().requires_grad_(),))


# -- mutants ---------------------------------------------------------------------------------------

Mutation = Callable[[pytest.MonkeyPatch], None]


def one_edge_less_can_go(patch: pytest.MonkeyPatch) -> None:
    units = Ball.units
    patch.setattr(Ball, "units", lambda self, row, lost: (units(self, row, lost) - 1).clamp(min=0))


def an_edge_between_neighbours_counts_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ball, "units", lambda self, row, lost: (self.total[row] - lost).clamp(min=0))


def falls_are_divided_by_one_edge_more(patch: pytest.MonkeyPatch) -> None:
    at_price = FallingTerms.at_price

    def wrong(self: FallingTerms, price: Tensor) -> Tensor:
        assert self.fall is not None
        return at_price(self._replace(fall=self.fall / 2), price)

    patch.setattr(FallingTerms, "at_price", wrong)


def nothing_is_paid(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TermSets, "_paid", property(lambda self: torch.zeros_like(self.first)))


MUTANTS: list[tuple[Mutation, str]] = [
    (one_edge_less_can_go, "SGC"),
    (one_edge_less_can_go, "GIN"),
    (an_edge_between_neighbours_counts_once, "SGC"),
    (an_edge_between_neighbours_counts_once, "SAGE sum"),
    (falls_are_divided_by_one_edge_more, "SGC"),
    (falls_are_divided_by_one_edge_more, "GIN"),
    (nothing_is_paid, "SGC"),
]


def caught(row: Row, cases: int = 60) -> bool:
    random = np.random.default_rng(1)
    for number in range(cases):
        case = total_case(row, random, number)
        try:
            if bool((certify_network(case, "degree").lower > truth(case)[0] + 1e-7).any()):
                return True
        except BoundError:  # the library's own last check
            return True
    return False


@pytest.mark.thorough
@pytest.mark.parametrize(("mutation", "name"), MUTANTS, ids=[f"{one.__name__}, {name}" for one, name in MUTANTS])
def test_a_wrong_price_is_caught(mutation: Mutation, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation(monkeypatch)
    assert caught(ROWS[name])


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted({name for _, name in MUTANTS}))
def test_without_a_mutation_nothing_is_caught(name: str) -> None:
    assert not caught(ROWS[name])
