"""The parts of a log: its file is set apart when it has become large, and a new one begins.

``journal.jsonl`` is the newest part; ``journal.000001.jsonl`` was the first. A part begins with the intents that had no result
yet, so that whoever looks for interrupted steps reads the two newest files only. Each step of a rotation leaves a log that can be
read and continued: the next part is made under its number, and then swapped with the newest.

There is no lock that a writer waits for. A line that was written to a file which is no longer the newest is written again
(``AppendLog.append``): of two lines about one step the first counts.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterable, Sequence
from os import stat_result
from typing import NamedTuple

from spooltop.engine.atomic import discard, publish_new
from spooltop.engine.system.files import UNSUPPORTED, is_inode

from .log_files import FULL, RESERVED, LogFiles

__all__ = ["MOST_PARTS", "NextPart", "parts_of", "rotate"]

MOST_PARTS = 32
"""Parts that are kept besides the newest, 1 GiB. Older ones go, also where something in them could be undone."""
_UNLOCKABLE = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


def parts_of(files: LogFiles, dir_fd: int, name: str) -> list[str]:
    """The parts of the log ``name`` besides the newest, the oldest first. Raises ``OSError``."""
    stem, _, ending = name.rpartition(".")
    part = re.compile(rf"{re.escape(stem)}\.([0-9]{{6,12}})\.{re.escape(ending)}")
    found = [(int(match[1]), other) for other in files.list(dir_fd) if (match := part.fullmatch(other)) is not None]
    return [other for _, other in sorted(found)]


class NextPart(NamedTuple):
    """The lines that a new part begins with, and those of the earlier parts, the oldest first, that are no longer needed."""

    carried: Callable[[], bytes]
    ended: Callable[[Sequence[str]], Iterable[str]] = lambda parts: ()


def rotate(files: LogFiles, dir_fd: int, name: str, fd: int, like: stat_result, following: NextPart) -> bool:
    """Begins a new part of the log ``name``, which is open as ``fd`` for writing. False where that is not possible: another
    process is doing it, there is no room or no permission, or locks are not supported."""
    try:
        if not files.lock_write(fd):
            return False
        inode = files.fstat(fd).st_ino
        if not is_inode(files, name, dir_fd, inode):
            return True  # done meanwhile
        older = parts_of(files, dir_fd, name)
        stem, _, ending = name.rpartition(".")
        number = int(older[-1].split(".")[-2]) + 1 if older else 1
        part = f"{stem}.{number:06}.{ending}"
        carried = following.carried()
        if not publish_new(files, dir_fd, part, carried, like):
            return False
        if not _reserved(files, dir_fd, part):
            discard(files, part, dir_fd)
            return False
        try:
            files.swap(part, dir_fd, name, dir_fd)
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                if not is_inode(files, part, dir_fd, inode, unseen=True):  # else a server has done it all the same
                    discard(files, part, dir_fd)
                raise
            files.rename(name, dir_fd, part, dir_fd)
            publish_new(files, dir_fd, name, carried, like)  # unless another process makes it now, with its next line
        files.sync(fd)  # also the lines that were to be synced with a later one
        files.sync_dir(dir_fd)
    except OSError as error:
        if error.errno in (errno.EPERM, errno.EACCES, *FULL, *_UNLOCKABLE):
            return False
        raise
    for old in {*following.ended(older), *older[: max(0, len(older) + 1 - MOST_PARTS)]}:
        _drop(files, dir_fd, old)
    return True


def _drop(files: LogFiles, dir_fd: int, part: str) -> None:
    """Removes a part, if that is permitted. Raises ``OSError``."""
    try:
        files.unlink(part, dir_fd)
    except FileNotFoundError:
        return  # another process was quicker
    except PermissionError:
        return  # the file of another user in a sticky directory, who will remove it


def _reserved(files: LogFiles, dir_fd: int, part: str) -> bool:
    """Allocates room behind the end of a part. False if there is none."""
    fd = files.open_lasting(part, dir_fd, append=True, mode=0o600)
    try:
        files.reserve(fd, files.fstat(fd).st_size, RESERVED)
    except OSError as error:
        return error.errno not in FULL  # elsewhere there may be no such call
    finally:
        files.close(fd)
    return True
