"""Opens the folders of cursor files, and says if this user may change a cursor in them."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from spooltop.model.cursors import CursorSource
from spooltop.model.text import escape

from ...access import closed_words

__all__ = ["blocked_by", "cursor_rights", "folder_of", "named_folders"]

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@contextmanager
def named_folders(named: Iterable[str]) -> Iterator[list[tuple[str, int]]]:
    """Opens each folder in ``named`` and the folder of each file in it, as (path, descriptor). Leaves out what cannot be
    opened."""
    opened: dict[str, int] = {}
    try:
        for path in map(os.path.abspath, named):
            for folder in (path, os.path.dirname(path)):
                try:
                    if folder not in opened:
                        opened[folder] = os.open(folder, _FOLDER)
                    break
                except OSError:
                    continue  # a file, or nothing: the folder it lies in is tried
        yield list(opened.items())
    finally:
        for fd in opened.values():
            os.close(fd)


def cursor_rights(sources: tuple[CursorSource, ...], folders: list[tuple[str, int]]) -> str | None:
    """Returns the reason why this user can set no cursor of ``sources``, None if one can be set."""
    if not sources:
        return "there is no cursor file here"
    reasons = []
    for one in sources:
        why = blocked_by(one, folders)
        if why is None:
            return None
        reasons.append(why)
    return reasons[0]


def blocked_by(one: CursorSource, folders: list[tuple[str, int]]) -> str | None:
    """Returns the reason why this user cannot set a cursor in this file, or None. The file is replaced, so the user needs the
    rights of the directory; without those of the file itself, its owner would be locked out of the new file."""
    name = os.path.basename(one.path)
    try:
        with folder_of(one.path, folders) as folder:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISREG(found.st_mode):
                return f"{escape(one.path)} is not a regular file"
            if os.fstatvfs(folder).f_flag & os.ST_RDONLY:
                return f"the file system is read-only ({os.strerror(errno.EROFS)})"
            above = os.fstat(folder)
            for what, path, mode, status in (
                (name, name, os.R_OK | os.W_OK, found),
                ("its directory", ".", os.R_OK | os.W_OK | os.X_OK, above),
            ):
                if not os.access(path, mode, dir_fd=folder, effective_ids=True):
                    return closed_words(escape(what), status, "cursors", one.path)
    except OSError as error:
        return f"{escape(one.path)} cannot be seen: {error.strerror}"
    return None


@contextmanager
def folder_of(path: str, folders: list[tuple[str, int]]) -> Iterator[int]:
    """Opens the directory of a cursor file from the open ``folders`` without following a link. Raises ``OSError``."""
    above = os.path.dirname(path)
    for folder, fd in folders:
        below = "." if above in (folder, folder.rstrip("/")) else "cursors" if above == os.path.join(folder, "cursors") else None
        if below is not None:
            own = os.open(below, _FOLDER | os.O_NOFOLLOW, dir_fd=fd)
            try:
                yield own
            finally:
                os.close(own)
            return
    raise FileNotFoundError(errno.ENOENT, "not below this target", path)
