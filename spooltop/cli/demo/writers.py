"""Writers in ``tmp``: one that is slow, one that dies before its message is complete."""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Callable
from typing import BinaryIO, cast

from ...engine import Spool
from . import sample_messages, speed
from .process_group import Child

__all__ = ["dying", "slow"]

_ROWS = 400
"""In each piece of an export."""


class Export(io.RawIOBase):
    """A mailbox that comes in piece by piece, each after ``every`` seconds. ``last`` is called where a piece more is wanted than
    there are."""

    def __init__(self, kin: Child, pieces: int, every: float, last: Callable[[], object]) -> None:
        super().__init__()
        self._kin = kin
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
    """Writes one message for half a minute, then, after a pause, the next."""

    def act(kin: Child) -> None:
        with Spool(spool, durable=False) as box:
            while kin.wait(speed.SLOW_PAUSE / 4):
                box.put(_export(kin, speed.SLOW_CHUNKS, speed.SLOW_CHUNK_EVERY, lambda: None), source="email")
                if not kin.wait(speed.SLOW_PAUSE):
                    return

    return act


def dying(spool: str) -> Callable[[Child], None]:
    """Writes the beginning of a message and is killed."""

    def act(kin: Child) -> None:
        with Spool(spool, durable=False) as box:
            box.put(_export(kin, 1, 0.2, lambda: os.kill(os.getpid(), signal.SIGKILL)), source="email")

    return act


def _export(kin: Child, pieces: int, every: float, last: Callable[[], object]) -> BinaryIO:
    return cast("BinaryIO", Export(kin, pieces, every, last))  # the engine asks for read(size) only
