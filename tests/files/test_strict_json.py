import json
from pathlib import Path
from typing import Any

import pytest

from certgcl.errors import CheckpointError
from certgcl.files import strict_json
from certgcl.files.atomic import refusing, save_sealed_json
from certgcl.files.strict_json import parse_json, read_json, read_sealed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": NaN}', "NaN"),
        ('{"a": -Infinity}', "Infinity"),
        ('{"a": 1e999}', "1e999"),
        ('{"a": 1, "a": 2}', "twice"),
        ('{"b": {"a": 1, "a": 1}}', "'a' twice"),
        ("{", "Expecting"),
        ("", "Expecting"),
        ('{"a": 1} x', "Extra data"),
    ],
)
def test_what_says_two_things_or_no_number_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_json(text)


@pytest.mark.parametrize("content", [b"[" * 100_000, b'{"a":' * 100_000, b"\xff\xfe", b"1" * 5000, b'"\xed\xa0\x80"'])
def test_whatever_a_file_holds_is_one_error(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "f.json").write_bytes(content)
    with pytest.raises(CheckpointError), refusing(tmp_path / "f.json", CheckpointError, "rule", "remedy"):
        read_sealed(tmp_path / "f.json", "x-1")


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strict_json, "LARGEST", 10)
    (tmp_path / "f.json").write_text('"123456789"')
    with pytest.raises(ValueError, match="more than 10 bytes"):
        read_json(tmp_path / "f.json")


CONTENT: dict[str, Any] = {"format": "x-1", "a": [1, 2.5, None, True], "b": {"ü": "✓"}, "c": -0.0}


def test_an_object_comes_back_whatever_its_layout(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    save_sealed_json(path, CONTENT)
    assert read_sealed(path, "x-1") == CONTENT
    path.write_text(json.dumps(json.loads(path.read_text()), sort_keys=True))
    assert read_sealed(path, "x-1") == CONTENT


@pytest.mark.parametrize(
    "change",
    [{"a": [1, 2.5, None, 1]}, {"a": [1.0, 2.5, None, True]}, {"c": 0.0}, {"b": {}}, {"d": None}, {"checksum": None}],
)
def test_any_other_content_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    save_sealed_json(path, CONTENT)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ValueError, match="changed since it was written"):
        read_sealed(path, "x-1")
    with pytest.raises(ValueError, match="format 'x-1'"):
        read_sealed(path, "x-2")
