"""Shared parts of the engine's tests: file operations that end the process or fail at a chosen call, and views of a spool."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spooltop.engine import Claim, Spool
from spooltop.engine.system.files import Files

CHANGING = frozenset(
    {
        "create", "keep_times", "link", "mkdir", "open_lasting", "copy_owner", "poke", "pwrite", "rename", "rename_noreplace",
        "replace", "rmdir", "set_mtime", "swap", "symlink", "touch", "truncate", "unlink", "write",
    }
)  # fmt: skip
"""Operations that change a file or a name; ``open_lasting`` may create one."""
SYNCING = frozenset({"sync", "sync_dir", "sync_fs"})
"""Operations that make changes durable."""
LOOKING = frozenset(
    {
        "close", "content", "fstat", "inodes", "is_linked", "list", "lock", "lock_write", "open_dir", "open_read", "read",
        "regular", "reopen", "scan", "stat", "write_locked",
    }
)  # fmt: skip
"""Operations that change nothing."""
COMPOSED = frozenset({"has_moved", "move", "ordered", "reuses_inodes_late", "spread_directories", "write_all", "write_rest"})
"""Operations composed of the others, and those that cannot fail: ``ordered`` and ``reuses_inodes_late`` report the kind of file
system, ``spread_directories`` is a hint to it."""
OPERATIONS = CHANGING | SYNCING | LOOKING
"""Operations that end in a system call."""
NEVER_FULL = (LOOKING | {"copy_owner"}) - {"content", "lock", "lock_write"}


class Interposed(Files):
    """Calls ``before(number, operation)`` before each operation, counted from 1, and ``after`` likewise, once ``armed``."""

    def __init__(
        self,
        before: Callable[[int, str], None] = lambda _number, _name: None,
        after: Callable[[int, str], None] = lambda _number, _name: None,
        *,
        renameat2: bool = True,
        staging: bool = False,
    ) -> None:
        super().__init__()
        self.staging = staging
        self.calls: list[str] = []
        self.armed = True
        self.before, self.after, self.renameat2 = before, after, renameat2

    def __getattribute__(self, name: str) -> Any:
        real = super().__getattribute__(name)
        if name not in OPERATIONS or not super().__getattribute__("armed"):
            return real

        def interposed(*arguments: Any, **options: Any) -> Any:
            self.calls.append(name)
            number = len(self.calls)
            self.before(number, name)
            result = real(*arguments, **options)
            self.after(number, name)
            return result

        return interposed

    def reuses_inodes_late(self, fd: int) -> bool:
        return self.staging

    def rename_noreplace(self, name: str, dir_fd: int, to: str, to_fd: int) -> None:
        if not self.renameat2:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        super().rename_noreplace(name, dir_fd, to, to_fd)


def killed_at(k: int, *, of: frozenset[str] = OPERATIONS, renameat2: bool = True, staging: bool = False) -> Interposed:
    """Ends the process by SIGKILL instead of the ``k``-th operation, counted among those in ``of``. A kill before one that only
    looks or syncs leaves what the kill before the next change leaves."""
    counted = 0

    def before(_number: int, name: str) -> None:
        nonlocal counted
        counted += name in of
        if counted == k:
            os.kill(os.getpid(), signal.SIGKILL)

    return Interposed(before, renameat2=renameat2, staging=staging)


def failing_at(
    k: int, code: int, *, done: bool = False, persistent: bool = False, renameat2: bool = True, staging: bool = False
) -> Interposed:
    """The ``k``-th operation fails with ``code``; with ``done`` after it was done (NFS), ``persistent``: all later ones too."""

    def fail(number: int, name: str) -> None:
        # Reading and closing never run out of space; a failed close has closed all the same (close(2)).
        if name in NEVER_FULL and code == errno.ENOSPC:
            return
        if name == "close" and not done:
            return
        if number == k or (persistent and number > k):
            raise OSError(code, os.strerror(code))

    when = {"after": fail} if done else {"before": fail}
    return Interposed(**when, renameat2=renameat2, staging=staging)


def places(spool: Path) -> dict[int, list[str]]:
    """Maps each inode to the names of its message below the spool; metadata and records are left out."""
    found: dict[int, list[str]] = {}
    folders = [spool / box for box in ("tmp", "new", "cur")]
    folders += [folder for box in ("held", "rejected", "stage", "trash") for folder in (spool / ".spooltop" / box).glob("*")]
    for folder in folders:
        for path in folder.iterdir():
            if not path.name.startswith("."):
                found.setdefault(path.lstat().st_ino, []).append(str(path.relative_to(spool)))
    return found


def in_child(work: Callable[[], None]) -> int:
    """Runs ``work`` in a forked child; its wait status."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001  # a child never runs on in pytest
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1]


def claimed(spool: Spool, timeout: float | None = 0) -> Claim:
    """The next claim, which there is."""
    claim = spool.claim(timeout)
    assert claim is not None
    return claim


def die_holding(path: Path, count: int = 1) -> None:
    """Has a process of its own claim ``count`` messages and die."""

    def work() -> None:
        spool = Spool(path, durable=False)
        claims = [claimed(spool) for _ in range(count)]
        os.kill(os.getpid(), signal.SIGKILL if claims else signal.SIGTERM)

    assert in_child(work) == signal.SIGKILL


def names_in(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))
