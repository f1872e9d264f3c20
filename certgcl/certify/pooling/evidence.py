"""What a certificate of whole graphs rests on, as a digest of each part."""

import hashlib
from typing import TYPE_CHECKING

from torch import Tensor

from certgcl._version import __version__
from certgcl.certify.evidence import Evidence, Fact, dtype_name, features_part, given_part, settings, weights_part
from certgcl.certify.pooling.graph_set import GraphSet, SetDrops
from certgcl.files.digest import digest
from certgcl.formatting import spread
from certgcl.models.pooled_network import PooledNetwork

if TYPE_CHECKING:
    from certgcl.certify.pooling.question import GraphQuestion

COMPACTNESS = "compactness, the graph itself as view"


def evidence_of(question: "GraphQuestion", given: Tensor | None) -> Evidence:
    """Of a question, at this moment; with directions of one's own, or those of compactness."""
    return Evidence(
        weights=model_part(question.model),
        edges=edges_of_graphs(question.graphs),
        features=features_part(question.graphs.union),
        budget=budgets_part(question.drops),
        directions=Fact(COMPACTNESS) if given is None else given_part(given),
        method=Fact(settings(question.bound)),
        dtype=Fact(dtype_name(question.dtype)),
        certgcl=Fact(__version__),
    )


def model_part(model: PooledNetwork) -> Fact:
    """The network of the nodes, the pooling, and the head after it."""
    nodes, head = weights_part(model.network), model.head
    after = "" if head is None else digest(head.weight.detach() + 0, head.bias.detach() + 0)
    name = hashlib.sha256(f"{nodes.sha256} {model.pool} {after}".encode()).hexdigest()
    return Fact(f"{nodes.shown}, {model.pool} pooling{'' if head is None else ', linear head'}", name)


def edges_of_graphs(graphs: GraphSet) -> Fact:
    """All edges, and where one graph ends and the next begins."""
    union = graphs.union
    return Fact(
        f"{len(graphs)} graphs, {union.num_nodes} nodes, {union.num_edges} edges",
        digest(graphs.sizes, union.rowptr, union.col),
    )


def budgets_part(drops: SetDrops) -> Fact:
    union, totals = drops.union, drops.totals
    return Fact(
        f"local {spread(union.local)}, total {spread(totals)} edges of a graph",
        digest(union.local, union.requested, union.droppable, totals),
    )
