"""What a certificate records for proving its bounds again: how lines were chosen. ``verification/checker`` reads it.

These are only choices: none of them, right or wrong, can prove something that does not hold.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from certgcl.bounds import BoundMethod
from certgcl.bounds.propagation.drop_counts import Losses, drop_cases
from certgcl.bounds.two_layer.row_plan import FEW_EDGES
from certgcl.changes.edge_drops import AdmissibleDrops
from certgcl.errors import InputError
from certgcl.graphs.graph import Graph
from certgcl.models.network import GraphNetwork
from certgcl.models.registry import OwnActivation

ARRAYS = ("proof_nodes", "proof_sizes", "proof_starts")
_WORDS = ("rules", "output", "rows", "functional")


@dataclass(frozen=True, eq=False)
class ProofTrace:
    """The choices behind the bounds of a certificate.

    Args:
        rules: for the slopes of lines.
        output, rows: numbers of sign patterns at an anchor and at its neighbours.
        functional: whether the ranges of channels were bounded by lines.
        nodes: those whose states are grouped, with shared lines in each group.
        sizes, starts: how many groups each has, and the numbers of lost edges at which they begin, one list for all.
    """

    rules: tuple[str, ...]
    output: int
    rows: int
    functional: bool
    nodes: Tensor
    sizes: Tensor
    starts: Tensor

    @classmethod
    def of(cls, bound: BoundMethod, network: GraphNetwork, graph: Graph, drops: AdmissibleDrops) -> "ProofTrace":
        """The choices of a method for a network, on a graph with these admissible drops."""
        chosen = bound.line_choices(max(map(network.width_of, range(1, len(network.layers) + 1))))
        by_count = chosen.lines == "by-count" or (chosen.lines == "mixed") & (graph.degree <= FEW_EDGES)
        by_count = torch.as_tensor(by_count, device=graph.degree.device).expand_as(graph.degree)
        cases = drop_cases(Losses(graph.degree, drops.local), chosen.resolution)
        grouped = torch.where(by_count, drops.local >= chosen.resolution, drops.local > 0)
        nodes = grouped.nonzero()[:, 0]
        sizes = torch.where(by_count, cases.number, 1)[nodes]
        rank = torch.arange(cases.most, device=nodes.device)
        starts = cases.first[nodes][rank < sizes[:, None]]
        return cls(
            chosen.rules,
            chosen.output,
            chosen.rows,
            chosen.functional,
            *(part.to("cpu", torch.int32) for part in (nodes, sizes, starts)),
        )

    @property
    def words(self) -> dict[str, Any]:
        """Everything except the tensors, as JSON."""
        return {name: list(self.rules) if name == "rules" else getattr(self, name) for name in _WORDS}

    @property
    def tensors(self) -> dict[str, Tensor]:
        return dict(zip(ARRAYS, (self.nodes, self.sizes, self.starts), strict=True))

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.tensors.values())

    @classmethod
    def from_file(cls, words: Any, tensors: dict[str, Tensor]) -> "ProofTrace":
        """From the values of ``words`` and ``tensors``; anything else raises ``ValueError``, ``TypeError`` or
        ``KeyError``."""
        trace = cls(
            tuple(words["rules"]),
            words["output"],
            words["rows"],
            words["functional"],
            *(tensors[name] for name in ARRAYS),
        )
        whole = all(part.dim() == 1 and not part.is_floating_point() for part in trace.tensors.values())
        if (
            set(words) != set(_WORDS)
            or not whole
            or len(trace.nodes) != len(trace.sizes)
            or int(trace.sizes.sum()) != len(trace.starts)
            or not all(isinstance(rule, str) for rule in trace.rules)
            or type(trace.functional) is not bool
            or any(type(n) is not int for n in (trace.output, trace.rows))
        ):
            raise ValueError("a proof whose parts do not belong together")
        return trace

    def same(self, other: "ProofTrace | None") -> bool:
        """Whether both have the same choices."""
        return (
            other is not None
            and self.words == other.words
            and all(torch.equal(tensor, other.tensors[name]) for name, tensor in self.tensors.items())
        )


def check_provable(bound: BoundMethod, network: GraphNetwork) -> None:
    """Raise an error for bounds that the checker does not know."""
    found, rule = None, "the checker proves certified bounds"
    if not bound.certified:
        found = f"method {bound.name!r}"
    elif any(isinstance(layer.activation, OwnActivation) for layer in network.layers):
        found, rule = "an activation of your own", "the checker has its own formula of every activation, and none of it"
    if found is not None:
        raise InputError(f"proof=True with {found}", rule, "Leave proof out, or use 'degree'")
