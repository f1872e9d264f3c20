"""What is to be bounded: some anchors of a graph under a set of admissible changes, with everything prepared for
them."""

import gc
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from certgcl.arguments import shown, whole
from certgcl.bounds.two_layer.neighbourhood import Neighbourhood
from certgcl.bounds.two_layer.row_plan import LineSharing, RowPlan
from certgcl.bounds.two_layer.weights import GCNWeights
from certgcl.changes.changes import AdmissibleChanges
from certgcl.changes.edge_drops import AdmissibleDrops
from certgcl.errors import DirectionError, MethodError
from certgcl.graphs.graph import Graph
from certgcl.models.network import GraphNetwork

MAX_KEPT = 1 << 18  # slots of a graph up to which it is kept; each takes about half a kilobyte


@dataclass(frozen=True, eq=False)
class ChangeProblem:
    """Some anchors of a graph, and what may change about it.

    It caches everything that depends only on graph and budget: keep it to bound many encoders. Edges,
    changes and anchors are copies, so that later modifications do not affect them; features are those of the graph.

    Args:
        changes: what may change; edge drops alone are accepted too.
        anchors: distinct node ids, ``(A,)``.
        memory_limit: about how many bytes bounds may take, if that is known.
        only_anchors: whether directions have rows for the anchors alone, in their order, rather than for all nodes.
    """

    graph: Graph
    changes: AdmissibleChanges
    anchors: Tensor
    memory_limit: int | None = None
    only_anchors: bool = False
    neighbourhoods: dict[torch.dtype, Neighbourhood] = field(default_factory=dict, init=False, repr=False)
    _plans: dict[tuple[Any, ...], RowPlan] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.graph, Graph) or not isinstance(self.changes, (AdmissibleChanges, AdmissibleDrops)):
            raise MethodError(
                f"a problem of graph {shown(self.graph)} and changes {shown(self.changes)}",
                "it needs a certgcl.Graph and the changes that a budget admits on it",
                "Pass certgcl.Graph.of(graph) and Changes(...).on(graph)",
            )
        object.__setattr__(self, "changes", AdmissibleChanges.of(self.changes).private())
        nodes, slots = self.graph.num_nodes, self.graph.col.numel()
        if (self.drops.local.numel(), self.drops.droppable.numel()) != (nodes, slots):
            raise MethodError(
                f"drops for {self.drops.local.numel()} nodes with a {self.graph!r}",
                "they must belong to this graph",
                "Pass Changes(...).on(graph)",
            )
        added = self.changes.additions
        if added is not None and added.local.numel() != nodes:
            raise MethodError(
                f"additions for {added.local.numel()} nodes with a {self.graph!r}",
                "they must belong to this graph",
                "Pass Changes(...).on(graph)",
            )
        anchors = self.anchors
        if (
            not isinstance(anchors, Tensor)
            or anchors.is_nested
            or anchors.is_meta
            or anchors.layout != (torch.strided)
            or anchors.dim() != 1
            or anchors.dtype != torch.long
            or not anchors.numel()
            or (int(anchors.min()) < 0 or int(anchors.max()) >= nodes)
        ):
            raise MethodError(
                f"anchors {shown(anchors)}",
                f"they are a tensor of node numbers from 0 to {nodes - 1}",
                "Pass torch.tensor([...]) of at least one",
            )
        if self.memory_limit is not None:
            whole(
                self.memory_limit,
                "memory_limit",
                1,
                "it is a positive number of bytes",
                "Leave it out",
                error=MethodError,
            )
        for name, copy in (("graph", self.graph.private()), ("anchors", self.anchors.clone())):
            object.__setattr__(self, name, copy)

    @property
    def drops(self) -> AdmissibleDrops:
        """The edges that may be dropped: nothing else may change if ``changes.drops_only``."""
        return self.changes.drops

    def two_layer(self, network: GraphNetwork) -> GCNWeights | None:
        """The weights of a network, if the engine for two GCN layers supports it and this problem; otherwise None."""
        return GCNWeights.of(network) if self.changes.drops_only else None

    @property
    def small(self) -> bool:
        """Whether the graph is small enough to keep what is built for it."""
        return self.graph.col.numel() <= MAX_KEPT

    def release(self) -> None:
        """Free what was built, unless it is small. Plans and flat tables refer to each other: they would stay until the
        next garbage collection, which Python schedules without regard to the memory they take."""
        if not self.small:
            self.neighbourhoods.clear()
            self._plans.clear()
            gc.collect()

    def at_anchors(self, values: Tensor) -> Tensor:
        """The rows of the anchors in a table of all nodes (or of the anchors alone, where there are no others); no copy
        if the anchors are all nodes in order."""
        if self.only_anchors:
            return values
        everyone = torch.arange(self.graph.num_nodes, device=self.anchors.device)
        return values if torch.equal(self.anchors, everyone) else values[self.anchors]

    def neighbourhood(self, dtype: torch.dtype) -> Neighbourhood:
        if dtype not in self.neighbourhoods:
            self.neighbourhoods[dtype] = Neighbourhood.around(self.graph, self.drops, self.anchors, dtype)
        return self.neighbourhoods[dtype]

    def plan(self, dtype: torch.dtype, resolution: int, lines: LineSharing, hubs: int | None = None) -> RowPlan:
        key = dtype, resolution, lines, hubs
        if key not in self._plans:
            self._plans[key] = RowPlan(self.neighbourhood(dtype), resolution, lines, hubs)
        return self._plans[key]

    def projected(self, weights: GCNWeights) -> Tensor:
        """``Y = X W1`` for the nodes within two hops, in the order of the inner hop's targets."""
        nodes = self.neighbourhood(weights.w1.dtype).inner.targets
        return self.graph.project(weights.w1, nodes)


def check_call(
    network: GraphNetwork,
    problem: ChangeProblem,
    directions: Tensor,
    *,
    everywhere: bool = False,
    drops_only: bool = False,
) -> None:
    """Raise an error if network, problem and directions do not fit each other.

    Args:
        everywhere: whether directions are needed at every node, not only up to the last anchor.
        drops_only: whether the method supports dropped edges only.
    """
    if not isinstance(network, GraphNetwork) or network.dtype not in (torch.float32, torch.float64):
        raise MethodError(
            f"network {shown(network)}",
            "a method is called with a GraphNetwork in float32 or float64",
            "Use certgcl.read_network(model, graph).to(torch.float64)",
        )
    if not isinstance(problem, ChangeProblem):
        raise MethodError(
            f"problem {shown(problem)}",
            "a method is called with a ChangeProblem",
            "Use certgcl.node_compactness, or make a ChangeProblem from graph, drops and anchors",
        )
    if drops_only and not problem.changes.drops_only:
        raise MethodError(
            f"a problem of {shown(problem.changes)}",
            "this method supports dropped edges only",
            "Use 'degree', the default",
        )
    nodes, width = problem.graph.num_nodes, network.width
    if network.features != problem.graph.num_features:
        raise MethodError(
            f"a network for {network.features} features with a graph of {problem.graph.num_features}",
            "network and graph must have the same number of features",
            "Pass the graph that the model was made for",
        )
    dense = isinstance(directions, Tensor) and not directions.is_nested and directions.layout == torch.strided
    least, most = nodes if everywhere else int(problem.anchors.max()) + 1, nodes
    if problem.only_anchors:
        least = most = problem.anchors.numel()
    if (
        not dense
        or directions.dim() != 3
        or not least <= directions.shape[0] <= most
        or (directions.shape[2] != width)
        or not directions.numel()
        or (directions.dtype, directions.device) != (network.dtype, network.device)
    ):
        raise DirectionError(
            f"directions {shown(directions)}",
            f"a method takes ({nodes}, C, {width}) directions in the dtype and on the device of the network",
            "Use certgcl.linear_bounds, or convert them",
        )


def check_width(hidden_channels: int) -> int:
    return whole(
        hidden_channels,
        "hidden_channels",
        1,
        "it is the width of the first layer",
        "Pass a positive int",
        error=MethodError,
    )
