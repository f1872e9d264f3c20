"""Damage to files, always the same: what a disk, a copy that broke off or an editor does to bytes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from certgcl.errors import CertgclError

ROUNDS = 300


@dataclass
class Tally:
    """What became of the mutations: refused by an error of certgcl, harmless, or silently other content."""

    refused: int = 0
    harmless: int = 0
    silent: tuple[str, ...] = ()


def mutations(whole: bytes, rounds: int = ROUNDS, seed: int = 0) -> Iterator[tuple[str, bytes]]:
    """Damaged versions of some bytes, each with a name; none equals the original."""
    draw = Random(seed)
    kinds = (_bit, _byte, _cut, _insert, _delete, _repeat, _zero, _digit, _append)
    made = 0
    while made < rounds:
        kind = kinds[made % len(kinds)]
        changed = kind(whole, draw)
        if changed != whole:
            made += 1
            yield f"{kind.__name__} {made}", changed


def tally(path: Path, load: Callable[[], Any], rounds: int = ROUNDS) -> Tally:
    """Damage a file again and again, and load it each time; it is whole again afterwards."""
    whole, expected, found = path.read_bytes(), load(), Tally()
    try:
        for name, changed in mutations(whole, rounds):
            path.write_bytes(changed)
            try:
                content = load()
            except CertgclError:
                found.refused += 1
                continue
            if content == expected:
                found.harmless += 1
            else:
                found.silent += (name,)
    finally:
        path.write_bytes(whole)
    return found


def _place(whole: bytes, draw: Random) -> int:
    return draw.randrange(len(whole))


def _bit(whole: bytes, draw: Random) -> bytes:
    place = _place(whole, draw)
    return whole[:place] + bytes([whole[place] ^ (1 << draw.randrange(8))]) + whole[place + 1 :]


def _byte(whole: bytes, draw: Random) -> bytes:
    place = _place(whole, draw)
    return whole[:place] + bytes([draw.randrange(256)]) + whole[place + 1 :]


def _cut(whole: bytes, draw: Random) -> bytes:
    return whole[: _place(whole, draw)]


def _insert(whole: bytes, draw: Random) -> bytes:
    place = _place(whole, draw)
    return whole[:place] + draw.randbytes(draw.randrange(1, 9)) + whole[place:]


def _delete(whole: bytes, draw: Random) -> bytes:
    place = _place(whole, draw)
    return whole[:place] + whole[place + draw.randrange(1, 65) :]


def _repeat(whole: bytes, draw: Random) -> bytes:
    """A line where there are lines, as a merge of two texts leaves it; some bytes elsewhere."""
    place = _place(whole, draw)
    end = whole.find(b"\n", place) + 1 or place + 16
    start = whole.rfind(b"\n", 0, place) + 1 if b"\n" in whole else place
    return whole[:end] + whole[start:end] + whole[end:]


def _zero(whole: bytes, draw: Random) -> bytes:
    place, size = _place(whole, draw), draw.randrange(1, 513)
    size = min(size, len(whole) - place)
    return whole[:place] + b"\0" * size + whole[place + size :]


def _digit(whole: bytes, draw: Random) -> bytes:
    """Another digit, which leaves a text well-formed."""
    places = [place for place, byte in enumerate(whole) if 48 <= byte < 58]
    if not places:
        return _byte(whole, draw)
    place = draw.choice(places)
    return whole[:place] + bytes([48 + draw.randrange(10)]) + whole[place + 1 :]


def _append(whole: bytes, draw: Random) -> bytes:
    return whole + draw.randbytes(draw.randrange(1, 33))
