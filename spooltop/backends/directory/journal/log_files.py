"""What the books of an operator need of the file system beyond what every message needs, through the same one object.

So a test that ends the process at the k-th operation, or lets it fail, sees these too.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from spooltop.engine.files import Files
from spooltop.engine.syscalls import fallocate

__all__ = ["LogFiles", "open_path", "plain", "plain_but_for_draft", "plain_now", "with_above"]


class LogFiles(Files):
    """The real operations. Thread-safe."""

    def reserve(self, fd: int, offset: int, length: int) -> None:
        """``fallocate(2)`` of ``length`` bytes from ``offset`` on; the size of the file stays as it is."""
        fallocate(fd, offset, length)

    def read_at(self, fd: int, length: int, offset: int) -> bytes:
        """Up to ``length`` bytes from ``offset`` on; less only at the end of the file."""
        parts: list[bytes] = []
        while length > 0 and (part := os.pread(fd, length, offset)):
            parts.append(part)
            length -= len(part)
            offset += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def lock_whole(self, fd: int) -> bool:
        """The lock of ``filelock`` on an open file, without waiting. False where somebody else holds it.

        On the descriptor, not by a path: ``FileLock`` resolves the directory of its path, ``/proc/self/fd/N`` as well, and
        makes it where it is missing, so that a directory that is swapped meanwhile would lead it out of the spool.
        """
        from filelock import lock_descriptor  # takes 40 ms to load, and hardly any change needs it

        return lock_descriptor(fd, blocking=False)


def plain(found: os.stat_result, name: str) -> None:
    """Raises ``OSError`` for what is no regular file with one name: whoever may write the directory can put something else
    there, a link to a file of ours, a fifo."""
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        raise OSError(errno.EINVAL, "is no plain file; look who put it there", name)


def plain_now(files: Files, fd: int, dir_fd: int, name: str) -> os.stat_result:
    """``plain`` of the open file ``name``, after taking away the draft that ``make_file``, cut off between link and unlink, has
    left as its second name."""
    found = files.fstat(fd)
    drafts = _drafts(files, found, dir_fd, name)
    for other in drafts:
        files.unlink(other, dir_fd)
    if drafts:
        found = files.fstat(fd)
    plain(found, name)
    return found


def plain_but_for_draft(files: Files, fd: int, dir_fd: int, name: str) -> os.stat_result:
    """As ``plain_now``, for those who only look: it takes nothing away."""
    found = files.fstat(fd)
    if not _drafts(files, found, dir_fd, name):
        plain(found, name)
    return found


def _drafts(files: Files, found: os.stat_result, dir_fd: int, name: str) -> list[str]:
    """The draft, if that is the one other name of the file ``found``."""
    if found.st_nlink != 2 or not stat.S_ISREG(found.st_mode):
        return []
    inodes = {other: files.stat(other, dir_fd).st_ino for other in files.list(dir_fd) if other.startswith(f".{name}.")}
    return [other for other, inode in inodes.items() if inode == found.st_ino]


def open_path(files: Files, path: str) -> int:
    """A descriptor of the directory ``path``, made where it is missing, as are those above it, each closed to others."""
    try:
        return files.open_dir(path, follow=True)
    except FileNotFoundError:
        above, name = os.path.split(path)
        parent = open_path(files, above)
    try:
        try:
            files.mkdir(name, parent, 0o700)
            files.sync_dir(parent)
        except FileExistsError:
            return files.open_dir(name, parent)  # made meanwhile
        return files.open_dir(name, parent)
    finally:
        files.close(parent)


@contextmanager
def with_above(path: str, files: Files, *, above: bool) -> Iterator[list[tuple[str, int]]]:
    """(path, descriptor) of a directory and, with ``above``, of the one it lies in, where that is open to this user."""
    opened: list[tuple[str, int]] = []
    try:
        opened.append((path, files.open_dir(path, follow=True)))
        parent = os.path.dirname(path)
        if above and parent != path:
            try:
                opened.append((parent, files.open_dir(parent, follow=True)))
            except PermissionError:
                pass  # closed to us: what lies there is not shown either
        yield opened
    finally:
        for _, fd in opened:
            files.close(fd)
