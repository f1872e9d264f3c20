"""Bounds with sign patterns: never below those without, and the same however much of them is computed."""

from collections.abc import Iterator
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor

from certgcl.bounds import Degree, compiled
from certgcl.bounds.compiled import degree as compiled_degree
from certgcl.bounds.compiled import patterned_rows
from certgcl.bounds.propagation import sign_patterns
from certgcl.bounds.two_layer import anchor_functionals, patterned_output, row_plan
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.models import GraphNetwork, gcn_network
from tests.toys import drop_problem, hubs_and_others, random_tensor

GRAPH, LOCAL = hubs_and_others()
BUDGETS = {"local": LOCAL, "total": EdgeDropBudget(local=2, total=4), "everything": EdgeDropBudget()}
NONE = Degree(patterns=1)


@pytest.fixture(params=["kernels", "torch"])
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    with compiled.switched_off() if request.param == "torch" else nullcontext():
        yield request.param


def network(slope: float = 0.0, last: float = 0.0, hidden: int = 7) -> GraphNetwork:
    slopes = [torch.tensor(value, dtype=torch.float64) for value in (slope, last)]
    return gcn_network(
        (random_tensor(3, hidden, seed=1), random_tensor(hidden, seed=2), slopes[0]),
        (random_tensor(hidden, 4, seed=3), random_tensor(4, seed=4), slopes[1]),
    )


def values(method: Degree, model: GraphNetwork, budget: EdgeDropBudget = LOCAL) -> Tensor:
    return method(model, drop_problem(GRAPH, budget), random_tensor(GRAPH.num_nodes, 3, 4, seed=5))


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
@pytest.mark.parametrize("slopes", [(0.0, 0.0), (0.25, 1.6), (1.6, -0.3), (0.0, 1.0)])
def test_the_bound_is_never_below_that_without_patterns(
    slopes: tuple[float, float], budget: EdgeDropBudget, engine: str
) -> None:
    model = network(*slopes)
    plain = values(NONE, model, budget)
    for patterns in (None, 2, 16):
        found = values(Degree(patterns=patterns), model, budget)
        assert (found >= plain - 1e-12).all()
        assert (found > plain + 1e-4).any()


@pytest.mark.parametrize("patterns", [4, 32])
@pytest.mark.parametrize("hubs", [None, 4])
def test_kernels_and_torch_agree_where_rows_have_many_edges(
    patterns: int, hubs: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (patterned_rows, anchor_functionals):
        monkeypatch.setattr(module, "FEW_EDGES", 5)  # fewer than some rows have
    method = Degree(patterns=patterns, hubs=hubs)
    with compiled.switched_off():
        expected = values(method, network())
    torch.testing.assert_close(values(method, network()), expected)


def test_rows_of_many_edges_have_no_patterns(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_rows, model = values(Degree(patterns=4), network()), network()
    for module in (patterned_rows, anchor_functionals):
        monkeypatch.setattr(module, "FEW_EDGES", 0)
    at_the_output_alone = values(Degree(patterns=4), model)
    assert (with_rows > at_the_output_alone + 1e-4).any()
    assert (with_rows >= at_the_output_alone - 1e-12).all()


def test_wide_layers_have_patterns_at_the_output_alone() -> None:
    narrow, wide = Degree().sign_patterns(16), Degree().sign_patterns(17)
    assert (narrow.output, narrow.rows, wide.output, wide.rows) == (4, 4, 4, 1)
    assert Degree(patterns=8).sign_patterns(256) == (8, 8)
    assert NONE.sign_patterns(3) == sign_patterns.NONE


def test_it_does_not_matter_in_which_parts_cases_are_improved(monkeypatch: pytest.MonkeyPatch) -> None:
    together = values(Degree(), network())
    monkeypatch.setattr(sign_patterns, "FEW_CASES", 0)
    torch.testing.assert_close(values(Degree(), network()), together)
    monkeypatch.setattr(patterned_output, "MAX_VALUES", 500)
    monkeypatch.setattr(compiled_degree, "MAX_NUMBERS", 500)
    torch.testing.assert_close(values(Degree(), network()), together)


def test_large_anchors_have_no_patterns(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    around = torch.zeros_like(GRAPH.degree).index_add_(0, GRAPH.row, GRAPH.degree[GRAPH.col])
    limit = int(around.median())
    plain, found = values(NONE, network()), values(Degree(), network())
    monkeypatch.setattr(sign_patterns, "MOST_AROUND", limit)
    torch.testing.assert_close(values(Degree(), network()), torch.where((around <= limit)[:, None], found, plain))


def test_gradients_of_the_deciding_cases_are_those_of_finite_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sign_patterns, "FEW_CASES", 0)
    model, problem = network(0.1, 0.2), drop_problem(GRAPH, LOCAL, [3, 21, 25, 30])
    given = [tensor.clone().requires_grad_() for _, tensor in model.named_tensors()]
    directions = random_tensor(GRAPH.num_nodes, 1, 4, seed=6).requires_grad_()

    def bound(*tensors: Tensor) -> Tensor:
        *weights, directions = tensors
        kept = iter(weights)
        return Degree(patterns=4)(model.mapped(lambda _: next(kept)), problem, directions)

    assert torch.autograd.gradcheck(bound, (*given, directions), fast_mode=True)


def test_a_plan_of_some_cases_has_their_counts_and_lines() -> None:
    plan = row_plan.RowPlan(drop_problem(GRAPH, LOCAL).neighbourhood(torch.float64), 6, "by-count")
    chosen = torch.tensor([0, 3, 7, 8])
    some = plan.only(chosen)
    assert torch.equal(some.flat.row, plan.flat.row[chosen])
    assert torch.equal(some.own_case, plan.flat.case[chosen])
    for ends, part in (
        (plan.anchor_cases.first, some.anchor_cases.first),
        (plan.anchor_cases.last, some.anchor_cases.last),
    ):
        assert torch.equal(part[some.flat.row, some.flat.case], ends[plan.flat.row[chosen], plan.flat.case[chosen]])
    assert plan.flat_tables is not some.flat_tables
