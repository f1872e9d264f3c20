import json
import pickle
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from toys import random_graph, random_tensor, toy_weights

from certgcl.budget import EdgeDropBudget
from certgcl.certificate import Certificate
from certgcl.compactness import linear_bounds
from certgcl.errors import CertificateError

# By hand: three of five nodes. Node 4 is above zero but not above its rounding.
BY_HAND = Certificate(
    nodes=torch.tensor([3, 0, 4]), lower=torch.tensor([0.5, -1.0, 1e-9]), nominal=torch.tensor([0.75, -0.5, 0.25]),
    rounding=torch.tensor([1e-8, 1e-8, 1e-8]), run_error=torch.zeros(3), precision="float64",
    method="degree", certified=True,
    local_budget=torch.tensor([2, 1, 0, 1, 3]), total_budget=4, directions=torch.ones(3, 2),
)


def computed(*shape: int, method: str = "degree", dtype: torch.dtype = torch.float64) -> Certificate:
    return linear_bounds(toy_weights(), random_graph(), EdgeDropBudget(local=2), random_tensor(12, *shape, 3, seed=9),
                         method=method, nodes=[5, 2, 7], dtype=dtype)


# -- what it says ----------------------------------------------------------------------------------


def test_positive_means_proved_beyond_rounding() -> None:
    assert BY_HAND.positive.tolist() == [True, False, False]
    assert BY_HAND.share_positive == pytest.approx(1 / 3)


def test_nothing_is_positive_without_a_proof() -> None:
    uncertified = replace(BY_HAND, certified=False)
    assert not uncertified.positive.any()
    assert uncertified.share_positive == 0
    assert not any(uncertified.to_dict()["positive"])


@pytest.mark.parametrize("method", ["paper", "released"])
def test_the_printed_formulas_prove_nothing(method: str) -> None:
    certificate = computed(4, method=method)
    assert (certificate.lower > 0).any()
    assert not certificate.certified
    assert not certificate.positive.any()


def test_a_bound_that_is_not_a_number_is_not_positive() -> None:
    assert not replace(BY_HAND, lower=torch.full((3,), torch.nan)).positive.any()
    assert not replace(BY_HAND, rounding=torch.full((3,), torch.nan)).positive.any()


def test_str_shows_what_matters() -> None:
    assert str(BY_HAND).splitlines() == [
        "certified lower bounds at 3 of 5 nodes, method degree",
        "  budget    local 0 … 3 (mean 1.40), total 4 edges",
        "  nominal   mean 0.1667",
        "  lower     mean -0.1667, min -1, median 1e-09, max 0.5",
        "  positive  1 of 3 (33.3 %) proved to stay above zero",
    ]
    assert repr(BY_HAND) == str(BY_HAND)
    assert "local 2, total" in str(replace(BY_HAND, local_budget=torch.full((5,), 2)))


def test_str_of_a_score_never_calls_it_a_bound() -> None:
    shown = str(replace(BY_HAND, certified=False, method="paper"))
    assert shown.startswith("scores that are NOT bounds at 3 of 5 nodes, method paper")
    assert "score     mean" in shown
    assert "proved" not in shown
    assert "lower" not in shown


# -- tables ----------------------------------------------------------------------------------------


def test_to_dict_has_a_list_per_column() -> None:
    assert BY_HAND.to_dict() == {
        "node": [3, 0, 4], "budget": [1, 2, 3], "nominal": [0.75, -0.5, 0.25], "lower": BY_HAND.lower.tolist(),
        "positive": [True, False, False],
    }
    assert json.loads(json.dumps(BY_HAND.to_dict())) == BY_HAND.to_dict()


@pytest.mark.parametrize("shape", [(), (4,)])
def test_to_frame_has_a_row_per_anchor(shape: tuple[int, ...]) -> None:
    pytest.importorskip("pandas")
    certificate = computed(*shape)
    frame = certificate.to_frame()
    assert list(frame.columns) == ["node", "budget", "nominal", "lower", "positive"]
    assert frame["node"].tolist() == [5, 2, 7]
    assert frame["lower"].tolist() == certificate.lower.tolist()


# -- parts -----------------------------------------------------------------------------------------


def test_a_certificate_at_some_positions() -> None:
    for positions in (torch.tensor([2, 0]), torch.tensor([False, True, True])):
        part = BY_HAND.at(positions)
        assert part.nodes.tolist() == BY_HAND.nodes[positions].tolist()
        assert part.to_dict()["lower"] == BY_HAND.lower[positions].tolist()
        assert part.directions.shape == (2, 2)
        assert part.local_budget is BY_HAND.local_budget


@pytest.mark.parametrize("shape", [(), (4,)])
def test_parts_can_be_joined(shape: tuple[int, ...]) -> None:
    whole = computed(*shape)
    joined = Certificate.joined([whole.at(torch.tensor([0])), whole.at(torch.tensor([1, 2]))])
    assert str(joined) == str(whole)
    for field in fields(Certificate):
        if isinstance(getattr(whole, field.name), Tensor):
            assert torch.equal(getattr(joined, field.name), getattr(whole, field.name))
    assert torch.equal(Certificate.joined([whole]).lower, whole.lower)


@pytest.mark.parametrize(("change", "message"), [
    ({"method": "crown"}, "method 'degree' and 'crown'"), ({"certified": False}, "certified True and False"),
    ({"total_budget": 5}, "total_budget 4 and 5"), ({"local_budget": torch.zeros(5)}, "different local budgets"),
    ({"directions": torch.ones(3, 3)}, "local budgets or directions"), ({}, "node 0 in 2 certificates"),
])
def test_parts_of_different_questions_are_not_joined(change: dict[str, object], message: str) -> None:
    with pytest.raises(CertificateError, match=message):
        Certificate.joined([BY_HAND, replace(BY_HAND, **change)])


# -- files -----------------------------------------------------------------------------------------


def test_notes_go_with_the_file(tmp_path: Path) -> None:
    notes = {"shard": 3, "of": "sixteen"}
    certificate, read = Certificate.load_with_notes(BY_HAND.save(tmp_path / "c.npz", notes))
    assert (str(certificate), read) == (str(BY_HAND), notes)
    assert Certificate.load_with_notes(BY_HAND.save(tmp_path / "c.npz"))[1] == {}


def test_a_file_is_replaced_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = BY_HAND.save(tmp_path / "c.npz")
    monkeypatch.setattr(np, "savez_compressed", lambda stream, **_: stream.write(b"half") and 1 / 0)
    with pytest.raises(ZeroDivisionError):
        computed().save(path)
    assert str(Certificate.load(path)) == str(BY_HAND)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("certificate", [
    computed(), computed(4), computed(1), computed(method="paper"), computed(dtype=torch.float32), BY_HAND,
], ids=["(A,)", "(A, 4)", "(A, 1)", "paper", "float32", "by hand"])
def test_a_file_gives_back_what_was_saved(certificate: Certificate, tmp_path: Path) -> None:
    path = certificate.save(tmp_path / "some certificate")
    assert path == tmp_path / "some certificate"
    loaded = Certificate.load(str(path))
    for field in fields(Certificate):
        saved, read = getattr(certificate, field.name), getattr(loaded, field.name)
        assert type(saved) is type(read)
        if isinstance(saved, Tensor):
            assert saved.dtype == read.dtype
            assert torch.equal(saved, read)
        else:
            assert saved == read
    assert str(loaded) == str(certificate)


def test_a_certificate_with_gradients_can_be_saved(tmp_path: Path) -> None:
    path = replace(BY_HAND, lower=BY_HAND.lower.clone().requires_grad_()).save(tmp_path / "c.npz")
    assert torch.equal(Certificate.load(path).lower, BY_HAND.lower)


def test_no_pickle_is_needed(tmp_path: Path) -> None:
    with np.load(BY_HAND.save(tmp_path / "c.npz"), allow_pickle=False) as file:
        assert {name: file[name].dtype.hasobject for name in file.files} == dict.fromkeys(
            ["meta", "nodes", "lower", "nominal", "rounding", "local_budget", "directions"], False)
        assert json.loads(str(file["meta"])) == {
            "format": "certgcl-certificate-1", "method": "degree", "certified": True, "total_budget": 4}


def rewritten(path: Path, **changes: np.ndarray | None) -> Path:
    """The file with some arrays replaced, or left out where the change is None."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files} | changes
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return path


def meta(**changes: object) -> np.ndarray:
    whole = {"format": "certgcl-certificate-1", "method": "degree", "certified": True, "total_budget": 4} | changes
    return np.array(json.dumps({key: value for key, value in whole.items() if value is not None}))


@pytest.mark.parametrize("changes", [
    {"lower": None}, {"meta": None}, {"meta": np.array("[]")}, {"meta": np.array("no json")}, {"meta": np.zeros(3)},
    {"meta": meta(format="certgcl-certificate-2")}, {"meta": meta(format=None)}, {"meta": meta(certified=None)},
    {"meta": meta(total_budget="many")}, {"lower": np.zeros(2)}, {"nominal": np.zeros((3, 1))},
    {"rounding": np.zeros(())}, {"nodes": np.array([0, 1, 9])}, {"directions": np.zeros(3)},
    {"lower": np.array(["a", "b", "c"])},
], ids=str)
def test_a_file_with_other_contents_is_refused(tmp_path: Path, changes: dict[str, np.ndarray | None]) -> None:
    path = rewritten(BY_HAND.save(tmp_path / "c.npz"), **changes)
    with pytest.raises(CertificateError, match=r"c\.npz.*certgcl-certificate-1.*Certificate\.save"):
        Certificate.load(path)


def test_only_true_is_certified(tmp_path: Path) -> None:
    path = rewritten(BY_HAND.save(tmp_path / "c.npz"), meta=meta(certified="no"))
    assert not Certificate.load(path).certified


@pytest.mark.parametrize("damage", [
    lambda raw: b"", lambda raw: b"PK\x03\x04", lambda raw: raw[: len(raw) // 2], lambda raw: raw[:-1],
    lambda raw: raw[:100] + bytes([raw[100] ^ 0xFF]) + raw[101:], lambda raw: b"some text",
    lambda raw: pickle.dumps({"lower": 1.0}),
], ids=["empty", "a zip's head", "half", "a byte less", "a byte changed", "text", "pickle"])
def test_a_damaged_file_is_refused(tmp_path: Path, damage: object) -> None:
    path = BY_HAND.save(tmp_path / "c.npz")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CertificateError, match=r"c\.npz"):
        Certificate.load(path)


def test_a_plain_array_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "c.npy", np.zeros(3))
    with pytest.raises(CertificateError, match=r"c\.npy"):
        Certificate.load(tmp_path / "c.npy")


def test_a_missing_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Certificate.load(tmp_path / "none.npz")
