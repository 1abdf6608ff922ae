"""Waiting for entries of a stream: a thread reads behind its end and wakes whoever waits."""

from __future__ import annotations

import os
import select
import threading
from typing import TYPE_CHECKING, Any

from spooltop.engine.consuming.waiting import nonblocking_pipe
from spooltop.errors import SpooltopError

from .connection import messages_expected
from .failures import translated

if TYPE_CHECKING:
    from redis import Redis

__all__ = ["LONGEST", "StreamArrivals"]

LONGEST = 1.0
"""Longest single wait in seconds. A message that is handed back adds no entry, so that only another try finds it."""


class StreamArrivals:
    """Wakes up when an entry is added to ``stream``, or when ``wake`` is called. ``address`` names it in errors. Closing it may
    take as long as the longest wait."""

    def __init__(self, connection: Redis, stream: str, address: str) -> None:
        self._redis: Any = connection
        self._stream = stream
        self._address = address
        self._last: bytes | str = "$"
        self._woken, self._waker = nonblocking_pipe()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="arrivals", daemon=True)
        self._thread.start()

    @property
    def fds(self) -> tuple[int, ...]:
        """Descriptor that becomes readable when there is a reason to try again."""
        return (self._woken,)

    def wait(self, timeout: float) -> None:
        """Returns when an entry was added, and after ``timeout`` seconds, or the longest wait, at the latest."""
        poll = select.poll()
        poll.register(self._woken, select.POLLIN)
        if poll.poll(max(1, int(min(timeout, LONGEST) * 1000))):
            self.drain()

    def drain(self) -> None:
        """Consumes pending wakes without waiting."""
        try:
            os.read(self._woken, 65536)
        except BlockingIOError:
            return

    def wake(self) -> None:
        """Ends waits at once. Safe in a signal handler and in any thread."""
        if self._stop.is_set():
            return
        try:
            os.write(self._waker, b"!")
        except BlockingIOError:
            return  # full: whoever waits is woken in any case

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        os.close(self._woken)
        os.close(self._waker)

    def _listen(self) -> None:
        wanted = ("XREAD", "COUNT", 1, "BLOCK", int(LONGEST * 1000), "STREAMS", self._stream)
        while not self._stop.is_set():
            try:
                with translated(self._address, "wait"), messages_expected():
                    found = self._redis.execute_command(*wanted, self._last)
                    newest = self._redis.xrevrange(self._stream, count=1) if found else []
                self._last = newest[0][0] if newest else "$" if found else self._last
            except SpooltopError:
                self._stop.wait(LONGEST)
                continue
            if found and not self._stop.is_set():
                self.wake()
