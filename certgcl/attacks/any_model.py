"""Harmful drops for any model. Their values are attained; nothing is certified."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from certgcl.arguments import numbers
from certgcl.arguments import seed as checked_seed
from certgcl.attacks.black_box import BlackBox, minimal
from certgcl.attacks.descent import Search
from certgcl.attacks.field import SearchSpace
from certgcl.attacks.found import Found, end_of
from certgcl.attacks.run import ModelRun
from certgcl.certify.directions import compactness_directions
from certgcl.certify.question_arguments import NodesLike, check_anchors
from certgcl.changes.changes import BudgetLike, Changes
from certgcl.changes.edge_drops import AdmissibleDrops
from certgcl.errors import DirectionError, EncoderError, InputError
from certgcl.graphs.graph import Graph, GraphLike
from certgcl.models.reading import ModelLike, read_network

TOGETHER = 64  # nodes that are searched together

AnyModel = ModelLike | Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class FoundDrops(Found):
    """Admissible drops that lower ``w_i · z_i``. Not a certificate: other drops may lower it further.

    Args:
        nodes: the requested nodes, ``(A,)``.
        clean: ``w_i · z_i`` on the graph, as the model computes it, ``(A,)``.
        values: the lowest value found, as the model computes it there, ``(A,)``: an upper bound of the worst case, and
            the clean value where nothing lower was found.
        searched: whether a node was searched: there was time, and its neighbourhood was not too large, ``(A,)``.
        witnesses: the dropped edges that reach the value, ``(2, k)`` node numbers, for every node.
        knowledge: ``"network"`` where the search knew the model's layers, ``"values"`` where it could only call it.
        ran: what was run, in words.
    """

    witnesses: tuple[Tensor, ...]
    knowledge: Literal["network", "values"]
    ran: str
    _run: ModelRun = field(repr=False, kw_only=True)
    _directions: Tensor = field(repr=False, kw_only=True)

    def witness(self, node: int) -> Tensor:
        """The dropped edges that reach the value of a node, ``(2, k)``."""
        return self.witnesses[self._position(node)]

    def minimal_witness(self, node: int, below: float = 0.0) -> Tensor:
        """A minimal subset of them: the value stays below a threshold, but would not if any one of them were put back;
        ``(2, k)``. Other subsets may be smaller.

        Raises:
            InputError: the value is not below the threshold with all of them.
        """
        position, run = self._position(node), self._run
        if not float(self.values[position]) < below:
            raise InputError(
                f"node {node} with the value {float(self.values[position]):g}",
                f"its value is below {below:g} with the drops that were found",
                "Pass a larger below=, or ask for another node",
            )
        graph, (one, other) = run.graph, self.witnesses[position]
        slots = torch.searchsorted(graph.row * graph.num_nodes + graph.col, one * graph.num_nodes + other)
        value = _value(run, node, self._directions[position])
        return graph.edge_index[:, torch.tensor(minimal(value, slots.tolist(), below), dtype=torch.long)]

    def __str__(self) -> str:
        about = f"  run       {self.ran}; the search used its {self.knowledge}"
        return self._lines("drops", about, missing="no time, or too large,")


def search_drops(
    model: AnyModel,
    graph: GraphLike,
    budgets: BudgetLike,
    nodes: NodesLike = None,
    *,
    directions: Any = None,
    seconds: float = 60.0,
    seed: int = 0,
) -> FoundDrops:
    """Look for admissible edge drops that lower ``w_i · z_i``: an attack, for any model.

    Nothing is certified: the worst case is at most the value found, and may be lower. Where certgcl can read the model,
    the search follows its derivatives (:class:`certgcl.attacks.Search`); any other model (attention, layer norms, ...)
    is called repeatedly without some of the edges around a node. Either way the values are those that the model
    itself gives on the graph without the witness.

    Args:
        model: whatever is called as ``model(x, edge_index)`` and gives a row per node; in eval mode.
        graph: as in :func:`certgcl.node_compactness`.
        budgets: likewise.
        nodes: likewise.
        directions: ``w_i`` of every node, ``(N, d)``; those of node compactness by default, with the graph itself as
            the fixed view.
        seconds: for all nodes together.
        seed: of the random numbers of the search.

    Example::

        found = certgcl.search_drops(encoder, data, budgets=2, nodes=[0, 1, 2])
        print(found, found.witness(0))
    """
    graph, chance = Graph.of(graph), checked_seed(seed)
    end = end_of(seconds)
    drops, anchors = Changes.of(budgets).drops_alone("search_drops").on(graph), check_anchors(nodes, graph)
    run = ModelRun.of(model, graph)
    embeddings = run.checked()
    wanted = directions_of(directions, embeddings)[anchors]
    clean = (embeddings[anchors] * wanted).sum(dim=1)
    try:
        network = read_network(model, graph)  # type: ignore[arg-type]  # what cannot be read is refused there
    except EncoderError:
        found = _by_values(run, drops, anchors, wanted, end, chance)
        knowledge: Literal["network", "values"] = "values"
    else:
        space = SearchSpace(network.copied().to(torch.float64), graph, drops)
        found = _by_network(space, anchors, wanted, end, chance)
        knowledge = "network"
    values, witnesses = clean.clone(), [graph.edge_index[:, :0]] * len(anchors)
    for position, slots in found.items():
        value = _value(run, int(anchors[position]), wanted[position])(slots)
        if value < float(clean[position]):
            values[position], witnesses[position] = value, graph.edge_index[:, slots]
    searched = torch.tensor([position in found for position in range(len(anchors))], device=anchors.device)
    return FoundDrops(
        anchors, clean, values, searched, tuple(witnesses), knowledge, str(run), _run=run, _directions=wanted
    )


def _by_network(space: SearchSpace, anchors: Tensor, directions: Tensor, end: float, seed: int) -> dict[int, list[int]]:
    """The slots of the drops found, by the positions of the nodes."""
    found: dict[int, list[int]] = {}
    for start in range(0, len(anchors), TOGETHER):
        if time.monotonic() >= end:
            break
        here = {
            position: space.field(int(anchors[position]))
            for position in range(start, min(start + TOGETHER, len(anchors)))
        }
        fields = {position: field for position, field in here.items() if field is not None}
        dropped = Search(seed=seed)(space, list(fields.values()), directions[list(fields)], end)
        for (position, each), places in zip(fields.items(), dropped, strict=True):
            found[position] = each.slots[places].tolist()
    return found


def _by_values(
    run: ModelRun, drops: AdmissibleDrops, anchors: Tensor, directions: Tensor, end: float, seed: int
) -> dict[int, list[int]]:
    """The same, by calling the model alone; the time left is divided equally among the nodes."""
    found: dict[int, list[int]] = {}
    for position, anchor in enumerate(anchors.tolist()):
        now = time.monotonic()
        if now >= end:
            break
        chance = torch.Generator().manual_seed((seed << 32 | anchor) % 2**63)
        search = BlackBox(run.graph, drops, now + (end - now) / (len(anchors) - position), chance)
        found[position], _ = search(anchor, _value(run, anchor, directions[position]))
    return found


def _value(run: ModelRun, anchor: int, direction: Tensor) -> Callable[[Sequence[int]], float]:
    def value(dropped: Sequence[int]) -> float:
        slots = torch.tensor(list(dropped), dtype=torch.long, device=run.graph.col.device)
        return float(run.embed(slots)[anchor] @ direction)

    return value


def directions_of(given: Any, embeddings: Tensor) -> Tensor:
    """The directions given, or those of node compactness; an error if they do not fit."""
    if given is None:
        return compactness_directions(embeddings)
    found = numbers(given, "directions", "they must be numbers", "Pass a tensor or an array", error=DirectionError)
    found = found.to(embeddings)
    if found.shape != embeddings.shape or not torch.isfinite(found).all():
        raise DirectionError(
            f"directions of shape {tuple(found.shape)}",
            f"they must be finite, one of {embeddings.shape[1]} entries for each of {len(embeddings)} nodes",
            "Pass one direction for every node",
        )
    return found
