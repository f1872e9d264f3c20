"""Whatever happens to a folder of shards, merging it gives the right certificate or an error."""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from certgcl.certify.sharding import certify_shards, merge_shards
from certgcl.errors import LockedError, ShardError
from certgcl.executors import Done, Piece, ThisProcess
from certgcl.executors.executor import Answers, Task
from certgcl.files.locks import locked
from tests.certify.sharding.shards import GRAPH, WEIGHTS
from tests.toys import toy_network

SHARDS = 5
SETTINGS: dict[str, Any] = {"shards": SHARDS, "reproducible": True, "method": "interval"}


class Broken(Exception):
    pass


@dataclass(frozen=True)
class Breaks(ThisProcess):
    """An executor that fails after some answers; with ``sources``, where it takes the next piece."""

    after: int
    sources: bool = False

    def stream(self, task: Task, shared: Any, pieces: Iterable[Piece]) -> Answers:
        def taken() -> Iterator[Piece]:
            for number, piece in enumerate(pieces):
                if self.sources and number == self.after:
                    raise Broken
                yield piece

        for number, done in enumerate(super().stream(task, shared, taken())):
            if not self.sources and number == self.after:
                raise Broken
            yield done


@dataclass(frozen=True)
class Mistaken(ThisProcess):
    """An executor that gives every piece the answer of the one before, and some none."""

    def stream(self, task: Task, shared: Any, pieces: Iterable[Piece]) -> Answers:
        before: dict[int, Any] | None = None
        for done in super().stream(task, shared, pieces):
            if before is None:
                yield Done(done.key, error=ShardError("a piece", "it has an answer", "Ask again"))
            else:
                yield Done(done.key, dict(zip(done.key, before.values(), strict=True)))
            before = done.result


@cache
def folders() -> dict[str, Path]:
    """Finished folders: of the question, and of others with the same nodes."""
    questions: dict[str, Any] = {
        "right": (WEIGHTS, GRAPH, 2),
        "budget": (WEIGHTS, GRAPH, 1),
        "weights": (toy_network(seed=1), GRAPH, 2),
        "graph": (WEIGHTS, GRAPH.with_features(GRAPH.x + 1e-12), 2),
    }
    found = {}
    for name, question in questions.items():
        found[name] = Path(mkdtemp(prefix="certgcl-test-"))
        certify_shards(*question, found[name], **SETTINGS)
        merge_shards(found[name])
    return found


@pytest.fixture(scope="module", autouse=True)
def _removed() -> Iterator[None]:
    yield
    for folder in folders().values():
        shutil.rmtree(folder)


# -- what can happen -------------------------------------------------------------------------------

Event = Callable[[Path], None]


def certified(folder: Path, **more: Any) -> None:
    with suppress(Broken, KeyboardInterrupt, ShardError, LockedError, OSError):
        certify_shards(WEIGHTS, GRAPH, 2, folder, **SETTINGS, **more)


def interrupted(after: int) -> Event:
    def progress(state: Any) -> None:
        if state.shards_done == after:
            raise KeyboardInterrupt

    return lambda folder: certified(folder, progress=progress)


def asked_something_else(folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.glob("*")}
    if "manifest.json" in before:
        with pytest.raises(ShardError, match=r"differs in budget|manifest\.json"):
            certify_shards(WEIGHTS, GRAPH, 1, folder, **SETTINGS)
        assert {path.name: path.read_bytes() for path in folder.glob("*")} == before


def disk_full(after: int) -> Event:
    """From some file on, nothing can be written."""

    def run(folder: Path) -> None:
        synced, real = 0, os.fsync

        def full(descriptor: int) -> None:
            nonlocal synced
            synced += 1
            if synced > after:
                raise OSError(28, "No space left on device")
            real(descriptor)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fsync", full)
            certified(folder)

    return run


def held_elsewhere(shard: int) -> Event:
    def run(folder: Path) -> None:
        if folder.exists():
            with locked(folder, f"shard-{shard:05d}-of-{SHARDS:05d}.npz"):
                certified(folder)

    return run


def changed(name: str, by: Callable[[bytes], bytes]) -> Event:
    def run(folder: Path) -> None:
        with suppress(FileNotFoundError):
            (folder / name).write_bytes(by((folder / name).read_bytes()))

    return run


def foreign(kind: str, name: str, source: str) -> Event:
    def run(folder: Path) -> None:
        if folder.exists():
            shutil.copy(folders()[kind] / source, folder / name)

    return run


def merged(folder: Path) -> None:
    with suppress(ShardError):
        merge_shards(folder)
        assert (folder / "certificate.npz").read_bytes() == (folders()["right"] / "certificate.npz").read_bytes()


_shard = st.integers(0, SHARDS - 1)
_file = _shard.map(lambda shard: f"shard-{shard:05d}-of-{SHARDS:05d}.npz")
_few = st.integers(0, SHARDS)
EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.just(merged),
    st.just(asked_something_else),
    st.lists(_shard, unique=True).map(lambda only: lambda folder: certified(folder, only=only)),
    _few.map(interrupted),
    st.builds(Breaks, _few, st.booleans()).map(lambda place: lambda folder: certified(folder, executor=place)),
    st.just(lambda folder: certified(folder, executor=Mistaken())),
    _few.map(disk_full),
    _shard.map(held_elsewhere),
    st.builds(changed, _file, st.floats(0, 1).map(lambda share: lambda raw: raw[: int(share * len(raw))])),
    st.builds(changed, _file, st.integers(0).map(lambda bit: lambda raw: flipped(raw, bit))),
    st.tuples(st.sampled_from(["budget", "weights", "graph"]), _file).map(lambda at: foreign(at[0], at[1], at[1])),
    st.builds(foreign, st.just("right"), _file | st.just("nodes.npy"), _file),
    st.builds(foreign, st.just("right"), st.just(".shard-00001-of-00005.npz.lock"), _file),
)


def flipped(raw: bytes, bit: int) -> bytes:
    place = bit // 8 % max(1, len(raw))
    return raw[:place] + bytes([raw[place] ^ 1 << bit % 8]) + raw[place + 1 :] if raw else raw


FIRST = f"shard-00000-of-{SHARDS:05d}.npz"


@settings(max_examples=25, deadline=None)
@example([certified, *(foreign(kind, FIRST, FIRST) for kind in ("budget", "weights", "graph"))])
@example([certified, foreign("right", FIRST, FIRST.replace("00000", "00001", 1))])
@example([certified, changed(FIRST, lambda raw: flipped(raw, 4000))])
@given(events=st.lists(EVENTS, max_size=8))
def test_a_merged_certificate_is_right_whatever_happened_before(events: list[Event]) -> None:
    with TemporaryDirectory() as place:
        folder = Path(place) / "out"
        for event in events:
            event(folder)
            merged(folder)
        (folder / "nodes.npy").unlink(missing_ok=True)  # the error says to delete it if it is damaged
        certify_shards(WEIGHTS, GRAPH, 2, folder, **SETTINGS)
        merge_shards(folder)
        assert {path.name: path.read_bytes() for path in folder.glob("[!.]*")} == {
            path.name: path.read_bytes() for path in folders()["right"].glob("[!.]*")
        }
        assert not list(folder.glob(".*.tmp"))
