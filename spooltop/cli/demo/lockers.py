"""Two programs that share a lock file: one holds it, the other waits."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable

from . import speed
from .process_group import Child

__all__ = ["LOCK", "holder", "waiter"]

LOCK = "import.lock"


def holder(spool: str) -> Callable[[Child], None]:
    """Holds the lock for a long time, again and again."""
    return lambda child: _share(child, spool, 0.0, speed.LOCK_HELD)


def waiter(spool: str) -> Callable[[Child], None]:
    """Needs the lock only for a moment, and so waits for it most of the time."""
    return lambda child: _share(child, spool, speed.LOCK_PAUSE / 3, speed.LOCK_PAUSE / 3)


def _share(child: Child, spool: str, after: float, held: float) -> None:
    fd = os.open(os.path.join(spool, LOCK), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        while child.wait(after):
            fcntl.flock(fd, fcntl.LOCK_EX)
            if not child.wait(held):
                return
            fcntl.flock(fd, fcntl.LOCK_UN)
            after = speed.LOCK_PAUSE if held > speed.LOCK_PAUSE else after
    finally:
        os.close(fd)
