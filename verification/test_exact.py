"""Branch and bound against enumeration: brackets hold the minimum, and close on it."""

from dataclasses import replace

import networkx as nx
import torch
from hypothesis import example, given, settings

import certgcl
from certgcl.bounds import BranchAndBound, DropProblem
from certgcl.bounds.exact import Brackets
from verification.audit import LEDGER, certify, tolerance, weights
from verification.case import Case
from verification.oracle import enumerated_minimum, nominal
from verification.strategies import cases, gaussian_case

FEWER = settings(max_examples=max(1, settings().max_examples // 4))  # a tree for every node of every case


def search(case: Case, branch_limit: int | None = None, tolerance: float = 1e-9) -> Brackets:
    graph = certgcl.Graph.from_networkx(case.graph, case.x)
    drops = certgcl.EdgeDropBudget(case.local, case.total).on(graph)
    problem = DropProblem(graph, drops, torch.arange(case.nodes))
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
