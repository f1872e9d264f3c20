"""The tasks of workers in ``benchmarks.kills_change_no_bit``, in a separate module that they can import."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

import certgcl
from benchmarks.power_law import power_law_graph
from benchmarks.setting import make_encoder
from certgcl.bounds import ChangeProblem, Degree
from certgcl.files.digest import digest
from certgcl.models.network import GraphNetwork

SETTINGS: dict[str, Any] = {"shards": 24, "reproducible": True}
HELD: list[Tensor] = []


def problem(nodes: int) -> tuple[certgcl.GraphNetwork, certgcl.Graph]:
    graph = power_law_graph(nodes, 5 * nodes, 32, 2.5)
    return make_encoder(graph).network(), graph


@dataclass(frozen=True)
class Hungry(Degree):
    """The bound of ``degree``, except that it takes more memory than there is for one node."""

    node: int = 0

    def __call__(self, network: GraphNetwork, problem: ChangeProblem, directions: Tensor) -> Tensor:
        while self.node in problem.anchors.tolist():
            HELD.append(torch.ones(1 << 26))  # a quarter of a gigabyte
        return super().__call__(network, problem, directions)


def train(data: Data, asked: tuple[int, Path]) -> str:
    """A training that resumes from its checkpoint, if there is one; the digest of its weights."""
    seed, folder = asked
    torch.set_num_threads(1)
    method = certgcl.GRACE(hidden=64, epochs=120, seed=seed).fit(
        data, folder=folder / str(seed), resume=True, checkpoint_every=5
    )
    return digest(*(tensor.detach() for _, tensor in method.network().named_tensors()))
