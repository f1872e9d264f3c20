"""A graph to certify shard by shard, and how shards are looked at."""

from pathlib import Path

import torch

from certgcl.certify.certificate import Certificate
from tests.toys import random_graph, toy_network

GRAPH, WEIGHTS = random_graph(nodes=40, density=0.1), toy_network()


def shard_files(folder: Path) -> dict[str, int]:
    """The time each shard was written."""
    return {path.name: path.stat().st_mtime_ns for path in sorted(folder.glob("shard-*"))}


def agree(found: Certificate, expected: Certificate) -> None:
    """Equal but for rounding: sums run in another order when fewer rows stand side by side in a block.

    ``rounding`` itself may be smaller in a shard, whose rows may be shorter than the longest of the graph.
    """
    for name in ("nodes", "nominal", "directions", "local_budget"):
        assert torch.equal(getattr(found, name), getattr(expected, name)), name
    assert (found.method, found.certified, found.total_budget) == (
        expected.method,
        expected.certified,
        expected.total_budget,
    )
    torch.testing.assert_close(found.lower, expected.lower, rtol=1e-12, atol=1e-13)
    assert (found.rounding <= expected.rounding * (1 + 1e-12)).all()
    assert (found.rounding > 0).all()
