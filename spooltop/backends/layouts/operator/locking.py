"""Locks that are held around a change: the one of the queue's own program, and the one between operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from spooltop.engine.atomic import open_shared
from spooltop.errors import Refused
from spooltop.model.text import escape

from ...journal.item_operator import Skipped
from ..queue_dirs import QueueDirs

__all__ = ["OPERATE_LOCK", "Patience", "own_turn", "program_locked"]

OPERATE_LOCK = "operate.lock"
"""The file in spooltop's own directory that an operator locks while it changes a message."""
_TICK = 0.05


class Patience:
    """Waits for a lock for ``seconds`` at most, and no longer once ``stop`` says so. ``wait`` sleeps some seconds."""

    def __init__(self, seconds: float, wait: Callable[[float], None], stop: Callable[[], bool]) -> None:
        self.seconds = seconds
        self._wait = wait
        self._stop = stop

    def until(self, done: Callable[[], bool]) -> bool:
        """Waits until ``done``; False where that takes too long."""
        left = self.seconds
        while not done():
            if left <= 0 or self._stop():
                return False
            self._wait(_TICK)
            left -= _TICK
        return True


@contextmanager
def own_turn(dirs: QueueDirs, patience: Patience) -> Iterator[None]:
    """Keeps other operators out, so that a message whose record has no result was cut off, and is not being changed. Raises
    ``Refused``, ``OSError``."""
    own = dirs.private_dir(create=True)
    assert own is not None  # create=True makes it or raises
    fd = open_shared(dirs.files, OPERATE_LOCK, own, dirs.files.fstat(own))
    try:
        if not patience.until(lambda: dirs.files.lock(fd)):
            why = f"another spooltop has been changing this queue for {patience.seconds:.0f} s"
            raise Refused(why, path=dirs.path, advice=f"try again; {dirs.own_name}/{OPERATE_LOCK} is its lock")
        yield
    finally:
        dirs.files.close(fd)


@contextmanager
def program_locked(dirs: QueueDirs, path: str, patience: Patience) -> Iterator[None]:
    """Holds the lock ``path`` of the queue's program, which takes it around each change of its own. No lock where ``path`` is
    empty. Raises ``Skipped`` where it cannot be had, ``OSError``."""
    if not path:
        yield
        return
    with dirs.parent(path) as (at, name):
        fd = dirs.files.reopen(name, at)
    try:
        if not patience.until(lambda: dirs.files.lock(fd)):
            raise Skipped(f"{escape(path)} has been locked by its program for {patience.seconds:.0f} s")
        yield
    finally:
        dirs.files.close(fd)
