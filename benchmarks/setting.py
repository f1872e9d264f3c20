"""What the benchmarks certify: the encoder of GRACE on Cora, and the paper's number of drops."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn.models import GCN
from torch_geometric.utils import dropout_edge

import certgcl
from certgcl.learning import presets

WIDTHS = (256, 128)
DROP_RATE = 0.4


def make_encoder(graph: certgcl.Graph, seed: int = 0) -> certgcl.GCNEncoder:
    """Two layers of 256 and 128 channels with ReLU, at random weights."""
    torch.manual_seed(seed)
    return certgcl.GCNEncoder(graph.num_features, *WIDTHS).to(graph.x.device).eval()


def grace_step(
    graph: certgcl.Graph,
    regularizer: certgcl.CompactnessRegularizer | None = None,
    encoder: Callable[[int, int], nn.Module] | None = None,
) -> Callable[[], object]:
    """One training step of GRACE with its preset for Cora; optionally with another encoder, made from features and
    width."""
    settings = presets.get("grace", "Cora").settings() | ({} if encoder is None else {"encoder": encoder})
    return partial(certgcl.GRACE(**settings, regularizer=regularizer).session(graph).step, 0)


def usual_grace_step(graph: certgcl.Graph) -> Callable[[], object]:
    """The same step as it is usually written: PyG's ``GCNConv`` and ``dropout_edge``, one loss for each direction."""
    settings = presets.get("grace", "Cora").settings()
    x, edges, hidden = graph.x.float(), graph.edge_index, settings["hidden"]
    encoder = GCN(graph.num_features, 2 * hidden, 2, hidden)
    projector = nn.Sequential(nn.Linear(hidden, hidden), nn.ELU(), nn.Linear(hidden, hidden))
    modules = nn.ModuleList([encoder, projector])
    optimizer = torch.optim.Adam(modules.parameters(), settings["learning_rate"], weight_decay=1e-5)

    def one_direction(p: Tensor, q: Tensor) -> Tensor:
        within, across = (torch.exp(p @ other.T / settings["temperature"]) for other in (p, q))
        others = within.sum(dim=1) - within.diagonal() + across.sum(dim=1)
        return -torch.log(across.diagonal() / others).mean()

    def step() -> float:
        views = [dropout_edge(edges, rate, force_undirected=True)[0] for rate in settings["drop_rates"]]
        p, q = (functional.normalize(projector(encoder(x, view).relu())) for view in views)
        loss = (one_direction(p, q) + one_direction(q, p)) / 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step


def budget(graph: certgcl.Graph) -> certgcl.EdgeDropBudget:
    """``q = round(0.4 d)``."""
    return certgcl.EdgeDropBudget(local=(DROP_RATE * graph.degree).round().long())


def ring_lattice(nodes: int, features: int = 32, reach: int = 2) -> certgcl.Graph:
    """Every node joined with the next ``reach`` on both sides."""
    node = torch.arange(nodes)
    pairs = torch.cat([torch.stack([node, (node + step) % nodes]) for step in range(1, reach + 1)], dim=1)
    x = torch.rand(nodes, features, generator=torch.Generator().manual_seed(0))
    return certgcl.Graph.cleaned((x, pairs))
