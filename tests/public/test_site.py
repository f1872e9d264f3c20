"""The documentation as a site: it builds strictly, and works from a folder without a network."""

import json
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import typer.main
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

import certgcl
from certgcl.cli import app
from tests.public.test_docs import Block, blocks

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documentation as a site, built as ``make docs`` does."""
    pytest.importorskip("mkdocs", reason="the site is built with the extra 'docs'")
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return folder


def test_the_site_needs_no_network(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(r"<(?:script|img|link)[^>]+(?:src|href)=[\"']?(?:https?:)?//[^\"'>\s]+", page.read_text())
        assert [tag for tag in loaded if "canonical" not in tag] == []


def test_the_reference_has_every_public_name(site: Path) -> None:
    reference = "".join(page.read_text(encoding="utf-8") for page in (site / "reference").glob("*.html"))
    for name in [*certgcl.__all__, "lightning.CertifyCompactness", "types.GraphLike"]:
        if name != "__version__":
            assert f'id="certgcl.{name}"' in reference, name


def test_types_in_a_signature_are_links(site: Path) -> None:
    reference = (site / "reference" / "certificates.html").read_text(encoding="utf-8")
    assert 'href="graphs.html#certgcl.types.GraphLike"' in reference
    assert 'href="#certgcl.Certificate"' in reference


def test_the_reference_has_every_command(site: Path) -> None:
    reference = (site / "reference" / "command_line.html").read_text(encoding="utf-8")
    for name in typer.main.get_command(app).commands:  # type: ignore[attr-defined]
        assert f"certgcl {name}" in reference, name


def test_every_formula_is_typeset(site: Path, browser: webdriver.Chrome) -> None:
    browser.get((site / "theory.html").as_uri())
    marked = len(browser.find_elements(By.CSS_SELECTOR, ".arithmatex"))
    assert marked > 500
    browser.execute_script("return MathJax.startup.promise.then(() => true)")
    assert len(browser.find_elements(By.CSS_SELECTOR, ".arithmatex > mjx-container > svg")) == marked
    wrong = browser.find_elements(By.CSS_SELECTOR, "[data-mml-node=merror]")
    assert [formula.get_attribute("data-mjx-error") for formula in wrong] == []


def test_only_pages_with_mathematics_load_its_script(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert ("mathjax.js" in text) == ('class="arithmatex"' in text), page


def test_the_search_works_from_a_folder(site: Path, browser: webdriver.Chrome) -> None:
    browser.get((site / "howto" / "own_loop.html").as_uri())
    browser.execute_script("document.getElementById('__search').click()")
    browser.find_element(By.CSS_SELECTOR, "input.md-search__input").send_keys("knapsack")
    found = WebDriverWait(browser, 30).until(
        lambda _: browser.find_elements(By.CSS_SELECTOR, "a.md-search-result__link")
    )
    assert any("theory.html" in str(link.get_attribute("href")) for link in found)


def test_pages_to_work_through_are_notebooks_with_their_code_and_outputs(site: Path) -> None:
    pages = [ROOT / "docs" / "tutorial.md", *sorted((ROOT / "docs" / "howto").glob("*.md"))]
    for page in pages:
        notebook = json.loads((site / "notebooks" / f"{page.stem}.ipynb").read_text(encoding="utf-8"))
        code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        expected = [block for block in blocks(page) if block.language in ("python", "sh")]
        assert len(code) == len(expected)
        for cell, block in zip(code, expected, strict=True):
            if block.language == "python":
                assert "".join(cell["source"]) == block.code.rstrip("\n")
        shown = [line for cell in code for output in cell["outputs"] for line in output["text"]]
        assert "".join(shown) == "".join(block.code for block in printed(page))
        built = (site / page.relative_to(ROOT / "docs")).with_suffix(".html")
        assert "as a notebook" in built.read_text(encoding="utf-8")


def printed(page: Path) -> list[Block]:
    """The blocks of output right below one of code."""
    found = list(blocks(page))
    return [
        block
        for before, block in pairwise(found)
        if block.language == "text" and block.follows and before.language in ("python", "sh")
    ]
