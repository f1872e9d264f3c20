"""Runs beside each other: their own numbers, paired tests that are those of certgcl.compare, and what else differs."""

import json
from dataclasses import replace
from functools import cache

import pytest
import torch

import certgcl
from certgcl.errors import ReportError
from certgcl.learning.evaluation import compare
from certgcl.report import Comparison, Report, ReportSource, build_report, compare_reports
from certgcl.report.comparison import NODES, SPLITS
from certgcl.report.content import Accuracy, NodeTable, Summary
from certgcl.report.page import render_comparison
from tests.report.report_pages import Page, data_of
from tests.toys import random_graph, toy_network

GRAPH = random_graph(20, 0.2)


@cache
def run(seed: int, budget: int = 1) -> tuple[ReportSource, Report]:
    network = toy_network(seed=seed)
    certificate = certgcl.node_compactness(network, GRAPH, budget)
    source = ReportSource(f"run {seed}", certificate, "random", data_of(GRAPH), network, "random-10-10-80")
    return source, build_report(source, sample=100)


def compared(*runs: tuple[ReportSource, Report]) -> Comparison:
    return compare_reports([source for source, _ in runs], [report for _, report in runs])


def test_every_run_keeps_its_own_numbers() -> None:
    found = compared(run(0), run(1), run(2))
    assert [each.name for each in found.runs] == ["run 0", "run 1", "run 2"]
    for each, (_, report) in zip(found.runs, (run(0), run(1), run(2)), strict=True):
        assert isinstance(report.summary, Summary)
        assert (each.proved, each.kept, each.over_norm) == (
            report.summary.share,
            report.summary.kept,
            report.summary.over_norm,
        )
    assert found.warnings == []


def test_differences_are_paired_with_the_first_run() -> None:
    (one, first), (other, second) = run(0), run(1)
    found = {each.measure: each for each in compared((one, first), (other, second)).differences}
    assert isinstance(first.values, NodeTable)
    assert isinstance(second.values, NodeTable)
    scaled = []
    for source, table in ((other, second.values), (one, first.values)):
        assert source.certificate is not None
        assert source.certificate.norms is not None
        scaled.append((torch.tensor(table.lower, dtype=torch.float64) / source.certificate.norms.mean()).tolist())
    expected = compare(*scaled)
    assert (found[NODES].difference, found[NODES].p) == pytest.approx((expected.difference, expected.p))
    assert (found[NODES].run, found[NODES].against, found[NODES].pairs) == ("run 1", "run 0", 20)
    assert isinstance(first.accuracy, Accuracy)
    assert isinstance(second.accuracy, Accuracy)
    assert found[SPLITS].p == compare(second.accuracy.evaluated, first.accuracy.evaluated).p
    assert found[SPLITS].pairs == 5
    assert found[SPLITS].words == f"{100 * found[SPLITS].difference:+.1f} points"
    assert float(found[NODES].words) == pytest.approx(found[NODES].difference, rel=1e-3)


def test_a_run_against_itself_differs_in_nothing() -> None:
    found = compared(run(0), run(0))
    assert [each.name for each in found.runs] == ["run 0 (1)", "run 0 (2)"]
    assert all((each.difference, each.p) == (0, 1) for each in found.differences)
    assert all(row.difference == 0 for row in found.rows)


def test_longer_embeddings_win_nothing() -> None:
    source, _ = run(0)
    assert source.certificate is not None
    values = {
        name: 10 * getattr(source.certificate, name) for name in ("lower", "nominal", "rounding", "run_error", "norms")
    }
    longer = replace(source, certificate=replace(source.certificate, **values), weights=None)
    found = compared(
        (replace(source, weights=None), build_report(replace(source, weights=None))), (longer, build_report(longer))
    )
    assert [each.difference for each in found.differences] == pytest.approx([0.0], abs=1e-12)
    assert found.runs[0].over_norm == pytest.approx(found.runs[1].over_norm)


def test_what_else_differs_is_said() -> None:
    found = compared(run(0), run(0, budget=2))
    assert [warning.split(":")[0] for warning in found.warnings] == ["The budgets differ"]
    assert {each.measure for each in found.differences} == {SPLITS}  # bounds under other budgets are not paired
    network, other = toy_network(), random_graph(20, 0.3)
    certificate = certgcl.node_compactness(network, other, 1)
    source = ReportSource("other", certificate, "other", data_of(other), network, "random-10-10-80")
    found = compared(run(0), (source, build_report(source, sample=3)))
    assert found.warnings[0] == "The graphs differ: neither nodes nor accuracies are compared pair by pair."
    assert found.runs[1].evaluated is not None
    assert (found.rows, found.values, found.differences) == ([], {}, [])
    assert "The graphs differ" in Page(render_comparison(found)).text


def test_a_run_without_a_certificate_cannot_be_compared() -> None:
    bare = ReportSource("bare")
    with pytest.raises(ReportError, match="bare without a certificate"):
        compared(run(0), (bare, build_report(bare)))


def test_the_page_is_one_file_with_all_numbers() -> None:
    found = compared(run(0), run(1))
    html = render_comparison(found)
    page = Page(html)
    assert page.numbers == json.loads(json.dumps(found.to_dict()))
    assert len(page.ids) == len(set(page.ids))
    assert "<title>certgcl report: run 0 against run 1</title>" in html
    assert list(page.numbers["values"]) == [
        "node",
        "name",
        "degree",
        "run 0: bound over norm",
        "run 0: sign",
        "run 1: bound over norm",
        "run 1: sign",
    ]
