"""The page in a real browser: Debian's chromium, driven by selenium, without a network."""

import json
import os
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from torch_geometric.data import Data

import certgcl
from certgcl.learning.training import History
from certgcl.report import Subject, gather
from certgcl.report.page import number, render
from tests.toys import random_graph, toy_network

WIDE, NARROW = 1280, 390


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    chromium, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        reason = "no browser: apt-get install chromium chromium-driver"
        if os.environ.get("CERTGCL_BROWSER") == "required":
            pytest.fail(reason)
        pytest.skip(reason)
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    found = webdriver.Chrome(options=options, service=Service(driver))
    yield found
    found.quit()


@pytest.fixture(scope="module")
def certificate() -> certgcl.Certificate:
    return certgcl.node_compactness(toy_network(), random_graph(24, 0.15), 1, method="optimized")


@pytest.fixture(scope="module")
def file(certificate: certgcl.Certificate, tmp_path_factory: pytest.TempPathFactory) -> Path:
    graph = random_graph(24, 0.15)
    part = torch.arange(24) % 4
    data = Data(x=graph.x, edge_index=graph.edge_index, y=torch.arange(24) % 3, train_mask=part < 2,
                val_mask=part == 2, test_mask=part == 3)
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
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600})


def prefer(browser: webdriver.Chrome, scheme: str, media: str = "screen") -> None:
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
        "media": media, "features": [{"name": "prefers-color-scheme", "value": scheme}]})


def rows(page: webdriver.Chrome) -> list[list[str]]:
    """The cells of the rows that can be seen."""
    found: list[list[str]] = page.execute_script("""
        return [...document.querySelectorAll("#nodes tbody tr")].filter((row) => row.offsetParent !== null)
            .map((row) => [...row.cells].map((cell) => cell.textContent.trim()))""")
    return found


def header(page: webdriver.Chrome, name: str) -> WebElement:
    return next(cell for cell in page.find_elements(By.CSS_SELECTOR, "#nodes thead th") if cell.text.startswith(name))


def sort(page: webdriver.Chrome, name: str) -> None:
    header(page, name).find_element(By.TAG_NAME, "button").click()


def background(page: webdriver.Chrome) -> str:
    return str(page.execute_script("return getComputedStyle(document.body).backgroundColor"))


def test_it_opens_without_errors_and_asks_for_nothing_else(page: webdriver.Chrome, file: Path) -> None:
    assert page.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    asked = {message["params"]["request"]["url"] for message in messages
             if message["method"] == "Network.requestWillBeSent"}
    assert asked <= {file.as_uri(), "data:,"}
    assert page.title == "certgcl report: toy <run>"
    assert page.find_element(By.TAG_NAME, "h1").text == "toy <run>"


def test_its_numbers_are_those_of_the_certificate(page: webdriver.Chrome, certificate: certgcl.Certificate) -> None:
    numbers: dict[str, Any] = page.execute_script(
        "return JSON.parse(document.getElementById('numbers').textContent)")
    assert certificate.upper is not None
    assert numbers["values"]["node"] == certificate.nodes.tolist()
    assert numbers["values"]["lower"] == certificate.lower.tolist()
    assert numbers["values"]["upper"] == certificate.upper.tolist()
    assert numbers["summary"]["proved"] == int(certificate.positive.sum())
    assert numbers["summary"]["breaks"] == int(certificate.negative.sum())
    shown = {int(cells[0]): cells for cells in rows(page)}
    assert set(shown) == set(certificate.nodes.tolist())
    for place, node in enumerate(certificate.nodes.tolist()):
        values = [certificate.nominal[place], certificate.lower[place], certificate.upper[place]]
        assert shown[node][2:5] == [number(float(value)) for value in values]
        witness = {tuple(sorted(edge)) for edge in certificate.witness(node).T.tolist()}
        if len(witness) in range(1, 5):
            assert shown[node][8] == ", ".join(f"{i}–{j}" for i, j in sorted(witness))


def test_it_sorts_by_any_column(page: webdriver.Chrome, certificate: certgcl.Certificate) -> None:
    by_lower = certificate.nodes[certificate.lower.argsort()].tolist()
    assert [int(cells[0]) for cells in rows(page)] == by_lower
    assert header(page, "Lower").get_attribute("aria-sort") == "ascending"
    sort(page, "Lower")
    assert [int(cells[0]) for cells in rows(page)] == by_lower[::-1]
    assert header(page, "Lower").get_attribute("aria-sort") == "descending"
    sort(page, "Node")
    assert [int(cells[0]) for cells in rows(page)] == list(range(24))
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
    assert rows(page) == sorted(proved, key=lambda cells: int(cells[0]))
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
    dark = background(page)
    assert light != dark
    assert "Light" in button.text
    button.click()
    assert background(page) == light
    button.click()
    assert background(page) == dark
    prefer(page, "light")
    assert background(page) == dark
    page.get(file.as_uri())
    assert background(page) == dark  # remembered
    ink = page.execute_script("return getComputedStyle(document.querySelector('figure svg text')).fill")
    assert ink == page.execute_script("return getComputedStyle(document.body).color")
    prefer(page, "dark", media="print")
    assert background(page) == light


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_nothing_is_wider_than_the_screen(page: webdriver.Chrome, width: int) -> None:
    resize(page, width)
    assert page.execute_script("return document.documentElement.scrollWidth") <= width
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
    assert max(heights) < 45  # one line each
    assert page.execute_script("""
        return [...document.querySelectorAll("pre")].every((block) => block.scrollWidth <= block.clientWidth)""")


def test_no_card_stands_alone_on_a_phone(page: webdriver.Chrome) -> None:
    resize(page, NARROW)
    cards = page.find_elements(By.CSS_SELECTOR, "#accuracy .card")
    first, second, third = (card.rect for card in cards)
    assert first["y"] == second["y"] < third["y"]
    assert third["width"] == pytest.approx(second["x"] + second["width"] - first["x"], abs=1)


def test_the_header_of_the_table_is_on_every_printed_page(page: webdriver.Chrome) -> None:
    prefer(page, "light", media="print")
    displayed = {selector: page.execute_script("return getComputedStyle(document.querySelector(arguments[0])).display",
                                               selector) for selector in ("#nodes thead", "#nodes button")}
    assert displayed == {"#nodes thead": "table-header-group", "#nodes button": "contents"}


def test_everything_that_can_be_used_has_a_name(page: webdriver.Chrome) -> None:
    for element in page.find_elements(By.CSS_SELECTOR, "button, input, [tabindex='0'], figure svg"):
        assert element.accessible_name
    levels = [int(element.tag_name[1]) for element in page.find_elements(By.CSS_SELECTOR, "h1, h2, h3")]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
