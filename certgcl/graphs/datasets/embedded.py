"""Graphs that come with the libraries certgcl needs, or are generated: features, edges and labels of each."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

Parts: TypeAlias = tuple[Tensor, Tensor, Tensor]


def digits() -> Parts:
    """The 1,797 digits of scikit-learn, each joined with its five nearest neighbours.

    Many distances are equal. In integers they are equal on every machine, and the lower index wins.
    """
    from sklearn.datasets import load_digits

    images, y = load_digits(return_X_y=True)
    pixels = images.astype(np.int64)
    norms = (pixels**2).sum(1)
    distances = norms[:, None] + norms - 2 * pixels @ pixels.T
    np.fill_diagonal(distances, distances.max() + 1)
    nearest = distances.argsort(1, kind="stable")[:, :5]
    edges = np.stack((np.arange(len(pixels)).repeat(5), nearest.ravel()))
    return torch.tensor(images / images.max()), torch.from_numpy(edges), torch.from_numpy(y)


def karate() -> Parts:
    import networkx as nx

    graph = nx.karate_club_graph()
    club = [club == "Officer" for _, club in graph.nodes(data="club")]
    return torch.eye(len(graph)), torch.tensor(list(graph.edges)).T, torch.tensor(club)


def les_miserables() -> Parts:
    import networkx as nx

    graph = nx.convert_node_labels_to_integers(nx.les_miserables_graph())
    y = torch.empty(len(graph), dtype=torch.long)
    for number, community in enumerate(nx.community.greedy_modularity_communities(graph)):
        y[list(community)] = number
    return torch.eye(len(graph)), torch.tensor(list(graph.edges)).T, y


def characters() -> list[str]:
    """The names of the nodes of :func:`les_miserables`."""
    import networkx as nx

    return list(nx.les_miserables_graph())


def sbm() -> Parts:
    """Four blocks of a hundred nodes."""
    generator = np.random.default_rng(0)
    y = np.arange(4).repeat(100)
    probability = np.where(y[:, None] == y, 0.1, 0.01)
    edges = np.triu(generator.random(probability.shape) < probability, k=1).nonzero()
    x = generator.normal(size=(4, 16))[y] + generator.normal(size=(len(y), 16))
    return torch.from_numpy(x), torch.from_numpy(np.stack(edges)), torch.from_numpy(y)


EMBEDDED: dict[str, Callable[[], Parts]] = {
    "digits": digits,
    "karate": karate,
    "les-miserables": les_miserables,
    "sbm": sbm,
}
NAMES: dict[str, Callable[[], list[str]]] = {"les-miserables": characters}
"""The names of nodes, for graphs whose nodes have names."""
