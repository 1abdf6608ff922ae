"""Writers in ``tmp``: a slow one, and one that dies before its message is complete."""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Callable
from typing import BinaryIO, cast

from spooltop.engine import Spool

from . import sample_messages, speed
from .process_group import Child

__all__ = ["dying", "slow"]

_ROWS = 400
"""Rows in each chunk of an export."""


class Export(io.RawIOBase):
    """Mailbox that arrives in chunks, each after ``every`` seconds. ``last`` is called when a chunk is requested after the last
    one."""

    def __init__(self, child: Child, pieces: int, every: float, last: Callable[[], object]) -> None:
        super().__init__()
        self._kin = child
        self._left = pieces
        self._piece = sample_messages.export("email", _ROWS)
        self._every = every
        self._last = last

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if self._left == 0:
            self._last()
            return b""
        self._left -= 1
        return self._piece if self._kin.wait(self._every) else b""


def slow(spool: str) -> Callable[[Child], None]:
    """Writes a message for half a minute, pauses, and starts again."""

    def act(child: Child) -> None:
        with Spool(spool, durable=False) as box:
            while child.wait(speed.SLOW_PAUSE / 4):
                box.put(_export(child, speed.SLOW_CHUNKS, speed.SLOW_CHUNK_EVERY, lambda: None), source="email")
                if not child.wait(speed.SLOW_PAUSE):
                    return

    return act


def dying(spool: str) -> Callable[[Child], None]:
    """Writes the beginning of a message and is killed."""

    def act(child: Child) -> None:
        with Spool(spool, durable=False) as box:
            box.put(_export(child, 1, 0.2, lambda: os.kill(os.getpid(), signal.SIGKILL)), source="email")

    return act


def _export(child: Child, pieces: int, every: float, last: Callable[[], object]) -> BinaryIO:
    return cast("BinaryIO", Export(child, pieces, every, last))  # the engine asks for read(size) only
