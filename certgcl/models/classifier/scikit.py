"""Scikit-learn's classifiers whose prediction is the class of the largest linear score, by exact type."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from certgcl.errors import ClassifierError
from certgcl.models.classifier.affine import Affine, dense, stacked

_PAIR = (
    "If its prediction is the class of the largest linear score anyway, pass the weights (classes, d) and "
    "intercepts (classes,) as a pair"
)
_LINEAR = "the prediction must be the class of the largest linear score of the embedding"


class Linear(NamedTuple):
    """Affine maps one after the other, the last one to the scores of the classes with these labels."""

    steps: tuple[Affine, ...]
    labels: Any


Reader = Callable[[Any], Linear]


def is_of_scikit(classifier: Any) -> bool:
    """Whether the object, or a class it inherits from, is scikit-learn's; without importing that."""
    return any(kind.__module__.partition(".")[0] == "sklearn" for kind in type(classifier).__mro__)


def read_scikit(estimator: Any) -> Linear:
    """The linear scores behind ``estimator.predict``; anything that is not known to have them raises an error."""
    kind, name = type(estimator), type(estimator).__name__
    if kind not in _readers():
        raise ClassifierError(
            f"a classifier of type {name}",
            f"{_LINEAR}, and scikit-learn's own class known for it (not one that inherits from it)",
            f"Use LogisticRegression, LinearSVC, RidgeClassifier or the like. {_PAIR}",
        )
    check_plain(estimator)
    return _readers()[kind](estimator)


def check_plain(program: Any) -> None:
    """Raise an error for an object whose own attributes hide methods of its class: then its class does not tell what it
    does."""
    for name in vars(program):
        if callable(getattr(type(program), name, None)):
            raise ClassifierError(
                f"a {type(program).__name__} with a {name} of its own",
                "an object must do what its class says",
                f"Remove the attribute. {_PAIR}",
            )


@cache
def _readers() -> dict[type, Reader]:
    """How each type is read. scikit-learn is imported here, where it is used."""
    from sklearn import linear_model, model_selection, multiclass, naive_bayes, neighbors
    from sklearn.pipeline import Pipeline

    readers: dict[type, Reader] = {
        **dict.fromkeys(_margin_types(), _by_margins),
        linear_model.RidgeClassifier: _ridge,
        linear_model.RidgeClassifierCV: _ridge,
        neighbors.NearestCentroid: _nearest_centroid,
        naive_bayes.MultinomialNB: _naive_bayes,
        naive_bayes.ComplementNB: _naive_bayes,
        multiclass.OneVsRestClassifier: _one_vs_rest,
        Pipeline: _pipeline,
        model_selection.GridSearchCV: _chosen,
        model_selection.RandomizedSearchCV: _chosen,
    }
    return readers


@cache
def _margin_types() -> tuple[type, ...]:
    """Classifiers whose ``decision_function`` is ``coef_ · x + intercept_`` and whose ``predict`` takes the largest, or
    the sign."""
    from sklearn import discriminant_analysis, linear_model, svm

    names = (
        "LogisticRegression",
        "LogisticRegressionCV",
        "RidgeClassifier",
        "RidgeClassifierCV",
        "SGDClassifier",
        "Perceptron",
        "PassiveAggressiveClassifier",
    )  # the last is deprecated in scikit-learn
    return (
        *(getattr(linear_model, name) for name in names if hasattr(linear_model, name)),
        svm.LinearSVC,
        svm.SVC,
        svm.NuSVC,
        discriminant_analysis.LinearDiscriminantAnalysis,
    )


# -- the last step ---------------------------------------------------------------------------------


def _by_margins(estimator: Any) -> Linear:
    labels = fitted(estimator, "classes_")
    return Linear((_scores(_margins(estimator), len(labels), estimator),), labels)


def _margins(estimator: Any) -> Affine:
    """``decision_function``: a row for each class, or one for two classes."""
    if hasattr(estimator, "support_vectors_") or hasattr(estimator, "kernel"):
        return _support_vectors(estimator)
    coefficients = fitted(estimator, "coef_")
    if getattr(coefficients, "ndim", 2) == 1:
        coefficients = coefficients[None]
    intercepts = fitted(estimator, "intercept_")
    if np.ndim(intercepts) == 0:  # 0.0 without an intercept
        intercepts = np.full(coefficients.shape[0], intercepts)
    return Affine.of(coefficients, intercepts)


def _support_vectors(estimator: Any) -> Affine:
    """The one margin of an ``SVC(kernel="linear")`` of two classes, a sum over its support vectors."""
    if estimator.kernel != "linear":
        raise ClassifierError(
            f"{type(estimator).__name__}(kernel={estimator.kernel!r})",
            "with a kernel the scores are not linear",
            'Use kernel="linear", or LinearSVC',
        )
    if len(fitted(estimator, "classes_")) != 2:
        raise ClassifierError(
            f"{type(estimator).__name__} with {len(estimator.classes_)} classes",
            "it decides one class against one other and counts votes, which linear scores per class cannot reproduce",
            "Use LinearSVC, or OneVsRestClassifier(SVC(kernel='linear'))",
        )
    dual, vectors = dense(estimator.dual_coef_), dense(estimator.support_vectors_)
    return Affine.of(
        dual @ vectors,
        estimator.intercept_,
        size=np.abs(dual) @ np.abs(vectors),
        terms=vectors.shape[0] + vectors.shape[1],
    )


def _scores(margins: Affine, classes: int, estimator: Any) -> Affine:
    rows = margins.matrix.shape[0]
    if classes == 2 and rows == 1:
        return margins.halves()
    if classes != rows:
        raise ClassifierError(
            f"a {type(estimator).__name__} with {rows} rows of weights for {classes} classes",
            "each class needs one row, or two classes one for both",
            f"Fit it again. {_PAIR}",
        )
    return margins


def _ridge(estimator: Any) -> Linear:
    _check_one_label(estimator, fitted(estimator, "_label_binarizer").y_type_)
    return _by_margins(estimator)


def _one_vs_rest(estimator: Any) -> Linear:
    """The class whose own classifier has the largest ``decision_function``."""
    parts, labels = fitted(estimator, "estimators_"), fitted(estimator, "classes_")
    _check_one_label(estimator, estimator.label_binarizer_.y_type_)
    rows = []
    for part in parts:
        if type(part) not in _margin_types():
            raise ClassifierError(
                f"a OneVsRestClassifier of {type(part).__name__}",
                "each of its parts must be a linear classifier of scikit-learn",
                f"Use OneVsRestClassifier(LogisticRegression()) or the like. {_PAIR}",
            )
        check_plain(part)
        margins = _margins(part)
        if margins.matrix.shape[0] != 1:
            raise ClassifierError(
                f"a part of a OneVsRestClassifier with {margins.matrix.shape[0]} margins",
                "each tells one class from the rest",
                "Fit it again",
            )
        rows.append(margins)
    together = stacked(rows)
    return Linear((_scores(together, len(labels), estimator),), labels)


def _nearest_centroid(estimator: Any) -> Linear:
    """``-|x - c|²`` is ``2 c · x - |c|²`` plus a term that is the same for all classes; with priors, after division by
    the deviations."""
    if estimator.metric != "euclidean":
        raise ClassifierError(
            f"NearestCentroid(metric={estimator.metric!r})",
            "only euclidean distances compare linearly",
            'Use metric="euclidean"',
        )
    centroids, labels = dense(fitted(estimator, "centroids_")), fitted(estimator, "classes_")
    priors = dense(getattr(estimator, "class_prior_", 1 / len(labels)))
    steps: tuple[Affine, ...] = ()
    logarithms = np.zeros(len(centroids))
    if not np.isclose(priors, 1 / len(labels)).all():
        deviation = dense(estimator.within_class_std_dev_)
        scale = np.where(deviation != 0, deviation, 1.0)
        steps, centroids = (scaling(1 / scale, np.zeros(len(scale))),), centroids / scale
        with np.errstate(divide="ignore"):
            logarithms = 2 * np.log(priors)
    squares = (centroids**2).sum(axis=1)
    last = Affine.of(
        2 * centroids,
        logarithms - squares,
        shift_size=squares + np.abs(logarithms),
        terms=4 * centroids.shape[1],
        squares=True,
    )
    return Linear((*steps, last), labels)


def _naive_bayes(estimator: Any) -> Linear:
    """Counts times log-probabilities; the complement variant leaves out the prior."""
    vectors, labels = fitted(estimator, "feature_log_prob_"), fitted(estimator, "classes_")
    with_prior = type(estimator).__name__ == "MultinomialNB"
    return Linear((Affine.of(vectors, estimator.class_log_prior_ if with_prior else None),), labels)


# -- pipelines and searches around it --------------------------------------------------------------


def _chosen(search: Any) -> Linear:
    return read_scikit(fitted(search, "best_estimator_"))


def _pipeline(pipeline: Any) -> Linear:
    steps = [step for _, step in pipeline.steps[:-1] if step is not None and step != "passthrough"]
    before = tuple(_transformer(step) for step in steps)
    last = read_scikit(pipeline.steps[-1][1])
    return Linear((*before, *last.steps), last.labels)


def _transformer(step: Any) -> Affine:
    """A transformer of a pipeline, if it is an affine map of the embedding."""
    from sklearn import decomposition, preprocessing

    check_plain(step)
    if getattr(step, "clip", False):
        raise ClassifierError(
            f"{type(step).__name__}(clip=True) in a pipeline", "a clipped value is not linear", "Leave clip out"
        )
    kind = type(step)
    if kind is preprocessing.StandardScaler:
        return _centred(step, "mean_" if step.with_mean else None, "scale_" if step.with_std else None)
    if kind is preprocessing.RobustScaler:
        return _centred(step, "center_" if step.with_centering else None, "scale_" if step.with_scaling else None)
    if kind is preprocessing.MaxAbsScaler:
        return _centred(step, None, "scale_")
    if kind is preprocessing.MinMaxScaler:
        return scaling(fitted(step, "scale_"), fitted(step, "min_"))
    if kind is decomposition.PCA:
        return _principal_components(step)
    if kind is decomposition.TruncatedSVD:
        return Affine.of(fitted(step, "components_"))
    raise ClassifierError(
        f"a {kind.__name__} in a pipeline",
        "only these affine steps are supported before a linear classifier: StandardScaler, MinMaxScaler, "
        "MaxAbsScaler, RobustScaler, PCA and TruncatedSVD",
        f"Leave it out. {_PAIR}",
    )


def _centred(step: Any, centre: str | None, scale: str | None) -> Affine:
    """``(x - centre) / scale``, either of which may be missing."""
    width = fitted(step, "n_features_in_")
    middle = np.zeros(width) if centre is None else dense(fitted(step, centre))
    divisor = np.ones(width) if scale is None else dense(fitted(step, scale))
    with np.errstate(divide="ignore", invalid="ignore"):
        return scaling(1 / divisor, -middle / divisor)


def scaling(factor: Any, shift: Any) -> Affine:
    """``factor * x + shift``, entry by entry."""
    return Affine.of(np.diag(dense(factor)), shift, terms=1)


def _principal_components(step: Any) -> Affine:
    components, mean = dense(fitted(step, "components_")), dense(step.mean_)
    matrix = components.astype(np.float64)
    if step.whiten:
        deviation = np.sqrt(dense(step.explained_variance_))  # not less than this, as in scikit-learn
        matrix = matrix / np.maximum(deviation, np.finfo(deviation.dtype).eps)[:, None].astype(np.float64)
    return Affine.of(matrix, -matrix @ mean, shift_size=np.abs(matrix) @ np.abs(mean), like=(components, mean))


# -- reading attributes ----------------------------------------------------------------------------


def fitted(estimator: Any, name: str) -> Any:
    """An attribute that fitting sets."""
    value = getattr(estimator, name, None)
    if value is None:
        raise ClassifierError(
            f"a {type(estimator).__name__} without {name}",
            "it must have been fitted",
            "Call fit on embeddings and classes first",
        )
    return value


def _check_one_label(estimator: Any, kind: str) -> None:
    if kind not in ("binary", "multiclass"):
        raise ClassifierError(
            f"a {type(estimator).__name__} fitted on {kind} labels",
            "a node has one class",
            "Fit it on one class for each node",
        )
