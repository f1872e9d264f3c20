"""What is to be bounded: some anchors of a graph under a set of admissible drops. And how a method is called."""

import gc
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from certgcl.activation import SlopeRule
from certgcl.bounds.neighbourhood import Neighbourhood
from certgcl.bounds.plan import DropPlan, LineSharing
from certgcl.budget import AdmissibleDrops
from certgcl.encoder import GCNWeights
from certgcl.graph import Graph

LATEST = "latest problem"
MAX_KEPT = 1 << 18  # slots of a graph up to which it is kept; each takes about half a kilobyte there


@dataclass(frozen=True, eq=False)
class DropProblem:
    """Some anchors of a graph, and the edges that may be dropped.

    It holds what depends on graph and budget alone, built when first needed: keep it to bound many encoders.

    Args:
        anchors: distinct node ids, ``(A,)``.
        memory_limit: about how many bytes bounds may take, if that is known.
    """

    graph: Graph
    drops: AdmissibleDrops
    anchors: Tensor
    memory_limit: int | None = None
    neighbourhoods: dict[torch.dtype, Neighbourhood] = field(default_factory=dict, init=False, repr=False)
    _plans: dict[tuple[Any, ...], DropPlan] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def on(cls, graph: Graph, drops: AdmissibleDrops, anchors: Tensor,
           memory_limit: int | None = None) -> "DropProblem":
        """The last problem on this graph, with all that was built for it, if this is the same one; else a new one. It
        is small, so that its limit does not matter."""
        latest = graph.beside.get(LATEST)
        if latest is not None and latest.drops.same(drops) and torch.equal(latest.anchors, anchors):
            return latest
        problem = cls(graph, drops, anchors, memory_limit)
        if problem.small:
            graph.beside[LATEST] = problem
        return problem

    @property
    def small(self) -> bool:
        """Whether the graph is small enough to keep what is built for it."""
        return self.graph.col.numel() <= MAX_KEPT

    def release(self) -> None:
        """Free what was built, unless it is small. Plans and layouts refer to each other: they would stay until Python
        next looks for such garbage, which it does without regard to the memory they take."""
        if not self.small:
            self.neighbourhoods.clear()
            self._plans.clear()
            gc.collect()

    def at_anchors(self, values: Tensor) -> Tensor:
        """The rows of the anchors in a table of all nodes; no copy where they are all, in order."""
        everyone = torch.arange(self.graph.num_nodes, device=self.anchors.device)
        return values if torch.equal(self.anchors, everyone) else values[self.anchors]

    def neighbourhood(self, dtype: torch.dtype) -> Neighbourhood:
        if dtype not in self.neighbourhoods:
            self.neighbourhoods[dtype] = Neighbourhood.around(self.graph, self.drops, self.anchors, dtype)
        return self.neighbourhoods[dtype]

    def plan(self, dtype: torch.dtype, resolution: int, lines: LineSharing,
                    hubs: int | None = None) -> DropPlan:
        key = dtype, resolution, lines, hubs
        if key not in self._plans:
            self._plans[key] = DropPlan(self.neighbourhood(dtype), resolution, lines, hubs)
        return self._plans[key]

    def projected(self, weights: GCNWeights) -> Tensor:
        """``Y = X W1`` for the nodes within two hops, in the order of the inner hop's targets."""
        nodes = self.neighbourhood(weights.w1.dtype).inner.targets
        return self.graph.project(weights.w1, nodes)


class BoundMethod(Protocol):
    """Every method is ``(weights, problem, directions) -> lower``, differentiable in weights and directions."""

    @property
    def name(self) -> str: ...

    @property
    def certified(self) -> bool:
        """Whether the result is a lower bound over all admissible drops."""
        ...

    @property
    def resolution(self) -> int:
        """The most cases of how many edges it loses that a node is treated in."""
        ...

    def line_resolution(self, hidden_channels: int) -> int:
        """The most of them that have bounds of layer 1 of their own, at this width."""
        ...

    def rules(self, hidden_channels: int) -> Sequence[SlopeRule]:
        """The slope rules that are used at this width of layer 1."""
        ...

    def __call__(self, weights: GCNWeights, problem: DropProblem, directions: Tensor) -> Tensor:
        """Values ``(A, C)`` for ``w_ic · z_i``.

        Args:
            directions: C directions for *every* node of the graph, ``(N, C, d2)``.
        """
        ...
