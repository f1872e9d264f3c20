"""The views on which a probed model is run: the graph itself several times, extreme views, random drops and searched
ones."""

from collections.abc import Iterator

import torch

from certgcl.attacks import Search, SearchSpace
from certgcl.changes.edge_drops import AdmissibleDrops
from certgcl.graphs.graph import Graph
from certgcl.models.network import GraphNetwork
from certgcl.models.reading.checks import some_views, without

REPEATS = 4  # runs on the graph itself, to reveal a model that counts its calls
DRAWN = 24  # random views
SEARCHED = 8  # anchors that drops are searched for


def probed_views(
    network: GraphNetwork, graph: Graph, drops: AdmissibleDrops, chance: torch.Generator
) -> Iterator[Graph]:
    """All of these views; the random ones depend on ``chance`` only."""
    for _ in range(REPEATS):
        yield graph
    yield from some_views(graph)
    for _ in range(DRAWN):
        yield random_view(graph, drops, chance)
    yield from _searched(network, graph, drops, chance)


def random_view(graph: Graph, drops: AdmissibleDrops, chance: torch.Generator) -> Graph:
    """Any number of edges, in a random order: each is dropped if it is among the first ``q_i`` at both its ends, up to
    Q in all."""
    slots = ((graph.row < graph.col) & drops.droppable).nonzero()[:, 0]
    number = int(torch.randint(len(slots) + 1, (), generator=chance))
    slots = slots[torch.randperm(len(slots), generator=chance)[:number].to(slots.device)]
    ends = graph.edge_index[:, slots].T.flatten()  # both ends of the first edge, of the second, …
    order = torch.argsort(ends, stable=True)
    first = torch.searchsorted(ends[order], ends[order])  # where the node of each begins
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order), device=order.device) - first
    fits = (rank < drops.local[ends]).view(-1, 2).all(dim=1)
    return _dropping(graph, slots[fits][: drops.total])


def _searched(network: GraphNetwork, graph: Graph, drops: AdmissibleDrops, chance: torch.Generator) -> Iterator[Graph]:
    """Drops that lower some direction of a random anchor most, according to the measured weights."""
    space = SearchSpace(network.to(torch.float64), graph.to(dtype=torch.float64), drops)
    found = 0
    for anchor in torch.randperm(graph.num_nodes, generator=chance).tolist():
        field = space.field(anchor)
        if field is None:
            continue
        direction = torch.randn(1, network.width, dtype=torch.float64, generator=chance).to(network.device)
        yield _dropping(graph, field.slots[Search()(space, [field], direction)[0]])
        found += 1
        if found == SEARCHED:
            return


def _dropping(graph: Graph, slots: torch.Tensor) -> Graph:
    mask = torch.zeros_like(graph.col, dtype=torch.bool)
    mask[slots] = mask[graph.reverse[slots]] = True
    return without(graph, mask)
