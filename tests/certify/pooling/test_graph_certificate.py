"""Certificates of whole graphs: in files, held against model and graphs, and as tables."""

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

import certgcl
from certgcl import EdgeDropBudget, GraphCertificate, graph_bounds, graph_compactness
from certgcl.errors import CertificateError
from tests.certify.pooling.test_pooled_bounds import Nodes, Pooling, graphs

GRAPHS, MODEL = graphs(), Pooling("mean").eval()
ENCODER = Nodes(MODEL).eval()
DIRECTIONS = torch.randn(4, 3, 2, generator=torch.Generator().manual_seed(1))
BUDGET = EdgeDropBudget(local=1, total=2)


def compact(**changed: Any) -> GraphCertificate:
    return graph_compactness(**{"model": ENCODER, "graphs": GRAPHS, "budgets": BUDGET, "pool": "sum", **changed})


@pytest.fixture(scope="module")
def margins() -> GraphCertificate:
    return graph_bounds(MODEL, GRAPHS, BUDGET, DIRECTIONS)


def wrong(certificate: GraphCertificate, **arguments: Any) -> set[str]:
    """The checks that fail."""
    found = certificate.verify(**{"model": ENCODER, "graphs": GRAPHS, "pool": "sum", **arguments})
    assert found.ok == (not any(check.ok is False for check in found.checks))
    return {check.name for check in found.checks if check.ok is False}


def test_a_file_gives_back_all_of_it(margins: GraphCertificate, tmp_path: Path) -> None:
    for certificate in (margins, compact()):
        path = certificate.save(tmp_path / "certificate.npz", {"by": "a test"})
        loaded, notes = GraphCertificate.load_with_notes(path)
        assert notes == {"by": "a test"}
        for field in fields(certificate):
            there, here = getattr(certificate, field.name), getattr(loaded, field.name)
            if isinstance(there, Tensor):
                assert torch.equal(there, here)
                assert there.dtype == here.dtype
            elif field.name != "witnesses":
                assert there == here
        assert all(
            torch.equal(one, other)
            for mine, its in zip(certificate.witnesses, loaded.witnesses, strict=True)
            for one, other in zip(mine, its, strict=True)
        )


def test_a_changed_byte_and_other_files_are_refused(tmp_path: Path) -> None:
    path = compact().save(tmp_path / "certificate.npz")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(CertificateError):
        GraphCertificate.load(path)
    nodes = certgcl.node_compactness(ENCODER, GRAPHS[0], 1).save(tmp_path / "nodes.npz")
    with pytest.raises(CertificateError, match="certgcl-graph-certificate-2"):
        GraphCertificate.load(nodes)
    with pytest.raises(CertificateError, match="certgcl-certificate"):
        certgcl.Certificate.load(compact().save(path))


def test_what_was_certified_is_verified(margins: GraphCertificate) -> None:
    assert wrong(compact()) == set()
    found = margins.verify(MODEL, GRAPHS, directions=DIRECTIONS)
    assert found.ok
    assert [check.name for check in found.checks if check.ok is None] == ["bounds"]
    assert wrong(margins, model=MODEL, pool=None, directions=DIRECTIONS + 1) == {"directions"}
    several = [replace_features(graph) for graph in GRAPHS]
    assert wrong(compact(), graphs=several) >= {"features", "clean values", "witnesses"}


def replace_features(graph: Data) -> Data:
    return Data(x=graph.x + 0.25, edge_index=graph.edge_index)


def test_another_model_or_graph_or_order_is_found() -> None:
    certificate = compact()
    other = Nodes(Pooling("sum", "sage")).eval()
    assert "weights" in wrong(certificate, model=other)
    assert "weights" in wrong(certificate, pool="mean")
    assert "edges" in wrong(certificate, graphs=GRAPHS[::-1])
    assert "edges" in wrong(certificate, graphs=GRAPHS[:3])
    fewer = [*GRAPHS[:3], Data(x=GRAPHS[3].x, edge_index=GRAPHS[3].edge_index[:, :0])]
    assert {"edges", "budgets"} <= wrong(certificate, graphs=fewer)


@pytest.mark.parametrize(
    ("name", "change", "found"),
    [
        ("nominal", lambda value: value + 1, "clean values"),
        ("upper", lambda value: value + 1, "witnesses"),
        ("lower", lambda value: value + 1e3, "fields"),
        ("lower", lambda value: value * torch.nan, "fields"),
        ("rounding", lambda value: -value - 1, "fields"),
        ("directions", lambda value: value.flip(0), "directions"),
        ("requested_budget", lambda value: value + 1, "budgets"),
        ("total_budget", lambda value: value + 1, "budgets"),
        ("local_budget", lambda value: value + 5, "fields"),
        ("sizes", lambda value: value.flip(0), "edges"),
        ("most_dropped", lambda value: value + 10, "fields"),
        ("enumerated", lambda value: value.long(), "fields"),
        ("pool", lambda value: "median", "fields"),
        ("method", lambda value: "paper", "fields"),
        ("witnesses", lambda value: value[:-1], "fields"),
        ("witnesses", lambda value: ((torch.tensor([[0], [0]]),), *value[1:]), "fields"),
        ("witnesses", lambda value: ((torch.tensor([[0, 1], [1, 0]]),), *value[1:]), "fields"),
        ("witnesses", lambda value: ((torch.tensor([[99], [0]]),), *value[1:]), "fields"),
    ],
)
def test_a_changed_certificate_is_found(name: str, change: Any, found: str, tmp_path: Path) -> None:
    certificate = compact()
    changed = replace(certificate, **{name: change(getattr(certificate, name))})
    names = wrong(changed)
    assert found in names or (found == "edges" and names)
    if found == "fields":
        with pytest.raises(CertificateError):
            changed.save(tmp_path / "certificate.npz")


def test_witnesses_that_the_graph_does_not_have_are_found() -> None:
    certificate = compact()
    there = {tuple(edge) for edge in GRAPHS[0].edge_index.T.tolist()}
    missing = next((i, j) for i in range(7) for j in range(i + 1, 7) if (i, j) not in there)
    free = certificate.local_budget[:7]
    if int(free[list(missing)].min()) == 0:
        pytest.skip("no budget at these nodes")
    other = ((torch.tensor(missing)[:, None],), *certificate.witnesses[1:])
    assert wrong(replace(certificate, witnesses=other)) == {"witnesses"}


def test_tables_have_a_row_for_each_graph_and_direction(margins: GraphCertificate) -> None:
    frame = margins.to_frame()
    assert len(frame) == 12
    assert list(frame["direction"][:4]) == [0, 1, 2, 0]
    assert frame["lower"].tolist() == margins.lower.flatten().tolist()
    assert len(compact().to_frame()) == 4
    summary = json.loads(json.dumps(margins.summary()))
    assert (summary["graphs"], summary["values"]) == (4, 12)
    assert "positive" in margins._repr_html_()
    assert json.loads(json.dumps(margins.to_dict()))["nodes"] == [7, 8, 9, 10]
