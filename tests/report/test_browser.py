"""The page in a real browser: Debian's chromium, driven by selenium, without a network."""

import csv
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait
from torch_geometric.data import Data

import certgcl
from certgcl.learning.training import History
from certgcl.report import Subject, compare_reports, gather
from certgcl.report.page import number, render, render_comparison
from tests.toys import random_graph, toy_graph, toy_network

WIDE, NARROW = 1280, 390
NAMES = [f"Person, {chr(65 + node)}" for node in range(24)]


@pytest.fixture(scope="module")
def certificate() -> certgcl.Certificate:
    return certgcl.node_compactness(toy_network(), random_graph(24, 0.15), 1, method="optimized")


@pytest.fixture(scope="module")
def file(certificate: certgcl.Certificate, tmp_path_factory: pytest.TempPathFactory) -> Path:
    graph = random_graph(24, 0.15)
    part = torch.arange(24) % 4
    data = Data(
        x=graph.x,
        edge_index=graph.edge_index,
        y=torch.arange(24) % 3,
        train_mask=part < 2,
        val_mask=part == 2,
        test_mask=part == 3,
        node_names=NAMES,
    )
    history = History([{"epoch": k, "seconds": 0.5, "loss": 2.0 - k} for k in range(3)])
    path = tmp_path_factory.mktemp("browser") / "report.html"
    report = gather(Subject("toy <run>", certificate, "random", data, toy_network(), "public", history), sample=2)
    path.write_text(render(report), encoding="utf-8")
    return path


@pytest.fixture
def page(browser: webdriver.Chrome, file: Path) -> webdriver.Chrome:
    """The page as it opens: wide, light, with nothing remembered."""
    resize(browser, WIDE)
    prefer(browser, "light")
    for kind in ("browser", "performance"):
        browser.get_log(kind)  # what was said of earlier pages
    browser.get(file.as_uri())
    browser.execute_script("localStorage.clear()")
    browser.get(file.as_uri())
    return browser


def resize(browser: webdriver.Chrome, width: int) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600},
    )


def prefer(browser: webdriver.Chrome, scheme: str, media: str = "screen") -> None:
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"media": media, "features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )


def rows(page: webdriver.Chrome) -> list[list[str]]:
    """The cells of the rows that can be seen."""
    found: list[list[str]] = page.execute_script("""
        return [...document.querySelectorAll("#nodes tbody tr")].filter((row) => row.offsetParent !== null)
            .map((row) => [...row.cells].map((cell) => cell.textContent.trim()))""")
    return found


def node_of(cells: list[str]) -> int:
    """The number of the node of a row; its name stands behind it."""
    return int(cells[0].split()[0])


def header(page: webdriver.Chrome, name: str) -> WebElement:
    return next(cell for cell in page.find_elements(By.CSS_SELECTOR, "#nodes thead th") if cell.text.startswith(name))


def sort(page: webdriver.Chrome, name: str) -> None:
    header(page, name).find_element(By.TAG_NAME, "button").click()


def background(page: webdriver.Chrome) -> str:
    return str(page.execute_script("return getComputedStyle(document.body).backgroundColor"))


def test_it_opens_without_errors_and_asks_for_nothing_else(page: webdriver.Chrome, file: Path) -> None:
    assert page.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    asked = {
        message["params"]["request"]["url"] for message in messages if message["method"] == "Network.requestWillBeSent"
    }
    assert asked <= {file.as_uri(), "data:,"}
    assert page.title == "certgcl report: toy <run>"
    assert page.find_element(By.TAG_NAME, "h1").text == "toy <run>"


def test_its_numbers_are_those_of_the_certificate(page: webdriver.Chrome, certificate: certgcl.Certificate) -> None:
    numbers: dict[str, Any] = page.execute_script("return JSON.parse(document.getElementById('numbers').textContent)")
    assert certificate.upper is not None
    assert numbers["values"]["node"] == certificate.nodes.tolist()
    assert numbers["values"]["lower"] == certificate.lower.tolist()
    assert numbers["values"]["upper"] == certificate.upper.tolist()
    assert numbers["summary"]["proved"] == int(certificate.positive.sum())
    assert numbers["summary"]["breaks"] == int(certificate.negative.sum())
    shown = {node_of(cells): cells for cells in rows(page)}
    assert set(shown) == set(certificate.nodes.tolist())
    for place, node in enumerate(certificate.nodes.tolist()):
        values = [certificate.nominal[place], certificate.lower[place], certificate.upper[place]]
        assert shown[node][2:5] == [number(float(value)) for value in values]
        witness = {tuple(sorted(edge)) for edge in certificate.witness(node).T.tolist()}
        named = shown[node][8].split(" and ")[0].split(", ")
        edges = {tuple(map(int, edge.split("–"))) for edge in named if "–" in edge}
        assert edges <= witness
        assert bool(edges) == bool(witness)


def test_it_sorts_by_any_column(page: webdriver.Chrome, certificate: certgcl.Certificate) -> None:
    by_lower = certificate.nodes[certificate.lower.argsort()].tolist()
    assert [node_of(cells) for cells in rows(page)] == by_lower
    assert header(page, "Lower").get_attribute("aria-sort") == "ascending"
    sort(page, "Lower")
    assert [node_of(cells) for cells in rows(page)] == by_lower[::-1]
    assert header(page, "Lower").get_attribute("aria-sort") == "descending"
    sort(page, "Node")
    assert [node_of(cells) for cells in rows(page)] == list(range(24))
    assert header(page, "Lower").get_attribute("aria-sort") == "none"
    sort(page, "Degree")
    degrees = [int(cells[5]) for cells in rows(page)]
    assert degrees == sorted(degrees)
    header(page, "Sign").find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)  # by keyboard alone
    signs = [cells[1] for cells in rows(page)]
    assert signs == sorted(signs)


def test_it_searches(page: webdriver.Chrome) -> None:
    field = page.find_element(By.ID, "search")
    everything = rows(page)
    field.send_keys("proved")
    proved = [cells for cells in everything if cells[1] == "proved"]
    assert rows(page) == proved
    assert page.find_element(By.ID, "found").text == f"{len(proved)} of 24 rows"
    sort(page, "Node")
    assert rows(page) == sorted(proved, key=node_of)
    edge = next(cells[8] for cells in everything if "–" in cells[8]).split(",")[0]
    field.clear()
    field.send_keys(edge.replace("–", "-"))  # as a keyboard has it
    assert any(edge in cells[8] for cells in rows(page))
    field.clear()
    field.send_keys("no such thing")
    assert rows(page) == []
    assert page.find_element(By.ID, "found").text == "0 of 24 rows"


def test_it_is_light_or_dark_as_the_system_or_the_reader_wants(page: webdriver.Chrome, file: Path) -> None:
    button, light = page.find_element(By.ID, "theme"), background(page)
    prefer(page, "dark")
    WebDriverWait(page, 5).until(lambda _: "Light" in button.text)
    dark = background(page)
    assert light != dark
    button.click()
    assert background(page) == light
    button.click()
    assert background(page) == dark
    prefer(page, "light")
    assert background(page) == dark
    page.get(file.as_uri())
    assert background(page) == dark  # remembered
    ink = page.execute_script("return getComputedStyle(document.querySelector('#bounds svg text')).fill")
    assert ink == page.execute_script("return getComputedStyle(document.body).color")
    prefer(page, "dark", media="print")
    assert background(page) == light


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_nothing_is_wider_than_the_screen(page: webdriver.Chrome, width: int) -> None:
    resize(page, width)
    assert page.execute_script("return document.documentElement.scrollWidth") <= width
    assert page.execute_script("""
        return [...document.querySelectorAll(".scroll:not(.tall)")].every((box) => box.scrollWidth <= box.clientWidth)""")
    for figure in page.find_elements(By.CSS_SELECTOR, "figure svg"):
        assert 200 < figure.size["width"] <= width
    sizes = page.execute_script("""
        return [...document.querySelectorAll("figure svg")].map((svg) => [
            svg.getAttribute("aria-label"), svg.getBoundingClientRect().width / svg.viewBox.baseVal.width * Math.min(
                ...[...svg.querySelectorAll("text")].map((text) => parseFloat(getComputedStyle(text).fontSize)))])""")
    for name, pixels in sizes:
        assert pixels >= (7 if name.startswith("Node") else 10), name  # numbers in circles are the smallest
    heights = page.execute_script("""
        return [...document.querySelectorAll("#nodes tbody tr")].map((row) => row.getBoundingClientRect().height)""")
    assert max(heights) < 62  # two lines at most
    assert page.execute_script("""
        return [...document.querySelectorAll("pre")].every((block) => block.scrollWidth <= block.clientWidth)""")


def test_no_card_stands_alone_on_a_phone(page: webdriver.Chrome) -> None:
    resize(page, NARROW)
    cards = page.find_elements(By.CSS_SELECTOR, "#accuracy .card")
    first, second, third, fourth = (card.rect for card in cards)
    assert first["y"] == second["y"] < third["y"] == fourth["y"]
    summary = [card.rect for card in page.find_elements(By.CSS_SELECTOR, ".intro .card")]
    assert len(summary) % 2 == 1
    assert summary[-1]["width"] == pytest.approx(second["x"] + second["width"] - first["x"], abs=1)


def test_the_header_of_the_table_is_on_every_printed_page(page: webdriver.Chrome) -> None:
    prefer(page, "light", media="print")
    displayed = {
        selector: page.execute_script("return getComputedStyle(document.querySelector(arguments[0])).display", selector)
        for selector in ("#nodes thead", "#nodes thead button")
    }
    assert displayed == {"#nodes thead": "table-header-group", "#nodes thead button": "contents"}


def test_everything_that_can_be_used_has_a_name(page: webdriver.Chrome) -> None:
    for element in page.find_elements(By.CSS_SELECTOR, "button, input, [tabindex='0'], figure svg"):
        assert element.accessible_name
    levels = [int(element.tag_name[1]) for element in page.find_elements(By.CSS_SELECTOR, "h1, h2, h3")]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


# -- one node at a time ----------------------------------------------------------------------------


def ask(page: webdriver.Chrome, text: str) -> str:
    """The title of what is shown when one types that."""
    field = page.find_element(By.ID, "ask")
    field.clear()
    field.send_keys(text)
    return page.find_element(By.ID, "node-title").text


def numbers_of(page: webdriver.Chrome) -> dict[str, Any]:
    found: dict[str, Any] = page.execute_script("return page.numbers")
    return found


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
        render(gather(Subject("odd", certificate, "random", data, toy_network()), sample=6)), encoding="utf-8"
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
        render(gather(Subject("ring", certificate, "ring", data, toy_network()), sample=12)), encoding="utf-8"
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
    monkeypatch.setattr("certgcl.report.curves._RATES", (0.5,))
    monkeypatch.setattr("certgcl.report.curves._COUNTS", (1,))
    graph = random_graph(8, 0.3)
    changes = certgcl.Changes(additions=certgcl.EdgeAddBudget(1, 1), features=certgcl.FeatureBudget(masked=1, total=1))
    method = certgcl.bounds.BranchAndBound(branch_limit=0)
    found = certgcl.node_compactness(toy_network(), graph, changes, method=method)
    data = Data(x=graph.x, edge_index=graph.edge_index)
    path = tmp_path / "added.html"
    path.write_text(render(gather(Subject("added", found, "random", data, toy_network()), sample=10)), encoding="utf-8")
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
    graph, subjects = random_graph(24, 0.15), []
    for seed in (0, 1):
        network = toy_network(seed=seed)
        certificate = certgcl.node_compactness(network, graph, 1)
        subjects.append(
            Subject(f"seed {seed}", certificate, "random", Data(x=graph.x, edge_index=graph.edge_index), network)
        )
    comparison = compare_reports(subjects, [gather(subject, sample=5) for subject in subjects])
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
