"""A certificate held against model and graph: right ones pass, and every wrong part is named."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import certgcl
from certgcl.bounds import METHODS
from certgcl.certify.certificate import Certificate
from certgcl.certify.verify import Verification
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.errors import InputError
from tests.certify.certificates import rewritten
from tests.toys import changed, random_graph, random_tensor, tensors_of, toy_network, without

GRAPH, WEIGHTS = random_graph(nodes=14, density=0.25), toy_network()
EDGE = tuple(GRAPH.edge_index[:, 0].tolist())


@cache
def certified(method: str = "exact") -> Certificate:
    return certgcl.node_compactness(WEIGHTS, GRAPH, 1, method=method)


def wrong(verification: Verification) -> list[str]:
    assert verification.ok == (not any(check.ok is False for check in verification.checks))
    return [check.name for check in verification.checks if check.ok is False]


# -- right -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [*METHODS, "exact", "optimized"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_certificate_of_this_model_and_graph_is_verified(method: str, dtype: torch.dtype, tmp_path: Path) -> None:
    certificate = certgcl.node_compactness(WEIGHTS, GRAPH, EdgeDropBudget(2, total=5), method=method, dtype=dtype)
    found = Certificate.load(certificate.save(tmp_path / "c.npz")).verify(WEIGHTS, GRAPH)
    assert found.ok, found
    checked = {check.name: check.ok for check in found.checks}
    assert checked == {
        "fields": True,
        "weights": True,
        "edges": True,
        "features": True,
        "budgets": True,
        "directions": True,
        "clean values": True,
        "norms": True,
        "bounds": None,
        "witnesses": None if certificate.upper is None else True,
    }


def test_a_module_and_the_source_of_a_graph_will_do() -> None:
    torch.manual_seed(0)
    encoder = certgcl.GCNEncoder(3, 8, 4, "prelu").eval()
    certificate = certgcl.node_compactness(encoder, GRAPH, 0.4, method="optimized")
    assert certificate.verify(encoder, (GRAPH.x, GRAPH.edge_index.flip(1))).ok
    assert certificate.verify(certgcl.read_network(encoder, GRAPH), GRAPH).ok
    assert wrong(certificate.verify(encoder.double(), GRAPH)) == ["weights"]


def test_two_views_and_a_second_view() -> None:
    assert certgcl.node_compactness(WEIGHTS, GRAPH, 1, views="both").verify(WEIGHTS, GRAPH).ok
    view = without(GRAPH, (EDGE,))
    certificate = certgcl.node_compactness(WEIGHTS, GRAPH, 1, view=view)
    assert certificate.verify(WEIGHTS, GRAPH, view=view).ok
    missing, other = certificate.verify(WEIGHTS, GRAPH), certificate.verify(WEIGHTS, GRAPH, view=GRAPH)
    assert wrong(missing) == wrong(other) == ["directions"]
    assert "no view was passed" in str(missing)
    assert "another view was passed" in str(other)


@pytest.mark.parametrize("shape", [(14, 3), (14, 2, 3)])
def test_directions_of_ones_own(shape: tuple[int, ...]) -> None:
    directions = random_tensor(*shape, seed=4)
    certificate = certgcl.linear_bounds(WEIGHTS, GRAPH, 1, directions, nodes=[3, 1])
    without_them = certificate.verify(WEIGHTS, GRAPH)
    assert without_them.ok
    assert {check.name: check.ok for check in without_them.checks}["directions"] is None
    assert {
        check.ok
        for check in certificate.verify(WEIGHTS, GRAPH, directions=directions).checks
        if check.name == "directions"
    } == {True}
    assert wrong(certificate.verify(WEIGHTS, GRAPH, directions=directions + 1e-9)) == ["directions"]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")  # once in a process
def test_some_nodes_alone() -> None:
    values = certified().nominal.clone()
    values[5] += 1
    changed = replace(certified(), nominal=values)
    assert wrong(changed.verify(WEIGHTS, GRAPH)) == ["clean values"]
    assert wrong(changed.verify(WEIGHTS, GRAPH, nodes=[5, 2])) == ["clean values"]
    assert changed.verify(WEIGHTS, GRAPH, nodes=[4, 2]).ok
    part = certgcl.node_compactness(WEIGHTS, GRAPH, 1, nodes=[7, 3])
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    for nodes in ([3, 99], [1], [], [0.5], [[3]], "all", torch.ones(14, dtype=torch.bool), nested):
        with pytest.raises(InputError, match="node"):
            part.verify(WEIGHTS, GRAPH, nodes=nodes)  # type: ignore[arg-type]


def test_shards_are_verified_together(tmp_path: Path) -> None:
    certgcl.certify_shards(WEIGHTS, GRAPH, 1, tmp_path, method="exact", shards=3)
    assert certgcl.merge_shards(tmp_path).verify(WEIGHTS, GRAPH).ok


# -- wrong -----------------------------------------------------------------------------------------


def test_another_model_is_named() -> None:
    found = wrong(certified().verify(toy_network(seed=1), GRAPH))
    assert found == ["weights", "directions", "clean values", "norms", "witnesses"]
    nearly = changed(WEIGHTS, w1=tensors_of(WEIGHTS)[0].nextafter(torch.tensor(9.0)))
    assert wrong(certified().verify(nearly, GRAPH)) == ["weights"]
    narrow = certified().verify(toy_network(outputs=2), GRAPH)
    assert set(wrong(narrow)) >= {"weights", "directions", "clean values"}
    assert "of a model with 3 outputs, not 2" in str(narrow)


def test_another_graph_is_named() -> None:
    other = certified().verify(WEIGHTS, without(GRAPH, (EDGE,)))
    assert {"edges", "budgets"} <= set(wrong(other))
    assert "14 nodes" in str(other)
    features = certified().verify(WEIGHTS, GRAPH.with_features(GRAPH.x.nextafter(torch.tensor(9.0))))
    assert wrong(features) == ["features"]
    small = certified().verify(WEIGHTS, random_graph(nodes=9))
    assert "of a graph with 14 nodes, not 9" in str(small)
    assert not small.ok


def swapped(name: str, value: Any) -> Certificate:
    return replace(certified(), **{name: value})


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"nominal": certified().nominal + 1}, ["clean values"]),
        ({"nominal": certified().nominal + 3 * certified().rounding}, ["clean values"]),
        ({"directions": certified().directions.flip(0)}, ["directions", "clean values", "witnesses"]),
        ({"directions": 2 * certified().directions}, ["directions", "clean values", "witnesses"]),
        ({"upper": certified().upper + 0.01}, ["witnesses"]),
        (
            {
                "local_budget": 0 * certified().local_budget,
                "witnesses": tuple(torch.empty(2, 0).long() for _ in range(14)),
                "upper": certified().nominal,
            },
            ["budgets"],
        ),
        ({"requested_budget": certified().requested_budget + 1}, ["budgets"]),
        ({"total_budget": certified().total_budget - 1}, ["budgets"]),
        ({"total_budget": certified().total_budget + 1}, ["budgets"]),
        (
            {"local_budget": certified().requested_budget + 1, "requested_budget": certified().requested_budget + 1},
            ["budgets"],
        ),
        ({"witnesses": tuple(torch.empty(2, 0).long() for _ in range(14))}, ["witnesses"]),
        ({"lower": certified().lower + 100}, ["fields"]),
        ({"rounding": -certified().rounding}, ["fields"]),
        ({"evidence": replace(certified().evidence, budget=certified().evidence.edges)}, ["budgets"]),
    ],
    ids=lambda value: ", ".join(value),
)
def test_a_changed_part_is_named(change: dict[str, Any], named: list[str]) -> None:
    assert wrong(certified().verify(WEIGHTS, GRAPH)) == []
    assert wrong(replace(certified(), **change).verify(WEIGHTS, GRAPH)) == named


def test_a_witness_of_edges_that_the_graph_does_not_have_is_named() -> None:
    present = {tuple(edge) for edge in GRAPH.edge_index.T.tolist()}
    allowed = certified().local_budget > 0
    absent = next((i, j) for i in range(14) for j in range(i) if (i, j) not in present and allowed[i] and allowed[j])
    witnesses = list(certified().witnesses or ())
    witnesses[2] = torch.tensor(absent)[:, None]
    found = swapped("witnesses", tuple(witnesses)).verify(WEIGHTS, GRAPH)
    assert wrong(found) == ["witnesses"]
    assert f"at node 2: a dropped edge {absent} that the graph does not have" in str(found)


def test_a_forged_file_is_found_out(tmp_path: Path) -> None:
    """With a checksum that fits, and bounds that fit each other."""
    path = certified("degree").save(tmp_path / "c.npz")
    certificate = certified("degree")
    rewritten(path, honest=True, lower=(certificate.lower + 5).numpy(), nominal=(certificate.nominal + 5).numpy())
    assert wrong(Certificate.load(path).verify(WEIGHTS, GRAPH)) == ["clean values"]


# -- what is printed -------------------------------------------------------------------------------


def test_every_check_has_a_line() -> None:
    good, bad = certified().verify(WEIGHTS, GRAPH), certified().verify(toy_network(seed=1), GRAPH)
    assert str(good).splitlines()[0] == "verified: 9 checks passed"
    assert str(bad).splitlines()[0] == "NOT verified: 5 checks failed"
    for verification in (good, bad):
        lines = str(verification).splitlines()[1:]
        assert [line.split()[0] for line in lines] == [
            {True: "ok", False: "WRONG", None: "-"}[check.ok] for check in verification.checks
        ]
        assert all(
            check.name in line and check.detail in line for check, line in zip(verification.checks, lines, strict=True)
        )
        assert json.loads(json.dumps(verification.to_dict())) == verification.to_dict()
    assert "lower, rounding, run_error and the budget curve are not proved again" in str(good)
