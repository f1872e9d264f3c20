"""How much memory is available to this process, and what limits it: the machine, a container, or its own limit."""

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

_GROUPS = Path("/sys/fs/cgroup")


class Room(NamedTuple):
    """The bytes that are still available, and the limit that determines them."""

    bytes: int
    limit: str


def free_memory() -> Room:
    """The least that is left under any of the limits."""
    machine = Room(psutil.virtual_memory().available, "the memory of the machine")
    return min([machine, *_of_group(), *_of_process()])


def _of_process() -> list[Room]:
    """What ``ulimit -v`` leaves."""
    try:
        import resource
    except ImportError:  # not on Windows
        return []
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return []
    held = psutil.Process().memory_info().vms
    return [Room(max(0, limit - held), f"the {gigabytes(limit)} that the process may address (ulimit -v)")]


def _of_group(groups: Path = _GROUPS, mine: Path = Path("/proc/self/cgroup")) -> list[Room]:
    """What the control groups around this process leave, such as those of containers and batch systems."""
    found: list[Room] = []
    with suppress(OSError, ValueError):  # a different system or layout
        for line in mine.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "":
                found += _along(groups, path, "memory.max", "memory.current", "inactive_file")
            elif "memory" in controllers.split(","):
                found += _along(
                    groups / "memory", path, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
                )
    return found


def _along(root: Path, path: str, most: str, held: str, reclaimable: str) -> list[Room]:
    """The limits of a group and of the groups around it; pages of files that the system can reclaim do not count as
    used."""
    found = []
    inner = root / path.lstrip("/")
    for group in (inner, *inner.parents):
        with suppress(OSError, ValueError):  # no limit is written as "max"
            limit = int((group / most).read_text())
            stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
            used = int((group / held).read_text()) - int(stat.get(reclaimable, 0))
            found.append(Room(max(0, limit - used), f"the {gigabytes(limit)} of its control group (a container)"))
        if group == root:
            break
    return found


def gigabytes(number: int) -> str:
    return f"{number / 1024**3:.3g} GB"
