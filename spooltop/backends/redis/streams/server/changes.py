"""Waits for changes: new entries by XREAD on a connection of its own, and all else by a look a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ...client import Endpoint
from .replies import list_of
from .requests import ServerTrouble, StreamServer, told

__all__ = ["StreamChanges"]

_PERIOD = 1.0
"""Seconds between two looks at least: claims, acks and leases send no event."""
_BLOCK = 5.0
_SLACK = 2.0
_RETRY = 1.0


class StreamChanges:
    """Listens for entries of ``stream`` once somebody waits. ``wait`` and ``wake`` may be called from any thread."""

    def __init__(self, endpoint: Endpoint, stream: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._server = StreamServer(endpoint, patience=_BLOCK + _SLACK)
        self._stream = stream
        self._monotonic = monotonic
        self._looked = monotonic()
        self._woken = threading.Event()
        self._armed = threading.Event()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def looked(self) -> None:
        """Notes that the reader looks: what comes from now on is a change."""
        self._looked = self._monotonic()
        self._woken.clear()
        self._armed.set()

    def wait(self, timeout: float) -> bool:
        """Waits up to ``timeout`` seconds for an entry, ``wake``, or the time of the next look."""
        if self._thread is None and timeout > 0:
            self._thread = threading.Thread(target=self._listen, name="stream-changes", daemon=True)
            self._thread.start()
        left = max(0.0, self._looked + _PERIOD - self._monotonic())
        woken = self._woken.wait(min(timeout, left))
        self._woken.clear()
        return woken or left <= timeout

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        """Ends the listening. Its connection is closed by the thread, within seconds."""
        self._ended.set()
        self._armed.set()
        self._woken.set()

    def _listen(self) -> None:
        while not self._ended.is_set():
            self._armed.wait()
            if self._ended.is_set():
                break
            try:
                (reply,) = self._server.ask(("XREAD", "COUNT", 1, "BLOCK", int(_BLOCK * 1000), "STREAMS", self._stream, "$"))
                if reply is None:
                    continue
                with told():
                    list_of(reply)
            except ServerTrouble:  # whoever looks says so
                self._ended.wait(_RETRY)
                continue
            self._armed.clear()
            self._woken.set()
        self._server.close()
