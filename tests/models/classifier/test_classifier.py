"""Every classifier is refused, or predicts what the linear scores read out of it say, in every admissible view."""

import contextlib
import inspect
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from sklearn import base, linear_model, naive_bayes, neighbors, svm
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.svm import SVC
from sklearn.utils import all_estimators
from torch import nn

from certgcl.certify.accuracy import certified_accuracy
from certgcl.errors import ClassifierError, InputError
from certgcl.models.classifier import read_classifier
from certgcl.models.classifier.affine import Affine, composition_error
from tests.models.classifier.cases import NODES, case
from tests.toys import random_tensor

LINEAR = {
    "LogisticRegression",
    "LogisticRegressionCV",
    "RidgeClassifier",
    "RidgeClassifierCV",
    "SGDClassifier",
    "Perceptron",
    "PassiveAggressiveClassifier",
    "LinearSVC",
    "LinearDiscriminantAnalysis",
    "NearestCentroid",
    "MultinomialNB",
    "ComplementNB",
    "OneVsRestClassifier",
}
PARTS = {"estimator": LogisticRegression(), "estimators": [("a", LogisticRegression()), ("b", LogisticRegression())]}


# -- the whole of scikit-learn ---------------------------------------------------------------------


def test_votes_of_one_class_against_one_other_are_refused() -> None:
    """Three classes have three pairs: the shapes fit, and the largest score is not the prediction."""
    probe = case().fit(SVC(kernel="linear"))
    assert probe.coef_.shape == (3, 4)
    with pytest.raises(ClassifierError, match="votes"):
        certified_accuracy(case().encoder, probe, case().graph, np.zeros(NODES, dtype=int), 1)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", [name for name, _ in all_estimators(type_filter="classifier")])
def test_every_classifier_of_scikit_learn_is_refused_or_keeps_what_is_certified(name: str, classes: int) -> None:
    kind = dict(all_estimators(type_filter="classifier"))[name]
    parameters = inspect.signature(kind).parameters
    settings = {key: PARTS[key] for key, value in parameters.items() if value.default is value.empty}
    settings |= {"random_state": 0} if "random_state" in parameters else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        probe = kind(**settings)
    if name in LINEAR:
        case().check(case().fit(probe, classes))
        return
    with contextlib.suppress(ValueError, IndexError):  # not one for these classes: refused all the same
        case().fit(probe, classes)
    with pytest.raises(ClassifierError):
        certified_accuracy(case().encoder, probe, case().graph, case().data(classes)[1][:NODES], 1)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    "probe",
    [
        LogisticRegression(fit_intercept=False),
        LogisticRegression(C=1e6),
        svm.LinearSVC(fit_intercept=False),
        linear_model.RidgeClassifier(fit_intercept=False),
        linear_model.SGDClassifier(average=True, random_state=0),
        LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
        LinearDiscriminantAnalysis(solver="eigen"),
        neighbors.NearestCentroid(shrink_threshold=0.1),
        neighbors.NearestCentroid(priors="empirical"),
        naive_bayes.MultinomialNB(fit_prior=False),
        naive_bayes.ComplementNB(norm=True),
        OneVsRestClassifier(SVC(kernel="linear")),
        OneVsRestClassifier(svm.LinearSVC()),
        OneVsRestClassifier(linear_model.RidgeClassifier()),
        OneVsRestClassifier(LinearDiscriminantAnalysis()),
        GridSearchCV(LogisticRegression(), {"C": [1.0, 10.0]}, cv=2),
        RandomizedSearchCV(
            make_pipeline(StandardScaler(), svm.LinearSVC()), {"linearsvc__C": [1.0, 10.0]}, n_iter=2, cv=2
        ),
        make_pipeline(StandardScaler(), LogisticRegression(C=100)),
        make_pipeline(MinMaxScaler((-3, 7)), svm.LinearSVC()),
        make_pipeline(StandardScaler(with_mean=False), StandardScaler(with_std=False), LogisticRegression()),
        make_pipeline(RobustScaler(), "passthrough", linear_model.RidgeClassifier()),
        make_pipeline(RobustScaler(with_centering=False), MaxAbsScaler(), LogisticRegression()),
        make_pipeline(PCA(3), LogisticRegression()),
        make_pipeline(PCA(whiten=True), LogisticRegression()),
        make_pipeline(TruncatedSVD(3), LogisticRegression()),
        make_pipeline(StandardScaler(), neighbors.NearestCentroid()),
    ],
    ids=lambda probe: repr(probe).replace(" ", "")[:60] if hasattr(probe, "fit") else str(probe),
)
def test_what_is_linear_is_read(probe: Any, classes: int, dtype: torch.dtype) -> None:
    case(dtype).check(case(dtype).fit(base.clone(probe), classes))


@pytest.mark.parametrize("kind", [SVC, svm.NuSVC])
def test_support_vectors_of_two_classes_are_read(kind: type) -> None:
    settings = {"nu": 0.1} if kind is svm.NuSVC else {}
    case().check(case().fit(kind(kernel="linear", **settings), 2))
    with pytest.raises(ClassifierError, match="rbf"):
        case().check(case().fit(kind(**settings), 2))


@pytest.mark.parametrize("names", [["a", "bc"], ["no", "yes", "who knows"], [7, -3, 40], [False, True]])
def test_labels_may_be_anything_the_classifier_knows(names: list[Any]) -> None:
    probe = case().fit(LogisticRegression(C=100), len(names), names)
    found = case().check(probe)
    assert found.certified.any()
    labels = probe.predict(case().z)
    for y in (labels, labels.tolist(), labels.astype(object)):
        again = certified_accuracy(case().encoder, probe, case().graph, y, 1)
        assert torch.equal(again.certified, found.certified)


def test_labels_that_the_classifier_does_not_know_may_stand_at_nodes_that_do_not_count() -> None:
    probe = case().fit(LogisticRegression(C=100), 3, ["a", "b", "c"])
    y = probe.predict(case().z).astype(object)
    y[2] = "unknown"
    with pytest.raises(InputError, match="label unknown of node 2"):
        certified_accuracy(case().encoder, probe, case().graph, y, 1)
    found = certified_accuracy(case().encoder, probe, case().graph, y, 1, nodes=[0, 1, 3])
    assert found.correct.all()
    for wrong in (np.zeros(NODES), np.zeros((NODES, 1), dtype=int), [["a"], ["b", "c"]], object()):
        with pytest.raises(InputError):
            certified_accuracy(case().encoder, probe, case().graph, wrong, 1)


def test_a_scaler_that_writes_to_its_input_writes_to_a_copy() -> None:
    probe = case().fit(make_pipeline(StandardScaler(copy=False), LogisticRegression(C=100)))
    z = torch.tensor(case().z)
    read = read_classifier(probe, z, torch.float64)
    predicted = read.predict(z)
    assert torch.equal(z, torch.tensor(case().z))
    assert torch.equal(read.predict(z), predicted)


def test_sparse_coefficients_are_filled_up() -> None:
    case().check(case().fit(linear_model.SGDClassifier(penalty="l1", random_state=0)).sparsify())
    x, y = case().data(2)
    case().check(SVC(kernel="linear").fit(csr_array(x), y))


# -- torch and plain weights -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bias", [True, False])
def test_a_linear_layer_is_read(dtype: torch.dtype, bias: bool) -> None:
    torch.manual_seed(0)
    least = 0 if dtype == torch.bfloat16 else NODES - 1  # a sum of four terms may err by a tenth of them
    layer = nn.Linear(4, 3, bias=bias).to(dtype)
    case().check(layer, lambda z: layer(torch.from_numpy(z).to(dtype)).argmax(dim=1), least)
    deep = nn.Sequential(nn.Dropout(), nn.Linear(4, 7), nn.Identity(), nn.Sequential(nn.Linear(7, 3))).to(dtype).eval()
    case().check(deep, lambda z: deep(torch.from_numpy(z).to(dtype)).argmax(dim=1), least)


def test_arrays_and_lists_are_weights_too() -> None:
    vectors, intercepts = random_tensor(3, 4, seed=0), random_tensor(3, seed=1)
    expected = case().check((vectors, intercepts), lambda z: (torch.from_numpy(z) @ vectors.T + intercepts).argmax(1))
    for pair in ((vectors.numpy(), intercepts.numpy()), (vectors.tolist(), intercepts.tolist())):
        found = case().check(pair, lambda z: (torch.from_numpy(z) @ vectors.T + intercepts).argmax(1))
        assert torch.equal(found.certified, expected.certified)


# -- arithmetic ------------------------------------------------------------------------------------


def test_equal_scores_certify_nothing() -> None:
    row = random_tensor(1, 4, seed=0)
    found = certified_accuracy(case().encoder, row.expand(3, 4), case().graph, torch.zeros(NODES, dtype=torch.long), 0)
    assert found.correct.all()  # the first of equals
    assert not found.certified.any()
    assert not found.broken.any()


@pytest.mark.parametrize("gap", [0.0, 1e-13, -1e-13])
def test_a_margin_of_rounding_certifies_nothing(gap: float) -> None:
    """A common part of the scores, far larger than what tells them apart, whose rounding decides."""
    vectors = torch.full((2, 4), 1e6, dtype=torch.float64)
    intercepts = torch.tensor([gap, 0.0], dtype=torch.float64)
    y = torch.zeros(NODES, dtype=torch.long)
    assert not certified_accuracy(case().encoder, (vectors, intercepts), case().graph, y, 0).certified.any()


def test_a_classifier_in_float64_is_not_rounded_to_the_model() -> None:
    """In float32 both rows are the same."""
    vectors = torch.ones(2, 4, dtype=torch.float64)
    vectors[0] += 1e-9
    read = read_classifier(vectors, case(torch.float32).views[0].double(), torch.float32)
    assert bool((read.differences(torch.tensor([0]))[0][0, 1] > 0).all())
    y = torch.zeros(NODES, dtype=torch.long)
    assert certified_accuracy(case().encoder, vectors, case().graph, y, 0).certified.all()
    single = case(torch.float32)  # whose embeddings its arithmetic cannot tell apart
    assert not certified_accuracy(single.encoder, vectors, single.graph, y, 0).certified.any()


def test_what_may_overflow_is_never_certain() -> None:
    step = Affine.of(torch.full((2, 4), 1e30), torch.zeros(2))
    assert torch.isinf(composition_error([step], torch.full((1, 4), 1e10, dtype=torch.float64), torch.float32)).all()
    vectors = torch.tensor([[1e30] * 4, [-1e30] * 4], dtype=torch.float32)
    big = (case(torch.float32).graph.x * 1e10, case().graph.edge_index)
    found = certified_accuracy(case(torch.float32).encoder, vectors, big, torch.zeros(NODES, dtype=torch.long), 0)
    assert not found.certified.any()
