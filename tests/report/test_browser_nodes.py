"""One node at a time, in a real browser, and several runs on one page."""

import csv
import json
from itertools import pairwise
from pathlib import Path

import networkx as nx
import pytest
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait
from torch_geometric.data import Data

import certgcl
from certgcl.report import ReportSource, build_report, compare_reports
from certgcl.report.page import number, render, render_comparison
from tests.report.browsing import NAMES, NARROW, WIDE, ask, node_of, numbers_of, resize, rows, sort
from tests.toys import random_graph, toy_graph, toy_network


def test_any_node_is_found_by_number_and_by_name(page: webdriver.Chrome, certificate: certgcl.Certificate) -> None:
    least = int(certificate.nodes[certificate.lower.argmin()])
    assert page.find_element(By.ID, "node-title").text == f"Node {least} {NAMES[least]}"
    assert ask(page, "7") == "Node 7 Person, H"
    assert ask(page, "person, c") == "Node 2 Person, C"
    assert ask(page, "nobody") == "Node 2 Person, C"
    assert page.find_element(By.ID, "asked").text == "No node is called nobody."
    assert certificate.upper is not None
    for node in (0, 11, 23):
        ask(page, str(node))
        words = page.find_element(By.ID, "node-values").text
        for values in (certificate.nominal, certificate.lower, certificate.upper):
            assert number(float(values[node])) in words
        assert ("proved to stay" in words) == certificate.certified


def test_odd_names_are_found_and_shown_as_they_are(browser: webdriver.Chrome, tmp_path: Path) -> None:
    names = [
        "<script>alert(1)</script>",
        "</script><img src=x onerror=alert(2)>",
        "Jean Valjean",
        "31336",
        "日本",
        "{{7*7}}",
    ]
    graph = random_graph(6, 0.5)
    data = Data(x=graph.x, edge_index=graph.edge_index, node_names=names)
    certificate = certgcl.node_compactness(toy_network(), graph, 1)
    path = tmp_path / "odd.html"
    path.write_text(
        render(build_report(ReportSource("odd", certificate, "random", data, toy_network()), sample=6)),
        encoding="utf-8",
    )
    browser.get_log("browser")
    browser.get(path.as_uri())
    for typed, node in (("<script", 0), ("onerror", 1), ("valjean", 2), ("31336", 3), ("3", 3), ("日", 4), ("{{7", 5)):
        assert ask(browser, typed) == f"Node {node} {names[node]}"
    assert browser.find_elements(By.TAG_NAME, "img") == []
    assert browser.get_log("browser") == []


def test_ends_of_a_witness_further_away_do_not_count_as_neighbourhood(
    browser: webdriver.Chrome, tmp_path: Path
) -> None:
    """On a ring all five nodes within two hops are drawn; a dropped edge can lead to a sixth."""
    graph = toy_graph(nx.cycle_graph(12))
    certificate = certgcl.node_compactness(toy_network(), graph, 1, method="exact")
    data = Data(x=graph.x, edge_index=graph.edge_index)
    path = tmp_path / "ring.html"
    path.write_text(
        render(build_report(ReportSource("ring", certificate, "ring", data, toy_network()), sample=12)),
        encoding="utf-8",
    )
    browser.get(path.as_uri())
    drawn = []
    for node in range(12):
        ask(browser, str(node))
        drawn.append(len(browser.find_elements(By.CSS_SELECTOR, "#around .spot")))
        assert "not drawn" not in browser.find_element(By.ID, "around-words").text
    assert max(drawn) > 5


def test_the_edges_that_matter_are_ranked_and_drawn(page: webdriver.Chrome) -> None:
    details = {detail["node"]: detail for detail in numbers_of(page)["explorer"]["details"]}
    node = max(details, key=lambda node: len(details[node]["effects"]))
    ask(page, str(node))
    few = details[node]["effects"]
    cells = [
        [cell.text for cell in row.find_elements(By.TAG_NAME, "td")]
        for row in page.find_elements(By.CSS_SELECTOR, "#edges tbody tr")
    ]
    assert [int(row[0]) for row in cells] == list(range(1, len(few) + 1))
    assert [row[2] for row in cells] == [number(effect["value"]) for effect in few]
    drawn = {line.get_attribute("data-edge") for line in page.find_elements(By.CSS_SELECTOR, "#around .gone")}
    assert drawn <= {"-".join(map(str, effect["edge"])) for effect in few}
    assert drawn
    edge = "-".join(map(str, few[0]["edge"]))
    row = page.find_element(By.CSS_SELECTOR, "#edges tbody tr")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", row)
    ActionChains(page).move_to_element(row).perform()
    assert "marked" in str(page.find_element(By.CSS_SELECTOR, f"[data-edge='{edge}']").get_attribute("class"))
    page.find_element(By.CSS_SELECTOR, "#edges thead th:nth-child(3) button").click()  # values, the least first
    shown = [row.find_element(By.TAG_NAME, "td").text for row in page.find_elements(By.CSS_SELECTOR, "#edges tbody tr")]
    assert shown == [str(rank) for rank in range(len(few), 0, -1)]


def test_new_edges_of_a_witness_are_listed_and_drawn(
    browser: webdriver.Chrome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("certgcl.certify.other_budgets.RATES", (0.5,))
    monkeypatch.setattr("certgcl.certify.other_budgets.COUNTS", (1,))
    graph = random_graph(8, 0.3)
    changes = certgcl.Changes(additions=certgcl.EdgeAddBudget(1, 1), features=certgcl.FeatureBudget(masked=1, total=1))
    method = certgcl.bounds.BranchAndBound(branch_limit=0)
    found = certgcl.node_compactness(toy_network(), graph, changes, method=method)
    data = Data(x=graph.x, edge_index=graph.edge_index)
    path = tmp_path / "added.html"
    path.write_text(
        render(build_report(ReportSource("added", found, "random", data, toy_network()), sample=10)), encoding="utf-8"
    )
    resize(browser, WIDE)
    browser.get_log("browser")
    browser.get(path.as_uri())
    details = {detail["node"]: detail for detail in numbers_of(browser)["explorer"]["details"]}
    node, few = next(
        (node, detail["effects"])
        for node, detail in details.items()
        if any(effect["added"] for effect in detail["effects"])
    )
    ask(browser, str(node))
    edge = next(effect["edge"] for effect in few if effect["added"])
    (line,) = browser.find_elements(By.CSS_SELECTOR, "#around .new")
    assert line.get_attribute("data-edge") == "-".join(map(str, edge))
    assert f"+ {edge[0]} – {edge[1]}" in browser.find_element(By.ID, "edges").text
    cells = {node_of(row): row[-1] for row in rows(browser)}
    assert any(f"+{edge[0]}–{edge[1]}" in words for words in cells.values())
    assert any("feature" in words for words in cells.values())
    assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def test_one_walks_through_the_graph_by_clicks_and_keys(page: webdriver.Chrome) -> None:
    edges = numbers_of(page)["explorer"]["edges"]
    start = edges[0][0]
    title = f"Node {start} {NAMES[start]}"
    assert ask(page, str(start)) == title
    around = page.find_elements(By.CSS_SELECTOR, "#around .spot:not(.centre)")
    names = [str(spot.get_attribute("aria-label")) for spot in around]
    neighbours = {other for edge in edges if start in edge for other in edge} - {start}
    assert {f"Node {other} {NAMES[other]}" for other in neighbours} <= set(names)
    assert "at least" in str(around[0].find_element(By.TAG_NAME, "title").get_attribute("textContent"))
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", around[0])
    around[0].click()
    assert page.find_element(By.ID, "node-title").text == names[0]
    back = next(
        spot
        for spot in page.find_elements(By.CSS_SELECTOR, "#around .spot")
        if str(spot.get_attribute("aria-label")) == title
    )
    back.send_keys(Keys.ENTER)
    assert page.find_element(By.ID, "node-title").text == title
    button = page.find_element(By.CSS_SELECTOR, "#nodes [data-node='5']")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", button)
    button.click()
    assert page.find_element(By.ID, "node-title").text == "Node 5 Person, F"


def test_the_curves_of_a_node_are_those_of_the_numbers(page: webdriver.Chrome) -> None:
    explorer = numbers_of(page)["explorer"]
    detail = explorer["details"][3]
    ask(page, str(detail["node"]))
    for id, budgets, bounds in (
        ("node-rates", explorer["rates"], detail["by_rate"]),
        ("node-counts", explorer["counts"], detail["by_count"]),
    ):
        hints = [
            str(title.get_attribute("textContent"))
            for title in page.find_elements(By.CSS_SELECTOR, f"#{id} circle title")
        ][1:]
        assert len(hints) == len(budgets)
        for hint, budget, bound in zip(hints, budgets, bounds, strict=True):
            assert hint.endswith(f" {budget:g}: at least {number(bound)}")
        assert all(after <= before + 1e-9 for before, after in pairwise(bounds))


def test_neighbours_are_named_around_the_node(page: webdriver.Chrome) -> None:
    edges = numbers_of(page)["explorer"]["edges"]
    start = edges[0][0]
    neighbours = {other for edge in edges if start in edge for other in edge} - {start}
    ask(page, str(start))
    shown = {text.get_attribute("textContent") for text in page.find_elements(By.CSS_SELECTOR, "#around .spot text")}
    assert {NAMES[other] for other in neighbours} | {NAMES[start]} <= shown


def test_the_numbers_are_downloaded_without_a_network(page: webdriver.Chrome, tmp_path: Path) -> None:
    page.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    for id, name in (("csv", "nodes.csv"), ("json", "report.json")):
        button = page.find_element(By.ID, id)
        page.execute_script("arguments[0].scrollIntoView({block: 'center'})", button)
        button.click()
        WebDriverWait(page, 10).until(lambda _, name=name: (tmp_path / name).exists())
    numbers = numbers_of(page)
    assert json.loads((tmp_path / "report.json").read_text()) == numbers
    with (tmp_path / "nodes.csv").open(newline="") as stream:
        table = list(csv.DictReader(stream))
    assert [row["name"] for row in table] == NAMES
    assert [float(row["lower"]) for row in table] == numbers["values"]["lower"]
    assert [row["sign"] for row in table] == numbers["values"]["sign"]


def test_what_one_sees_of_a_node_fits_a_phone(page: webdriver.Chrome) -> None:
    resize(page, NARROW)
    assert ask(page, "4") == "Node 4 Person, E"
    assert page.execute_script("return document.documentElement.scrollWidth") <= NARROW
    assert page.find_element(By.ID, "around").size["width"] > 300


def test_runs_are_compared_on_one_page(browser: webdriver.Chrome, tmp_path: Path) -> None:
    graph, sources = random_graph(24, 0.15), []
    for seed in (0, 1):
        network = toy_network(seed=seed)
        certificate = certgcl.node_compactness(network, graph, 1)
        sources.append(
            ReportSource(f"seed {seed}", certificate, "random", Data(x=graph.x, edge_index=graph.edge_index), network)
        )
    comparison = compare_reports(sources, [build_report(source, sample=5) for source in sources])
    path = tmp_path / "comparison.html"
    path.write_text(render_comparison(comparison), encoding="utf-8")
    resize(browser, WIDE)
    browser.get_log("browser")
    browser.get(path.as_uri())
    assert browser.find_element(By.TAG_NAME, "h1").text == "seed 0 against seed 1"
    browser.find_element(By.CSS_SELECTOR, "#compared thead th:nth-child(2) button").click()
    names = [
        row.find_element(By.TAG_NAME, "td").text for row in browser.find_elements(By.CSS_SELECTOR, "#compared tbody tr")
    ]
    assert names == [run.name for run in sorted(comparison.runs, key=lambda run: run.proved)]
    sort(browser, "Node")
    assert [node_of(cells) for cells in rows(browser)] == list(range(24))
    field = browser.find_element(By.ID, "search")
    field.send_keys("proved")
    assert all("proved" in cells for cells in rows(browser))
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    button = browser.find_element(By.ID, "csv")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", button)
    button.click()
    WebDriverWait(browser, 10).until(lambda _: (tmp_path / "nodes.csv").exists())
    with (tmp_path / "nodes.csv").open(newline="") as stream:
        table = list(csv.DictReader(stream))
    assert [float(row["seed 1: bound over norm"]) for row in table] == comparison.values["seed 1: bound over norm"]
    assert browser.get_log("browser") == []
    resize(browser, NARROW)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= NARROW
