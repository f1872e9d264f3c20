"""What is left for a process under the limits of the machine, its control groups and its own."""

from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from certgcl.runtime import free_memory as module
from certgcl.runtime.free_memory import free_memory

GB = 1024**3


@pytest.fixture
def groups(tmp_path: Path) -> Path:
    """Version 2 and version 1 of control groups, a container in a job."""
    for folder, files in {
        "job": {"memory.max": f"{8 * GB}", "memory.current": f"{5 * GB}"},
        "job/box": {"memory.max": "max", "memory.current": f"{GB}"},
        "memory/old": {"memory.limit_in_bytes": f"{4 * GB}", "memory.usage_in_bytes": f"{GB}"},
    }.items():
        (tmp_path / folder).mkdir(parents=True)
        for name, text in files.items():
            (tmp_path / folder / name).write_text(text + "\n")
        (tmp_path / folder / "memory.stat").write_text(f"anon 7\ninactive_file {2 * GB}\ntotal_inactive_file 0\n")
    return tmp_path


@pytest.mark.parametrize(
    ("mine", "left"),
    [
        ("0::/job/box\n", [5 * GB]),
        ("7:cpu:/\n4:memory:/old\n0::/\n", [3 * GB]),
        ("0::/\n", []),
        ("nonsense", []),
        ("0::/job\n4:memory,cpu:/old\n", [5 * GB, 3 * GB]),
    ],
)
def test_groups_leave_what_their_limits_say(groups: Path, mine: str, left: list[int]) -> None:
    """Pages of files count as free where the system can take them back."""
    (groups / "self").write_text(mine)
    assert [room.bytes for room in module._of_group(groups, groups / "self")] == left


def test_a_system_without_groups_has_none(tmp_path: Path) -> None:
    assert module._of_group(tmp_path, tmp_path / "none") == []


def test_the_least_of_all_limits_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=9 * GB))
    monkeypatch.setattr(module, "_of_group", list)
    monkeypatch.setattr(module, "_of_process", list)
    assert free_memory() == (9 * GB, "the memory of the machine")
    monkeypatch.setattr(module, "_of_group", lambda: [module.Room(3 * GB, "a container"), module.Room(8 * GB, "a job")])
    assert free_memory() == (3 * GB, "a container")


def test_a_limit_of_the_process_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    held = psutil.Process().memory_info().vms
    monkeypatch.setattr(resource, "getrlimit", lambda _: (2 * held, -1))
    (room,) = module._of_process()
    assert 0.5 * held < room.bytes < 1.5 * held
    assert "ulimit -v" in room.limit
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1, -1))
    assert module._of_process()[0].bytes == 0
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, -1))
    assert module._of_process() == []
