"""What travels to workers arrives as it was sent, or not at all."""

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import certgcl
from certgcl.certify.certification import Question
from certgcl.errors import WorkerError
from certgcl.executors import parcel as module
from certgcl.executors.parcel import Parcel
from tests.toys import random_graph, toy_network


@pytest.fixture(autouse=True)
def _nothing_opened() -> None:
    module._opened.clear()


VALUES: dict[str, Any] = {
    "float64": torch.randn(3, 4, dtype=torch.float64),
    "bfloat16": torch.randn(5).to(torch.bfloat16),
    "bool": torch.tensor([True, False]),
    "transposed": torch.randn(3, 4).T,
    "scalar": torch.tensor(2.5),
    "empty": torch.empty(0, 3),
    "csr": torch.eye(3, dtype=torch.float64).to_sparse_csr(),
    "numpy": np.arange(6).reshape(2, 3),
    "trained": torch.randn(2, requires_grad=True),
    "text": "text",
}


@pytest.mark.parametrize("name", VALUES)
def test_values_arrive_as_they_were(name: str, tmp_path: Path) -> None:
    value = VALUES[name]
    for parcel in (Parcel.of([value]), Parcel.of([value]).mapped(tmp_path)):
        module._opened.clear()
        [found] = parcel.open()
        if name == "csr":
            found, expected = found.to_dense(), value.to_dense()
        else:
            expected = value
        if isinstance(value, torch.Tensor):
            assert found.dtype == expected.dtype
            assert found.requires_grad == expected.requires_grad
            assert torch.equal(found, expected)
        else:
            assert np.array_equal(found, expected)


def test_an_object_that_is_there_twice_arrives_as_one() -> None:
    value = torch.ones(3)
    first, second = Parcel.of((value, value)).open()
    assert first is second


def test_contents_of_tensors_are_outside_of_the_pickle() -> None:
    parcel = Parcel.of({"x": torch.ones(100_000)})
    assert len(parcel.skeleton) < 1000
    assert [array.nbytes for array in parcel.arrays] == [400_000]
    assert parcel.nbytes == len(parcel.skeleton) + 400_000


def test_large_arrays_lie_in_files_and_are_aligned_as_torch_has_them(tmp_path: Path) -> None:
    parcel = Parcel.of([torch.ones(module.LARGE), torch.ones(3)]).mapped(tmp_path)
    assert [isinstance(array, np.memmap) for array in parcel.arrays] == [True, False]
    large, _ = parcel.open()
    assert large.data_ptr() % 64 == 0


@pytest.mark.parametrize("start", [1, 8, 32])
def test_arrays_are_aligned_wherever_they_arrive(start: int) -> None:
    """Ray keeps small arrays at any multiple of eight bytes: bounds then had other last digits than in one process."""
    parcel = Parcel.of([torch.randn(17, dtype=torch.float64), torch.arange(5)])

    def moved(array: np.ndarray) -> np.ndarray:
        place = torch.empty(array.nbytes + start, dtype=torch.uint8).numpy()[start:]
        place[:] = array
        return place

    sent = replace(parcel, arrays=tuple(map(moved, parcel.arrays)))
    assert all(array.ctypes.data % module.ALIGNED for array in sent.arrays)
    for found, expected in zip(sent.open(), pickle.loads(parcel.skeleton, buffers=parcel.arrays), strict=True):
        assert torch.equal(found, expected)
        assert found.data_ptr() % module.ALIGNED == 0


@pytest.mark.parametrize("what", ["array", "skeleton", "order"])
def test_a_parcel_that_changed_on_its_way_is_refused(what: str) -> None:
    parcel = Parcel.of([torch.zeros(4), torch.ones(4)])
    first, second = (array.copy() for array in parcel.arrays)
    if what == "array":
        first[3] ^= 1
    elif what == "order":
        first, second = second, first
    skeleton = pickle.dumps([]) if what == "skeleton" else parcel.skeleton
    with pytest.raises(WorkerError, match="changed on their way to a worker"):
        replace(parcel, skeleton=skeleton, arrays=(first, second)).open()


def test_a_worker_of_another_version_refuses_its_parcel(monkeypatch: pytest.MonkeyPatch) -> None:
    parcel = Parcel.of([1])
    monkeypatch.setattr(module, "__version__", "99")
    with pytest.raises(WorkerError, match=rf"certgcl 99 in a worker, and {certgcl.__version__} where the work"):
        parcel.open()


def test_a_parcel_is_opened_once_and_the_one_before_let_go() -> None:
    one, two = Parcel.of([1]), Parcel.of([2])
    assert one.open() is one.open()
    two.open()
    assert list(module._opened) == [two.sha256]


def test_what_cannot_be_pickled_is_refused() -> None:
    with pytest.raises(WorkerError, match=r"work that cannot be sent to another process \(.*lambda"):
        Parcel.of(lambda: None)


@pytest.mark.parametrize("reproducible", [False, True])
@pytest.mark.parametrize("given", [False, True])
def test_a_question_is_answered_to_the_last_bit_alike_wherever_it_is_sent(given: bool, reproducible: bool) -> None:
    graph, network = random_graph(nodes=30, density=0.2), toy_network()
    directions = torch.randn(30, 3, dtype=torch.float64)
    question = (
        Question.linear(network, graph, 1, directions, method="degree", dtype=torch.float64)
        if given
        else (Question.compactness(network, graph, 1, method="degree", view=None, dtype=torch.float64))
    )
    question = question.made_reproducible() if reproducible else question
    sent = Parcel.of(question.for_workers()).open()
    expected, found = (each.certify(torch.arange(30)) for each in (question, sent))
    assert found.evidence == expected.evidence == type(expected.evidence).of(sent)
    for name in ("lower", "nominal", "rounding", "run_error", "directions", "norms"):
        assert torch.equal(getattr(found, name), getattr(expected, name)), name
