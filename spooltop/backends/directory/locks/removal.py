"""Removes a lock and puts it back: each step refuses if the lock is no longer the pinned one."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from spooltop.engine.atomic import publish_new, write_new
from spooltop.engine.system.files import UNSUPPORTED, Files, is_inode, read_small

from ...journal.item_operator import Skipped
from ..storage.file_pin import Pin, pinned
from .lock_record import LockRecord

__all__ = ["check_same", "opened_below", "put_back", "take_away"]


def check_same(one: LockRecord, folder: int, pin: Pin, files: Files) -> os.stat_result:
    """The status of a lock that is still the pinned one. Raises ``Skipped``. A ticket's name is never used twice, and its file
    may be touched, so only its inode counts."""
    name, own = one.names[0], slice(1 if one.is_ticket else len(pin))
    try:
        found = files.stat(name, folder)
    except FileNotFoundError:
        raise Skipped("it was removed meanwhile") from None
    if pinned(found)[own] != pin[own]:
        raise Skipped("it was taken again since the list was made")
    return found


@contextmanager
def opened_below(folder: int, path: str, files: Files) -> Iterator[int]:
    """Opens the directory ``path`` below ``folder`` without following a link; gives ``folder`` itself for "". Raises
    ``OSError``."""
    opened: list[int] = []
    try:
        at = folder
        for part in path.split("/") if path else ():
            at = files.open_dir(part, at)
            opened.append(at)
        yield at
    finally:
        for fd in opened:
            files.close(fd)


def take_away(one: LockRecord, folder: int, pin: Pin, who: bytes, files: Files) -> None:
    """Removes the lock in the open directory ``folder`` and syncs it. ``who`` is the content of a lock of this process. Raises
    ``Skipped`` where another lock is there now, and ``OSError``.

    A name that every process uses can be taken again between the last check and the unlink. So the file is exchanged for a lock
    of our own, which excludes others meanwhile, and the file that was got is checked; a wrong one is exchanged back.
    """
    first = one.names[0]
    found = check_same(one, folder, pin, files)
    # A ticket's or a claim's name is never used twice, and a second name of an element is that element's whoever made it.
    if not one.below and not one.element:
        if _exchanged(first, folder, found, who, files):
            files.sync_dir(folder)
            return
        check_same(one, folder, pin, files)  # to try the exchange took time
    for name in reversed(one.names):  # the first one last: while it stands, the lock is seen
        try:
            files.unlink(name, folder)
        except FileNotFoundError:
            if name == first:
                raise Skipped("it was removed meanwhile") from None
    files.sync_dir(folder)


def _exchanged(name: str, folder: int, found: os.stat_result, who: bytes, files: Files) -> bool:
    """Removes the file by an exchange. False if the file system cannot exchange; nothing was done then."""
    draft = f".{name}.{os.urandom(8).hex()}"
    # Synced: if it were empty after a power cut, nothing would show that its holder is gone.
    ours = write_new(files, folder, draft, who, found if stat.S_ISREG(found.st_mode) else None, create_mode=0o600)
    try:
        files.swap(draft, folder, name, folder)
    except OSError as error:
        if is_inode(files, draft, folder, ours):  # else a server has done it all the same
            files.unlink(draft, folder)
            if isinstance(error, FileNotFoundError):
                raise Skipped("it was removed meanwhile") from None
            if error.errno not in UNSUPPORTED:
                raise
            return False
    try:
        if pinned(files.stat(draft, folder))[:-1] != pinned(found)[:-1]:  # but for ctime, which the exchange moves
            raise Skipped("it was taken again since the list was made")
        files.unlink(name, folder)
    except BaseException:
        # Else a lock of this process would stay in its place. Where this fails too both stay: the other may be held by now.
        files.swap(draft, folder, name, folder)
        files.unlink(draft, folder)
        raise
    files.unlink(draft, folder)
    return True


def put_back(one: LockRecord, folder: int, files: Files) -> None:
    """Makes the lock again, complete when it appears, with owner, mode and mtime as before. Raises ``Skipped`` where the name
    is taken, and ``OSError``."""
    first = one.names[0]
    try:
        if one.element:
            files.link(one.element, folder, first, folder)
        elif one.link:
            files.symlink(one.link, first, folder)
        else:
            like = os.stat_result((one.mode, 0, 0, 1, one.uid, one.gid, 0, 0, 0, 0))
            *others, last = one.names
            made = publish_new(files, folder, last, one.content, like, one.mode, mtime=one.mtime)
            # Of a lock with several names, an undo that was cut off has left the last one.
            if not made and (not others or read_small(last, folder, files=files).data != one.content):
                raise FileExistsError(last)
            for other in reversed(others):
                files.link(last, folder, other, folder)
    except FileExistsError:
        raise Skipped("the path is taken: another process has that lock now") from None
    files.sync_dir(folder)
