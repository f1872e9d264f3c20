"""The numbers of a report, against the certificate and the model they are about."""

import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import networkx as nx
import pytest
import torch

import certgcl
from certgcl import Graph
from certgcl.certify.accuracy import certified_accuracy
from certgcl.certify.budget_curve import BudgetCurve
from certgcl.certify.other_budgets import deciding
from certgcl.changes.embedding_without_edges import DropEvaluation
from certgcl.errors import ReportError
from certgcl.report import ReportSource, build_report
from certgcl.report.content import (
    BREAKS,
    OPEN,
    PROVED,
    UNPROVED,
    Degrees,
    Explorer,
    Fragile,
    Missing,
    NodeTable,
    Summary,
)
from certgcl.report.page import render
from tests.report.report_pages import Page, data_of, source, whole_report
from tests.toys import random_graph, run_in, toy_graph, toy_network


@pytest.mark.parametrize("method", ["degree", "optimized", "released"])
def test_the_numbers_are_those_of_the_certificate(method: str) -> None:
    about = source(method)
    certificate = about.certificate
    assert certificate is not None
    numbers = build_report(about, sample=0).to_dict()
    assert numbers["values"]["node"] == certificate.nodes.tolist()
    for name in ("lower", "nominal", "upper"):
        expected = getattr(certificate, name)
        assert numbers["values"][name] == ([None] * 20 if expected is None else expected.tolist())
    summary = numbers["summary"]
    assert (summary["proved"], summary["share"]) == (int(certificate.positive.sum()), certificate.share_positive)
    assert (summary["lower_min"], summary["total"]) == (float(certificate.lower.min()), certificate.total_budget)
    assert summary["breaks"] == (None if certificate.upper is None else int(certificate.negative.sum()))
    rows = numbers["fragile"]["rows"]
    assert [row["lower"] for row in rows] == certificate.lower.sort().values.tolist()
    place = {node: place for place, node in enumerate(certificate.nodes.tolist())}
    for row in rows:
        assert row["nominal"] == float(certificate.nominal[place[row["node"]]])
        if certificate.upper is not None:
            assert row["upper"] == float(certificate.upper[place[row["node"]]])
            assert len(row["witness"]) == certificate.witness(row["node"]).shape[1]


def test_a_sign_says_what_is_known() -> None:
    about = source("optimized")
    certificate, report = about.certificate, build_report(about, sample=0)
    assert certificate is not None
    assert isinstance(report.values, NodeTable)
    for sign, positive, negative in zip(report.values.sign, certificate.positive, certificate.negative, strict=True):
        assert sign == (PROVED if positive else BREAKS if negative else OPEN)
    scores = build_report(source("released"), sample=0)
    assert isinstance(scores.values, NodeTable)
    assert set(scores.values.sign) == {UNPROVED}
    text = Page(render(scores)).text
    assert "Nothing is proved" in text
    assert "Not certified." in text
    assert "lower bound" not in text.lower()
    assert "Proved" not in text
    assert "Proved" in Page(render(report)).text


def test_the_budget_curve_passes_through_the_certificate() -> None:
    about = source()
    report = build_report(about, sample=100)
    assert isinstance(report.curve, BudgetCurve)
    assert about.certificate is not None
    assert (report.curve.nodes, report.curve.of, report.curve.method) == (20, 20, "degree")
    one = report.curve.by_count[0]
    assert isinstance(report.summary, Summary)
    assert (one.budget, one.proved) == (1, report.summary.share)
    assert one.proved >= about.certificate.share_positive
    assert one.kept == pytest.approx(report.summary.kept)
    assert one.kept >= about.certificate.measures.kept
    assert [point.budget for point in report.curve.by_rate] == pytest.approx([0.1 * k for k in range(1, 10)])


def value_without(about: ReportSource, node: int, dropped: list[tuple[int, int]]) -> float:
    """The value of a node on the graph without some edges, computed from nothing but the edges that are left."""
    assert about.graph is not None
    assert about.encoder is not None
    assert about.certificate is not None
    gone = {tuple(edge) for edge in dropped}
    kept = [(i, j) for i, j in about.graph.edge_index.T.tolist() if (min(i, j), max(i, j)) not in gone]
    view = Graph.from_edges(about.graph.x, torch.tensor(kept).T)
    return float(about.certificate.directions[node] @ about.encoder.embed(view)[node])


def test_witnesses_are_searched_for_where_the_certificate_has_none() -> None:
    about, report = source(), whole_report()
    assert isinstance(report.fragile, Fragile)
    assert report.fragile.searched
    for row in report.fragile.rows:
        assert row.witness is not None
        assert row.upper is not None
        assert row.upper == pytest.approx(value_without(about, row.node, row.witness))
        assert row.lower <= row.upper + 1e-12
    for row, drawing in zip(report.fragile.rows, report.fragile.drawings, strict=False):
        assert (row.node, row.lower, row.upper) == (drawing.node, drawing.proved, drawing.upper)
        assert drawing.witness == sorted(effect.edge for effect in row.effects)


@pytest.mark.parametrize("method", ["degree", "exact"])
def test_changed_features_of_a_witness_are_named(method: str) -> None:
    changes = certgcl.Changes(drops=1, features=certgcl.FeatureBudget(masked=1, total=2))
    certificate = certgcl.node_compactness(toy_network(), random_graph(20, 0.2), changes, method=method)
    report = build_report(source(certificate=certificate), sample=5)
    assert isinstance(report.fragile, Fragile)
    named = [words for row in report.fragile.rows for words in row.features]
    assert named
    assert all(re.fullmatch(r"feature \d of node \d+ is 0", words) for words in named)
    assert all(row.upper is None or row.lower <= row.upper + 1e-12 for row in report.fragile.rows)
    page = render(report)
    assert named[0] in page
    assert "1 feature masked, 2 in all" in page


@pytest.mark.parametrize("method", ["degree", "optimized"])
@pytest.mark.parametrize(
    "changes",
    [
        certgcl.Changes(drops=1, additions=certgcl.EdgeAddBudget(1, 1)),
        certgcl.Changes(flips=certgcl.EdgeFlipBudget(1, 2), features=certgcl.FeatureBudget(masked=1)),
    ],
    ids=["drops and additions", "flips and features"],
)
def test_added_edges_of_a_witness_are_named_and_drawn(
    changes: certgcl.Changes, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("certgcl.certify.other_budgets.RATES", (0.5,))
    monkeypatch.setattr("certgcl.certify.other_budgets.COUNTS", ())
    graph, network = random_graph(8, 0.3), toy_network()
    limited = certgcl.bounds.BranchAndBound(branch_limit=2) if method == "optimized" else method
    certificate = certgcl.node_compactness(network, graph, changes, method=limited)
    report = build_report(source(data=data_of(graph), certificate=certificate), sample=3)
    assert isinstance(report.fragile, Fragile)
    directions = certgcl.compactness_directions(network.embed(graph))
    evaluation = DropEvaluation.of(network, graph)
    new = 0
    for row in report.fragile.rows:
        if row.witness is None:
            continue
        dropped, added = (torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T for edges in (row.witness, row.added))
        if not row.features:
            value = float(evaluation.embedding(row.node, dropped, None, added) @ directions[row.node])
            assert row.upper == pytest.approx(value, abs=1e-9)
        assert row.lower <= row.upper + 1e-9
        new += len(row.added)
    assert new
    drawn = [drawing for drawing in report.fragile.drawings if drawing.added]
    assert drawn
    for drawing in drawn:
        places = {place.node for place in drawing.places}
        assert all(end in places for edge in drawing.added for end in edge)
    page = render(report)
    one, other = next(row for row in report.fragile.rows if row.added).added[0]
    assert f"+{one}–{other}" in page
    assert "dropped or added" in page
    assert "in green" in page
    assert "no edges are added" not in page


@pytest.mark.parametrize("method", ["degree", "optimized"])
def test_the_edges_that_matter_come_first_and_do_what_they_say(method: str) -> None:
    about = source(method)
    report = build_report(about, sample=100)
    assert isinstance(report.explorer, Explorer)
    assert isinstance(report.values, NodeTable)
    for detail, nominal, upper in zip(report.explorer.details, report.values.nominal, report.values.upper, strict=True):
        assert upper is not None
        gone: list[tuple[int, int]] = []
        before = nominal
        for effect in detail.effects:
            gone.append(effect.edge)
            assert effect.value == pytest.approx(value_without(about, detail.node, gone))
            assert upper - 1e-12 <= effect.value < before
            before = effect.value
        assert detail.effects or detail.witness == 0
        falls = [nominal, *(effect.value for effect in detail.effects)]
        assert all(one - other >= 0.02 * (nominal - upper) - 1e-12 for one, other in pairwise(falls[1:]))
        assert nominal - before >= 0.9 * (nominal - upper) - 1e-12 or len(detail.effects) == 8
        assert len(detail.effects) <= max(detail.witness, 1)


def test_a_node_is_the_same_in_every_table() -> None:
    """What the page finds out about a node is in all of its tables, beside what the certificate says."""
    about = source("interval")
    report = build_report(about, sample=100)
    assert about.certificate is not None
    assert isinstance(report.values, NodeTable)
    assert isinstance(report.fragile, Fragile)
    assert isinstance(report.summary, Summary)
    assert isinstance(report.degrees, Degrees)
    table = {
        node: (sign, lower, upper)
        for node, sign, lower, upper in zip(
            report.values.node, report.values.sign, report.values.lower, report.values.upper, strict=True
        )
    }
    assert {row.node: (row.sign, row.lower, row.upper) for row in report.fragile.rows} == table
    signs = report.values.sign
    assert (report.summary.proved, report.summary.breaks) == (signs.count(PROVED), signs.count(BREAKS))
    assert sum(group.proved * group.nodes for group in report.degrees.groups) == pytest.approx(signs.count(PROVED))
    assert report.summary.proved > report.summary.by_certificate == int(about.certificate.positive.sum())
    assert isinstance(report.explorer, Explorer)
    assert report.explorer.counts[0] == 1  # the budget of the certificate
    assert {detail.node: detail.by_count[0] for detail in report.explorer.details} == {
        node: lower for node, (_, lower, _) in table.items()
    }
    truth = certgcl.node_compactness(toy_network(), random_graph(20, 0.2), 1, method="exact")
    for node, (sign, lower, _) in table.items():
        assert lower <= float(truth.lower[node]) + 1e-9
        assert sign != PROVED or bool(truth.positive[node])
        assert sign != BREAKS or bool(truth.negative[node])
    assert "more. All tables and" in Page(render(report)).text


def test_names_of_a_certificate_are_on_the_page_without_its_graph() -> None:
    graph = random_graph(20, 0.2)
    names = [f"person {node}" for node in range(20)]
    named = Graph.from_edges(graph.x, graph.edge_index, names)
    certificate = certgcl.node_compactness(toy_network(), named, 1, nodes=["person 3", "person 0"])
    report = build_report(ReportSource("named", certificate))
    assert isinstance(report.values, NodeTable)
    assert (report.values.node, report.values.name) == ([3, 0], ["person 3", "person 0"])
    assert "person 3" in Page(render(report)).text


def test_bounds_with_a_fixed_second_view_raise_none_with_both_free() -> None:
    certificate = certgcl.node_compactness(toy_network(), random_graph(20, 0.2), 1, views="both")
    report = build_report(source(certificate=certificate), sample=100)
    assert isinstance(report.values, NodeTable)
    assert report.values.lower == certificate.lower.tolist()
    assert report.values.searched


def test_certified_accuracy_accounts_for_every_test_node() -> None:
    found = build_report(source(), sample=100).accuracy
    assert not isinstance(found, Missing)
    assert (found.nodes, found.of, found.train) == (5, 5, 10)
    assert found.lower <= found.upper <= found.clean
    assert found.certified + found.unknown + found.broken + found.wrong == found.nodes


def test_the_accuracy_of_certgcl_evaluate_stands_beside_it() -> None:
    about = source()
    found = build_report(about, sample=100).accuracy
    assert not isinstance(found, Missing)
    assert about.data is not None
    assert about.embeddings is not None
    expected = certgcl.evaluate(about.embeddings, about.data.y, "public", masks=about.data)
    assert (found.evaluated, found.evaluated_mean) == (list(expected.micro), expected.micro_mean)
    text = Page(render(build_report(about, sample=100))).text
    assert "By certgcl evaluate" in text
    assert "because it divides embeddings by their norms" in " ".join(text.split())


def test_a_class_that_no_training_node_has_is_wrong_and_said_to_be() -> None:
    about = source()
    assert about.data is not None
    about.data.y = about.data.y.clone()
    about.data.y[3] = 7  # a test node
    report = build_report(about, sample=100)
    found = report.accuracy
    assert not isinstance(found, Missing)
    assert found.unseen == 1
    assert found.certified + found.unknown + found.broken + found.wrong == found.nodes == 5
    assert found.wrong >= 1
    assert "1 of them have a class that no training node has" in " ".join(Page(render(report)).text.split())


def test_nodes_without_a_label_are_no_class_of_their_own() -> None:
    about = source()
    assert about.data is not None
    about.data.y = about.data.y.clone()
    about.data.y[3] = -1
    found = build_report(about, sample=100).accuracy
    assert isinstance(found, Missing)
    assert "label -1" in found.reason


def test_certified_accuracy_is_that_of_the_model_in_its_own_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    about, seen = source(), []

    def watched(model: Any, *rest: Any, **options: Any) -> Any:
        seen.append(model)
        return certified_accuracy(model, *rest, **options)

    monkeypatch.setattr("certgcl.report.accuracy.certified_accuracy", watched)
    assert about.weights is not None
    weights = run_in(about.weights, torch.float32)
    about = replace(about, weights=weights, certificate=certgcl.node_compactness(weights, random_graph(20, 0.2), 1))
    assert not isinstance(build_report(about, sample=100).accuracy, Missing)
    assert seen[0].dtype == torch.float32


def test_of_several_directions_the_one_that_decides_is_shown() -> None:
    graph, weights = random_graph(10), toy_network()
    directions = torch.eye(3, dtype=torch.float64)[None].repeat(10, 1, 1)
    directions[:, 1] = 0
    certificate = certgcl.linear_bounds(weights, graph, 1, directions)
    worst = deciding(certificate)
    assert torch.equal(worst.lower, certificate.lower[:, [0, 2]].min(dim=1).values)
    report = build_report(ReportSource("margins", certificate, "random", data_of(graph), weights), sample=3)
    assert isinstance(report.values, NodeTable)
    assert report.values.lower == worst.lower.tolist()


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"data": data_of(random_graph(12))}, r"other edges \(20 nodes, 32 edges there, 12 nodes, .* and features"),
        (
            {"data": data_of(toy_graph(nx.path_graph(20)))},
            r"other edges \(20 nodes, 32 edges there, 20 nodes, 19 edges",
        ),
        (
            {
                "data": data_of(
                    random_graph(20, 0.2).with_features(random_graph(20, 0.2).x.nextafter(torch.tensor(9.0)))
                )
            },
            "other features:",
        ),
        ({"weights": toy_network(seed=7)}, "other weights:"),
        ({"weights": toy_network(seed=7), "data": None}, "other weights:"),
        ({"weights": toy_network(outputs=2)}, r"other weights \(3 -> 4 -> 3 channels"),
    ],
)
def test_another_graph_or_encoder_is_refused(others: dict[str, Any], message: str) -> None:
    with pytest.raises(ReportError, match=message):
        build_report(source(**others), sample=0)
