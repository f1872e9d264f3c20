"""The compactness term of whole graphs: each should stay closer to itself than to the other graphs in its worst
view."""

from typing import TYPE_CHECKING, get_args

import torch
from torch import Tensor

from certgcl.arguments import choice
from certgcl.bounds import get_method
from certgcl.bounds.engine import engine_for
from certgcl.certify.directions import compactness_directions
from certgcl.certify.pooling.graph_set import GraphSet, GraphsLike
from certgcl.certify.pooling.problem import PooledProblem
from certgcl.errors import GraphError, MethodError
from certgcl.models.network import GraphNetwork
from certgcl.models.pooled_network import Pool, pooled_rows

if TYPE_CHECKING:
    from certgcl.learning.regularizer import CompactnessRegularizer


def graph_term(
    regularizer: "CompactnessRegularizer",
    network: GraphNetwork,
    problem: PooledProblem,
    embeddings: tuple[Tensor, Tensor],
    pool: Pool,
    generator: torch.Generator | None,
) -> Tensor:
    """The term of a regularizer, from the pooled embeddings of two views, ``(G, d)`` both."""
    method = get_method(regularizer.method)
    if not method.certified:
        raise MethodError(
            f"method {method.name!r} for whole graphs",
            "it is a score of single nodes, not a bound",
            "Use 'degree-fast', the default",
        )
    z1, z2 = embeddings
    directions = torch.stack([compactness_directions(z2), compactness_directions(z1)], dim=1)  # (G, 2, d)
    count = len(problem.graphs)
    if 0 < regularizer.anchors < count:
        chosen = torch.randperm(count, device=z1.device, generator=generator)[: regularizer.anchors].sort().values
        places = chosen.tolist()
        some = problem.graphs.at(places)
        problem, directions = PooledProblem(some, problem.changes.at(some, places)), directions[chosen]
    graphs = problem.graphs
    with engine_for(network, problem.graphs.union):
        lower = problem.lower(method, network, pool, directions)
    return regularizer.scored(
        lower,
        z1,
        z2,
        lambda: (directions * pooled_rows(network.embed(graphs.union), graphs.batch, pool).unsqueeze(1)).sum(dim=-1),
    )


def pooled_views(
    network: GraphNetwork, graphs: GraphSet, views: tuple[GraphsLike, GraphsLike], pool: Pool
) -> tuple[Tensor, Tensor]:
    """The pooled embeddings of two views of graphs, which must have the graphs' nodes."""
    choice(pool, "pool", get_args(Pool))
    if len(graphs) < 2:
        raise GraphError("one graph", "compactness compares a graph with others", "Give two graphs or more")
    found = []
    for view in map(GraphSet.of, views):
        if not torch.equal(view.sizes, graphs.sizes) or view.union.num_features != graphs.union.num_features:
            raise GraphError(
                f"a view of {len(view)} graphs with {view.union.num_nodes} nodes for {len(graphs)} graphs "
                f"with {graphs.union.num_nodes}",
                "a view must have the nodes and features of its graph",
                "Pass the views in the order of the graphs",
            )
        found.append(pooled_rows(network.embed(view.union.to(dtype=network.dtype)), graphs.batch, pool))
    return found[0], found[1]
