"""GraphCL: training on sets of graphs, views inside the budget of each, and scikit-learn's tools over graphs."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GIN, GraphSAGE, global_mean_pool

import certgcl
from certgcl import CompactnessRegularizer, EdgeDropBudget, GraphCL
from certgcl.certify.pooling.graph_set import GraphSet
from certgcl.certify.pooling.set_changes import SetChanges
from certgcl.errors import CheckpointError, GraphError, InputError, MethodError
from certgcl.learning.methods.graph_session import DropperOfGraphs

GRAPHS: list[Data] = certgcl.load_dataset("cycles-and-trees")[:24]
LABELS = np.array([int(graph.y) for graph in GRAPHS])


def method(**settings: object) -> GraphCL:
    return GraphCL(**{"hidden": 4, "epochs": 2, "batch": 8, **settings})


def certified(**settings: object) -> GraphCL:
    return method(regularizer=CompactnessRegularizer(anchors=4, budget=EdgeDropBudget(total=1)), **settings)


@pytest.mark.parametrize("convolution", ["gcn", "gin"])
@pytest.mark.parametrize("pool", ["mean", "sum", "max"])
def test_a_fit_has_a_row_for_each_graph_and_can_be_certified(convolution: str, pool: str) -> None:
    fitted = certified(convolution=convolution, pool=pool).fit(GRAPHS)
    embeddings = fitted.transform(GRAPHS)
    assert embeddings.shape == (24, 4)
    assert len(fitted.history_) == 2
    assert {"loss", "infonce", "pot", "compactness", "kappa"} <= set(fitted.history_.last)
    found = certgcl.graph_compactness(fitted, GRAPHS[:4], EdgeDropBudget(total=1))
    assert found.pool == pool
    of_nodes = certgcl.graph_compactness(fitted.network(), GRAPHS[:4], EdgeDropBudget(total=1), pool=pool)
    assert torch.equal(found.lower, of_nodes.lower)


def test_embeddings_are_those_of_the_module_pooled() -> None:
    fitted = method().fit(GRAPHS)
    batch = Batch.from_data_list(GRAPHS)
    expected = global_mean_pool(fitted.fitted_encoder()(batch.x, batch.edge_index), batch.batch)
    assert torch.allclose(fitted.transform(GRAPHS), expected, atol=1e-6)
    assert torch.equal(fitted.transform(batch), fitted.transform(GRAPHS))


def test_training_lowers_the_loss_and_the_term_raises_compactness() -> None:
    settings = {"epochs": 20, "batch": None, "learning_rate": 1e-2}
    plain = method(**settings).fit(GRAPHS)
    assert plain.history_.last["loss"] < plain.history_.column("loss")[0]
    bounded = method(**settings, regularizer=CompactnessRegularizer(kappa=0.8, budget=EdgeDropBudget(total=1))).fit(
        GRAPHS
    )

    def over_norm(fitted: GraphCL) -> float:
        found = certgcl.graph_compactness(fitted, GRAPHS, EdgeDropBudget(total=1))
        return float(found.lower.mean() / fitted.transform(GRAPHS).norm(dim=1).mean())

    assert over_norm(bounded) > over_norm(plain)


def test_an_epoch_goes_through_all_graphs_in_batches_of_about_the_same_size() -> None:
    session = method(batch=7).session(GRAPHS)
    batches = session._batches()
    assert sorted(place for part in batches for place in part) == list(range(24))
    assert {len(part) for part in batches} == {8}
    assert method(batch=None).session(GRAPHS)._batches() == [list(range(24))]
    assert min(len(part) for part in method(batch=2).session(GRAPHS[:5])._batches()) >= 2


@pytest.mark.parametrize("budget", [EdgeDropBudget(total=2), EdgeDropBudget(local=1, total=1), 1])
def test_views_inside_the_budget_keep_to_that_of_each_graph(budget: EdgeDropBudget | int) -> None:
    graphs = GraphSet.of(GRAPHS)
    changes = SetChanges.of(graphs, budget)
    dropper = DropperOfGraphs(graphs.union, 0.5, changes.drops, changes)
    generator, most = torch.Generator().manual_seed(0), torch.zeros(len(graphs), dtype=torch.long)
    for _ in range(20):
        lost = graphs.union.degree - dropper.sample(generator).degree
        assert bool((lost <= changes.drops.local).all())
        dropped = graphs.total(lost) // 2
        assert bool((dropped <= changes.most_dropped).all())
        most = most.maximum(dropped)
    assert int(most.max()) > 0  # and drop edges at all
    if not isinstance(budget, int):
        assert torch.equal(most, changes.most_dropped)
    fitted = method(regularizer=CompactnessRegularizer(budget=budget, anchors=3), inside_budget=True).fit(GRAPHS)
    assert len(fitted.history_) == 2


@pytest.mark.parametrize("encoder", [GIN(4, 6, 2, norm="batch_norm"), GraphSAGE(4, 6, 2, dropout=0.2)])
def test_encoders_of_ones_own_are_trained_too(encoder: nn.Module) -> None:
    fitted = certified(encoder=encoder, pool="sum", mask_rates=(0.2, 0.0)).fit(GRAPHS)
    assert fitted.transform(GRAPHS).shape == (24, 6)
    assert not any(
        torch.equal(one, other)
        for one, other in zip(fitted.fitted_encoder().parameters(), encoder.parameters(), strict=True)
    )


@pytest.mark.parametrize("convolution", ["gcn", "gin"])
def test_a_file_gives_back_what_was_fitted(convolution: str, tmp_path: Path) -> None:
    fitted = certified(convolution=convolution, pool="sum").set_params(regularizer__budget=1).fit(GRAPHS)
    fitted.save(tmp_path / "method.pt")
    loaded = certgcl.ContrastiveMethod.load(tmp_path / "method.pt")
    assert isinstance(loaded, GraphCL)
    assert (loaded.pool, loaded.convolution) == ("sum", convolution)
    assert torch.allclose(loaded.transform(GRAPHS), fitted.transform(GRAPHS), atol=1e-6)


def test_a_run_that_is_resumed_ends_as_one_that_was_not(tmp_path: Path) -> None:
    whole = certified(epochs=4).fit(GRAPHS)
    certified(epochs=2).fit(GRAPHS, folder=tmp_path)
    resumed = certified(epochs=4).fit(GRAPHS, folder=tmp_path, resume=True)
    assert torch.equal(resumed.transform(GRAPHS), whole.transform(GRAPHS))
    with pytest.raises(CheckpointError):
        certified(epochs=4).fit(GRAPHS[:20], folder=tmp_path, resume=True)


def test_cross_validation_and_searches_split_the_graphs() -> None:
    scores = cross_val_score(make_pipeline(method(), LogisticRegression()), GRAPHS, LABELS, cv=3)
    assert scores.shape == (3,)
    search = GridSearchCV(
        make_pipeline(method(), LogisticRegression()), {"graphcl__hidden": [2, 4]}, cv=2, error_score="raise"
    ).fit(GRAPHS, LABELS)
    assert search.best_params_["graphcl__hidden"] in (2, 4)
    copy = clone(certified(pool="sum"))
    assert (copy.pool, copy.regularizer.anchors, copy.encoder_) == ("sum", 4, None)


def test_the_term_of_ones_own_loop_has_gradients_and_takes_lists_and_batches() -> None:
    torch.manual_seed(0)
    encoder = certgcl.GCNEncoder(4, 8, 4)
    regularizer = CompactnessRegularizer(kappa=0.5, budget=EdgeDropBudget(total=1))
    term = regularizer.of_graphs(encoder, GRAPHS, GRAPHS, Batch.from_data_list(GRAPHS), pool="mean")
    regularizer.combine(torch.tensor(1.0)).backward()
    assert all(bool(parameter.grad.abs().sum() > 0) for parameter in encoder.parameters())
    bounds = certgcl.graph_compactness(encoder.eval(), GRAPHS, EdgeDropBudget(total=1), pool="mean")
    norm = torch.stack([encoder(graph.x, graph.edge_index).mean(dim=0) for graph in GRAPHS]).norm(dim=1).mean()
    best = torch.nn.functional.softplus(-bounds.lower * 2.5 / norm.detach()).mean()
    assert float(term.detach()) >= float(best) - 1e-6  # a bound in float32 is at most the minimum


def test_what_cannot_be_trained_on_is_refused() -> None:
    with pytest.raises(GraphError, match="one graph"):
        method().fit(GRAPHS[:1])
    with pytest.raises(GraphError, match="graphs="):
        method().fit(GRAPHS[0])
    with pytest.raises(InputError, match="pool"):
        method(pool="median")
    with pytest.raises(InputError, match="convolution"):
        method(convolution="gat")
    with pytest.raises(MethodError, match="single nodes"):
        method(regularizer=CompactnessRegularizer(method="released")).fit(GRAPHS)
    regularizer = CompactnessRegularizer(budget=1)
    encoder = certgcl.GCNEncoder(4, 8, 4)
    with pytest.raises(GraphError, match="a view of"):
        regularizer.of_graphs(encoder, GRAPHS, GRAPHS[1:], GRAPHS, pool="mean")
    with pytest.raises(GraphError, match="one graph"):
        regularizer.of_graphs(encoder, GRAPHS[:1], GRAPHS[:1], GRAPHS[:1], pool="mean")
