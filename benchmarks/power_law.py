"""Random graphs with power-law degrees, of any size, in vectorised steps."""

from collections.abc import Callable

import numpy as np
import torch

import certgcl

Ends = Callable[[int], np.ndarray]
"""Draws a number of pairs of ends, ``(2, number)``."""


def power_law_graph(nodes: int, edges: int, features: int, exponent: float = 2.5, seed: int = 0) -> certgcl.Graph:
    """A simple graph with this number of edges and degrees ``P(d) ~ d^-exponent``, after Chung and Lu.

    Both ends of an edge are drawn with probability proportional to the weight ``k^(-1 / (exponent - 1))`` of the k-th
    node; loops and repeated edges are drawn again. Nodes are numbered in random order, features are Gaussian.
    """
    random = np.random.default_rng(seed)
    keys = _keys(nodes, edges, _ends(nodes, exponent, random), random)
    return _graph(random.permutation(nodes)[np.stack([keys // nodes, keys % nodes])], nodes, features, random)


def clustered_power_law_graph(
    nodes: int,
    edges: int,
    features: int,
    cluster: int,
    reach: int,
    inside: float = 0.9,
    exponent: float = 2.5,
    seed: int = 0,
) -> certgcl.Graph:
    """Clusters of power-law degrees, numbered one after the other, as a graph is once it is partitioned.

    The share ``inside`` of the edges is within clusters of ``cluster`` nodes, the rest between clusters whose numbers
    differ by at most ``reach``, as if they were on a ring.
    """
    random, clusters = np.random.default_rng(seed), nodes // cluster
    within = _ends(cluster, exponent, random)

    def ends(number: int) -> np.ndarray:
        home = random.integers(clusters, size=number)
        away = (home + random.integers(1, reach + 1, size=number)) % clusters
        other = np.where(random.random(number) < inside, home, away)
        return within(number) + cluster * np.stack([home, other])

    keys = _keys(nodes, edges, ends, random)
    return _graph(np.stack([keys // nodes, keys % nodes]), nodes, features, random)


def _ends(nodes: int, exponent: float, random: np.random.Generator) -> Ends:
    cumulative = np.cumsum(np.arange(1, nodes + 1) ** (-1 / (exponent - 1)))
    return lambda number: np.searchsorted(cumulative, random.random((2, number)) * cumulative[-1])


def _keys(nodes: int, edges: int, ends: Ends, random: np.random.Generator) -> np.ndarray:
    """Distinct pairs as numbers ``low * nodes + high``, without loops."""
    if edges > nodes * (nodes - 1) // 4:
        raise ValueError(f"{edges} edges between {nodes} nodes: at most half of all pairs can be drawn")
    keys = np.empty(0, dtype=np.int64)
    while len(keys) < edges:
        missing = edges - len(keys)
        drawn = ends(missing + missing // 8 + 8)
        low, high = drawn.min(axis=0), drawn.max(axis=0)
        new = np.setdiff1d((low * nodes + high)[low < high], keys)
        keys = np.concatenate([keys, random.permutation(new)[:missing]])
    return keys


def _graph(ends: np.ndarray, nodes: int, features: int, random: np.random.Generator) -> certgcl.Graph:
    both = torch.from_numpy(ends)
    x = torch.from_numpy(random.standard_normal((nodes, features), dtype=np.float32))
    return certgcl.Graph.from_edges(x, torch.cat([both, both.flip(0)], dim=1))
