"""A report that is open in the browser."""

from pathlib import Path

import pytest
import torch
from selenium import webdriver
from torch_geometric.data import Data

import certgcl
from certgcl.learning.training import History
from certgcl.report import ReportSource, build_report
from certgcl.report.page import render
from tests.report.browsing import NAMES, WIDE, prefer, resize
from tests.toys import random_graph, toy_network


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
    report = build_report(
        ReportSource("toy <run>", certificate, "random", data, toy_network(), "public", history), sample=2
    )
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
