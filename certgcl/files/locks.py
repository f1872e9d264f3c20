"""One writer at a time, among processes and threads: a lock that ends with its holder, and names it.

The operating system holds the lock (``flock``, or the locks of Windows), not the existence of the file: when a process
dies, for whatever reason, its lock is released, and a file that it left behind has no effect.
"""

import errno
import json
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from certgcl.errors import LockedError

_TRIES = 100  # attempts to open the file that is locked, while others come and go
_LONGEST = 4096  # bytes that say who the holder is
_WITHOUT_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
_AWAY = 1 << 30  # the byte that Windows locks: those before it stay readable
_RULE = "one process or thread writes there at a time"


class Lock:
    """A lock that is held by this process, or no lock if ``descriptor`` is None.

    A forked process inherits the object, but not the lock.
    """

    def __init__(self, path: Path, descriptor: int | None) -> None:
        self.path, self.descriptor, self.process = path, descriptor, os.getpid()

    def check(self) -> None:
        """Raise an error in a process that was forked from the one that holds the lock."""
        if os.getpid() != self.process:
            raise LockedError(
                f"{self.path.parent} in process {os.getpid()}, forked off from process {self.process}, "
                "which writes there",
                _RULE,
                "Let the parent continue, and write elsewhere in the child",
            )


@contextmanager
def locked(
    folder: Path, name: str, *, what: str = "", remedy: str = "Wait until it finishes, or end it", needed: bool = True
) -> Iterator[Lock]:
    """Hold the lock ``name`` of a folder, without waiting for it.

    Args:
        what: what is locked, in words; the folder by default.
        remedy: what to do if another one holds it.
        needed: if False, a file system without locks is tolerated.

    Raises:
        LockedError: another process or thread holds it, which the message names, or the file system has no locks.
    """
    path = folder / f".{name}.lock"
    try:
        descriptor = _acquire(path)
    except OSError as reason:
        if reason.errno not in _WITHOUT_LOCKS:
            raise
        if needed:
            raise LockedError(
                f"{folder} on a file system without locks ({reason})", _RULE, "Keep it on a disk of this machine"
            ) from reason
        yield Lock(path, None)
        return
    if descriptor is None:
        raise LockedError(f"{what or folder}, which {_holder(path)} is writing", _RULE, remedy)
    lock = Lock(path, descriptor)
    try:
        yield lock
    finally:
        _release(lock, descriptor)


# -- the file that is locked -----------------------------------------------------------------------

_guard, _open = threading.Lock(), set[int]()  # the descriptors of all locks of this process


def _acquire(path: Path) -> int | None:
    """A descriptor that holds the lock, with its holder recorded in the file; None if somebody else holds it."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)  # never write through a link
    for _ in range(_TRIES):
        with _guard:  # no fork between the two
            descriptor = os.open(path, flags, 0o666)
            _open.add(descriptor)
        try:
            if not _try_lock(descriptor):
                _close(descriptor)
                return None
            if _is_at(path, descriptor):
                _note_holder(descriptor)
                return descriptor
        except BaseException:
            _close(descriptor)
            raise
        _close(descriptor)  # its holder has removed the file in the meantime: there is another one, or none
    raise LockedError(f"{path}, which comes and goes", _RULE, "Try again when fewer processes use it")


def _release(lock: Lock, descriptor: int) -> None:
    if os.getpid() != lock.process:  # the child of the holder, whose descriptor is closed
        return
    if sys.platform != "win32":  # where a file that is open cannot be removed
        lock.path.unlink(missing_ok=True)
    _close(descriptor)


def _close(descriptor: int) -> None:
    with _guard:
        if descriptor in _open:
            _open.discard(descriptor)
            os.close(descriptor)


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether the file that was locked is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def _note_holder(descriptor: int) -> None:
    note = {
        "process": os.getpid(),
        "thread": threading.current_thread().name,
        "host": socket.gethostname(),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    os.ftruncate(descriptor, 0)
    os.write(descriptor, json.dumps(note).encode())


def _holder(path: Path) -> str:
    """Who holds a lock, according to the file; there may be no holder yet, or no longer."""
    try:
        with path.open("rb") as stream:
            note = json.loads(stream.read(_LONGEST))
        process, thread, host, since = (str(note[name]) for name in ("process", "thread", "host", "since"))
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
    if host == socket.gethostname() and process == str(os.getpid()):
        return f"this process (in thread {thread}, since {since})"
    return f"process {process} on {host} (since {since})"


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        os.lseek(descriptor, _AWAY, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError as reason:
            if reason.errno in (errno.EACCES, errno.EDEADLK):
                return False
            raise
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)
        return True
else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def _forget() -> None:
    """In a forked process: close the inherited descriptors, or it would hold the locks of its parent."""
    for descriptor in _open:
        os.close(descriptor)
    _open.clear()
    _guard.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_guard.acquire, after_in_parent=_guard.release, after_in_child=_forget)
