"""Writes to the terminal in a thread of its own, with a bounded amount of output waiting.

A terminal may stop reading for any time: the network stalls, a window is scrolled back. Nothing waits for it: output that it
cannot take is left out, and once it reads again the whole screen is drawn.
"""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from collections.abc import Callable

_AT_MOST = 32_768
"""Bytes that may wait before further output is left out."""
_STEP = 512
"""Bytes per write, so that a slow terminal differs from one that does not read at all."""
_PATIENCE = 1.0
"""Seconds without any byte taken after which a terminal is given up on leaving."""


class ScreenWriter:
    """Writes to ``fd``. ``caught_up`` is called in the thread once all is written and something had been left out."""

    def __init__(self, fd: int, caught_up: Callable[[], object], *, at_most: int = _AT_MOST) -> None:
        self._fd = fd
        self._caught_up = caught_up
        self._at_most = at_most
        self._lock = threading.Condition()
        self._parts: deque[bytes] = deque()
        self._waiting = self._written = 0
        self._missed = self._ended = self._given_up = self._gone = False
        self._thread = threading.Thread(target=self._run, name="screen", daemon=True)
        self._thread.start()

    def put(self, data: bytes, *, always: bool = False) -> bool:
        """Adds output without blocking; False where it is left out: too much is waiting, or the terminal is gone."""
        with self._lock:
            if self._gone or (not always and (self._missed or self._waiting >= self._at_most)):
                self._missed = True
                return False
            self._parts.append(data)
            self._waiting += len(data)
            self._lock.notify()
            return True

    def leave_out(self) -> None:
        """Drops the output that waits, except what is being written."""
        with self._lock:
            self._waiting -= sum(map(len, self._parts))
            self._parts.clear()
            self._missed = False

    def end(self, patience: float = _PATIENCE) -> bool:
        """Waits until all is written, as long as some of it is within ``patience`` seconds. False where it was not, or the
        terminal is gone."""
        with self._lock:
            self._ended = True
            self._lock.notify()
        before = -1
        while self._thread.is_alive() and before != self._written:
            before = self._written
            self._thread.join(patience)
        self._given_up = True
        return not self._thread.is_alive() and not self._gone

    def _run(self) -> None:
        while (part := self._next()) is not None:
            try:
                self._write(part)
            except OSError:
                self._gone = True
                return  # nobody sees the rest
            with self._lock:
                self._waiting -= len(part)
                missed = self._missed and not self._parts
                self._missed = self._missed and not missed
            if missed:
                self._caught_up()

    def _next(self) -> bytes | None:
        with self._lock:
            while not self._parts and not self._ended:
                self._lock.wait()
            return self._parts.popleft() if self._parts else None

    def _write(self, data: bytes) -> None:
        at = 0
        while at < len(data) and not self._given_up:
            try:
                at += (wrote := os.write(self._fd, data[at : at + _STEP]))
                self._written += wrote
            except BlockingIOError:  # a program that shares the terminal may have set it
                writable = select.poll()
                writable.register(self._fd, select.POLLOUT)
                writable.poll()
