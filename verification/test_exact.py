"""Branch and bound against enumeration: brackets hold the minimum, and close on it."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import certgcl
from certgcl.bounds import BranchAndBound, ChangeProblem
from certgcl.bounds.exact import Brackets
from verification.audit import LEDGER, certify, tolerance, weights
from verification.case import Case
from verification.network_audit import certify_network, enter, library_graph, library_network, network_tolerance, truth
from verification.network_case import NetworkCase
from verification.network_oracle import embeddings
from verification.networks import KINDS, network_cases
from verification.oracle import enumerated_minimum, nominal
from verification.strategies import cases, gaussian_case

FEWER = settings(max_examples=max(1, settings().max_examples // 4))  # a tree for every node of every case


def search(case: Case, branch_limit: int | None = None, tolerance: float = 1e-9) -> Brackets:
    graph = certgcl.Graph.from_networkx(case.graph, case.x)
    drops = certgcl.EdgeDropBudget(case.local, case.total).on(graph)
    problem = ChangeProblem(graph, drops, torch.arange(case.nodes))
    bound = BranchAndBound(branch_limit=branch_limit, tolerance=tolerance)
    return bound.brackets(weights(case), problem, case.directions)


# Directions of almost nothing: brackets that are narrow in absolute numbers are not closed.
TINY = gaussian_case(nx.cycle_graph(5), seed=1).with_budget(2)
TINY = replace(TINY, directions=1e-15 * TINY.directions)


@FEWER
@given(cases())
@example(TINY)
def test_brackets_hold_the_minimum_and_exact_ones_are_it(case: Case) -> None:
    truth, slack = enumerated_minimum(case), tolerance(case)
    degree = certify(case, "degree").lower
    for name, limit in (("optimized", 128), ("exact", None)):
        found = search(case, limit)
        assert not len(LEDGER.enter(name, case, found.lower, truth, nominal(case)))
        assert (found.lower <= truth + slack).all()
        assert (found.upper >= truth - slack).all()
        assert (found.lower >= degree - slack).all()
    assert found.exact.all()
    assert ((found.upper - truth).abs() <= slack).all()
    assert ((found.lower - truth).abs() <= slack).all()


@FEWER
@given(cases())
@example(TINY)
def test_a_tolerance_ends_the_search_and_never_lifts_the_bound(case: Case) -> None:
    truth, slack = enumerated_minimum(case), tolerance(case)
    for wide in (0.01, 0.3):
        found = search(case, tolerance=wide)
        assert (found.lower <= truth + slack).all()
        width = wide * nominal(case).abs().maximum(found.upper.abs())
        assert (found.upper - found.lower <= width + slack).all()


@FEWER
@given(cases())
def test_a_witness_replays_to_its_value(case: Case) -> None:
    found = search(case, 8)
    budget = torch.tensor(case.node_budgets())
    for node, witness in enumerate(found.witnesses):
        kept = [edge for edge in case.edges if list(edge) not in witness.T.sort(dim=1).values.tolist()]
        lost = torch.bincount(witness.flatten(), minlength=case.nodes)
        assert (lost <= budget).all()
        assert witness.shape[1] <= case.graph_budget()
        edges = torch.tensor(kept, dtype=torch.long).reshape(-1, 2).T
        view = certgcl.Graph.from_edges(case.x, torch.cat([edges, edges.flip(0)], dim=1))
        value = weights(case).embed(view)[node] @ case.directions[node]
        assert abs(float(value - found.upper[node])) <= float(tolerance(case)[node])


# -- networks --------------------------------------------------------------------------------------


def search_network(case: NetworkCase, branch_limit: int | None = None) -> Brackets:
    graph = library_graph(case)
    problem = ChangeProblem(graph, certgcl.EdgeDropBudget(case.local, case.total).on(graph), torch.arange(case.nodes))
    return BranchAndBound(branch_limit=branch_limit).brackets(
        library_network(case), problem, torch.from_numpy(case.directions)
    )


def audit_network(case: NetworkCase) -> None:
    """Brackets hold the minimum and close on it, and a witness replays to its value."""
    (minimum, clean), slack = truth(case), network_tolerance(case)
    degree = certify_network(case, "degree").lower
    for name, limit in (("optimized", 8), ("exact", None)):
        found = search_network(case, limit)
        assert not len(enter(LEDGER, (f"{name}, networks",), case, found.lower, minimum, clean))
        assert (found.upper >= minimum - slack).all()
        assert (found.lower >= degree - slack).all()
    assert found.exact.all()
    assert ((found.upper - minimum).abs() <= slack).all()
    assert (minimum - found.lower <= 1e-9 * clean.abs().maximum(minimum.abs()) + slack).all()
    budget = np.array(case.node_budgets())
    for node, witness in enumerate(found.witnesses):
        matrix, (one, other) = nx.to_numpy_array(case.graph, nodelist=range(case.nodes)), witness.numpy()
        matrix[one, other] = matrix[other, one] = 0
        assert (np.bincount(witness.flatten().numpy(), minlength=case.nodes) <= budget).all()
        assert witness.shape[1] <= case.graph_budget()
        value = (embeddings(case, matrix[None])[0, node] * case.directions[node]).sum()
        assert abs(value - float(found.upper[node])) <= float(slack[node])


@FEWER
@given(network_cases(max_depth=3), st.sampled_from([1, 8, 64]))
def test_brackets_of_networks_close_on_the_minimum(case: NetworkCase, few: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("certgcl.bounds.exact.networks.tree.FEW_SETS", few)  # so that small cases are cut as well
        audit_network(case)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=max(1, settings().max_examples // 20))
@given(data=st.data())
def test_the_same_for_every_kind(kind: str, data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("certgcl.bounds.exact.networks.tree.FEW_SETS", 1)
        audit_network(data.draw(network_cases(kinds=(kind,), max_depth=2)))
