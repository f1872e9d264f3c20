"""Linear probes: each protocol against scikit-learn used directly, and the t-test against scipy and by hand."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import ttest_rel
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from torch_geometric.data import Data

from certgcl.errors import EvaluationError
from certgcl.learning import evaluation
from certgcl.learning.evaluation import PROTOCOLS, Evaluation, compare, evaluate
from certgcl.learning.evaluation.inputs import check_embeddings
from certgcl.learning.evaluation.paired import PairedTest
from certgcl.learning.evaluation.protocols import _folds

N, CLASSES = 300, 3
GRID = [2.0**k for k in range(-10, 11, 2)]


def blobs(spread: float, nodes: int = N, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian blobs around three centres in eight dimensions."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, nodes)
    return 4 * rng.normal(size=(CLASSES, 8))[y] + spread * rng.normal(size=(nodes, 8)), y


def split(nodes: int = N, train: int = 30, validation: int = 60, seed: int = 0) -> tuple[np.ndarray, ...]:
    place = np.random.default_rng(seed).permutation(nodes)
    return place < train, (place >= train) & (place < train + validation), place >= train + validation


def probe_by_hand(
    x: np.ndarray, y: np.ndarray, train: np.ndarray, chosen_on: np.ndarray, reported_on: np.ndarray
) -> np.ndarray:
    """The predictions of the best C, each fitted from scratch with another solver."""
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    models = [LogisticRegression(C=c, tol=1e-8, max_iter=10_000).fit(x[train], y[train]) for c in GRID]
    best = max(models, key=lambda model: model.score(x[chosen_on], y[chosen_on]))
    return best.predict(x[reported_on])


def f1(y: np.ndarray, predicted: np.ndarray) -> tuple[float, float]:
    return f1_score(y, predicted, average="micro"), f1_score(y, predicted, average="macro")


def only(result: Evaluation) -> tuple[float, float]:
    (micro,), (macro,) = result.micro, result.macro
    return micro, macro


ONE_SPLIT = [protocol for protocol in PROTOCOLS if protocol != "ten-folds"]

# -- every protocol --------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_well_separated_classes_are_found(protocol: str) -> None:
    result = evaluate(*blobs(0.5), protocol, masks=split(), seeds=1)
    assert result.protocol == protocol
    assert min(*result.micro, *result.macro) > 0.97


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_shuffled_labels_give_chance(protocol: str) -> None:
    x, y = blobs(0.5)
    result = evaluate(x, np.random.default_rng(1).permutation(y), protocol, masks=split(), seeds=1)
    assert 0.2 < result.micro_mean < 0.47
    assert 0.1 < result.macro_mean < 0.47


@pytest.mark.parametrize("protocol", ["public", "random-10-10-80"])
def test_the_same_seeds_give_the_same_result_from_tensors_or_arrays(protocol: str) -> None:
    x, y = blobs(4.0)
    masks = split()
    data = Data(
        **{f"{name}_mask": torch.from_numpy(mask) for name, mask in zip(("train", "val", "test"), masks, strict=True)}
    )
    first = evaluate(x, y, protocol, masks=masks, seeds=2)
    assert first == evaluate(
        torch.from_numpy(x).requires_grad_(), torch.from_numpy(y), protocol, masks=data, seeds=[0, 1]
    )


@pytest.mark.parametrize("scale", [2.0**-700, 2.0**700])  # whose squares are 0 and inf
def test_the_scale_of_the_embeddings_does_not_matter(scale: float) -> None:
    x, y = blobs(4.0)
    rows = np.random.default_rng(0).choice([1.0, scale], size=(N, 1))
    assert evaluate(x * rows, y, seeds=1) == evaluate(x, y, seeds=1)


def test_rows_are_normalised_and_zero_rows_stay() -> None:
    x = check_embeddings(torch.tensor([[3.0, 4.0], [0.0, 0.0], [1e-30, 0.0]], dtype=torch.bfloat16))
    np.testing.assert_allclose(x, [[0.6, 0.8], [0, 0], [1, 0]], atol=1e-2)
    assert (x[1] == 0).all()
    given, y = blobs(0.5)
    given[::10] = 0
    assert evaluate(given, y, seeds=1).micro_mean > 0.85


def test_every_seed_is_a_split_of_its_own() -> None:
    x, y = blobs(4.0)
    result = evaluate(x, y, seeds=[3, 0, 1])
    assert len(set(result.macro)) == 3
    assert evaluate(x, y, seeds=2).macro == result.macro[1:]
    assert len(evaluate(x, y).micro) == 5


@pytest.mark.parametrize("protocol", ["public", "pot-released"])
def test_masks_are_one_split_whatever_the_seeds(protocol: str) -> None:
    x, y = blobs(4.0)
    first = evaluate(x, y, protocol, masks=split(), seeds=5)
    assert len(first.micro) == 1
    assert first == evaluate(x, y, protocol, masks=split(), seeds=[9])


# -- what is fitted, chosen and reported -----------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_public_is_chosen_on_validation_and_reported_on_test(seed: int) -> None:
    (x, y), (train, validation, test) = blobs(4.0, seed=seed), split(seed=seed)
    predicted = probe_by_hand(x, y, train, validation, test)
    assert only(evaluate(x, y, "public", masks=(train, validation, test))) == f1(y[test], predicted)


def fickle() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A problem in which validation nodes want a small C and test nodes a large one.

    Along the first axis all training nodes are separable by a hair, so that only a large C sees it; most of the second
    axis tells the classes apart too, but for some training nodes wrongly. Validation follows the second axis, test the
    first.
    """
    rng = np.random.default_rng(0)
    y = np.arange(240) % 2
    sign = 2.0 * y - 1
    train, validation, test = (np.arange(240) // 80 == k for k in range(3))
    first = np.where(validation, rng.permutation(sign), sign)
    second = np.where(test, rng.permutation(sign), np.where(train & (rng.random(240) < 0.2), -sign, sign))
    return np.stack([0.2 * first, second, np.full(240, 0.1)], axis=1), y, train, validation, test


def test_pot_released_swaps_validation_and_test() -> None:
    x, y, train, validation, test = fickle()
    masks = (train, validation, test)
    right, swapped = only(evaluate(x, y, "public", masks=masks)), only(evaluate(x, y, "pot-released", masks=masks))
    assert right == f1(y[test], probe_by_hand(x, y, train, validation, test))
    assert swapped == f1(y[validation], probe_by_hand(x, y, train, test, validation))
    # Neither is what comes of choosing on the nodes that are reported.
    assert right != f1(y[test], probe_by_hand(x, y, train, test, test))
    assert swapped != f1(y[validation], probe_by_hand(x, y, train, validation, validation))
    assert swapped == only(evaluate(x, y, "public", masks=(train, test, validation)))


def test_public_never_looks_at_the_test_labels_when_it_chooses() -> None:
    x, y, train, validation, test = fickle()
    predicted = probe_by_hand(x, y, train, validation, test)
    for seed in range(5):
        relabelled = y.copy()
        relabelled[test] = np.random.default_rng(seed).permutation(y[test])
        assert only(evaluate(x, relabelled, "public", masks=(train, validation, test))) == f1(
            relabelled[test], predicted
        )


def test_random_splits_are_a_tenth_a_tenth_and_the_rest() -> None:
    x, y = blobs(4.0, nodes=206)
    nodes = np.random.default_rng(7).permutation(206)
    train, validation, test = nodes[:20], nodes[20:40], nodes[40:]
    expected = f1(y[test], probe_by_hand(x, y, train, validation, test))
    assert only(evaluate(x, y, "random-10-10-80", seeds=[7])) == expected


def test_grace_is_one_vs_rest_with_c_by_five_folds_and_90_percent_tested() -> None:
    x, y = blobs(6.0)
    nodes = np.random.default_rng(7).permutation(N)
    train, test = nodes[:30], nodes[30:]
    unit, one_hot = x / np.linalg.norm(x, axis=1, keepdims=True), np.eye(CLASSES, dtype=int)[y]

    def binary_models(c: float, rows: np.ndarray) -> list[LogisticRegression]:
        return [LogisticRegression(C=c, solver="liblinear").fit(unit[rows], of_class[rows]) for of_class in one_hot.T]

    def share_right(c: float) -> float:
        """Over five folds of six nodes; a node is right if all three answers are."""
        folds = [train[k : k + 6] for k in range(0, 30, 6)]
        answers = [
            [model.predict(unit[fold]) for model in binary_models(c, np.setdiff1d(train, fold))] for fold in folds
        ]
        return float(
            np.mean(
                [
                    (np.stack(answer, axis=1) == one_hot[fold]).all(axis=1)
                    for answer, fold in zip(answers, folds, strict=True)
                ]
            )
        )

    chosen = binary_models(max((2.0**k for k in range(-10, 10)), key=share_right), train)
    predicted = np.stack([model.predict_proba(unit[test])[:, 1] for model in chosen]).argmax(axis=0)
    assert only(evaluate(x, y, "grace", seeds=[7])) == f1(y[test], predicted)


@pytest.mark.parametrize("protocol", ONE_SPLIT)
def test_classes_without_training_nodes_are_counted_as_missed(protocol: str) -> None:
    x, y = blobs(0.5)
    y = 10 * y  # classes need not be numbered without gaps
    train, *others = split()
    alone = np.flatnonzero(others[0])[:1], np.flatnonzero(others[1])[:1]
    y[np.concatenate(alone)] = 5
    result = evaluate(x, y, protocol, masks=(train, *others), seeds=1)
    assert result.micro_mean > 0.95
    assert result.macro_mean == pytest.approx(0.75, abs=0.03)


@pytest.mark.parametrize("protocol", ONE_SPLIT)
def test_one_class_among_the_training_nodes_is_what_is_predicted(protocol: str) -> None:
    x, _ = blobs(0.5)
    y = np.zeros(N, dtype=np.int64)
    nodes = np.random.default_rng(0).permutation(N)
    y[nodes[-80:]] = 1  # the training nodes of seed 0 come first
    masks = [np.isin(np.arange(N), part) for part in (nodes[:30], nodes[30:][::2], nodes[31:][::2])]
    result = evaluate(x, y, protocol, masks=masks, seeds=1)
    reported = {"random-10-10-80": nodes[60:], "grace": nodes[30:], "public": masks[2], "pot-released": masks[1]}
    assert only(result) == f1(y[reported[protocol]], np.zeros_like(y[reported[protocol]]))


def test_ten_folds_report_on_every_row_once_with_classes_spread_alike() -> None:
    y = np.array([0] * 63 + [1] * 125)
    fold = _folds(y, 0)
    for label in (0, 1):
        counts = np.bincount(fold[y == label], minlength=10)
        assert counts.max() - counts.min() <= 1
    assert not np.array_equal(fold, _folds(y, 1))


def test_ten_folds_choose_on_the_next_fold_and_fit_on_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = blobs(0.5)
    seen: list[tuple[set[int], ...]] = []

    def noted(
        x: np.ndarray, y: np.ndarray, train: np.ndarray, chosen_on: np.ndarray, reported_on: np.ndarray
    ) -> tuple[float, float]:
        seen.append((set(train.tolist()), set(chosen_on.tolist()), set(reported_on.tolist())))
        return len(seen) / 10, 0.5

    monkeypatch.setattr("certgcl.learning.evaluation.protocols._probe", noted)
    assert evaluate(x, y, "ten-folds", seeds=1).micro == (pytest.approx(0.55),)
    everyone = set(range(len(y)))
    assert all(
        train | chosen | reported == everyone and len(train) + len(chosen) + len(reported) == len(y)
        for train, chosen, reported in seen
    )
    assert set.union(*(reported for _, _, reported in seen)) == everyone
    assert [chosen for _, chosen, _ in seen] == [reported for _, _, reported in [*seen[1:], seen[0]]]


# -- the result ------------------------------------------------------------------------------------

RUNS = Evaluation("public", (0.79, 0.81, 0.83), (0.75, 0.75, 0.78))


def test_mean_and_sample_standard_deviation() -> None:
    assert RUNS.micro_mean == pytest.approx(0.81)
    assert RUNS.micro_std == pytest.approx(0.02)
    assert RUNS.macro_mean == pytest.approx(0.76)
    assert RUNS.macro_std == pytest.approx(0.03 / 3**0.5)
    assert Evaluation("public", (0.8,), (0.7,)).micro_std == 0.0


def test_an_evaluation_in_words() -> None:
    assert str(RUNS) == "Micro-F1 81.0 ± 2.0, Macro-F1 76.0 ± 1.7, protocol public, 3 seeds"
    assert str(Evaluation("grace", (0.8,), (0.7,))) == "Micro-F1 80.0, Macro-F1 70.0, protocol grace, 1 seed"


def test_an_evaluation_as_json() -> None:
    stored = json.loads(json.dumps(evaluate(*blobs(4.0), seeds=2).to_dict()))
    assert set(stored) == {"protocol", "micro", "macro", "micro_mean", "micro_std", "macro_mean", "macro_std"}
    assert stored["micro_mean"] == pytest.approx(sum(stored["micro"]) / 2)


def test_evaluations_of_one_protocol_can_be_pooled() -> None:
    pooled = Evaluation.pooled([RUNS, Evaluation("public", (0.5,), (0.4,))])
    assert pooled == Evaluation("public", (0.79, 0.81, 0.83, 0.5), (0.75, 0.75, 0.78, 0.4))
    with pytest.raises(EvaluationError, match=r"2 evaluations under .*pot-released.*public"):
        Evaluation.pooled([RUNS, Evaluation("pot-released", (0.5,), (0.4,))])
    with pytest.raises(EvaluationError, match="0 evaluations"):
        Evaluation.pooled([])


def test_scikit_learn_is_not_loaded_before_it_is_needed() -> None:
    for file in Path(evaluation.__file__).parent.glob("*.py"):
        assert not re.search("^(from|import) sklearn", file.read_text(encoding="utf-8"), re.MULTILINE)


# -- two runs --------------------------------------------------------------------------------------


def test_the_t_test_by_hand() -> None:
    test = compare([3.0, 5.0, 7.0], [2.0, 3.0, 4.0])  # differences 1, 2, 3: t = 2 / (1 / sqrt(3)), two degrees
    assert (test.difference, test.n) == (2.0, 3)
    assert test.t == pytest.approx(2 * 3**0.5)
    # Student's distribution with two degrees of freedom: P(T > t) = (1 - t / sqrt(2 + t²)) / 2
    assert test.p_greater == pytest.approx((1 - test.t / (2 + test.t**2) ** 0.5) / 2)
    assert test.p == pytest.approx(2 * test.p_greater)
    assert str(test) == "mean difference 2, t = 3.46, p = 0.0742 (one-sided 0.0371), 3 pairs"


@pytest.mark.parametrize("n", [2, 5, 30])
def test_the_t_test_against_scipy(n: int) -> None:
    a, b = np.random.default_rng(n).normal(size=(2, n))
    forward, back = compare(a.tolist(), b.tolist()), compare(torch.tensor(b), a)
    expected = ttest_rel(a, b)
    assert (forward.t, forward.p) == (expected.statistic, expected.pvalue)
    assert forward.p_greater == ttest_rel(a, b, alternative="greater").pvalue
    assert (back.difference, back.t, back.p) == pytest.approx((-forward.difference, -forward.t, forward.p))
    assert back.p_greater == pytest.approx(1 - forward.p_greater)


def test_evaluations_are_compared_by_their_micro_f1() -> None:
    other = Evaluation("public", (0.78, 0.81, 0.80), (0.1, 0.2, 0.3))
    assert compare(RUNS, other) == compare(RUNS.micro, other.micro)
    with pytest.raises(EvaluationError, match="under public and grace"):
        compare(RUNS, Evaluation("grace", other.micro, other.macro))


def test_equal_runs_do_not_differ() -> None:
    assert compare(RUNS, RUNS) == PairedTest(0.0, 0.0, 1.0, 0.5, 3)
    assert compare([0, 0], [0, 0]).p == 1.0
    assert compare([0.1 + 0.2, 0.7], [0.3, 0.7]).p == 1.0  # equal but for rounding


def test_a_constant_difference_is_certain() -> None:
    better, worse = compare([0.82, 0.81, 0.80], [0.80, 0.79, 0.78]), compare([1, 2], [2, 3])
    assert better.difference == pytest.approx(0.02)
    assert (better.t, better.p, better.p_greater) == (np.inf, 0.0, 0.0)
    assert (worse.t, worse.p, worse.p_greater) == (-np.inf, 0.0, 1.0)
    assert str(worse).endswith("all differences equal")


# -- bad input -------------------------------------------------------------------------------------

X, Y = blobs(0.5)
MASKS = split()


def with_value(value: float) -> np.ndarray:
    x = X.copy()
    x[3, 2] = value
    return x


BAD: dict[str, tuple[str, Callable[[], Any]]] = {
    "NaN": ("1 NaN or infinite", lambda: evaluate(with_value(np.nan), Y)),
    "infinity": ("1 NaN or infinite", lambda: evaluate(with_value(-np.inf), Y)),
    "a vector": (r"shape \(300,\)", lambda: evaluate(X[:, 0], Y)),
    "no columns": (r"shape \(300, 0\)", lambda: evaluate(X[:, :0], Y)),
    "words": ("dtype <U1", lambda: evaluate([["a"]], Y)),
    "sparse embeddings": ("only dense", lambda: evaluate(torch.tensor(X).to_sparse(), Y)),
    "ragged embeddings": ("only dense", lambda: evaluate([[1.0], [1.0, 2.0]], Y)),
    "too few labels": (r"shape \(299,\) for 300", lambda: evaluate(X, Y[:-1])),
    "a column of labels": (r"shape \(300, 1\) for 300", lambda: evaluate(X, Y[:, None])),
    "float labels": ("dtype float64.*integer", lambda: evaluate(X, Y.astype(float))),
    "boolean labels": ("dtype bool", lambda: evaluate(X, Y > 0)),
    "negative label": ("label -1", lambda: evaluate(X, Y - 1)),
    "one class": ("label 0 at all nodes", lambda: evaluate(X, 0 * Y)),
    "unknown protocol": (
        "protocol 'best'.*public, random-10-10-80, grace, pot-released",
        lambda: evaluate(X, Y, "best"),
    ),
    "no masks": ("no masks", lambda: evaluate(X, Y, "public")),
    "no masks for pot-released": ("no masks", lambda: evaluate(X, Y, "pot-released")),
    "data without masks": ("no train mask", lambda: evaluate(X, Y, "public", masks=Data())),
    "two masks": ("2 masks", lambda: evaluate(X, Y, "public", masks=MASKS[:2])),
    "short masks": (
        r"a train mask of dtype bool and shape \(299,\)",
        lambda: evaluate(X, Y, "public", masks=[mask[:-1] for mask in MASKS]),
    ),
    "indices as masks": (
        "a train mask of dtype int64",
        lambda: evaluate(X, Y, "public", masks=[np.flatnonzero(mask) for mask in MASKS]),
    ),
    "empty mask": ("an empty val mask", lambda: evaluate(X, Y, "public", masks=(MASKS[0], Y > 9, MASKS[2]))),
    "overlapping masks": (
        r"30 node\(s\) in several",
        lambda: evaluate(X, Y, "public", masks=(MASKS[0], MASKS[1], MASKS[0] | MASKS[2])),
    ),
    "too few nodes": ("9 nodes.*10 or more", lambda: evaluate(X[:9], Y[:9])),
    "too few nodes for folds": ("49 nodes.*50 or more", lambda: evaluate(X[:49], Y[:49], "grace")),
    "no seed": ("seeds=0", lambda: evaluate(X, Y, seeds=0)),
    "half a seed": ("seeds=0.5", lambda: evaluate(X, Y, seeds=0.5)),  # type: ignore[arg-type]
    "negative seed": ("seeds=-1", lambda: evaluate(X, Y, seeds=[-1])),
    "a seed twice": (r"seeds=\[1, 1\].*distinct", lambda: evaluate(X, Y, seeds=[1, 1])),
    "runs of other lengths": ("runs of 2 and 3", lambda: compare([1, 2], [1, 2, 3])),
    "runs of one": ("runs of 1 and 1.*two or more", lambda: compare([1], [2])),
    "runs with NaN": ("finite numbers", lambda: compare([1.0, np.nan], [1, 2])),
    "runs of words": ("dtype <U1", lambda: compare(["a", "b"], [1, 2])),  # type: ignore[list-item]
    "a table as run": (r"shape \(2, 1\)", lambda: compare([[1], [2]], [1, 2])),  # type: ignore[list-item]
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_by_name(case: str) -> None:
    message, call = BAD[case]
    with pytest.raises(EvaluationError, match=message):
        call()
