"""One small graph that several test files use, with dense and with sparse features."""

import signal
from collections.abc import Iterator

import pytest
import torch

from certgcl.graphs.graph import Graph


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
