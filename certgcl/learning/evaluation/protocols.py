"""The protocols: on which nodes a probe is fitted, where its C is chosen, and where its score is reported.

Each takes normalised embeddings, labels, masks and seeds, and returns Micro- and Macro-F1 for each of its splits.
scikit-learn is imported where it is used: that takes about as long as the rest of certgcl.
"""

import warnings
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from certgcl.errors import EvaluationError
from certgcl.learning.evaluation.inputs import Masks, masked_nodes

Scores: TypeAlias = tuple[float, float]
Protocol: TypeAlias = Callable[[np.ndarray, np.ndarray, Masks, tuple[int, ...]], list[Scores]]

_GRID = tuple(4.0**k for k in range(-5, 6))  # C from 2^-10 to 2^10
_GRACE_GRID = tuple(2.0**k for k in range(-10, 10))  # GRACE's own ends at 2^9
_GRACE_FOLDS = 5
_FOLDS = 10
# At scikit-learn's 1e-4 a probe of some hundred nodes stops after one step for a small C, far from its optimum.
_TOLERANCE = 1e-6


def public(x: np.ndarray, y: np.ndarray, masks: Masks, seeds: tuple[int, ...]) -> list[Scores]:
    """The masks as intended: fitted on train, C chosen on the validation nodes, reported on the test nodes."""
    train, validation, test = masked_nodes(masks, len(y))
    return [_probe(x, y, train, chosen_on=validation, reported_on=test)]


def pot_released(x: np.ndarray, y: np.ndarray, masks: Masks, seeds: tuple[int, ...]) -> list[Scores]:
    """Validation and test swapped: C chosen on the test nodes, reported on the validation nodes.

    The paper's released code does so on Cora, CiteSeer and PubMed. Only here to explain the paper's numbers.
    """
    train, validation, test = masked_nodes(masks, len(y))
    return [_probe(x, y, train, chosen_on=test, reported_on=validation)]


def random_10_10_80(x: np.ndarray, y: np.ndarray, masks: Masks, seeds: tuple[int, ...]) -> list[Scores]:
    """For each seed 10 % of the nodes to train on, 10 % to choose C on, 80 % to report on; not stratified."""
    return [
        _probe(x, y, train, chosen_on=validation, reported_on=test)
        for train, validation, test in random_splits(len(y), seeds)
    ]


def grace(x: np.ndarray, y: np.ndarray, masks: Masks, seeds: tuple[int, ...]) -> list[Scores]:
    """GRACE's own: for each seed 10 % of the nodes to train on, 90 % to report on; one-vs-rest, C by five folds.

    As in GRACE's released code, the folds count a node as right only if all its one-vs-rest decisions are right, which
    favours a large C; the class reported is the most probable one.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, KFold
    from sklearn.multiclass import OneVsRestClassifier

    tenth = _tenth(len(y), least=_GRACE_FOLDS)
    classes, place = np.unique(y, return_inverse=True)
    one_hot = np.eye(len(classes), dtype=np.int64)[place]
    scores = []
    for seed in seeds:
        train, test = np.split(_shuffled_nodes(len(y), seed), [tenth])
        search = GridSearchCV(
            OneVsRestClassifier(LogisticRegression(solver="liblinear")),
            {"estimator__C": _GRACE_GRID},
            cv=KFold(_GRACE_FOLDS),
        )
        with warnings.catch_warnings():  # a class that no training node of a fold has, or every one: always no, or yes
            warnings.filterwarnings("ignore", "Label .* is present in all training examples", UserWarning)
            search.fit(x[train], one_hot[train])
        scores.append(f1(y[test], classes[search.predict_proba(x[test]).argmax(axis=1)]))
    return scores


def ten_folds(x: np.ndarray, y: np.ndarray, masks: Masks, seeds: tuple[int, ...]) -> list[Scores]:
    """The usual protocol for sets of graphs: ten folds with the classes spread evenly; each is reported on once, with C
    chosen on the next one and the probe fitted on the other eight. The value of a seed is the mean over its folds."""
    scores = []
    for seed in seeds:
        fold = _folds(y, seed)
        found = [
            _probe(
                x,
                y,
                np.flatnonzero((fold != test) & (fold != (test + 1) % _FOLDS)),
                chosen_on=np.flatnonzero(fold == (test + 1) % _FOLDS),
                reported_on=np.flatnonzero(fold == test),
            )
            for test in range(_FOLDS)
        ]
        micro, macro = np.mean(found, axis=0)
        scores.append((float(micro), float(macro)))
    return scores


PROTOCOLS: dict[str, Protocol] = {
    "public": public,
    "random-10-10-80": random_10_10_80,
    "grace": grace,
    "pot-released": pot_released,
    "ten-folds": ten_folds,
}


def _probe(x: np.ndarray, y: np.ndarray, train: np.ndarray, chosen_on: np.ndarray, reported_on: np.ndarray) -> Scores:
    """Multinomial logistic regression; C from a grid by the accuracy on ``chosen_on``, the smallest among equals."""
    from sklearn.linear_model import LogisticRegression

    if (y[train] == y[train[0]]).all():
        return f1(y[reported_on], np.full(len(reported_on), y[train[0]]))
    # Each C starts at the optimum of the one before. Newton's steps reach the tolerance sooner than lbfgs's.
    model = LogisticRegression(solver="newton-cg", tol=_TOLERANCE, warm_start=True)
    best, predicted = -1.0, y[:0]
    for c in _GRID:
        model.set_params(C=c).fit(x[train], y[train])
        accuracy = float(np.mean(model.predict(x[chosen_on]) == y[chosen_on]))
        if accuracy > best:
            best, predicted = accuracy, model.predict(x[reported_on])
    return f1(y[reported_on], predicted)


def f1(y: np.ndarray, predicted: np.ndarray) -> Scores:
    """Micro- and Macro-F1."""
    from sklearn.metrics import f1_score

    return float(f1_score(y, predicted, average="micro")), float(f1_score(y, predicted, average="macro"))


def random_splits(nodes: int, seeds: tuple[int, ...]) -> list[tuple[np.ndarray, ...]]:
    """The nodes of train, validation and test, 10/10/80 percent, for each seed."""
    tenth = _tenth(nodes, least=1)
    return [tuple(np.split(_shuffled_nodes(nodes, seed), [tenth, 2 * tenth])) for seed in seeds]


def _folds(y: np.ndarray, seed: int) -> np.ndarray:
    """The fold of each row, at random; the numbers of rows of a class differ between folds by at most one."""
    _tenth(len(y), least=2)
    order = _shuffled_nodes(len(y), seed)
    order = order[np.argsort(y[order], kind="stable")]
    fold = np.empty(len(y), dtype=np.int64)
    fold[order] = np.arange(len(y)) % _FOLDS
    return fold


def _shuffled_nodes(nodes: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(nodes)


def _tenth(nodes: int, least: int) -> int:
    if nodes < 10 * least:
        raise EvaluationError(
            f"{nodes} nodes",
            f"a random split of this protocol needs {10 * least} or more",
            "Use masks and the protocol public",
        )
    return nodes // 10
