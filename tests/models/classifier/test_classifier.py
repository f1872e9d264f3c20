"""Every classifier is refused, or predicts what the linear scores read out of it say, in every admissible view."""

import contextlib
import inspect
import types
import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from sklearn import base, linear_model, naive_bayes, neighbors, svm
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, RandomizedSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, RobustScaler, StandardScaler
from sklearn.svm import SVC
from sklearn.utils import all_estimators
from torch import nn

from certgcl.certify.accuracy import CertifiedAccuracy, certified_accuracy
from certgcl.errors import ClassifierError, InputError
from certgcl.models.classifier import read_classifier
from certgcl.models.classifier.affine import Affine, composition_error
from certgcl.models.gcn_encoder import GCNEncoder
from tests.toys import admissible_sets, random_graph, random_tensor, without

NODES = 9
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


class Case:
    """An encoder on a small graph, its embeddings in every admissible view, and classes of its nodes to fit on."""

    def __init__(self, dtype: torch.dtype = torch.float64) -> None:
        torch.manual_seed(3)
        self.encoder = GCNEncoder(3, 8, 4).to(dtype)
        with torch.no_grad():
            self.encoder.conv2.bias.fill_(0.3)
        graph = random_graph(nodes=NODES, density=0.35, seed=2)
        self.graph = graph.to(dtype=dtype)
        views = [without(graph, dropped) for dropped in admissible_sets(graph, torch.ones(NODES, dtype=torch.long))]
        with torch.no_grad():
            self.views = torch.stack([self.encoder(self.graph.x, view.edge_index) for view in views])
        self.z = self.views[0].numpy()

    def data(self, classes: int) -> tuple[np.ndarray, np.ndarray]:
        """Embeddings of all views and their classes, which group nodes that lie together."""
        order = np.argsort(self.z @ np.array([1.0, -0.5, 0.7, 0.3]))
        y = np.empty(NODES, dtype=np.int64)
        y[order] = np.arange(NODES) * classes // NODES
        return self.views.flatten(0, 1).numpy().copy(), np.tile(y, len(self.views))

    def fit(self, classifier: Any, classes: int = 3, names: list[Any] | None = None) -> Any:
        x, y = self.data(classes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return classifier.fit(x, y if names is None else np.array(names)[y])

    def check(self, classifier: Any, predict: Any = None, least: int = NODES - 1) -> CertifiedAccuracy:
        """Certified nodes are predicted alike in every view, by the classifier itself; broken ones are not.

        Without any drop at least so many are certified: all but what is close to a tie.
        """
        predict = classifier.predict if predict is None else predict
        own = np.stack([np.asarray(predict(z.numpy())) for z in self.views])
        found, clean = (certified_accuracy(self.encoder, classifier, self.graph, own[0], budget) for budget in (1, 0))
        assert clean.certified.sum() >= least
        stays = torch.from_numpy((own == own[0]).all(axis=0))
        assert found.correct.all()
        assert not (found.certified & ~stays).any()
        assert not (found.broken & stays).any()
        return found


@cache
def case(dtype: torch.dtype = torch.float64) -> Case:
    return Case(dtype)


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


class Turned(np.ndarray):
    """Entries that say one thing and products that say another."""

    def __matmul__(self, other: Any) -> Any:
        return -np.asarray(self) @ other


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


# -- what predicts otherwise -----------------------------------------------------------------------


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
