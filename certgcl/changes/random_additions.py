"""New edges drawn at random within a budget, in addition to edges that are already dropped."""

import torch
from torch import Tensor

from certgcl.changes.edge_additions import AdmissibleAdditions
from certgcl.graphs.graph import Graph

TRIES = 4  # pairs drawn for each new edge that is wanted


def random_additions(graph: Graph, view: Graph, allowed: AdmissibleAdditions, generator: torch.Generator) -> Graph:
    """A view of a graph that has lost some edges, with random new ones: at most as many as there are nodes, namely the
    first pairs that all budgets allow among ``TRIES`` times as many random pairs."""
    n, device = graph.num_nodes, graph.col.device
    lost = graph.degree - view.degree
    left, both = allowed.local.clone(), allowed.both - lost
    whole = min(allowed.total, allowed.both_total - int(lost.sum()) // 2, n)
    new: list[tuple[int, int]] = []
    for one, other in _pairs(graph, allowed, TRIES * max(0, whole), generator):
        if len(new) >= whole:
            break
        room = torch.stack([left[one], left[other], both[one], both[other]])
        if one == other or (min(one, other), max(one, other)) in new or int(room.min()) < 1:
            continue
        if bool(graph.has_edge(torch.tensor([one], device=device), torch.tensor([other], device=device))):
            continue
        new.append((min(one, other), max(one, other)))
        for counts in (left, both):
            counts[[one, other]] -= 1
    ends = torch.tensor(new, dtype=torch.long, device=device).reshape(-1, 2).T
    index = torch.cat([view.edge_index, ends, ends.flip(0)], dim=1)
    order = torch.argsort(index[0] * n + index[1])
    degree = torch.bincount(index[0], minlength=n)
    return view.with_edges(torch.cat([degree.new_zeros(1), degree.cumsum(0)]), index[1][order])


def _pairs(graph: Graph, allowed: AdmissibleAdditions, number: int, generator: torch.Generator) -> list[list[int]]:
    device = graph.col.device
    if allowed.candidates is None:
        drawn: Tensor = torch.randint(graph.num_nodes, (number, 2), generator=generator, device=device)
        return drawn.tolist()
    listed = torch.stack([allowed.candidates.row, allowed.candidates.col])
    order = torch.randperm(listed.shape[1], generator=generator, device=device)[:number]
    return listed[:, order].T.tolist()
