"""Names that matter beside the boxes of a directory: lock files, cursor files, settings, the logs of pollers."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Sequence
from functools import partial

from spooltop.engine.system.syscalls import HAS_INOTIFY

from ..locks.lock_files import is_lock_name
from .folder_watch import FolderWatch

__all__ = ["side_watch"]


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
