"""Shared parts of the engine's tests: file operations that end the process or fail at a chosen call, and views of a spool."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spooltop.engine import Claim, Spool
from spooltop.engine.files import Files

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
COMPOSED = frozenset(
    {
        "close_all", "closing", "has_moved", "is_inode", "lock_within", "move", "ordered", "remove", "reuses_inodes_late",
        "spread_directories", "status", "write_all",
    }
)  # fmt: skip
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
    ) -> None:
        super().__init__()
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

    def rename_noreplace(self, name: str, dir_fd: int, to: str, to_fd: int) -> None:
        if not self.renameat2:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        super().rename_noreplace(name, dir_fd, to, to_fd)


def failing(operation: str, code: int = errno.EIO) -> Interposed:
    """File operations of which ``operation`` fails with ``code``."""

    def fail(_number: int, name: str) -> None:
        if name == operation:
            raise OSError(code, os.strerror(code))

    return Interposed(fail)


def meanwhile(operation: str, act: Callable[[], object]) -> Interposed:
    """File operations that call ``act`` before the first ``operation`` while they are armed, and are disarmed by that."""

    def before(_number: int, name: str) -> None:
        if name == operation:
            files.armed = False
            act()

    files = Interposed(before)
    return files


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
