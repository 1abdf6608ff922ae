"""Hears which names come and go beside the cursor files: a temporary file that is renamed at once stands at no look."""

from __future__ import annotations

import os

from .inotify import Events, listening, parsed, watch_fd

__all__ = ["CursorEar"]

_BEGINS = ("cursors.json.", "cursors.tmp", "cursors.json~")
_ROUNDS = 16
_NAMES_AT_MOST = 16
_FOLDERS_AT_MOST = 8
_READ = 1 << 18


class CursorEar:
    """Listens in the folders that it is told to ``follow``, as far as the kernel lets it (inotify(7)). Without a thread: what
    happened is read when it is asked for. ``close`` it."""

    def __init__(self) -> None:
        self._fd: int | None = None
        self._watched: dict[tuple[int, int], int] = {}
        self._names: dict[int, set[str]] = {}

    def shared_names(self, folder: int) -> tuple[str, ...]:
        """Names of temporary files that have nothing of their writer in them, so that all writers share them, as far as such
        were made in this open folder since it was asked about first; sorted."""
        self._drain()  # first: it tells of a folder that is gone, whose number may be that of another one now
        try:
            found = os.fstat(folder)
            key = (found.st_dev, found.st_ino)
            if key not in self._watched:
                self._follow(folder, key)
        except OSError:
            return ()  # no instances or watches are left, or there is no inotify: what stands at a look is seen all the same
        return tuple(sorted(self._names.get(self._watched[key], ())))

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
        self._fd, self._watched, self._names = None, {}, {}

    def _follow(self, folder: int, key: tuple[int, int]) -> None:
        if len(self._watched) >= _FOLDERS_AT_MOST:  # folders that were replaced again and again
            self.close()
        if self._fd is None:
            self._fd = listening()
        self._watched[key] = watch_fd(self._fd, folder)

    def _drain(self) -> None:
        watches = {watch: str(watch) for watch in self._watched.values()}
        for _ in range(_ROUNDS if self._fd is not None else 0):
            events = Events()
            try:
                parsed(os.read(self._fd or -1, _READ), watches, events)
            except BlockingIOError:
                return
            if events.ended:  # a folder was removed or moved: all are followed anew
                self.close()
                return
            for watch, number in watches.items():
                kept = self._names.setdefault(watch, set())
                made = (name for name in events.added[number] if name.startswith(_BEGINS) and not any(map(str.isdigit, name)))
                kept.update(name for name in made if len(kept) < _NAMES_AT_MOST)
