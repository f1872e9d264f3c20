"""The page in a real browser: Debian's chromium, driven by selenium, without a network."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

import certgcl
from certgcl.report.page import number
from tests.report.browsing import NARROW, WIDE, background, header, node_of, prefer, resize, rows, sort


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
        const tables = [...document.querySelectorAll(".scroll:not(.tall)")];
        return tables.every((table) => table.scrollWidth <= table.clientWidth)""")
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
