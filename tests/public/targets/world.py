"""What the public calls are about: a graph of eight nodes, and what is made of it."""

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import networkx as nx
import torch

import certgcl
from certgcl.bounds import ChangeProblem
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.graphs.graph import Graph
from tests.public.fuzz import Target

SMALL = {"hidden": 4, "epochs": 1}


class World:
    """What the calls are about, made once; and folders that no other call has seen."""

    def __init__(self, folder: Path) -> None:
        torch.manual_seed(0)
        folder.mkdir(parents=True)
        self.folder, self.number = folder, count()
        self.networkx = nx.convert_node_labels_to_integers(nx.gnp_random_graph(8, 0.4, seed=1))
        self.x = torch.randn(8, 3, dtype=torch.float64)
        self.graph = Graph.from_networkx(self.networkx, x=self.x)
        self.y = torch.arange(8) % 2
        self.encoder = certgcl.GCNEncoder(3, 4, 2).double().eval()
        self.weights = certgcl.read_network(self.encoder, self.graph)
        self.embeddings = self.weights.embed(self.graph).detach()
        self.certificate = certgcl.node_compactness(self.encoder, self.graph, 1, method="optimized")
        self.fitted = certgcl.GRACE(**SMALL).fit(self.graph)
        self.certificate.save(folder / "certificate.npz")
        self.weights.to(torch.float64).save(folder / "weights.npz")
        self.fitted.save(folder / "method.pt")
        certgcl.save_graph(folder / "graph", self.graph)
        certgcl.certify_shards(self.encoder, self.graph, 1, folder / "shards", shards=2)

    def fresh(self) -> Path:
        return self.folder / "fresh" / str(next(self.number))

    def problem(self) -> ChangeProblem:
        return ChangeProblem(self.graph, EdgeDropBudget(local=1).on(self.graph), torch.arange(8))


def target(name: str, function: Callable[..., Any], arguments: dict[str, Any], **settings: Any) -> Target:
    return Target(name, lambda: function, lambda: dict(arguments), **settings)
