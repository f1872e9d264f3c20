"""A file that is not what was written is refused: by its checksum, and by what it says."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import certgcl
from certgcl.certify.certificate import Certificate
from certgcl.errors import CertificateError
from certgcl.files.sealed import seal
from tests.certify.certificates import certificate_by_hand, certificate_of_a_search, fields_of, rewritten
from tests.cli.running import run
from tests.toys import random_graph, toy_network

NOTES = {"shard": 3}
ARRAYS = (
    "nodes",
    "lower",
    "nominal",
    "rounding",
    "run_error",
    "directions",
    "local_budget",
    "requested_budget",
    "upper",
    "witness_edges",
    "witness_sizes",
    "norms",
)


def _named(value: Any) -> str:
    """A name for a case that is the same in every process: those of functions are not."""
    return value if isinstance(value, str) else ", ".join(value)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return certificate_of_a_search().save(tmp_path / "c.npz", NOTES)


def refused(path: Path, message: str) -> None:
    with pytest.raises(CertificateError, match=message):
        Certificate.load(path)


# -- the checksum ----------------------------------------------------------------------------------


def one_bit(array: np.ndarray) -> np.ndarray:
    raw = array.tobytes()
    return np.frombuffer(bytes([raw[0] ^ 1]) + raw[1:], array.dtype).reshape(array.shape)


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize(
    "change",
    [
        one_bit,
        lambda array: array + 1,
        lambda array: array[:0],
        lambda array: array.reshape(1, *array.shape),
        lambda array: None,
        lambda array: array.astype(np.float32),
    ],
    ids=["one bit", "plus one", "emptied", "reshaped", "left out", "rounded"],
)
def test_any_change_of_an_array_is_refused(path: Path, name: str, change: Callable[[np.ndarray], Any]) -> None:
    with np.load(path) as file:
        array = change(file[name])
    refused(rewritten(path, **{name: array}), r"c\.npz \(no checksum at its end")


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_of_another_certificate_is_refused(path: Path, name: str, tmp_path: Path) -> None:
    other = certgcl.node_compactness(toy_network(seed=1), random_graph(9, 0.4), 1, method="exact")
    with np.load(other.save(tmp_path / "other.npz")) as file, np.load(path) as mine:
        array, meta = file[name], json.loads(str(mine["meta"]))
    assert meta["method"] == other.method
    refused(rewritten(path, **{name: array}), "checksum")


def leaves(content: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if not isinstance(content, dict):
        return [place]
    return [leaf for name, value in content.items() for leaf in leaves(value, (*place, name))]


def meta_of(path: Path) -> dict[str, Any]:
    with np.load(path) as file:
        found: dict[str, Any] = json.loads(str(file["meta"]))
    return found


def test_any_change_of_the_meta_is_refused(path: Path) -> None:
    whole = path.read_bytes()
    places = leaves(meta_of(path))
    assert len(places) > 20
    for place in places:
        for value in (None, "other", 64 * "a", True, 7, {}):

            def change(content: dict[str, Any], place: tuple[Any, ...] = place, value: Any = value) -> None:
                for name in place[:-1]:
                    content = content[name]
                if content[place[-1]] == value and type(content[place[-1]]) is type(value):
                    value = "yet another"
                content[place[-1]] = value

            path.write_bytes(whole)
            refused(rewritten(path, meta=change), r"c\.npz")
    for place in places:

        def left_out(content: dict[str, Any], place: tuple[Any, ...] = place) -> None:
            for name in place[:-1]:
                content = content[name]
            del content[place[-1]]

        path.write_bytes(whole)
        refused(rewritten(path, meta=left_out), r"c\.npz")
    path.write_bytes(whole)
    refused(rewritten(path, meta=lambda content: content.update(more=1)), "checksum")


@pytest.mark.parametrize("make", [certificate_by_hand, certificate_of_a_search])
def test_no_flipped_byte_gives_another_certificate(tmp_path: Path, make: Callable[[], Certificate]) -> None:
    path = make().save(tmp_path / "c.npz", NOTES)
    whole, expected = path.read_bytes(), fields_of(make())
    generator = np.random.default_rng(0)
    places = {
        *range(0, len(whole), max(1, len(whole) // 200)),
        *generator.integers(len(whole), size=200).tolist(),
        *range(100),
        *range(len(whole) - 100, len(whole)),
    }
    refusals = 0
    for place in sorted(places):
        changed = bytearray(whole)
        changed[place] ^= int(generator.integers(1, 256))
        path.write_bytes(bytes(changed))
        try:
            certificate, notes = Certificate.load_with_notes(path)
        except CertificateError:
            refusals += 1
        else:  # the time of day in the archive, say
            assert (fields_of(certificate), notes) == (expected, NOTES)
    assert refusals > len(places) / 2


def test_no_file_that_is_cut_short_or_grown_gives_another_certificate(path: Path) -> None:
    whole = path.read_bytes()
    for length in range(0, len(whole), max(1, len(whole) // 100)):
        path.write_bytes(whole[:length])
        refused(path, r"c\.npz")
    path.write_bytes(whole + b"more")
    refused(path, r"c\.npz")


# -- what it says ----------------------------------------------------------------------------------


def set_to(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda content: content.update(values)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lower": lambda array: array + 100}, r"c\.npz with a lower bound above the clean value at node 0"),
        ({"lower": lambda array: np.full_like(array, np.nan)}, "a lower that is not finite"),
        ({"rounding": lambda array: -array - 1}, "a rounding that is negative"),
        ({"run_error": lambda array: array - 1}, "a run_error that is negative"),
        ({"nodes": lambda array: 0 * array}, "node 0 twice"),
        ({"nodes": lambda array: array + 1}, "node 9"),
        ({"upper": lambda array: array - 100}, "above its upper value"),
        ({"witness_edges": lambda array: 0 * array}, "a witness with the edge"),
        ({"local_budget": lambda array: array + 9}, "a budget of"),
        ({"directions": lambda array: array.astype(np.float32)}, "directions of dtype float32"),
        ({"nodes": lambda array: array.astype(np.int32)}, "nodes of dtype int32"),
        ({"meta": set_to(method="paper")}, "certified by paper"),
        ({"meta": set_to(certified="no")}, "certified 'no'"),
        ({"meta": set_to(total_budget="many")}, "total_budget 'many'"),
        ({"meta": set_to(reading="")}, "reading ''"),
        ({"meta": set_to(evidence={})}, "evidence on nothing"),
        ({"meta": set_to(evidence=[])}, r"c\.npz \("),
        ({"meta": lambda content: content["evidence"].pop("edges")}, "evidence on"),
        ({"meta": lambda content: content["evidence"]["edges"].update(sha256=None)}, "without the SHA-256 of edges"),
        ({"meta": lambda content: content["evidence"]["edges"].update(sha256="12")}, "the SHA-256 '12'"),
        (
            {"meta": lambda content: content["evidence"]["directions"].update(shown="somewhere")},
            "directions 'somewhere'",
        ),
        ({"witness_sizes": lambda array: array + 1}, r"c\.npz \("),
        ({"witness_sizes": lambda array: None}, "incomplete brackets"),
        ({"lower": lambda array: None}, r"c\.npz \('lower"),
        ({"lower": lambda array: array.astype(complex)}, "lower of dtype"),
    ],
    ids=_named,
)
def test_a_checksum_that_fits_does_not_make_it_true(path: Path, changes: dict[str, Any], message: str) -> None:
    with np.load(path) as file:
        made = {name: change if name == "meta" else change(file[name]) for name, change in changes.items()}
    refused(rewritten(path, honest=True, **made), message)


@pytest.mark.parametrize(
    "changes", [{"lower": lambda array: array + 100}, {"meta": set_to(method="paper")}], ids=_named
)
def test_no_report_is_made_of_it(path: Path, changes: dict[str, Any]) -> None:
    with np.load(path) as file:
        made = {name: change if name == "meta" else change(file[name]) for name, change in changes.items()}
    for honest in (False, True):
        result = run("report", str(rewritten(path, honest=honest, **made)))
        assert (result.exit_code, "CertificateError" in result.stderr) == (1, True)
    assert not path.with_suffix(".html").exists()


def test_an_old_file_is_refused_with_the_way_out(tmp_path: Path) -> None:
    meta = {"format": "certgcl-certificate-1", "method": "degree", "certified": True, "total_budget": 4}
    arrays = {name: np.zeros(3) for name in ("lower", "nominal", "rounding")}
    np.savez(
        tmp_path / "c.npz",
        meta=np.array(json.dumps(meta)),
        nodes=np.arange(3),
        directions=np.ones((3, 2)),
        local_budget=np.ones(5, dtype=int),
        **arrays,
    )
    refused(
        tmp_path / "c.npz",
        r"c\.npz \(no checksum.*by another version of certgcl\).*certgcl-certificate-4.*Certify again",
    )


@pytest.mark.parametrize(
    "meta",
    [
        np.array("[]"),
        np.array("no json"),
        np.zeros(3),
        np.array("3"),
        np.array('{"a": 1}'),
        np.array('{"format": "certgcl-weights-1"}'),
    ],
    ids=str,
)
def test_a_file_with_other_contents_is_refused(path: Path, meta: np.ndarray) -> None:
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    np.savez(path, **{**arrays, "meta": meta})
    with path.open("r+b") as stream:
        seal(stream)
    refused(path, r"c\.npz.*certgcl-certificate-4.*Certificate\.save")


def test_notes_are_what_json_can_hold(tmp_path: Path) -> None:
    notes = {"a": [1, 2.5, None], "b": {"c": "é"}}
    saved = certificate_by_hand().save(tmp_path / "c.npz", {**notes, 10: (1, 2), 9: 3})
    assert Certificate.load_with_notes(saved)[1] == {**notes, "10": [1, 2], "9": 3}
    with pytest.raises(CertificateError, match="notes are what JSON can hold"):
        certificate_by_hand().save(tmp_path / "d.npz", {"tensor": torch.ones(1)})
