"""Random graphs with power-law degrees, of any size, in vectorised steps."""

import numpy as np
import torch

import certgcl


def power_law_graph(nodes: int, edges: int, features: int, exponent: float = 2.5, seed: int = 0) -> certgcl.Graph:
    """A simple graph with exactly so many edges and degrees ``P(d) ~ d^-exponent``, after Chung and Lu.

    Both ends of an edge are drawn with probability proportional to the weight ``k^(-1 / (exponent - 1))`` of the k-th
    node; loops and repeated edges are drawn anew. Nodes are numbered in random order, features are Gaussian.
    """
    if edges > nodes * (nodes - 1) // 4:
        raise ValueError(f"{edges} edges between {nodes} nodes: at most half of all pairs can be drawn in good time")
    random = np.random.default_rng(seed)
    cumulative = np.cumsum(np.arange(1, nodes + 1) ** (-1 / (exponent - 1)))
    keys = np.empty(0, dtype=np.int64)
    while len(keys) < edges:
        missing = edges - len(keys)
        ends = np.searchsorted(cumulative, random.random((2, missing + missing // 8 + 8)) * cumulative[-1])
        low, high = ends.min(axis=0), ends.max(axis=0)
        new = np.setdiff1d((low * nodes + high)[low < high], keys)
        keys = np.concatenate([keys, random.permutation(new)[:missing]])
    ends = torch.from_numpy(random.permutation(nodes)[np.stack([keys // nodes, keys % nodes])])
    x = torch.from_numpy(random.standard_normal((nodes, features), dtype=np.float32))
    return certgcl.Graph.from_edges(x, torch.cat([ends, ends.flip(0)], dim=1))
