"""Names of the logs and of operations, and the file operations that they need beyond those of messages.

They are methods of the same object as the others, so that a test that ends the process at the k-th operation, or lets it fail,
covers them too.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from spooltop.engine.atomic import drafts_of, drop_drafts
from spooltop.engine.names import encode_value
from spooltop.engine.system.files import Files
from spooltop.engine.system.syscalls import fallocate
from spooltop.model.target import has_scheme
from spooltop.patterns import pattern

__all__ = [
    "AUDIT", "FULL", "JOURNAL", "OPERATION", "RESERVED", "STATE_DIR", "LogFiles", "open_path", "plain",
    "plain_but_for_draft", "plain_now", "state_of", "with_above",
]  # fmt: skip

STATE_DIR = "/var/lib/spooltop"
"""Root's own directory, for the logs of other users' spools."""

AUDIT = "audit.jsonl"
"""The name of every audit log, which is never divided into parts: nothing of it goes but by the hand of the administrator."""

JOURNAL = "journal.jsonl"
"""The name of every journal of messages."""

OPERATION = pattern(r"[0-9A-Za-z][0-9A-Za-z._-]{0,63}\Z")
"""Valid names for an operation, which may be the name of its folder, or for a staging directory, below ``.spooltop``."""

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""Error numbers that stop every change but those that free space."""

RESERVED = 256 * 1024
"""Bytes kept allocated behind the end of the file, so that a full disk does not stop the last lines."""


def state_of(state_dir: str, path: str) -> str:
    """The directory below ``state_dir`` for the logs of ``path``, by its real path; a URL is itself."""
    from hashlib import sha256  # loads OpenSSL: only for root on the spool of somebody else

    real = path if has_scheme(path) else os.path.realpath(path)
    mark = sha256(os.fsencode(real)).hexdigest()[:16]
    return os.path.join(state_dir, f"{encode_value(os.path.basename(real))[:40]}-{mark}")


class LogFiles(Files):
    """The real operations. Thread-safe."""

    rotate_at = 32 << 20
    """Bytes of a log from which on a new part begins."""
    read_at_most = 1 << 30
    """Bytes from the end of a log that are read back."""

    def reserve(self, fd: int, offset: int, length: int) -> None:
        """Calls ``fallocate(2)`` for ``length`` bytes from ``offset`` on; the size of the file stays as it is."""
        fallocate(fd, offset, length)

    def read_at(self, fd: int, length: int, offset: int) -> bytes:
        """Reads up to ``length`` bytes from ``offset`` on; fewer only at the end of the file."""
        parts: list[bytes] = []
        while length > 0 and (part := os.pread(fd, length, offset)):
            parts.append(part)
            length -= len(part)
            offset += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def plain(found: os.stat_result, name: str) -> None:
    """Raises ``OSError`` for what is no regular file with one name: whoever may write the directory can put something else
    there, a link to a file of ours, a FIFO."""
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        raise OSError(errno.EINVAL, "is not a regular file; look who put it there", name)


def plain_now(files: Files, fd: int, dir_fd: int, name: str) -> os.stat_result:
    """Checks the open file ``name`` as ``plain`` does, after removing the draft that ``make_file``, cut off between link and
    unlink, has left as its second name."""
    found = drop_drafts(files, fd, dir_fd, name)
    plain(found, name)
    return found


def plain_but_for_draft(files: Files, fd: int, dir_fd: int, name: str) -> os.stat_result:
    """Checks as ``plain_now`` does, for readers: it removes nothing."""
    found = files.fstat(fd)
    if not drafts_of(files, found, dir_fd, name):
        plain(found, name)
    return found


def open_path(files: Files, path: str) -> int:
    """Opens the directory ``path``. It is made where it is missing, as are its parents, each closed to other users."""
    try:
        return files.open_dir(path, follow=True)
    except FileNotFoundError:
        above, name = os.path.split(path)
        parent = open_path(files, above)
    opened = -1
    try:
        with suppress(FileExistsError):  # made meanwhile
            files.mkdir(name, parent, 0o700)
            files.sync_dir(parent)
        opened = files.open_dir(name, parent)
    finally:
        try:
            files.close(parent)
        except OSError:
            if opened >= 0:
                files.close(opened)
            raise
    return opened


@contextmanager
def with_above(path: str, files: Files, *, above: bool) -> Iterator[list[tuple[str, int]]]:
    """Opens a directory and, with ``above``, its parent where that is open to this user, as (path, descriptor)."""
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
