"""What a certificate of whole graphs is about, as a digest of each part."""

import hashlib
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from certgcl._version import __version__
from certgcl.certify.evidence import Evidence, Fact, dtype_name, features_part, given_part, settings, weights_part
from certgcl.certify.pooling.graph_set import GraphSet
from certgcl.certify.pooling.set_changes import SetChanges
from certgcl.changes.edge_additions import AdmissibleAdditions
from certgcl.changes.feature_changes import AdmissibleFeatures
from certgcl.files.digest import digest
from certgcl.formatting import spread
from certgcl.models.pooled_network import PooledNetwork

if TYPE_CHECKING:
    from certgcl.certify.pooling.question import GraphQuestion

COMPACTNESS = "compactness, the graph itself as view"


def evidence_of(question: "GraphQuestion", given: Tensor | None) -> Evidence:
    """The evidence of a question, taken now; with the user's directions, or those of compactness."""
    return Evidence(
        weights=model_part(question.model),
        edges=edges_of_graphs(question.graphs),
        features=features_part(question.graphs.union),
        budget=budgets_part(question.changes),
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


def budgets_part(changes: SetChanges) -> Fact:
    drops, totals = changes.drops, changes.totals
    words = f"local {spread(drops.local)}, total {spread(totals)} edges of a graph"
    found = digest(drops.local, drops.requested, drops.droppable, totals)
    if changes.each_addition is not None:
        words = f"{words}; {added_in_words(changes.each_addition)}"
        found = _joined(found, *(digest(*each.tensors()) for each in changes.each_addition))
    if changes.each_feature is not None:
        words, kind = f"{words}; {features_in_words(changes.each_feature)}", changes.each_feature[0].kind
        found = _joined(
            found, kind, *(digest(each.off, each.on, each.radius, _totals(each)) for each in changes.each_feature)
        )
    return Fact(words, found)


def added_in_words(additions: tuple[AdmissibleAdditions, ...]) -> str:
    """What may be added, in a line of a summary."""
    totals, both = (
        torch.tensor(part) for part in zip(*((each.total, each.both_total) for each in additions), strict=True)
    )
    listed = "any pairs" if any(each.candidates is None for each in additions) else "listed pairs"
    return f"added: total {spread(totals)} edges among {listed}, both: total {spread(both)}"


def features_in_words(features: tuple[AdmissibleFeatures, ...]) -> str:
    """How features may change, in a line of a summary: that of all graphs, if they are the same in words."""
    each = sorted({part.words() for part in features})
    return each[0] if len(each) == 1 else f"{each[0]} to {each[-1]}"


def _totals(features: AdmissibleFeatures) -> Tensor:
    return torch.tensor([features.columns, features.total])


def _joined(*parts: str) -> str:
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()
