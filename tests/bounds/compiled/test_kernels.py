"""The kernels one by one, beside what they stand for in torch."""

import os
import pickle
from pathlib import Path

import numba
import numpy as np
import pytest
import torch

from certgcl.bounds.compiled import switched_off
from certgcl.bounds.compiled.kernels import channel_products, numerics, row_lemma
from certgcl.bounds.compiled.kernels.line_products import feature_products
from certgcl.bounds.compiled.kernels.numerics import compiled, larger, smaller
from certgcl.bounds.compiled.lemma_arrays import Lemma
from certgcl.bounds.compiled.lines import LineTable, output_lines
from certgcl.bounds.compiled.minima import row_minima
from certgcl.bounds.propagation.drop_counts import drop_cases
from certgcl.bounds.two_layer.blocks import blocks
from certgcl.bounds.two_layer.layer1 import line_parts
from certgcl.bounds.two_layer.row_lemma import case_minima, least_terms
from certgcl.bounds.two_layer.row_plan import FlatCases
from certgcl.bounds.uncertified import formulas
from certgcl.models.activations import SlopeRule
from certgcl.models.two_piece import TwoPieceLinear
from tests.toys import drop_problem, hubs_and_others, random_tensor

RULES: list[tuple[SlopeRule, ...]] = [("parallel",), ("adaptive",), ("flat",), ("adaptive", "flat", "parallel")]


@numba.njit
def _extremes(one: np.ndarray, other: np.ndarray, largest: np.ndarray, smallest: np.ndarray) -> None:
    for c in range(len(one)):
        largest[c] = larger(one[c], other[c])
        smallest[c] = smaller(one[c], other[c])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_larger_and_the_smaller_of_two(dtype: type) -> None:
    one = np.array([1, -2, np.inf, np.nan, 0, 3] * 3, dtype)
    other = np.array([2, -3, 5, 1, np.nan, 3] * 3, dtype)
    largest, smallest = np.empty_like(one), np.empty_like(one)
    _extremes(one, other, largest, smallest)
    np.testing.assert_equal(largest, np.array([2, -2, np.inf, 1, np.nan, 3] * 3, dtype))
    np.testing.assert_equal(smallest, np.array([1, -3, 5, 1, np.nan, 3] * 3, dtype))


def test_a_kernel_that_cannot_be_kept_on_disk_is_compiled_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    njit = numerics.numba.njit

    def read_only(*, cache: bool = False, **options: object) -> object:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return njit(**options)

    monkeypatch.setattr(numerics.numba, "njit", read_only)
    kernel = compiled(_extremes.py_func)
    largest = np.empty(1)
    kernel(np.ones(1), np.zeros(1), largest, np.empty(1))
    assert largest.tolist() == [1.0]


def test_the_stamp_of_kernels_changes_with_any_of_their_files(tmp_path: Path) -> None:
    for name, time in (("one.py", 100), ("shared.py", 300)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time, time))
    before = numerics.source_stamp(tmp_path)
    os.utime(tmp_path / "one.py", (400, 400))
    touched = numerics.source_stamp(tmp_path)
    (tmp_path / "shared.py").write_text("#")
    os.utime(tmp_path / "shared.py", (300, 300))
    assert len({before, touched, numerics.source_stamp(tmp_path)}) == 3


def test_kernels_are_kept_with_the_stamp_of_all_their_files() -> None:
    assert row_lemma.minima._cache._cache_file._source_stamp == numerics.STAMP


def test_kernels_kept_by_another_release_are_never_unpickled(tmp_path: Path) -> None:
    """Types of another release may have other names, and unpickling them would fail."""
    file = type(row_lemma.minima._cache._cache_file)(str(tmp_path), "kernel", numerics.STAMP)
    gone = b"ccertgcl.bounds.compiled.kernels.row_lemma\nNameOfBefore\n."
    Path(file._index_path).write_bytes(pickle.dumps(numerics.numba.__version__) + gone)
    with pytest.raises(AttributeError, match="NameOfBefore"):
        file._load_index()
    file._version = row_lemma.minima._cache._cache_file._version
    assert file._load_index() == {}


@pytest.mark.parametrize("resolution", [1, 2, 9])
@pytest.mark.parametrize("following", [False, True])
@pytest.mark.parametrize("width", [1, 3, 200], ids=["one column", "few", "several strips"])
def test_the_row_lemma(resolution: int, following: bool, width: int) -> None:
    graph, budget = hubs_and_others()
    hop = drop_problem(graph, budget).neighbourhood(torch.float64).inner
    cases = drop_cases(hop, resolution)
    flat = FlatCases(cases)
    values, own, squared = (random_tensor(len(hop.targets), width, seed=seed) for seed in range(3))
    lemma = Lemma.of(hop, cases, flat, hop.col, hop.own[flat.row])
    found = row_minima(lemma, values, own, squared, following)
    assert found.shape == (1 + following, len(flat.row), width)
    (block,) = blocks(hop, cases, lambda size, cases: 1, torch.arange(len(hop.nodes)))
    terms = least_terms(block, values[block.target])[:, :, None, None]
    plain = case_minima(block, terms, own[block.own][:, None, None], squared[block.own][:, None, None], following)
    for mine, yours in zip(found, plain, strict=True):
        table = torch.full((len(hop.nodes), cases.most, width), torch.nan, dtype=torch.float64)
        table[block.rows] = yours[:, 0]
        torch.testing.assert_close(mine, table[flat.row, flat.case])


def test_the_row_lemma_on_both_signs() -> None:
    graph, budget = hubs_and_others()
    hop = drop_problem(graph, budget).neighbourhood(torch.float64).inner
    cases = drop_cases(hop, 9)
    flat = FlatCases(cases)
    values = random_tensor(len(hop.targets), 5, seed=0)
    (both,) = row_minima(Lemma.of(hop, cases, flat, hop.col, hop.own[flat.row], both_signs=True), values, values)
    one = Lemma.of(hop, cases, flat, hop.col, hop.own[flat.row])
    torch.testing.assert_close(both, torch.cat([row_minima(one, signed, signed)[0] for signed in (values, -values)]))


def test_the_gradient_of_the_row_lemma() -> None:
    graph, budget = hubs_and_others()
    hop = drop_problem(graph, budget).neighbourhood(torch.float64).inner
    cases = drop_cases(hop, 3)
    flat = FlatCases(cases)
    lemma = Lemma.of(hop, cases, flat, hop.col, hop.own[flat.row], both_signs=True)
    given = [random_tensor(len(hop.targets), 2, seed=seed).requires_grad_() for seed in range(3)]
    assert torch.autograd.gradcheck(lambda *tables: row_minima(lemma, *tables, following=True), given)


@numba.njit
def _feature_products(vectors: np.ndarray, features: np.ndarray, targets: np.ndarray, out: np.ndarray) -> None:
    feature_products(vectors, features, targets, out, 10)


@pytest.mark.parametrize("vectors", [1, 2, 5])
@pytest.mark.parametrize("slots", [0, 1, 4, 11])
def test_products_of_some_vectors_with_the_features_of_a_row(vectors: int, slots: int) -> None:
    random = np.random.default_rng(0)
    given, features = random.normal(size=(vectors, 6)), random.normal(size=(9, 6))
    targets = random.integers(9, size=slots)
    out = np.full(10 * slots, np.nan)
    _feature_products(given, features, targets, out)
    table = out.reshape(slots, 10)
    np.testing.assert_allclose(table[:, :vectors], features[targets] @ given.T)
    assert np.isnan(table[:, vectors:]).all()


@numba.njit
def _signed_products(
    middles: np.ndarray, radii: np.ndarray, columns: np.ndarray, sizes: np.ndarray, out: np.ndarray
) -> None:
    channel_products.signed_products(middles, radii, columns, sizes, out)


@pytest.mark.parametrize("vectors", [1, 2, 5])
@pytest.mark.parametrize("channels", [1, 4, 7])
def test_products_of_ranges_with_a_matrix_and_its_negative(vectors: int, channels: int) -> None:
    random = np.random.default_rng(0)
    middles, radii, matrix = (random.normal(size=shape) for shape in ((vectors, 6), (vectors, 6), (6, channels)))
    out = np.full((vectors, 2 * channels), np.nan)
    _signed_products(middles, radii, matrix.T.copy(), np.abs(matrix.T), out)
    product, spread = middles @ matrix, radii @ np.abs(matrix)
    np.testing.assert_allclose(out, np.concatenate([product - spread, -product - spread], axis=1))


def bounds_of_every_kind(*gammas: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Below, above and around zero, touching it, and of no width."""
    lower = torch.tensor([-2.0, -1.0, 0.5, -0.7, -1.0, 0.0, 0.3, -0.4, 0.0], dtype=torch.float64)
    upper = torch.tensor([-1.0, 2.0, 1.5, 0.2, 0.0, 1.0, 0.3, -0.4, 0.0], dtype=torch.float64)
    count = len(gammas)
    return (
        lower[:, None].expand(-1, count).contiguous(),
        upper[:, None].expand(-1, count).contiguous(),
        random_tensor(count, seed=1),
        torch.tensor(gammas, dtype=torch.float64),
    )


@pytest.mark.parametrize("gammas", [(0.0, 0.3, 1.0, 1.5), (-0.4, -1.0)], ids=["rising", "with a valley"])
@pytest.mark.parametrize("rules", RULES, ids=str)
def test_ranges_and_lines_of_layer_1(rules: tuple[SlopeRule, ...], gammas: tuple[float, ...]) -> None:
    given = [value.requires_grad_() for value in bounds_of_every_kind(*gammas)]
    lower, upper, bias, gamma = given
    plain = line_parts(TwoPieceLinear(gamma), bias, lower, upper, rules)
    table = LineTable(rules, *given)
    everything = slice(0, len(lower))
    parts = table.at(everything)
    torch.testing.assert_close(torch.from_numpy(parts), plain.detach())
    weight = random_tensor(*plain.shape, seed=2)
    table.add_gradient(everything, weight.numpy())
    for mine, yours in zip(table.gradients, torch.autograd.grad(plain, given, weight), strict=True):
        torch.testing.assert_close(mine, yours)


@pytest.mark.parametrize("rules", RULES, ids=str)
def test_the_gradient_of_output_lines(rules: tuple[SlopeRule, ...]) -> None:
    lower, upper, bias, gamma = bounds_of_every_kind(0.1, 0.3, 0.9, 1.5, -0.4)
    given = [random_tensor(4, 2, 5, seed=3), lower[:4] + 0.01, upper[:4] + 0.02, bias, gamma]
    given = [value.requires_grad_() for value in given]
    assert torch.autograd.gradcheck(lambda *tensors: output_lines(rules, *tensors), given)


@pytest.mark.parametrize("gammas", [(0.0, 0.3, 1.0, 1.5), (-0.4, -1.0)], ids=["rising", "with a valley"])
@pytest.mark.parametrize("products", [False, True], ids=["slopes", "products"])
def test_lines_along_chords_and_their_gradients(products: bool, gammas: tuple[float, ...]) -> None:
    bounds = [value.requires_grad_() for value in bounds_of_every_kind(*gammas)]
    omega = random_tensor(len(bounds[0]), 2, len(gammas), seed=2).requires_grad_()
    features = [random_tensor(*bounds[0].shape, seed=5).requires_grad_()] if products else []
    given = omega, *bounds, *features

    def lines_and_gradients() -> list[torch.Tensor]:
        found = formulas.chord_lines(*given)
        total = sum((part * random_tensor(*part.shape, seed=seed)).sum() for seed, part in enumerate(found))
        return [*found, *torch.autograd.grad(total, given)]

    with switched_off():
        plain = lines_and_gradients()
    for mine, yours in zip(lines_and_gradients(), plain, strict=True):
        torch.testing.assert_close(mine, yours)
