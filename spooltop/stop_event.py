"""An event for a thread that waits on descriptors: it need not wake again and again to ask whether it shall end."""

from __future__ import annotations

import os
import threading


class StopEvent(threading.Event):
    """Can be passed to select(2) and poll(2): ``fileno`` is readable once the event is set."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._read = self._write = -1

    def fileno(self) -> int:
        """Returns the descriptor, which is opened by the first call. Raises ``OSError`` if there are none left."""
        with self._lock:
            if self._read < 0:
                self._read, self._write = os.pipe()
                self._close_write_end_if_set()
            return self._read

    def set(self) -> None:
        with self._lock:
            super().set()
            self._close_write_end_if_set()

    def clear(self) -> None:
        super().clear()
        self.release()

    def release(self) -> None:
        """Closes the descriptors. Nothing may wait on them; the next ``fileno`` opens others."""
        with self._lock:
            for fd in (self._read, self._write):
                if fd >= 0:
                    os.close(fd)
            self._read = self._write = -1

    def _close_write_end_if_set(self) -> None:
        if self.is_set() and self._write >= 0:
            os.close(self._write)
            self._write = -1
