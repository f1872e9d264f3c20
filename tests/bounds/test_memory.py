"""Anchors in parts that fit in a given memory."""

from types import SimpleNamespace

import psutil
import pytest
import torch

import certgcl
from certgcl.bounds import METHODS, ChangeProblem
from certgcl.bounds.memory import BASE, default_limit, estimated_bytes, parts_that_fit, values_for_channels
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.errors import InputError
from tests.toys import drop_problem, random_graph, toy_network


@pytest.mark.parametrize("method", METHODS)
def test_parts_hold_every_anchor_once_and_stay_below_the_limit(method: str) -> None:
    graph, weights, bound = random_graph(), toy_network(), METHODS[method]
    problem = drop_problem(graph, EdgeDropBudget(local=2), [7, 3, 11, 0, 5])
    whole = estimated_bytes(bound, weights, problem, directions=1)
    assert [part.tolist() for part in parts_that_fit(bound, weights, problem, 1, whole)] == [[0, 1, 2, 3, 4]]
    limit = BASE + (whole - BASE) * 3 // 4
    parts = parts_that_fit(bound, weights, problem, 1, limit)
    assert len(parts) > 1
    assert sorted(torch.cat(parts).tolist()) == [0, 1, 2, 3, 4]
    for part in parts:
        small = drop_problem(graph, EdgeDropBudget(local=2), problem.anchors[part].tolist())
        assert len(part) == 1 or estimated_bytes(bound, weights, small, 1) <= limit


def test_an_anchor_is_done_however_small_the_limit() -> None:
    problem = drop_problem(random_graph(), EdgeDropBudget(local=1), [2, 4])
    assert sorted(len(part) for part in parts_that_fit(METHODS["degree"], toy_network(), problem, 1, 1)) == [1, 1]


def test_channels_of_layer_2_get_what_the_limit_leaves() -> None:
    bound, weights, graph = METHODS["degree"], toy_network(), random_graph()
    drops, anchors = EdgeDropBudget(local=2).on(graph), torch.arange(graph.num_nodes)

    def room(limit: int | None) -> int:
        return values_for_channels(bound, weights, ChangeProblem(graph, drops, anchors, limit))

    assert room(None) == room(1) == 0
    assert room(2 * BASE) > 0
    assert room(3 * BASE) == room(2 * BASE) + BASE // 8


def test_a_table_of_all_nodes_is_not_copied_for_them() -> None:
    values = torch.arange(12)
    assert drop_problem(random_graph(), 1).at_anchors(values) is values
    assert drop_problem(random_graph(), 1, [7, 3]).at_anchors(values).tolist() == [7, 3]
    assert drop_problem(random_graph(), 1, [*range(11, -1, -1)]).at_anchors(values).tolist() == [*range(11, -1, -1)]


@pytest.mark.parametrize("nodes", [None, [9, 2, 5]])
def test_a_certificate_in_parts_is_that_in_one(nodes: list[int] | None) -> None:
    graph, weights = random_graph(), toy_network()
    one = certgcl.node_compactness(weights, graph, 2, nodes=nodes)
    parts = certgcl.node_compactness(weights, graph, 2, nodes=nodes, memory_limit=1)
    assert torch.equal(one.nodes, parts.nodes)
    assert torch.allclose(one.lower, parts.lower, rtol=0, atol=1e-12)
    assert torch.equal(one.nominal, parts.nominal)


@pytest.mark.parametrize("limit", [0, -1, "4GB", True, float("nan"), float("inf")])
def test_a_limit_is_a_positive_number_of_bytes(limit: object) -> None:
    with pytest.raises(InputError, match="memory_limit"):
        certgcl.node_compactness(toy_network(), random_graph(), 1, memory_limit=limit)  # type: ignore[arg-type]


def test_by_default_most_of_the_free_memory_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=1000))
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    assert default_limit(torch.device("cpu")) == 750
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")  # torchrun says so
    assert default_limit(torch.device("cpu")) == 375


@pytest.mark.parametrize("number", ["", "0", "two", "-1"])
def test_the_processes_of_torchrun_are_counted(number: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", number)
    with pytest.raises(InputError, match=f"LOCAL_WORLD_SIZE='{number}'"):
        default_limit(torch.device("cpu"))
