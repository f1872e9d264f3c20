"""Measures of a trained encoder that neither longer embeddings nor a larger clean value can raise.

- *kept*: the share of the clean compactness that is proved to survive, ``Σ lower / Σ nominal`` over the nodes;
- *positive*: the share of nodes whose compactness is proved to stay above zero, and an upper bound of that share, since
  drops that a search found take the others below zero;
- *certified accuracy* of a linear probe, with an upper bound likewise; its area is the mean over the drop rates;
- *worst 5 %*: the 5 % quantile of ``lower_i / nominal_i`` over the nodes with a positive nominal value.

Without a search, which takes seconds a node on dense graphs, the upper bounds are the values of the graph as given.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

import certgcl
from certgcl.attacks import Search, SearchSpace
from certgcl.attacks.batch import FieldBatch
from certgcl.learning.evaluation.inputs import masked_nodes
from certgcl.learning.evaluation.protocols import random_splits
from certgcl.models.reading import read_network

RATES = (0.2, 0.4, 0.6, 0.8)  # of the curves, which begin at 0
SEARCHED: tuple[int | float, ...] = (1, 0.4, 0.8)  # budgets at which a search gives an upper value
LARGE = 0.8  # the budget of *positive*
STRENGTHS = tuple(4.0**power for power in range(-3, 8))  # C of the probe


def sampled(nodes: Tensor, most: int) -> Tensor:
    """Some of the nodes, the same for every run."""
    order = torch.randperm(len(nodes), generator=torch.Generator().manual_seed(0))
    return nodes[order[:most]].sort().values


def probe(embeddings: Tensor, data: Data, public: bool) -> tuple[tuple[np.ndarray, np.ndarray], Tensor]:
    """Weights and intercepts of a logistic regression on the embeddings as they are, and the nodes that test it.

    C is chosen on the validation nodes, at embeddings divided by their mean norm, so that their scale has no effect.
    """
    from sklearn.linear_model import LogisticRegression

    train, validation, test = masked_nodes(data, len(embeddings)) if public else random_splits(len(embeddings), (0,))[0]
    norm, y = float(embeddings.norm(dim=1).mean()), data.y.numpy()
    x = embeddings.double().numpy() / norm
    best, found = -1.0, None
    model = LogisticRegression(solver="newton-cg", tol=1e-6, warm_start=True, max_iter=1000)
    for strength in STRENGTHS:
        model.set_params(C=strength).fit(x[train], y[train])
        accuracy = float(np.mean(model.predict(x[validation]) == y[validation]))
        if accuracy > best:
            best, found = accuracy, (model.coef_ / norm, model.intercept_.copy())
    assert found is not None
    return found, torch.as_tensor(test)


def accuracy(
    model: certgcl.ContrastiveMethod, graph: certgcl.Graph, data: Data, public: bool, most: int, search: bool
) -> dict[str, Any]:
    """Certified accuracy of the probe at one edge and at the rates: lower and upper values, and the area."""
    classifier, test = probe(model.transform(graph), data, public)
    found = {
        budget: certgcl.certified_accuracy(
            model, classifier, graph, data.y, budget, nodes=sampled(test, most), search=search and budget in SEARCHED
        )
        for budget in (1, *RATES)
    }
    curve = [found[1].clean, *(found[rate].lower for rate in RATES)]
    return {
        "probe": found[1].clean,
        "accuracy_nodes": len(found[1].nodes),
        "certified_accuracy": {str(budget): one.lower for budget, one in found.items()},
        "at_most": {str(budget): found[budget].upper for budget in SEARCHED},
        "by_class": {str(label): part.lower for label, part in found[RATES[1]].by_class.items()},
        "area": float(np.trapezoid(curve, (0.0, *RATES)) / RATES[-1]),
    }


def compactness(model: certgcl.ContrastiveMethod, graph: certgcl.Graph, most: int, search: bool) -> dict[str, Any]:
    """Shares of the clean compactness kept, and the bracket of the share that stays positive."""
    nodes = sampled(torch.arange(graph.num_nodes), most)
    found = {rate: certgcl.node_compactness(model, graph, rate, nodes=nodes) for rate in RATES}
    nominal, large = found[LARGE].nominal, found[LARGE]
    above, norm = nominal > 0, float(model.transform(graph).norm(dim=1).mean())
    return {
        "compactness_nodes": len(nodes),
        "norm": norm,
        "clean_over_norm": float(nominal.mean()) / norm,
        "kept": {str(rate): float(one.lower.sum() / nominal.sum()) for rate, one in found.items()},
        "worst_5": {str(rate): float((one.lower / nominal)[above].quantile(0.05)) for rate, one in found.items()},
        "positive": {str(rate): one.share_positive for rate, one in found.items()},
        "positive_at_most": float(1 - below_zero(model, graph, large, search).double().mean()),
    }


def below_zero(
    model: certgcl.ContrastiveMethod, graph: certgcl.Graph, certificate: certgcl.Certificate, search: bool
) -> Tensor:
    """Where the compactness is at most zero on the graph as given, or a search finds drops that bring it there.

    Only nodes that are not proved are searched.
    """
    broken = certificate.nominal <= 0
    if not search:
        return broken
    left = (~certificate.positive & ~broken).nonzero()[:, 0]
    space = SearchSpace(
        read_network(model, graph).copied().to(torch.float64), graph, certgcl.EdgeDropBudget.of(LARGE).on(graph)
    )
    fields = {
        int(place): field
        for place in left
        for field in [space.field(int(certificate.nodes[place]))]
        if field is not None
    }
    if not fields:
        return broken
    drops = Search()(space, list(fields.values()), certificate.directions[list(fields)])
    for (place, field), dropped in zip(fields.items(), drops, strict=True):
        batch = FieldBatch.of(space, [field], certificate.directions[place][None])
        mask = torch.zeros(batch.ends.shape[:2], dtype=torch.bool)
        mask[0, dropped] = True
        broken[place] = bool(batch.values(mask).detach() <= 0)
    return broken
