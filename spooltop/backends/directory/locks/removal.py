"""Takes a lock away and puts it back: each step refuses where it is no longer what was shown."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from spooltop.engine.files import Files

from .records import Taken

__all__ = ["Changed", "below", "pinned", "put_back", "same", "take_away"]

_UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)

Pin = tuple[int, int, int, int]


class Changed(Exception):
    """It is not what it was: nothing was done. Says why."""


def pinned(found: os.stat_result) -> Pin:
    """What a lock is known by again: inode, size, mtime and ctime in ns."""
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def same(one: Taken, folder: int, pin: Pin, files: Files) -> os.stat_result:
    """The status of what is there still. Raises ``Changed``. A ticket's name is never used twice, and its file may be touched."""
    name, own = one.names[0], slice(1 if one.is_ticket else len(pin))
    try:
        found = files.stat(name, folder)
    except FileNotFoundError:
        raise Changed("it has gone by itself") from None
    if pinned(found)[own] != pin[own]:
        raise Changed("it was taken anew since the list was made")
    return found


@contextmanager
def below(folder: int, path: str, files: Files) -> Iterator[int]:
    """The directory ``path`` below ``folder``, no link followed; ``folder`` itself for "". Raises ``OSError``."""
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


def take_away(one: Taken, folder: int, pin: Pin, who: bytes, files: Files) -> None:
    """Removes the lock in the open directory ``folder`` and syncs it. ``who`` is what a lock of this process would say. Raises
    ``Changed`` where another one stands there now, and ``OSError``.

    A name that everybody takes can be taken anew between the last look and the unlink. So it is exchanged for a lock of our
    own, which excludes others meanwhile, and what was got is looked at; a wrong one is exchanged back.
    """
    first = one.names[0]
    found = same(one, folder, pin, files)
    if one.below or one.element or not _exchanged(first, folder, found, who, files):
        # A ticket's or a claim's name is never used twice, and a second name of an element is that element's whoever made it.
        for name in one.names:
            try:
                files.unlink(name, folder)
            except FileNotFoundError:
                if name == first:
                    raise Changed("it has gone by itself") from None
    files.sync_dir(folder)


def _exchanged(name: str, folder: int, found: os.stat_result, who: bytes, files: Files) -> bool:
    """False where the file system cannot exchange: nothing was done then."""
    draft = f".{name}.{os.urandom(8).hex()}"
    fd = files.create(draft, folder, 0o600)
    try:
        try:
            files.write_all(fd, who)
            if stat.S_ISREG(found.st_mode):
                files.own_as(fd, found)
            files.sync(fd)  # empty after a power cut, nothing would tell that its holder is gone
        finally:
            files.close(fd)
        try:
            files.exchange(draft, name, folder)
        except FileNotFoundError:
            raise Changed("it has gone by itself") from None
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            return False
        if pinned(files.stat(draft, folder))[:-1] != pinned(found)[:-1]:  # but for ctime, which the exchange moves
            files.exchange(draft, name, folder)
            raise Changed("it was taken anew since the list was made")
        files.unlink(name, folder)
        return True
    finally:
        files.unlink(draft, folder)


def put_back(one: Taken, folder: int, files: Files) -> None:
    """Makes the lock again, complete when it appears, with owner, mode and mtime as they were. Raises ``Changed`` where the place
    is taken, and ``OSError``."""
    first = one.names[0]
    draft = f".{first}.{os.urandom(8).hex()}"
    try:
        if one.element:
            files.link(one.element, folder, first, folder)
        elif one.link:
            files.symlink(one.link, first, folder)
        else:
            _remake(one, draft, folder, files)
            try:
                files.move(draft, folder, first, folder)
            except BaseException:
                files.unlink(draft, folder)
                raise
            for other in one.names[1:]:
                files.link(first, folder, other, folder)
    except FileExistsError:
        raise Changed("the place is taken: somebody has that lock now") from None
    files.sync_dir(folder)


def _remake(one: Taken, draft: str, folder: int, files: Files) -> None:
    fd = files.create(draft, folder, 0o600)
    try:
        files.write_all(fd, one.content) if one.content else None
        if (one.uid, one.gid) != (os.geteuid(), os.getegid()):
            try:
                os.fchown(fd, one.uid, one.gid)
            except PermissionError:
                pass  # only root gives files away; then it is this user's, who removed it
        os.fchmod(fd, one.mode)
        os.utime(fd, (one.mtime, one.mtime))
        files.sync(fd)
    except BaseException:
        files.unlink(draft, folder)
        raise
    finally:
        files.close(fd)
