"""What a plan pins of a lock, and whether this user may remove it."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass

from spooltop.model.observation import Lock
from spooltop.model.plan import Refusal
from spooltop.model.row import Row
from spooltop.model.vocabulary import Action

from ..journal.log_files import LogFiles
from ..storage.access import closed_words
from .records import MOST, Taken
from .removal import Pin, pinned
from .wording import words_of

__all__ = ["LockRef", "folder_closed", "ref_of", "rights"]


@dataclass(frozen=True, slots=True)
class LockRef:
    """What a plan pins: the lock as it was read, what it is known by again, its directory (device, inode), and who had it."""

    taken: Taken
    pin: Pin | None
    folder_id: tuple[int, int]
    pid: int | None


def ref_of(
    lock: Lock, folder: str, fd: int, own: int, path: str, names: tuple[str, ...], element: str, pid: int | None,
    *, files: LogFiles, user: str,
) -> LockRef:  # fmt: skip
    """What pins the files ``names`` in the open directory ``own``, which is ``path`` below ``folder`` (open as ``fd``). Raises
    ``OSError``."""
    found = files.stat(names[0], own)
    content, link = b"", ""
    if stat.S_ISLNK(found.st_mode):
        link = os.readlink(names[0], dir_fd=own)
    elif not element:
        opened = files.open_read(names[0], own)
        try:
            content = files.read(opened, MOST)
        finally:
            files.close(opened)
    at = os.fstat(fd)
    taken = Taken(
        "", 0, Action.UNLOCK, 0.0, user, None, lock.path, os.path.realpath(folder), path, names, content, link, element,
        stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid, found.st_mtime, words_of(lock, names[0], pid, element),
    )  # fmt: skip
    return LockRef(taken, pinned(found), (at.st_dev, at.st_ino), pid)


def folder_closed(own: int, what: str, *command: str) -> str | None:
    """Why this user may take nothing out of the open directory ``own``, called ``what``, or None. ``command`` are the words
    behind ``spooltop`` for who may. In a sticky directory it depends on whose the file is, too."""
    if os.fstatvfs(own).f_flag & os.ST_RDONLY:
        return f"the file system is read-only ({os.strerror(errno.EROFS)})"
    if os.access(".", os.R_OK | os.W_OK | os.X_OK, dir_fd=own, effective_ids=True):
        return None
    return closed_words(what, os.fstat(own), *command)


def rights(own: int, name: str, row: Row, target: str, files: LogFiles) -> Refusal | None:
    """Why this user may not take ``name`` out of the directory ``own`` (rename(2), unlink(2)), or None."""
    above = os.fstat(own)
    if os.fstatvfs(own).f_flag & os.ST_RDONLY:
        return Refusal(row, f"the file system is read-only ({os.strerror(errno.EROFS)})")
    file = files.stat(name, own)
    sticky = above.st_mode & stat.S_ISVTX and os.geteuid() not in (0, above.st_uid, file.st_uid)
    if not sticky and os.access(".", os.R_OK | os.W_OK | os.X_OK, dir_fd=own, effective_ids=True):
        return None
    what, found = ("it", file) if sticky else ("its directory", above)
    return Refusal(row, closed_words(what, found, "unlock", target, row.id))
