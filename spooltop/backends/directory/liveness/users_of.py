"""Selects the files that the question "who has it?" is about: a message and its holder's presence file, a lock, a cursor file and
its lock."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from spooltop.engine import names
from spooltop.engine.cursors import LOCK
from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.presence import CONSUMERS
from spooltop.errors import Unreadable
from spooltop.model.look.locks import Holders
from spooltop.model.text import escape
from spooltop.model.vocabulary import Box, Key

from ...access import user_name
from ..listing.message import split_key
from ..storage.location import folders_dir
from .file_users import Asked, holders_of
from .processes import Processes

__all__ = ["who_has", "who_has_path"]

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def who_has(dirs: SpoolDirs, key: Key, processes: Processes) -> Holders:
    """Finds the processes that hold a message in any box. Raises ``Unreadable`` where it is gone or not in this spool."""
    box, within, name = split_key(key)
    shown = f"{box}/{escape(name)}"
    with _translate_errors(shown):
        above = dirs.private_dir(folders_dir(box)) if within else dirs.box(box)
        if above is None:
            raise FileNotFoundError(2, "gone")
        folder = os.open(within or ".", _FOLDER, dir_fd=above)
        try:
            asked = [Asked(os.stat(name, dir_fd=folder, follow_symlinks=False), folder)]
            parsed = names.parse(name, claimed=True) if box is Box.CUR else None
            token = parsed.token if parsed is not None else None
            since = parsed.claimed_us / 1e6 if parsed is not None and parsed.claimed_us is not None else None
            consumers = dirs.private_dir(CONSUMERS) if token is not None else None
            if token is not None and consumers is not None:
                asked += _there(consumers, token, "its holder's presence file", "holds the claim", since)
            return holders_of(shown, asked, processes, user=user_name(os.geteuid()))
        finally:
            os.close(folder)


def who_has_path(path: str, folders: Iterable[tuple[str, int]], processes: Processes) -> Holders:
    """Finds the processes that hold a file in one of ``folders`` (path as shown, descriptor), or in ``cursors/`` below one: a
    lock, or a cursor file with the lock beside it. Raises ``Unreadable``."""
    with _translate_errors(escape(path)), _folder(path, folders) as folder:
        name = os.path.basename(path)
        asked = [Asked(os.stat(name, dir_fd=folder, follow_symlinks=False), folder)]
        if name.endswith(".json"):
            asked += _there(folder, LOCK, LOCK, "")
        return holders_of(escape(path), asked, processes, user=user_name(os.geteuid()))


@contextmanager
def _folder(path: str, folders: Iterable[tuple[str, int]]) -> Iterator[int]:
    above, name = os.path.split(path)
    for folder, fd in folders:
        below = "" if above == folder else "cursors" if above == os.path.join(folder, "cursors") else None
        if below is not None and name not in ("", ".", ".."):
            own = os.open(below or ".", _FOLDER, dir_fd=fd)
            try:
                yield own
            finally:
                os.close(own)
            return
    raise Unreadable("nothing of this target", path=escape(path), advice="name a lock or a cursor file as it is listed")


@contextmanager
def _translate_errors(shown: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise Unreadable("gone since", path=shown, advice="it was claimed, finished or moved") from None
    except OSError as problem:
        raise Unreadable(str(problem.strerror), path=shown) from None


def _there(fd: int, name: str, of: str, holds: str, since: float | None = None) -> list[Asked]:
    """The file beside, where there is one: who locks it counts, who has it open does not."""
    try:
        return [Asked(os.stat(name, dir_fd=fd, follow_symlinks=False), fd, of, holds, locks_only=True, since=since)]
    except OSError:
        return []  # nobody locks there
