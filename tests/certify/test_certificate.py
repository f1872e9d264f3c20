import json
import pickle
import re
import sys
from dataclasses import fields, replace
from html import unescape
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from certgcl.bounds import Degree
from certgcl.certify.certificate import Certificate
from certgcl.certify.compactness import linear_bounds
from certgcl.certify.evidence import Fact
from certgcl.changes.edge_drops import EdgeDropBudget
from certgcl.errors import CertificateError, InputError
from tests.certify.certificates import certificate_by_hand
from tests.toys import random_graph, random_tensor, toy_network

BY_HAND = certificate_by_hand()


def computed(*shape: int, method: str = "degree", dtype: torch.dtype = torch.float64) -> Certificate:
    return linear_bounds(
        toy_network(),
        random_graph(),
        EdgeDropBudget(local=2),
        random_tensor(12, *shape, 3, seed=9),
        method=method,
        nodes=[5, 2, 7],
        dtype=dtype,
    )


# -- what it says ----------------------------------------------------------------------------------


def test_positive_means_proved_beyond_rounding() -> None:
    assert BY_HAND.positive.tolist() == [True, False, False]
    assert BY_HAND.share_positive == pytest.approx(1 / 3)


def test_positive_is_said_of_the_model_as_it_is_run() -> None:
    coarse = replace(BY_HAND, run_error=torch.tensor([0.5, 0.0, 0.0]))
    assert coarse.positive.tolist() == [False, False, False]
    assert coarse.positive_in_exact_arithmetic.tolist() == BY_HAND.positive.tolist()
    assert replace(BY_HAND, run_error=torch.tensor([0.49, 0.0, 0.0])).positive.tolist() == [True, False, False]
    assert not replace(BY_HAND, run_error=torch.full((3,), torch.inf)).positive.any()


def test_nothing_is_positive_without_a_proof() -> None:
    uncertified = replace(BY_HAND, certified=False)
    assert not uncertified.positive.any()
    assert not uncertified.positive_in_exact_arithmetic.any()
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
    assert not replace(BY_HAND, run_error=torch.full((3,), torch.nan)).positive.any()


@pytest.mark.parametrize(
    ("lower", "upper", "nominal", "exact"),
    [
        (-0.4, 0.5, 1e9, False),
        (-0.4, 0.5, 0.6, False),
        (0.5, 0.5, 1e9, True),
        (1e9, 1e9 + 0.5, 1e9 + 1, True),
        (-1e-10, 1e-10, 1.0, False),
        (0.0, 0.0, 1.0, True),
    ],
)
def test_exact_scales_with_the_bracket(lower: float, upper: float, nominal: float, exact: bool) -> None:
    values = {"lower": lower, "upper": upper, "nominal": nominal, "rounding": 0.0}
    bracket = replace(BY_HAND, **{name: torch.full((3,), value, dtype=torch.float64) for name, value in values.items()})
    assert bracket.exact.tolist() == [exact] * 3
    assert bracket.status == ["exact" if exact else "bracketed"] * 3


def test_str_shows_what_matters() -> None:
    assert str(BY_HAND).splitlines() == [
        "certified lower bounds at 3 of 5 nodes, method degree",
        "  model     float32, weights as given",
        "  budget    local 0 … 3 (mean 1.40), total 4 edges",
        "  positive  1 of 3 (33.3 %) proved to stay above zero, as run in float32",
        "  kept      -100.0 % of the clean value",
        "  per norm  -0.25, clean 0.25: means over the mean norm of the embeddings",
        "  nominal   mean 0.1667",
        "  lower     mean -0.1667, min -1, median 1e-09, max 0.5",
    ]
    assert repr(BY_HAND) == str(BY_HAND)
    assert "local 2, total" in str(replace(BY_HAND, local_budget=torch.full((5,), 2)))


def test_str_says_what_holds_in_which_arithmetic() -> None:
    coarse = replace(BY_HAND, run_error=torch.ones(3), reading="traced")
    assert "  model     float32, read from its program" in str(coarse)
    assert str(coarse).splitlines()[3:5] == [
        "  positive  0 of 3 (0.0 %) proved to stay above zero, as run in float32",
        "            1 of 3 in exact arithmetic, which does not cover the model as run in float32",
    ]


@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_of_a_model_in_half_precision_the_exact_statement_never_stands_alone(precision: str) -> None:
    shown = str(replace(BY_HAND, precision=precision, reading="probed"))
    assert f"  model     {precision}, read by trying inputs" in shown
    assert f"1 of 3 (33.3 %) proved to stay above zero, as run in {precision}" in shown
    assert f"1 of 3 in exact arithmetic, which does not cover the model as run in {precision}" in shown


def test_str_shows_settings_that_no_name_stands_for() -> None:
    usual, special = (
        linear_bounds(toy_network(), random_graph(), 2, random_tensor(12, 3, seed=9), method=method)
        for method in (Degree(), Degree(hubs=1))
    )
    assert usual.method == special.method == "degree"
    assert "settings" not in str(usual)
    assert "  settings  Degree(hubs=1)\n" in str(special)


def test_a_share_of_nearly_all_is_not_printed_as_all() -> None:
    n = 2708
    many = replace(
        BY_HAND,
        nodes=torch.arange(n),
        lower=torch.ones(n),
        nominal=torch.ones(n),
        rounding=torch.zeros(n),
        run_error=torch.zeros(n),
        local_budget=torch.ones(n).long(),
        directions=torch.ones(n, 2),
    )
    assert "2708 of 2708 (100.0 %)" in str(many)
    many.lower[5] = -1.0
    assert "2707 of 2708 (> 99.9 %)" in str(many)
    many.lower.fill_(-1.0)
    many.lower[5] = 1.0
    assert "1 of 2708 (< 0.1 %)" in str(many)


def test_str_of_a_score_never_calls_it_a_bound() -> None:
    shown = str(replace(BY_HAND, certified=False, method="paper"))
    assert shown.startswith("scores that are NOT bounds at 3 of 5 nodes, method paper")
    assert "score     mean" in shown
    assert "proved" not in shown
    assert "lower" not in shown


# -- tables ----------------------------------------------------------------------------------------


def test_to_dict_has_a_list_per_column() -> None:
    assert BY_HAND.to_dict() == {
        "node": [3, 0, 4],
        "budget": [1, 2, 3],
        "nominal": [0.75, -0.5, 0.25],
        "lower": BY_HAND.lower.tolist(),
        "rounding": BY_HAND.rounding.tolist(),
        "run_error": [0.0, 0.0, 0.0],
        "positive": [True, False, False],
        "positive_in_exact_arithmetic": [True, False, False],
    }
    assert json.loads(json.dumps(BY_HAND.to_dict())) == BY_HAND.to_dict()


def test_to_frame_has_a_row_per_anchor() -> None:
    pytest.importorskip("pandas")
    certificate = computed()
    frame = certificate.to_frame()
    assert list(frame.columns) == [
        "node",
        "budget",
        "nominal",
        "lower",
        "rounding",
        "run_error",
        "positive",
        "positive_in_exact_arithmetic",
    ]
    assert frame["node"].tolist() == [5, 2, 7]
    assert frame["lower"].tolist() == certificate.lower.tolist()


def test_a_frame_without_pandas_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match=r"certgcl\[pandas\]"):
        computed().to_frame()


def test_to_frame_has_a_row_per_anchor_and_direction() -> None:
    pytest.importorskip("pandas")
    certificate = computed(2)
    frame = certificate.to_frame()
    assert list(frame.columns)[:4] == ["node", "direction", "budget", "nominal"]
    assert list(zip(frame["node"], frame["direction"], strict=True)) == [(5, 0), (5, 1), (2, 0), (2, 1), (7, 0), (7, 1)]
    assert frame["lower"].tolist() == certificate.lower.flatten().tolist()
    assert frame["budget"].tolist() == certificate.local_budget[certificate.nodes].repeat_interleave(2).tolist()


def test_directions_of_zeros_are_left_out_of_the_summary() -> None:
    directions = random_tensor(12, 2, 3, seed=9)
    alone = linear_bounds(toy_network(), random_graph(), 2, directions[:, 1:])
    directions[:, 0] = 0
    both = linear_bounds(toy_network(), random_graph(), 2, directions)
    assert str(both) == str(alone)
    assert both.share_positive == alone.share_positive
    assert both.asked.tolist() == [[False, True]] * 12


def test_a_notebook_shows_what_is_printed() -> None:
    odd = replace(BY_HAND, method="<b>degree</b>")
    for shown, words in ((BY_HAND, str(BY_HAND)), (odd, str(odd)), (computed(2), str(computed(2)))):
        html = shown._repr_html_()
        plain = unescape(re.sub(r"<[^>]*>", " ", html)).split()
        assert plain == words.split()
        assert "<b>" not in html


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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "crown"}, "method 'degree' and 'crown'"),
        ({"certified": False}, "certified True and False"),
        ({"total_budget": 5}, "total_budget 4 and 5"),
        ({"local_budget": torch.zeros(5)}, "different local budgets"),
        ({"requested_budget": torch.full((5,), 4)}, "different local budgets"),
        ({"precision": "float16"}, "precision 'float32' and 'float16'"),
        ({"reading": "probed"}, "reading 'given' and"),
        *(
            (
                {"evidence": replace(BY_HAND.evidence, **{name: Fact("other", 64 * "d")})},
                rf"differ in {name} \(.* other here",
            )
            for name in ("weights", "edges", "features", "budget")
        ),
        ({"evidence": replace(BY_HAND.evidence, method=Fact("Degree(hubs=1)"))}, r"differ in method \("),
        ({"evidence": replace(BY_HAND.evidence, certgcl=Fact("0"))}, r"differ in certgcl \("),
        ({"directions": torch.ones(3, 3)}, "local budgets or directions"),
        ({}, "node 0 in 2 certificates"),
    ],
)
def test_parts_of_different_questions_are_not_joined(change: dict[str, object], message: str) -> None:
    with pytest.raises(CertificateError, match=message):
        Certificate.joined([BY_HAND, replace(BY_HAND, **change)])


def test_a_damaged_part_is_not_joined() -> None:
    other = replace(
        BY_HAND,
        nodes=torch.tensor([1, 2]),
        **{
            name: getattr(BY_HAND, name)[:2]
            for name in ("lower", "nominal", "rounding", "run_error", "directions", "norms")
        },
    )
    assert len(Certificate.joined([BY_HAND, other]).nodes) == 5
    with pytest.raises(CertificateError, match=r"a lower bound above the clean value at node 1"):
        Certificate.joined([BY_HAND, replace(other, lower=other.lower + 100)])
    with pytest.raises(CertificateError, match=r"parts=\[\]"):
        Certificate.joined([])


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


@pytest.mark.parametrize(
    "certificate",
    [
        computed(),
        computed(4),
        computed(1),
        computed(method="paper"),
        computed(dtype=torch.float32),
        BY_HAND,
    ],
    ids=["(A,)", "(A, 4)", "(A, 1)", "paper", "float32", "by hand"],
)
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
        assert not any(file[name].dtype.hasobject for name in file.files)


@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: b"",
        lambda raw: b"PK\x03\x04",
        lambda raw: raw[: len(raw) // 2],
        lambda raw: raw[:-1],
        lambda raw: raw[:100] + bytes([raw[100] ^ 0xFF]) + raw[101:],
        lambda raw: b"some text",
        lambda raw: pickle.dumps({"lower": 1.0}),
    ],
    ids=["empty", "a zip's head", "half", "a byte less", "a byte changed", "text", "pickle"],
)
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
