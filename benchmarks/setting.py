"""What the benchmarks certify: the encoder of GRACE on Cora, and the paper's number of drops."""

import torch

import certgcl

WIDTHS = (256, 128)
DROP_RATE = 0.4


def make_encoder(graph: certgcl.Graph, seed: int = 0) -> certgcl.GCNEncoder:
    """Two layers of 256 and 128 channels with ReLU, at random weights."""
    torch.manual_seed(seed)
    return certgcl.GCNEncoder(graph.num_features, *WIDTHS).to(graph.x.device).eval()


def weights_of(encoder: certgcl.GCNEncoder) -> certgcl.GCNWeights:
    """The weights of an encoder with ReLU, with their gradients."""
    first, second = encoder.conv1, encoder.conv2
    relu = torch.zeros((), device=first.bias.device)
    return certgcl.GCNWeights(first.lin.weight.T, first.bias, relu, second.lin.weight.T, second.bias, relu)


def budget(graph: certgcl.Graph) -> certgcl.EdgeDropBudget:
    """``q = round(0.4 d)``."""
    return certgcl.EdgeDropBudget(local=(DROP_RATE * graph.degree).round().long())


def ring_lattice(nodes: int, features: int = 32, reach: int = 2) -> certgcl.Graph:
    """Every node joined with the next ``reach`` on both sides."""
    node = torch.arange(nodes)
    pairs = torch.cat([torch.stack([node, (node + step) % nodes]) for step in range(1, reach + 1)], dim=1)
    x = torch.rand(nodes, features, generator=torch.Generator().manual_seed(0))
    return certgcl.Graph.cleaned((x, pairs))
