"""Whether this user may set the cursors in a file, and the folder that it lies in."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from spooltop.model.observation import CursorSource
from spooltop.model.text import escape

from ..storage.access import closed_words

__all__ = ["cursor_rights", "folder_of", "why_not"]

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def cursor_rights(sources: tuple[CursorSource, ...], folders: list[tuple[str, int]]) -> str | None:
    """Why no cursor of ``sources`` can be set by this user, or None where one can."""
    if not sources:
        return "there is no cursor file here"
    reasons = []
    for one in sources:
        why = why_not(one, folders)
        if why is None:
            return None
        reasons.append(why)
    return reasons[0]


def why_not(one: CursorSource, folders: list[tuple[str, int]]) -> str | None:
    """Why this user cannot set a cursor in this file. The file is replaced: it takes the directory's rights, and those of the
    file itself, or its owner would be locked out of what stands there then."""
    name = os.path.basename(one.path)
    try:
        with folder_of(one.path, folders) as folder:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISREG(found.st_mode):
                return f"{escape(one.path)} is no plain file"
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
    """The directory of a cursor file, reached from the open ones without following a link. Raises ``OSError``."""
    above = os.path.dirname(path)
    for folder, fd in folders:
        below = "." if above in (folder, folder.rstrip("/")) else "cursors" if above == os.path.join(folder, "cursors") else None
        if below is not None:
            own = os.open(below, _FOLDER, dir_fd=fd)
            try:
                yield own
            finally:
                os.close(own)
            return
    raise FileNotFoundError(errno.ENOENT, "not below this target", path)
