"""No bound of a pooled embedding lies above the minimum over all admissible drop sets of its graph."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import example, given
from hypothesis import strategies as st

import certgcl
from certgcl.attacks import field
from certgcl.attacks.field import Reach
from certgcl.bounds import get_method
from certgcl.certify.pooling.change_sets import GraphChangeSets
from certgcl.certify.pooling.graph_set import GraphSet
from certgcl.certify.pooling.items import Items
from certgcl.certify.pooling.multipliers import Array, Multipliers
from certgcl.certify.pooling.pooled_bounds import GraphBounds
from certgcl.certify.pooling.problem import PooledProblem
from certgcl.certify.pooling.set_changes import SetChanges
from certgcl.certify.pooling.shared_changes import KnownNodeValues, Limits, SharedChanges
from certgcl.errors import BoundError
from certgcl.models.pooled_network import Pool
from verification.network_audit import library_graph, library_network
from verification.network_case import NetworkCase
from verification.networks import RELU, Builder, network_case, network_cases
from verification.pooling_audit import (
    AIMS,
    POOLS,
    certify_pooled,
    pooled_tolerance,
    pooled_values,
    tightness,
    tree_case,
)

pools = pytest.mark.parametrize("pool", POOLS)

# Without two edges every node has more than its clean value, which says nothing about fewer drops.
TWO_EDGES_RAISE = network_case(
    nx.path_graph(4), "SAGE mean", 2, Builder(np.random.default_rng(4), RELU, width=3, features=1)
).with_budget(1, None)


@given(network_cases(max_depth=3), st.sampled_from(POOLS))
@example(TWO_EDGES_RAISE, "mean")
def test_no_bound_is_above_the_enumerated_minimum(case: NetworkCase, pool: Pool) -> None:
    least, allowed = pooled_values(case, pool).min(), pooled_tolerance(case)
    found = certify_pooled(case, pool)
    assert float(found.lower[0]) <= least + allowed
    assert float(found.upper[0]) >= least - allowed


@given(network_cases(max_depth=3), st.sampled_from(POOLS))
def test_what_is_enumerated_is_the_minimum(case: NetworkCase, pool: Pool) -> None:
    found = certify_pooled(case, pool, enumerate_up_to=512)
    assert bool(found.enumerated.all())
    for value in (found.lower, found.upper):
        assert abs(float(value[0]) - pooled_values(case, pool).min()) <= pooled_tolerance(case)


@given(network_cases(max_depth=3), st.sampled_from(POOLS))
def test_with_one_edge_in_all_the_bound_is_the_minimum(case: NetworkCase, pool: Pool) -> None:
    case = case.with_budget(case.local, 1)
    least, scale = pooled_values(case, pool).min(), float(np.abs(pooled_values(case, pool)).max())
    found = float(certify_pooled(case, pool).lower[0])
    assert least - 1e-6 * scale - 1e4 * pooled_tolerance(case) <= found <= least + pooled_tolerance(case)


@given(network_cases(max_depth=2), st.sampled_from(POOLS), st.booleans())
def test_float32_is_sound_within_its_rounding(case: NetworkCase, pool: Pool, enumerated: bool) -> None:
    found = certify_pooled(case, pool, dtype=torch.float32, enumerate_up_to=512 * enumerated)
    directions = case.directions.astype(np.float32).astype(float)  # those of the computation
    least = pooled_values(replace(case, directions=directions), pool).min()
    assert float(found.lower[0] - found.rounding[0]) <= least


@given(network_cases(max_depth=2), st.sampled_from(POOLS))
def test_graphs_side_by_side_do_not_know_of_each_other(case: NetworkCase, pool: Pool) -> None:
    """Bounds of three graphs at once are those of each alone, whatever the others may lose."""
    network, budget = (
        library_network(case),
        certgcl.EdgeDropBudget(case.local if isinstance(case.local, int) else None, case.total),
    )
    graph = library_graph(case)
    empty = certgcl.Graph.from_edges(graph.x, graph.edge_index[:, :0])
    directions = torch.from_numpy(case.directions[:1])
    together = certgcl.graph_bounds(
        network, [empty, graph, graph], budget, directions.expand(3, -1), pool=pool, enumerate_up_to=0
    )
    alone = certgcl.graph_bounds(network, [graph], budget, directions, pool=pool, enumerate_up_to=0)
    close = 1e-9 * (1 + float(alone.lower.abs().max() + alone.nominal.abs().max())) + pooled_tolerance(case)
    assert float((together.lower[1:] - alone.lower).abs().max()) <= close
    assert float((together.nominal[0] - together.lower[0]).abs()) <= close


@pytest.mark.parametrize("local", [None, 1])
@pytest.mark.parametrize("kind", AIMS)
@pytest.mark.parametrize("limit", ["MOST_SINGLE_ROWS", "MOST_PAIR_ROWS"])
def test_the_same_where_edges_are_too_many_to_try_them_all(
    kind: str, local: int | None, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"certgcl.certify.pooling.pooled_bounds.{limit}", 0)
    for seed in range(4):
        case = tree_case(kind, seed, total=3).with_budget(local, 3)
        for pool in POOLS:
            least = pooled_values(case, pool).min()
            assert float(certify_pooled(case, pool).lower[0]) <= least + pooled_tolerance(case)


@pytest.mark.thorough
@pytest.mark.parametrize("pool", ["mean", "sum"])
@pytest.mark.parametrize("kind", AIMS)
def test_on_trees_the_bound_is_about_as_tight_as_it_should_be(kind: str, pool: Pool) -> None:
    ratio, wrong = tightness(kind, pool)
    assert (wrong, tightness(kind, pool, enumerate_up_to=256)) == (0, (pytest.approx(1.0), 0))
    assert 1 <= ratio <= AIMS[kind]


@pytest.mark.parametrize("kind", AIMS)
def test_any_multipliers_give_a_bound(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Soundness does not depend on the solver."""
    random = np.random.default_rng(0)

    def arbitrary(shared: SharedChanges, known: KnownNodeValues, time_limit: float | None) -> Multipliers:
        return Multipliers(
            random.normal(size=len(shared.node)),
            random.exponential(size=len(shared.limits.most)) * (random.random(len(shared.limits.most)) < 0.3),
        )

    found = {}
    by = SharedChanges.by
    monkeypatch.setattr("certgcl.certify.pooling.shared_changes.best_multipliers", arbitrary)
    monkeypatch.setattr(
        SharedChanges, "by", lambda self, known, each: found.setdefault(len(found), by(self, known, each))
    )
    for seed in range(6):
        found.clear()
        case = tree_case(kind, seed).with_budget(1 if seed % 2 else None, 2)
        pool = POOLS[seed % len(POOLS)]
        certify_pooled(case, pool)
        count = case.nodes if pool == "mean" else 1
        least = count * (pooled_values(case, pool).min() + pooled_tolerance(case))
        assert all(bound[0] <= least for bound, _ in found.values())
        assert len(found) == 4


# -- for a loss ------------------------------------------------------------------------------------


@pytest.mark.parametrize("pool", ["mean", "sum"])
@pytest.mark.parametrize("kind", AIMS)
def test_the_bound_of_a_loss_is_the_minimum_with_one_edge_in_all(kind: str, pool: Pool) -> None:
    for seed in range(6):
        case = tree_case(kind, seed, total=1)
        least = pooled_values(case, pool).min()
        assert abs(trained_with(case, pool) - least) <= 1e-9 * abs(least) + pooled_tolerance(case)


@pytest.mark.parametrize("kind", AIMS)
def test_the_bound_of_a_loss_without_runs_for_each_edge_is_no_higher(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("certgcl.certify.pooling.problem.MOST_ROWS", 0)
    for seed in range(6):
        case = tree_case(kind, seed).with_budget(1 if seed % 2 else None, 1 + seed % 3)
        assert trained_with(case, "sum") <= pooled_values(case, "sum").min() + pooled_tolerance(case)


def trained_with(case: NetworkCase, pool: Pool, method: str = "degree-fast") -> float:
    """The bound that a regularizer of whole graphs uses."""
    graphs = GraphSet.of([library_graph(case)])
    problem = PooledProblem(graphs, SetChanges.of(graphs, certgcl.EdgeDropBudget(case.local, case.total)))
    directions = torch.from_numpy(case.directions[:1])[:, None]
    return float(problem.lower(get_method(method), library_network(case).to(torch.float64), pool, directions))


@given(network_cases(max_depth=3), st.sampled_from(POOLS), st.sampled_from(("degree-fast", "degree", "crown")))
def test_the_bound_of_a_loss_is_no_higher(case: NetworkCase, pool: Pool, method: str) -> None:
    assert trained_with(case, pool, method) <= pooled_values(case, pool).min() + pooled_tolerance(case)


def several_edges_take_what_they_take_alone(patch: pytest.MonkeyPatch) -> None:
    """As if losses added up."""
    scores, alone = PooledProblem._by_edge_scores, PooledProblem._taken_alone
    seen: list[torch.Tensor] = []

    def noted(self: PooledProblem, *given: Any) -> torch.Tensor:
        seen.append(alone(self, *given))
        return seen[-1]

    patch.setattr(PooledProblem, "_taken_alone", noted)
    patch.setattr(PooledProblem, "_by_edge_scores", lambda self, pairs, taken: scores(self, pairs, seen[-1]))


def the_largest_score_is_left_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PooledProblem, "_counted", property(lambda self: torch.arange(1, int(self.changes.most_dropped[0]))))


def the_loss_forgets_nodes_far_away(patch: pytest.MonkeyPatch) -> None:
    an_edge_forgets_the_nodes_far_away(patch)


@pytest.mark.parametrize(
    "mutation",
    [several_edges_take_what_they_take_alone, the_largest_score_is_left_out, the_loss_forgets_nodes_far_away],
)
def test_wrong_bounds_of_a_loss_are_caught(
    mutation: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation(monkeypatch)
    assert any(
        trained_with(case, "sum") > pooled_values(case, "sum").min() + pooled_tolerance(case)
        for seed in range(20)
        for kind in ("GCN", "SAGE sum", "SAGE mean")
        for case in [tree_case(kind, seed)]
    )


# -- mutants ---------------------------------------------------------------------------------------


def an_edge_counts_for_one_node(patch: pytest.MonkeyPatch) -> None:
    def once(self: SharedChanges, a: Array) -> Array:
        found = np.zeros(self.fields.shape[1])
        np.maximum.at(found, self.fields.indices, a)
        return found

    patch.setattr(SharedChanges, "score", once)


def an_edge_forgets_the_nodes_far_away(patch: pytest.MonkeyPatch) -> None:
    of = Reach.of.__func__  # type: ignore[attr-defined]
    patch.setattr(
        field.Reach,
        "of",
        classmethod(lambda cls, network: replace(of(cls, network), counts=of(cls, network).counts - 1)),
    )


def a_graph_may_lose_one_edge_less(patch: pytest.MonkeyPatch) -> None:
    limits = Items.limits

    def one_less(self: Items) -> Limits:
        found = limits(self)
        return replace(found, most=found.most - np.isin(np.arange(len(found.most)), found.of_graphs))

    patch.setattr(Items, "limits", one_less)


def several_edges_take_nothing(patch: pytest.MonkeyPatch) -> None:
    init = KnownNodeValues.__init__

    def wrong(self: KnownNodeValues, *given: object) -> None:
        init(self, *given)  # type: ignore[arg-type]
        self.by_count[:, 2:] = np.maximum(self.by_count[:, 2:], self.values[:, :1])

    patch.setattr(KnownNodeValues, "__init__", wrong)


def a_channel_depends_on_the_first_node_alone(patch: pytest.MonkeyPatch) -> None:
    fields = GraphBounds._fields

    def wrong(self: GraphBounds, items: Items, near: bool) -> sp.csr_matrix:
        found = fields(self, items, near)
        if self.network.pool == "max":
            found = sp.csr_matrix(np.ones((found.shape[0], 1))) @ items.near(self.network.network)[:1]
        return found

    patch.setattr(GraphBounds, "_fields", wrong)


def two_edges_are_never_tried(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GraphChangeSets, "two", lambda self: [])


@pytest.mark.parametrize(
    ("mutation", "pool"),
    [
        (two_edges_are_never_tried, "sum"),
        (an_edge_counts_for_one_node, "sum"),
        (an_edge_forgets_the_nodes_far_away, "sum"),
        (a_graph_may_lose_one_edge_less, "sum"),
        (several_edges_take_nothing, "sum"),
        (an_edge_counts_for_one_node, "max"),
        (a_channel_depends_on_the_first_node_alone, "max"),
        (a_graph_may_lose_one_edge_less, "max"),
        (several_edges_take_nothing, "max"),
    ],
)
def test_wrong_bounds_are_caught(
    mutation: Callable[[pytest.MonkeyPatch], None], pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation(monkeypatch)
    for seed in range(20):
        for kind in ("GCN", "SAGE sum", "SAGE mean"):
            case = tree_case(kind, seed)
            try:
                lower = float(certify_pooled(case, pool).lower[0])
            except BoundError:
                return
            if lower > pooled_values(case, pool).min() + pooled_tolerance(case):
                return
    raise AssertionError("not caught")
