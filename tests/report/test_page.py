"""The words of a report, and the page that they stand on."""

import json
import re
from dataclasses import replace
from typing import Any

import networkx as nx
import pytest
import torch

import certgcl
from certgcl import EdgeDropBudget
from certgcl.learning.training import History
from certgcl.report import ReportSource, build_report
from certgcl.report.content import (
    OPEN,
    Fragile,
    FragileNode,
    Summary,
)
from certgcl.report.figures import _bins
from certgcl.report.neighbourhood import MOST_FAR, MOST_NEAR, drawing_of, edges_of
from certgcl.report.page import moment, number, percent, render
from certgcl.report.phrases import budget_rule
from tests.report.report_pages import SECTIONS, Page, data_of, source, whole_report
from tests.toys import random_graph, toy_graph, toy_network


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (1, "At most 1 edge at each node (in effect 0 to 1, 0.95 on average); any number in all."),
        (4, "At most 4 edges at each node (in effect 0 to 4, 2.65 on average); any number in all."),
        (0.4, "At most round(0.4 × degree) edges at each node, but never all of them (in effect 0 to "),
        (EdgeDropBudget(1, total=3), "(in effect 0 to 1, 0.95 on average); 3 of 32 edges in all."),
        (EdgeDropBudget(list(range(20))), "At most 0 to "),
    ],
)
def test_the_budget_is_said_in_words(budget: Any, words: str) -> None:
    about = source()
    assert about.graph is not None
    certificate = certgcl.node_compactness(toy_network(), about.graph, budget)
    summary = build_report(replace(about, certificate=certificate), sample=0).summary
    assert isinstance(summary, Summary)
    assert words in summary.statement.budget
    assert "the compactness of a node" in summary.statement.holds


def test_a_budget_that_every_node_has_is_said_without_a_range() -> None:
    cycle = toy_graph(nx.cycle_graph(6))
    certificate = certgcl.node_compactness(toy_network(), cycle, 2)
    summary = build_report(ReportSource("cycle", certificate, "cycle", data_of(cycle)), sample=0).summary
    assert isinstance(summary, Summary)
    assert summary.statement.budget == "At most 2 edges at each node; any number in all."


def test_a_hint_decides_between_budgets_that_are_the_same_here() -> None:
    graph = toy_graph(nx.cycle_graph(6))
    certificate = certgcl.node_compactness(toy_network(), graph, 1)
    assert budget_rule(certificate, graph) == 1
    assert budget_rule(certificate, graph, [0.9, 0.5]) == 0.9


def test_a_moment_is_said_as_people_say_it() -> None:
    assert moment("2025-05-03T14:05:59+00:00") == "3 May 2025, 14:05 UTC"
    assert moment("2025-05-03T14:05:59+02:00") == "3 May 2025, 12:05 UTC"
    assert moment("2025-05-03") == "3 May 2025, 00:00"
    assert moment("yesterday") == "yesterday"


def test_few_nodes_have_few_bins() -> None:
    assert [_bins(nodes) for nodes in (1, 34, 400, 20_000)] == [8, 12, 40, 40]


def test_numbers_are_rounded_for_readers() -> None:
    assert [number(value) for value in (None, 0.5, -1.23456, 1234.5)] == ["–", "0.5000", "−1.235", "1234"]
    assert [percent(share) for share in (0, 0.0001, 0.5, 0.1234, 0.9999, 1)] == [
        "0.0 %",
        "< 0.1 %",
        "50.0 %",
        "12.3 %",
        "> 99.9 %",
        "100.0 %",
    ]


def test_everything_is_escaped() -> None:
    evil = "<script>alert(1)</script>&'\"</style>"
    history = History([{"epoch": k, "seconds": 1.0, evil: float(k)} for k in range(3)])
    config = {"config": {"settings": {evil: evil}}, "versions": {evil: evil}, "started": evil}
    about = source(
        name=evil, graph_name=evil, history=history, config=config, commands=[evil], notes={"fingerprint": evil}
    )
    html = render(build_report(about, sample=0))
    assert "alert(1)</script>" not in html
    assert "</style>&" not in html
    page = Page(html)
    assert page.tags.count("script") == 2
    assert page.numbers["name"] == evil
    assert page.text.count(evil) >= 5


def test_a_page_is_all_in_one_file_and_always_the_same() -> None:
    html = render(whole_report())
    page = Page(html)
    assert page.numbers == json.loads(json.dumps(whole_report().to_dict()))
    assert html == render(whole_report())
    assert len(page.ids) == len(set(page.ids))
    assert not re.search(r"(src|href)=\"(?!#|data:,)", html)
    assert not re.search(r"url\((?!#)|@import", html)
    for target in re.findall(r"(?:href=\"|url\()#([^\")]+)", html):
        assert target in page.ids
    assert "<title>certgcl report: toy</title>" in html


def test_the_same_input_gives_the_same_numbers() -> None:
    assert build_report(source(), sample=5) == whole_report()


def test_sections_without_data_say_so() -> None:
    about = source()
    report = build_report(ReportSource("alone", about.certificate))
    assert set(report.missing()) == {"degrees", "curve", "accuracy", "explorer", "training"}
    page = Page(render(report))
    assert {"bounds", "degree", "budget", "accuracy", "fragile", "training", "reproduce"} <= set(page.ids)
    assert "pass --dataset or --graph" in page.text
    assert "There is no training history." in page.text
    nothing = build_report(ReportSource("nothing"))
    assert set(nothing.missing()) == set(SECTIONS)
    empty = Page(render(nothing))
    assert empty.text.count("There is no certificate.") == 1
    assert {"bounds", "degree", "fragile"}.isdisjoint(empty.ids)
    assert {"budget", "accuracy", "training", "reproduce"} <= set(empty.ids)
    unlabelled = build_report(replace(about, data=data_of(random_graph(20, 0.2), labels=False)), sample=3)
    assert unlabelled.missing() == {"accuracy": "The graph has no labels."}
    skipped = build_report(about, sample=0).missing()
    assert set(skipped) == {"curve", "accuracy", "explorer"}
    assert "--sample 0" in skipped["curve"]


def test_a_hub_is_drawn_without_losing_its_witness() -> None:
    tree = nx.star_graph(200)
    tree.add_edges_from((leaf, 200 + leaf) for leaf in range(1, 200))
    graph = toy_graph(tree)
    witness = torch.tensor([[0, 150], [190, 350]])
    row = FragileNode(0, None, 200, 0, None, 1.0, 0.0, 0.5, OPEN, edges_of(witness), [])
    drawing = drawing_of(row, graph, None)
    shown = {place.node: place.hops for place in drawing.places}
    assert {0: 0, 190: 1, 150: 1, 350: 2}.items() <= shown.items()
    assert list(shown.values()).count(1) == MOST_NEAR
    assert list(shown.values()).count(2) <= MOST_FAR
    assert drawing.hidden == graph.num_nodes - len(shown)
    assert drawing.witness == [(0, 190), (150, 350)]
    assert set(drawing.witness) <= set(drawing.edges)


def test_no_two_numbers_of_a_caption_run_together() -> None:
    tree = nx.star_graph(80)
    tree.add_edges_from((leaf, 80 + leaf) for leaf in range(1, 80))
    graph, weights = toy_graph(tree), toy_network()
    certificate = certgcl.node_compactness(weights, graph, 1, nodes=[0, 5, 6])
    report = build_report(ReportSource("hub", certificate, "star", data_of(graph), weights), sample=5)
    text = " ".join(Page(render(report)).text.split())
    shown = re.findall(r"It is proved to stay at or above (\S+) (\S+) more nodes within two hops are not drawn\.", text)
    assert isinstance(report.fragile, Fragile)
    hidden = [drawing for drawing in report.fragile.drawings if drawing.hidden]
    assert shown == [(f"{number(drawing.proved)}.", str(drawing.hidden)) for drawing in hidden]
    assert len(shown) == 3
