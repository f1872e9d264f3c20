"""The compactness term of some nodes of a graph too large for one pass: each with its whole neighbourhood.

The views of a step are sampled, the bound is not: its anchors keep every edge and feature that the encoder sees from
them, and their true budgets. So a score is a lower bound over all admissible changes of the whole graph, as it is in
training on the whole; only the direction w comes from the sampled views.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from certgcl.bounds import ChangeProblem, get_method
from certgcl.bounds.memory import default_limit
from certgcl.bounds.uncertified.formulas import PrintedScore
from certgcl.certify.directions import compactness_directions
from certgcl.certify.halos import SHARE_OF_HALO
from certgcl.errors import InputError
from certgcl.graphs.graph import Graph
from certgcl.graphs.halo import Halo, halo_of
from certgcl.models.network import GraphNetwork

if TYPE_CHECKING:
    from certgcl.learning.regularizer import CompactnessRegularizer


def check_term(regularizer: "CompactnessRegularizer") -> None:
    """Raise an error for settings that make no sense if only some neighbourhoods are loaded."""
    regularizer.changes().check_local("a step of batch_nodes")
    if isinstance(get_method(regularizer.method), PrintedScore):
        raise InputError(
            f"method={regularizer.method!r} with batch_nodes",
            "its formula is evaluated at views of the whole graph",
            "Use a bound, such as degree-fast, or train on the whole graph",
        )


def halo_term(
    regularizer: "CompactnessRegularizer",
    network: GraphNetwork,
    graph: Graph,
    nodes: Tensor,
    embeddings: tuple[Tensor, Tensor],
    generator: torch.Generator | None = None,
) -> Tensor:
    """The term of some nodes, differentiable in the network, recorded for ``regularizer.combine``.

    Args:
        graph: the whole graph.
        nodes: of this step, as numbers in it; the regularizer draws its anchors among them.
        embeddings: of these nodes in the two views.
    """
    z1, z2 = embeddings
    chosen = _anchors(regularizer.anchors, nodes, generator)
    directions = torch.stack([compactness_directions(z2), compactness_directions(z1)], dim=1)[chosen]
    halo = halo_of(graph, nodes[chosen], network.hops, int(SHARE_OF_HALO * default_limit(nodes.device)))
    return regularizer.scored(
        halo_bounds(regularizer, network, graph, halo, directions),
        z1,
        z2,
        lambda: (directions * network.embed(halo.graph)[halo.anchors].unsqueeze(1)).sum(dim=-1),
    )


def halo_bounds(
    regularizer: "CompactnessRegularizer", network: GraphNetwork, graph: Graph, halo: Halo, directions: Tensor
) -> Tensor:
    """Lower bounds of ``w · z`` at the anchors of a halo, over all admissible changes of the whole graph, ``(A, C)``.

    Args:
        directions: of the anchors, ``(A, C, d)``.
    """
    changes = regularizer.changes().on_halo(halo, graph)
    problem = ChangeProblem(halo.graph.owned(), changes, halo.anchors, only_anchors=True)
    return get_method(regularizer.method)(network, problem, directions)


def _anchors(count: int, nodes: Tensor, generator: torch.Generator | None) -> Tensor:
    """The positions of the anchors among the nodes, in the order of the node numbers."""
    places = torch.randperm(len(nodes), device=nodes.device, generator=generator)
    places = places if count == -1 else places[:count]
    return places[nodes[places].argsort()]
