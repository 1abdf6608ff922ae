"""Watches folders where a hint to look again is enough: poll logs, settings, lock files, and cursor files without inotify(7).

watchfiles does it, in one thread. Measured at rest with three folders: at a step of 200 ms it takes 0.2 ms of CPU and 5 wakes a
second, at 20 ms 2.5 ms and 50 wakes. It adds two threads, three descriptors, and 1.3 MB beside Textual. Looks that a dashboard
takes anyway cost 2.5 ms a second; with this watch it is 3.0 ms, because the library also wakes when files are only opened.

``new``, ``cur`` and cursor files stay with the kernel reader where there is one; ``inotify`` has the measured reason.
"""

from __future__ import annotations

import glob
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from spooltop.engine.system.syscalls import HAS_INOTIFY

from ..locks.lock_files import is_lock_name

Changes = set[tuple[int, str]]
"""(1 added, 2 modified, 3 deleted; path)"""
Source = Callable[[Iterable[str], threading.Event], Iterator[Changes]]

_REMOVED = 3
_STEP, _DEBOUNCE, _BEAT = 400, 800, 5_000
"""Milliseconds: from one look at the gathered changes to the next, until many are reported at the latest, and without any."""
_AGAIN = 30.0
"""Seconds after which folders are watched again that could not be watched."""
_LATER = 1.0
"""Seconds after which the library is loaded: the first picture does not wait for it, and the second look sees what it missed."""


def watchfiles_source(
    paths: Iterable[str], stop: threading.Event, *, step: int = 20, debounce: int = 100, beat: int = 1_000
) -> Iterator[Changes]:
    """Watches through watchfiles: not recursive, without a filter, never polling. Yields an empty set each ``beat`` ms."""
    import logging  # with watchfiles it takes 50 ms: only for those who watch

    from watchfiles import watch

    logging.getLogger("watchfiles").setLevel(logging.WARNING)
    yield from watch(
        *paths, recursive=False, watch_filter=None, step=step, debounce=debounce, force_polling=False, rust_timeout=beat,
        yield_on_timeout=True, stop_event=stop, raise_interrupt=False,
    )  # type: ignore[misc]  # fmt: skip


def _slow(paths: Iterable[str], stop: threading.Event) -> Iterator[Changes]:
    return watchfiles_source(paths, stop, step=_STEP, debounce=_DEBOUNCE, beat=_BEAT)


class FolderWatch:
    """Calls ``changed`` in a thread of its own soon after a name that matters changed: ``wanted`` maps each folder to what tells
    whether a name matters. Folders may come and go. Whoever is called looks regularly, too: where no events come (network file
    systems, limits that are reached) nothing is missed, only seen later."""

    def __init__(
        self,
        wanted: Mapping[str, Callable[[str], bool]],
        changed: Callable[[], object],
        *,
        source: Source = _slow,
        again: float = _AGAIN,
        later: float = _LATER,
    ) -> None:
        self._wanted = {os.path.realpath(folder): matters for folder, matters in wanted.items()}
        self._changed = changed
        self._source = source
        self._again = again
        self._later = later
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="spooltop-folders", daemon=True)

    def start(self) -> None:
        """Starts the thread; does nothing where it runs or there is nothing to watch."""
        if self._wanted and self._thread.ident is None and not self._stop.is_set():
            self._thread.start()

    def stop(self) -> None:
        """Asks the thread to end, which takes it up to the ``_STEP``."""
        self._stop.set()

    def close(self) -> None:
        """Ends the thread and waits for it. May be called twice."""
        self.stop()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def _run(self) -> None:
        self._stop.wait(self._later)
        while not self._stop.is_set():
            folders = self._existing()
            try:
                self._listen(folders)
            except Exception:  # noqa: BLE001  whatever the watcher dies of (a limit, a name), regular looks go on
                self._stop.wait(self._again)

    def _listen(self, folders: list[str]) -> None:
        """Watches ``folders`` until others exist. Without any it waits for one."""
        if not folders:
            self._stop.wait(self._again)
            return
        for changes in self._source(folders, self._stop):
            if any(self._matters(path) for _, path in changes):
                self._changed()
            removed = any(kind == _REMOVED and path in self._wanted for kind, path in changes)
            if self._stop.is_set() or removed or self._existing() != folders:
                return

    def _matters(self, path: str) -> bool:
        folder, name = os.path.split(path)
        matters = self._wanted.get(folder)
        return path in self._wanted or (matters is not None and matters(name))

    def _existing(self) -> list[str]:
        return [folder for folder in self._wanted if os.path.isdir(folder) and os.access(folder, os.R_OK)]


# Names that matter beside the boxes of a directory: lock files, cursor files, settings, the logs of pollers.

def side_watch(
    target: str, side_files: Sequence[str], cursor_files: Sequence[str], wake: Callable[[], object]
) -> FolderWatch:
    """Watches what a look reads besides the boxes, and calls ``wake`` where it changed: lock files in the directory ``target``
    and above it, ``side_files`` (globs), and cursor files where there is no inotify(7).

    Never ``/etc``: every process that starts opens files there, which on a busy machine wakes the library 30 times a second. Each
    look checks the settings file there anyway.
    """
    from fnmatch import fnmatchcase

    wanted: dict[str, list[Callable[[str], bool]]] = {}

    def add(folder: str, matters: Callable[[str], bool]) -> None:
        wanted.setdefault(os.path.realpath(folder), []).append(matters)

    own = (target, os.path.join(target, ".."))
    for folder in own:
        add(folder, is_lock_name)
    for folders, pattern in map(os.path.split, side_files):
        for folder in glob.glob(folders or "."):  # noqa: PTH207  Path.glob takes no absolute ones
            if folder != "/etc":
                add(folder, partial(fnmatchcase, pat=pattern))
    if not HAS_INOTIFY:
        for folder in (*own, os.path.join(target, "cursors"), *cursor_files, *map(os.path.dirname, cursor_files)):
            add(folder, lambda name: name.endswith(".json"))
    return FolderWatch({folder: partial(_any, tests) for folder, tests in wanted.items()}, wake)


def _any(tests: Sequence[Callable[[str], bool]], name: str) -> bool:
    return any(test(name) for test in tests)
