"""Hears what happens beside the cursor files between two looks: that one was replaced, and which temporary names were used."""

from __future__ import annotations

import os
import select
import threading

from .inotify import Events, listening, parsed, watch_fd

__all__ = ["CursorEar"]

_BEGINS = ("cursors.json.", "cursors.tmp", "cursors.json~")
_ROUNDS = 16
_NAMES_AT_MOST = 16
_FOLDERS_AT_MOST = 8
_READ = 1 << 18
_GATHER = 100
"""Milliseconds from one read to the next where much happens."""


class CursorEar:
    """Listens in the folders that it is told to ``follow``, as far as the kernel lets it (inotify(7)). ``changed`` is set soon
    after a ``*.json`` there was replaced or came. One thread, from the first folder on until ``close``."""

    def __init__(self, changed: threading.Event) -> None:
        self._changed = changed
        self._lock = threading.Lock()
        self._fd: int | None = None
        self._end: tuple[int, int] | None = None
        self._thread: threading.Thread | None = None
        self._watched: dict[tuple[int, int], int] = {}
        self._names: dict[int, set[str]] = {}

    def follow(self, folder: int) -> None:
        """Listens in this open folder from now on; where no watches are left, the looks alone find what changed."""
        with self._lock:
            self._drain()  # first: it tells of a folder that is gone, whose number may be that of another one now
            self._follow(folder)

    def shared_names(self, folder: int) -> tuple[str, ...]:
        """Names of temporary files that have nothing of their writer in them, so that all writers share them, as far as such
        were made in this open folder since it was asked about or followed first; sorted."""
        with self._lock:
            self._drain()
            watch = self._follow(folder)
            return tuple(sorted(self._names.get(watch, ()))) if watch is not None else ()

    def close(self) -> None:
        """Ends the thread. May be called twice."""
        if self._thread is None or self._fd is None or self._end is None:
            return
        os.close(self._end[1])
        self._thread.join()
        os.close(self._end[0])
        os.close(self._fd)
        self._fd = self._thread = None

    def _follow(self, folder: int) -> int | None:
        try:
            found = os.fstat(folder)
            key = (found.st_dev, found.st_ino)
            if key in self._watched:
                return self._watched[key]
            if self._fd is None:
                self._fd = listening()
                self._end = os.pipe2(os.O_CLOEXEC)
                self._thread = threading.Thread(
                    target=self._listen, args=(self._fd, self._end[0]), name="spooltop-cursors", daemon=True
                )
                self._thread.start()
            if len(self._names) >= _FOLDERS_AT_MOST:  # folders that were replaced again and again
                self._watched.clear()
                self._names.clear()
            self._watched[key] = watch_fd(self._fd, folder)
        except OSError:
            return None  # no instances or watches are left, or there is no inotify
        return self._watched[key]

    def _listen(self, fd: int, end: int) -> None:
        both, ending = select.poll(), select.poll()
        both.register(fd, select.POLLIN)
        both.register(end, select.POLLIN)
        ending.register(end, select.POLLIN)
        while not any(ready == end for ready, _ in both.poll()):
            with self._lock:
                self._drain()
            if ending.poll(_GATHER):
                return

    def _drain(self) -> None:
        """Takes what is in the queue."""
        if self._fd is None:
            return
        # All that were ever followed: what comes of one that is gone does no harm, a folder followed again has its number.
        watches = {watch: str(watch) for watch in (*self._names, *self._watched.values())}
        for _ in range(_ROUNDS):
            events = Events()
            try:
                parsed(os.read(self._fd, _READ), watches, events)
            except BlockingIOError:
                return
            if events.ended:  # a folder was removed or moved: all are followed anew
                self._watched.clear()
            for watch, number in watches.items():
                came = events.added.get(number, set())
                if any(name.endswith(".json") for name in came):
                    self._changed.set()
                kept = self._names.setdefault(watch, set())
                made = (name for name in came if name.startswith(_BEGINS) and not any(map(str.isdigit, name)))
                kept.update(name for name in made if len(kept) < _NAMES_AT_MOST)
