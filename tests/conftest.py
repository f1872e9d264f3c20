"""What several test files use: one small graph, with dense and with sparse features, and a browser."""

import os
import shutil
import signal
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from certgcl.graphs.graph import Graph

# The graphs here are small, and small graphs are bounded without kernels unless this says otherwise: most tests run the
# kernels, and those that switch them off run torch.
os.environ.setdefault("CERTGCL_KERNELS", "always")


def _graph(sparse: bool) -> Graph:
    """Six nodes: a triangle 0-1-2 with a tail 2-3-4, and node 5 alone."""
    x = torch.randn(6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    edges = torch.tensor([[0, 0, 1, 2, 3], [1, 2, 2, 3, 4]])
    return Graph.from_edges(x.clamp(min=0).to_sparse() if sparse else x, torch.cat([edges, edges.flip(0)], dim=1))


@pytest.fixture
def graph() -> Graph:
    return _graph(sparse=False)


@pytest.fixture
def sparse_graph() -> Graph:
    return _graph(sparse=True)


@pytest.fixture(params=["dense", "sparse"])
def either_graph(request: pytest.FixtureRequest) -> Graph:
    return _graph(sparse=request.param == "sparse")


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True, scope="session")
def _interruptible() -> Iterator[None]:
    """A shell's background jobs ignore Ctrl-C, and so would these tests and the processes they start."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium without a network, driven by selenium."""
    chromium, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        reason = "no browser: apt-get install chromium chromium-driver"
        if os.environ.get("CERTGCL_BROWSER") == "required":
            pytest.fail(reason)
        pytest.skip(reason)
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--host-resolver-rules=MAP * ~NOTFOUND",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield found
    found.quit()
