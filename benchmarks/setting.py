"""What the benchmarks certify: the encoder of GRACE on Cora, and the paper's number of drops."""

from collections.abc import Callable
from functools import partial

import torch

import certgcl
from certgcl import presets

WIDTHS = (256, 128)
DROP_RATE = 0.4


def make_encoder(graph: certgcl.Graph, seed: int = 0) -> certgcl.GCNEncoder:
    """Two layers of 256 and 128 channels with ReLU, at random weights."""
    torch.manual_seed(seed)
    return certgcl.GCNEncoder(graph.num_features, *WIDTHS).to(graph.x.device).eval()


def grace_step(graph: certgcl.Graph,
               regularizer: certgcl.CompactnessRegularizer | None = None) -> Callable[[], object]:
    """One training step of GRACE as its preset for Cora has it."""
    session = certgcl.GRACE(**presets.get("grace", "Cora").settings(), regularizer=regularizer).session(graph)
    return partial(session.step, 0)


def budget(graph: certgcl.Graph) -> certgcl.EdgeDropBudget:
    """``q = round(0.4 d)``."""
    return certgcl.EdgeDropBudget(local=(DROP_RATE * graph.degree).round().long())


def ring_lattice(nodes: int, features: int = 32, reach: int = 2) -> certgcl.Graph:
    """Every node joined with the next ``reach`` on both sides."""
    node = torch.arange(nodes)
    pairs = torch.cat([torch.stack([node, (node + step) % nodes]) for step in range(1, reach + 1)], dim=1)
    x = torch.rand(nodes, features, generator=torch.Generator().manual_seed(0))
    return certgcl.Graph.cleaned((x, pairs))
