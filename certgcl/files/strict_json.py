"""Unambiguous JSON: no key twice, no number that JSON does not have, and a checksum if certgcl wrote it."""

import hashlib
import json
import math
from pathlib import Path
from typing import Any

from certgcl.files.untrusted import open_regular

LARGEST = 1 << 26  # bytes; certgcl's own files have a few thousand
SEAL = "checksum"


def read_json(path: Path) -> Any:
    """The contents of a file.

    Raises:
        ValueError: it is too large, or not unambiguous JSON. (RecursionError for one that is nested deeply.)
    """
    with open_regular(path) as stream:
        text = stream.read(LARGEST + 1)
    if len(text) > LARGEST:
        raise ValueError(f"more than {LARGEST:,} bytes of JSON")
    return parse_json(text)


def parse_json(text: bytes | str) -> Any:
    decoded = text.decode("utf-8") if isinstance(text, bytes) else text
    return json.loads(decoded, object_pairs_hook=_once, parse_constant=_refuse, parse_float=_finite)


def sealed_text(content: dict[str, Any]) -> str:
    """An object as text, with the SHA-256 of everything else in it as its last entry."""
    return json.dumps(content | {SEAL: _digest(content)}, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def unsealed(content: Any, format: str) -> dict[str, Any]:
    """The object that :func:`sealed_text` wrote, without its checksum, if it is complete and in that format."""
    if not isinstance(content, dict):
        raise ValueError(f"a {type(content).__name__}, no object")
    content = dict(content)
    if content.get("format") != format:
        raise ValueError(f"format {content.get('format')!r}, of another version of certgcl or of another file")
    if content.pop(SEAL, None) != _digest(content):
        raise ValueError("changed since it was written: its checksum does not match")
    return content


def read_sealed(path: Path, format: str) -> dict[str, Any]:
    return unsealed(read_json(path), format)


def _digest(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} twice")
    return found


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant}, which JSON does not have")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text}, which is not a finite number")
    return value
