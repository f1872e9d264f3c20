"""``degree`` with full pre-activations bounds every node of Cora (encoder 256, 128; q = round(0.4 d)) within a minute
and 4 GB, and its memory does not grow with the square of the number of nodes.

``CERTGCL_DATA=... python -m benchmarks.degree_certifies_cora_within_a_minute``
"""

import resource
import time

import torch

import certgcl
from benchmarks.real_graphs import load


def peak_memory() -> float:
    """Largest resident memory of this process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2


def ring_lattice(nodes: int, features: int = 32, reach: int = 2) -> certgcl.Graph:
    """Every node joined with the next ``reach`` on both sides."""
    node = torch.arange(nodes)
    pairs = torch.cat([torch.stack([node, (node + step) % nodes]) for step in range(1, reach + 1)], dim=1)
    return certgcl.Graph.cleaned((torch.rand(nodes, features), pairs))


def main() -> None:
    torch.manual_seed(0)
    graph = certgcl.Graph.of(load("Cora"))
    encoder = certgcl.GCNEncoder(graph.num_features, 256, 128).eval()
    budget = certgcl.EdgeDropBudget(local=(0.4 * graph.degree).round().long())
    for method in ("interval", "degree-cheap", "degree"):
        start = time.perf_counter()
        certificate = certgcl.node_compactness(encoder, graph, budget, method=method)
        print(f"Cora, {method:<13} {time.perf_counter() - start:6.1f} s, peak {peak_memory():5.2f} GB, "
              f"mean lower {float(certificate.lower.mean()):8.5f} (clean {float(certificate.nominal.mean()):.5f}), "
              f"{100 * certificate.share_positive:.1f} % proved > 0", flush=True)
    for nodes in (5_000, 20_000, 80_000):
        graph = ring_lattice(nodes)
        encoder = certgcl.GCNEncoder(graph.num_features, 8, 4).eval()
        start = time.perf_counter()
        certgcl.node_compactness(encoder, graph, 1)
        print(f"ring of {nodes:>6} nodes (widths 8, 4)  {time.perf_counter() - start:6.1f} s, "
              f"peak {peak_memory():5.2f} GB; a dense N x N matrix: {8 * nodes**2 / 1024**3:.1f} GB", flush=True)


if __name__ == "__main__":
    main()
