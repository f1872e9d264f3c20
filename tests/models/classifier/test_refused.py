"""What predicts otherwise than its linear scores is refused, in words."""

import types
from typing import Any

import numpy as np
import pytest
import torch
from sklearn import linear_model, neighbors
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, Normalizer, StandardScaler
from sklearn.svm import SVC
from torch import nn

from certgcl.certify.accuracy import certified_accuracy
from certgcl.errors import ClassifierError
from tests.models.classifier.cases import NODES, Turned, case


class Thresholded(LogisticRegression):
    def predict(self, X: Any) -> Any:
        return self.classes_[(self.predict_proba(X)[:, 1] > 0.3).astype(int)]


class OfTheNorm(LogisticRegression):
    def predict(self, X: Any) -> Any:
        return np.where(np.linalg.norm(X, axis=1) > 1e3, self.classes_[0], super().predict(X))


class Borrowed:
    """Looks like a linear classifier."""

    def __init__(self, probe: Any) -> None:
        self.coef_, self.intercept_, self.classes_ = probe.coef_, probe.intercept_, probe.classes_

    def predict(self, X: Any) -> Any:
        return np.full(len(X), self.classes_[0])


def shadowed() -> Any:
    probe = case().fit(LogisticRegression(), 2)
    probe.predict = types.MethodType(Thresholded.predict, probe)
    return probe


def shadowed_decision() -> Any:
    probe = case().fit(LogisticRegression(), 3)
    probe.decision_function = lambda X: -X @ probe.coef_.T
    return probe


def shadowed_in_a_pipeline() -> Any:
    probe = case().fit(make_pipeline(StandardScaler(), LogisticRegression()), 3)
    probe[0].transform = np.abs
    return probe


def multilabel(probe: Any) -> Any:
    x, y = case().data(3)
    return probe.fit(x, np.eye(3, dtype=int)[y])


def clipped() -> Any:
    return case().fit(make_pipeline(MinMaxScaler(clip=True), LogisticRegression()))


def with_hook() -> nn.Module:
    layer = nn.Linear(4, 3).double()
    layer.register_forward_hook(lambda module, inputs, output: -output)
    return layer


def with_forward() -> nn.Module:
    layer = nn.Linear(4, 3).double()
    layer.forward = lambda x: -x[:, :3]
    return layer


def edited(name: str, value: Any) -> Any:
    probe = case().fit(LogisticRegression(), 3)
    setattr(probe, name, value)
    return probe


REFUSED = {
    "threshold in a subclass": lambda: case().fit(Thresholded(), 2),
    "norm in a subclass": lambda: case().fit(OfTheNorm(), 3),
    "duck": lambda: Borrowed(case().fit(LogisticRegression(), 3)),
    "predict of its own": shadowed,
    "decision function of its own": shadowed_decision,
    "transform of its own": shadowed_in_a_pipeline,
    "threshold": lambda: case().fit(FixedThresholdClassifier(LogisticRegression(), threshold=0.3), 2),
    "multilabel ridge": lambda: multilabel(linear_model.RidgeClassifier()),
    "multilabel one-vs-rest": lambda: multilabel(OneVsRestClassifier(LogisticRegression())),
    "clip": clipped,
    "norm in a pipeline": lambda: case().fit(make_pipeline(Normalizer(), LogisticRegression())),
    "kernel in one-vs-rest": lambda: case().fit(OneVsRestClassifier(SVC())),
    "centroids in one-vs-rest": lambda: case().fit(OneVsRestClassifier(neighbors.NearestCentroid())),
    "manhattan": lambda: case().fit(neighbors.NearestCentroid(metric="manhattan")),
    "not fitted": LogisticRegression,
    "not fitted in a pipeline": lambda: make_pipeline(StandardScaler(), SVC()),
    "no classifier": lambda: Pipeline([("scale", StandardScaler()), ("last", "passthrough")]),
    "not refitted": lambda: case().fit(GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=2, refit=False)),
    "regression": lambda: case().fit(linear_model.LinearRegression()),
    "repeated class": lambda: edited("classes_", np.array([0, 1, 1])),
    "too few classes": lambda: edited("classes_", np.array([0, 1])),
    "NaN": lambda: edited("coef_", np.full((3, 4), np.nan)),
    "array of another class": lambda: edited("coef_", np.ones((3, 4)).view(Turned)),
    "labels of another class": lambda: edited("classes_", np.arange(3).view(Turned)),
    "masked array": lambda: np.ma.masked_array(np.ones((3, 4)), mask=np.eye(3, 4)),
    "lists of classes": lambda: edited("classes_", [np.arange(2), np.arange(3), np.arange(2)]),
    "intercepts": lambda: edited("intercept_", np.zeros(2)),
    "width": lambda: edited("coef_", np.zeros((3, 5))),
    "text": lambda: edited("coef_", np.full((3, 4), "a")),
    "hook": with_hook,
    "forward of its own": with_forward,
    "activation": lambda: nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)).double(),
    "dropout": lambda: nn.Sequential(nn.Dropout(), nn.Linear(4, 3)).double(),
    "weight norm": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(4, 3).double()),
    "one output": lambda: nn.Linear(4, 1).double(),
    "empty": nn.Sequential,
    "only identity": nn.Identity,
    "string": lambda: "logistic",
    "none": lambda: None,
    "triple": lambda: (torch.rand(3, 4),) * 3,
    "function": lambda: np.argmax,
    "complex": lambda: torch.rand(3, 4) * 1j,
    "booleans": lambda: torch.rand(3, 4) > 0.5,
    "ragged": lambda: [[1.0], [2.0, 3.0]],
    "vector": lambda: torch.rand(4),
    "number": lambda: torch.tensor(1.0),
    "nothing": lambda: torch.zeros(0, 4),
    "infinite": lambda: torch.full((3, 4), torch.inf),
    "class": lambda: LogisticRegression,
    "module class": lambda: nn.Linear,
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_known_to_be_linear_is_refused_in_words(name: str) -> None:
    with pytest.raises(ClassifierError) as refusal:
        certified_accuracy(case().encoder, REFUSED[name](), case().graph, np.zeros(NODES, dtype=int), 1)
    assert all((refusal.value.found, refusal.value.rule, refusal.value.remedy))


@pytest.mark.parametrize(
    "build",
    [
        lambda: case().fit(LogisticRegression()),
        lambda: nn.Linear(4, 3).double(),
        lambda: case().fit(OneVsRestClassifier(LogisticRegression())),
    ],
)
def test_methods_of_ones_own_are_refused_whatever_they_do(build: Any) -> None:
    """Where they differ from the class is for them to know, and for no probe to find."""
    probe = build()
    name = "forward" if isinstance(probe, nn.Module) else "predict"
    setattr(probe, name, getattr(probe, name))
    with pytest.raises(ClassifierError, match=f"{name} of its own"):
        certified_accuracy(case().encoder, probe, case().graph, np.zeros(NODES, dtype=int), 1)


# -- what its predict is held to -------------------------------------------------------------------


@pytest.mark.parametrize("change", [1e-9, 1e-3, 1.0])
def test_a_support_vector_machine_edited_after_fitting_is_noticed(change: float) -> None:
    """Its predict goes by copies that an edit does not reach."""
    probe = case().fit(SVC(kernel="linear"), 2)
    probe.intercept_ = probe.intercept_ + change
    with pytest.raises(ClassifierError, match="predicts otherwise"):
        case().check(probe)


def test_coefficients_edited_after_fitting_are_what_it_predicts_by() -> None:
    probe = case().fit(LogisticRegression(), 3)
    probe.coef_ = probe.coef_[::-1].copy()
    probe.classes_ = np.array([9, 4, 5])
    case().check(probe)


@pytest.mark.parametrize("where", ["far", "near", "shifted"])
def test_a_class_patched_as_a_whole_is_noticed(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    honest = LogisticRegression.predict
    probe = case().fit(LogisticRegression(), 3)

    def predict(self: Any, X: Any) -> Any:
        if where == "shifted":
            return honest(self, X + 1e-8)
        norm = np.linalg.norm(X, axis=1)
        return (honest(self, X) + (norm > 1e4 if where == "far" else norm < 1e-3)) % 3

    monkeypatch.setattr(LogisticRegression, "predict", predict)
    with pytest.raises(ClassifierError, match="predicts otherwise"):
        certified_accuracy(case().encoder, probe, case().graph, np.zeros(NODES, dtype=int), 1)


def test_a_predict_that_fails_or_answers_something_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    probe = case().fit(LogisticRegression(), 3)
    for answer in (lambda self, X: 1 / 0, lambda self, X: ["a"] * len(X), lambda self, X: self.classes_[:1]):
        monkeypatch.setattr(LogisticRegression, "predict", answer)
        with pytest.raises(ClassifierError, match="own predict"):
            certified_accuracy(case().encoder, probe, case().graph, np.zeros(NODES, dtype=int), 1)
