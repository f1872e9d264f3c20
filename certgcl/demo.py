"""``python -m certgcl.demo``: train an encoder on the handwritten digits, and certify every node of it."""

import time

import torch
from sklearn.datasets import load_digits
from sklearn.neighbors import kneighbors_graph
from torch import Tensor
from torch.nn import functional
from torch_geometric.utils import dropout_edge

import certgcl

DROP_RATE = 0.3
EPOCHS = 60
SAMPLED_VIEWS = 100


def digits_graph(neighbours: int = 5) -> certgcl.Graph:
    """The 1,797 digits that ship with scikit-learn, each joined with its nearest neighbours."""
    images = load_digits().data
    row, col = kneighbors_graph(images, neighbours).nonzero()
    x = torch.tensor(images / images.max(), dtype=torch.float32)
    return certgcl.Graph.cleaned((x, torch.stack([torch.tensor(row), torch.tensor(col)])))


def contrastive_loss(z1: Tensor, z2: Tensor, temperature: float = 0.5) -> Tensor:
    """InfoNCE between two views with inter-view negatives, both directions averaged."""
    similarity = functional.normalize(z1) @ functional.normalize(z2).T / temperature
    target = torch.arange(len(z1), device=z1.device)
    return (functional.cross_entropy(similarity, target) + functional.cross_entropy(similarity.T, target)) / 2


def train(graph: certgcl.Graph) -> certgcl.GCNEncoder:
    encoder = certgcl.GCNEncoder(graph.num_features, 64, 32, activation="relu")
    optimizer = torch.optim.Adam(encoder.parameters(), lr=5e-3)
    for _ in range(EPOCHS):
        views = [dropout_edge(graph.edge_index, DROP_RATE, force_undirected=True)[0] for _ in range(2)]
        loss = contrastive_loss(*(encoder(graph.x, view) for view in views))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return encoder.eval()


@torch.no_grad()
def lowest_sampled(encoder: certgcl.GCNEncoder, graph: certgcl.Graph, certificate: certgcl.Certificate) -> Tensor:
    """The least compactness of every node over random views inside the budget: no worst case can be above it."""
    encoder = encoder.double()
    x, lowest = graph.x.double(), certificate.nominal.clone()
    edges = graph.edge_index[:, graph.row < graph.col]
    for _ in range(SAMPLED_VIEWS):
        left = certificate.local_budget.clone()
        kept = torch.ones(edges.shape[1], dtype=torch.bool)
        for edge in torch.randperm(edges.shape[1]).tolist():
            if bool((left[edges[:, edge]] > 0).all()):
                left[edges[:, edge]] -= 1
                kept[edge] = False
        view = edges[:, kept]
        z = encoder(x, torch.cat([view, view.flip(0)], dim=1))
        lowest = lowest.minimum((z * certificate.directions).sum(dim=1))
    return lowest


def main() -> None:
    torch.manual_seed(0)
    graph = digits_graph()
    print(f"{graph}: scikit-learn's digits, five nearest neighbours")
    start = time.perf_counter()
    encoder = train(graph)
    print(f"encoder 64 -> 64 -> 32 trained without labels, {EPOCHS} epochs, {time.perf_counter() - start:.0f} s\n")
    budget = certgcl.EdgeDropBudget.from_drop_rate(DROP_RATE)
    print(f"Which nodes stay compact, whichever edges are dropped (at most round({DROP_RATE} degree) at each node)?\n")
    print(f"{'method':<10} {'a bound?':<9} {'mean':>8} {'proved > 0':>11} {'seconds':>8}")
    for method in ("interval", "crown", "degree", "paper", "released"):
        start = time.perf_counter()
        certificate = certgcl.node_compactness(encoder, graph, budget, method=method)
        shown = f"{100 * certificate.share_positive:.1f} %" if certificate.certified else "nothing"
        print(f"{method:<10} {'yes' if certificate.certified else 'no':<9} {float(certificate.lower.mean()):8.4f} "
              f"{shown:>11} {time.perf_counter() - start:8.1f}")

    certificate = certgcl.node_compactness(encoder, graph, budget)
    lowest = lowest_sampled(encoder, graph, certificate)
    print(f"\nclean value, mean                  {float(certificate.nominal.mean()):8.4f}")
    print(f"lowest of {SAMPLED_VIEWS} random views, mean    {float(lowest.mean()):8.4f}   "
          f"below the bound at {int((lowest < certificate.lower - certificate.rounding).sum())} nodes")
    print(f"certified lower bound, mean        {float(certificate.lower.mean()):8.4f}\n")
    print(certificate)
    fragile = certificate.lower.argsort()[:5]
    print("\nmost fragile nodes  " + ", ".join(
        f"{int(node)} (degree {int(graph.degree[node])}, at least {float(certificate.lower[node]):.3f})"
        for node in fragile))


if __name__ == "__main__":
    main()
