"""The methods as scikit-learn's own tools use them: clones, nested settings, pipelines, searches over settings."""

import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.validation import check_is_fitted
from torch_geometric.nn import GCN

import certgcl
from certgcl.errors import InputError
from certgcl.graphs.graph import Graph
from tests.toys import random_graph

KINDS = (certgcl.GRACE, certgcl.GCA, certgcl.ProGCL, certgcl.COSTA)


@pytest.fixture
def graph() -> Graph:
    return random_graph(nodes=14)


def method(kind: type[certgcl.ContrastiveMethod] = certgcl.GRACE, **settings: object) -> certgcl.ContrastiveMethod:
    return kind(hidden=4, epochs=1, regularizer=certgcl.CompactnessRegularizer(kappa=0.3, budget=[1] * 14), **settings)


@pytest.mark.parametrize("kind", KINDS)
def test_a_clone_has_the_settings_and_nothing_learned(kind: type[certgcl.ContrastiveMethod], graph: Graph) -> None:
    fitted = method(kind, encoder=GCN(3, 8, 2, 4)).fit(graph)
    copy = clone(fitted)
    assert copy.encoder_ is None
    assert copy.regularizer is not fitted.regularizer
    assert {**copy.settings(), "encoder": None} == {**fitted.settings(), "encoder": None}


def test_settings_of_the_regularizer_go_by_two_underscores() -> None:
    estimator = method()
    assert estimator.get_params()["regularizer__kappa"] == 0.3
    assert "regularizer__kappa" not in estimator.get_params(deep=False)
    before = estimator.regularizer
    assert estimator.set_params(regularizer__kappa=0.1, regularizer__anchors=5, hidden=8) is estimator
    assert (estimator.regularizer.kappa, estimator.regularizer.anchors, estimator.hidden) == (0.1, 5, 8)
    assert before.kappa == 0.3  # which others may hold
    estimator.set_params(regularizer=certgcl.CompactnessRegularizer(scale=None), regularizer__kappa=0.5)
    assert (estimator.regularizer.scale, estimator.regularizer.kappa) == (None, 0.5)


@pytest.mark.parametrize(
    "settings",
    [
        {"regularizer__colour": 1},
        {"regularizer__kappa": 2.0},
        {"regularizer__": 1},
        {"hidden__kappa": 0.1},
        {"regularizer": None, "regularizer__kappa": 0.1},
    ],
)
def test_settings_that_are_none_are_refused_and_change_nothing(settings: dict[str, object]) -> None:
    estimator = method()
    before = estimator.settings()
    with pytest.raises(InputError):
        estimator.set_params(hidden=16, **settings)
    assert estimator.settings() == before


def test_labels_are_ignored_and_a_list_of_one_graph_is_the_graph(graph: Graph) -> None:
    y = np.arange(14) % 2
    alone = method().fit(graph).transform(graph)
    assert torch.equal(method().fit(graph, y).transform(graph), alone)
    assert torch.equal(method().fit_transform([graph], y), alone)
    with pytest.raises(InputError):
        method().fit([graph, graph, graph])


def test_a_pipeline_ends_in_a_classifier(graph: Graph) -> None:
    y = np.arange(14) % 2
    pipeline = make_pipeline(method(), LogisticRegression()).fit(graph, y)
    assert pipeline.predict(graph).shape == (14,)
    assert 0 <= pipeline.score(graph, y) <= 1
    assert "grace__regularizer__kappa" in pipeline.get_params()
    pipeline.set_params(grace__regularizer__kappa=0.9)
    assert pipeline.named_steps["grace"].regularizer.kappa == 0.9
    found = certgcl.certified_accuracy(
        pipeline.named_steps["grace"], pipeline.named_steps["logisticregression"], graph, y, 1
    )
    assert found.clean == pytest.approx(pipeline.score(graph, y))


def test_a_search_over_settings_takes_a_list_of_one_graph_and_a_scorer(graph: Graph) -> None:
    def certified_share(estimator: certgcl.ContrastiveMethod, graphs: list[Graph], y: object = None) -> float:
        return certgcl.node_compactness(estimator, graphs[0], 1).share_positive

    search = GridSearchCV(
        method(),
        {"regularizer__kappa": [0.0, 0.5], "hidden": [2, 4]},
        scoring=certified_share,
        cv=[([0], [0])],
        error_score="raise",
    ).fit([graph])
    assert len(search.cv_results_["params"]) == 4
    best = search.best_estimator_
    assert best.regularizer.kappa == search.best_params_["regularizer__kappa"]
    assert certified_share(best, [graph]) == pytest.approx(search.best_score_)


def test_scikit_learn_knows_what_is_fitted(graph: Graph) -> None:
    with pytest.raises(Exception, match="not fitted"):
        check_is_fitted(method())
    check_is_fitted(method().fit(graph))
    assert isinstance(Pipeline([("method", method())]).fit(graph), Pipeline)
    assert pickle.loads(pickle.dumps(method())).get_params()["hidden"] == 4
