"""Flat directories: files that many processes read, each with or without a lock file ``<name>.lock`` in the same directory.

They are not spools: attempts are not counted, and nothing is delivered again. Use ``Spool`` for work that must not be lost.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from fnmatch import fnmatchcase

from spooltop.model import Clock, Unreadable

from .files import IRREGULAR, Files, open_regular
from .host import is_gone, this_machine

_LOCK = ".lock"
_SOFT_CAP = 1024


def read_and_delete(
    path: str | os.PathLike[str],
    timeout: float | None = 0,
    *,
    files: Files | None = None,
    tick: Clock = time.monotonic,
) -> bytes | None:
    """Reads a file, deletes it and returns its content; None if there is none, or if another reader was faster.

    Exactly one of many readers gets the file: it is moved to a name that only this reader uses (``.<name>.<32 hex>.taken``)
    before it is read, so that a writer who replaces it meanwhile loses nothing either. If a lock file ``<path>.lock`` exists, its
    ``flock`` is taken first, for at most ``timeout`` seconds (None: waits for ever); the result is None if it could not be taken.
    A reader that dies in between leaves the file under that other name: nothing is lost, but no other reader finds it by itself.

    Raises ``Unreadable`` if it is not a regular file (it stays), ``OSError`` as ``open`` does.

    >>> import os, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "job")
    ...     size = path.write_bytes(b"once")
    ...     (read_and_delete(path, timeout=1), read_and_delete(path), os.listdir(folder))
    (b'once', None, [])
    """
    files = files or Files()
    folder_path, name = os.path.split(os.path.abspath(os.fsdecode(path)))
    folder = files.open_dir(folder_path, follow=True)
    lock: int | None = None
    try:
        try:
            lock = files.open_read(name + _LOCK, folder)
            if not files.lock_within(lock, timeout, tick=tick):
                return None
        except FileNotFoundError:
            pass  # no lock file: the move alone decides
        try:
            if not stat.S_ISREG(files.stat(name, folder).st_mode):
                raise Unreadable("not a regular file", path=path)
            mine = f".{name[:180]}.{os.urandom(16).hex()}.taken"
            files.move(name, folder, mine, folder, unique=True)
        except FileNotFoundError:
            return None
        return _taken(files, folder, name, mine, path)
    finally:
        files.close_all([fd for fd in (lock, folder) if fd is not None])


def _taken(files: Files, folder: int, name: str, mine: str, path: str | os.PathLike[str]) -> bytes:
    try:
        with files.closing(files.open_read(mine, folder)) as fd:
            data = files.content(fd)
    except OSError as error:
        files.move(mine, folder, name, folder)  # raises if a new file has come meanwhile: then both exist
        if error.errno in IRREGULAR:
            raise Unreadable("not a regular file", path=path) from None
        raise
    files.unlink(mine, folder)
    files.sync_dir(folder)
    return data


def available(directory: str | os.PathLike[str], pattern: str = "*", *, files: Files | None = None) -> Iterator[str]:
    """Returns the paths of the regular files in ``directory`` that match ``pattern`` (fnmatch) and are not held now, by name.

    A file is held if its ``<name>.lock`` is locked (``flock``, POSIX or open file description lock), or names a holder in its
    content, as soft locks do: a running pid in the first line, or another host in the second. Dot files and the lock files
    themselves are left out. No lock is kept after the check: a process that wants to work on a file takes its lock, and may still
    be too late. A POSIX lock of this process on a lock file of this kind would be lost by the check (fcntl(2)); ``flock`` is not
    affected.

    Raises ``OSError`` if the directory cannot be read.

    >>> import fcntl, os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("a.job", "b.job", "b.job.lock"):
    ...         open(os.path.join(folder, name), "w").close()
    ...     with open(os.path.join(folder, "b.job.lock")) as lock:
    ...         fcntl.flock(lock, fcntl.LOCK_EX)
    ...         held = [os.path.basename(path) for path in available(folder, "*.job")]
    ...     (held, [os.path.basename(path) for path in available(folder, "*.job")])
    (['a.job'], ['a.job', 'b.job'])
    """
    files = files or Files()
    folder_path = os.path.abspath(os.fsdecode(directory))
    with files.closing(files.open_dir(folder_path, follow=True)) as folder:
        names = sorted(
            name
            for found in files.regular(folder)
            for name in found
            if name[0] != "." and not name.endswith(_LOCK) and fnmatchcase(name, pattern)
        )
        for name in names:
            if _held(files, folder, name + _LOCK):
                continue
            found = files.status(name, folder)
            if found is not None and stat.S_ISREG(found.st_mode):
                yield os.path.join(folder_path, name)


def _held(files: Files, folder: int, lock: str) -> bool:
    try:
        fd, found = open_regular(lock, folder, files=files)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # it cannot be read, so it is not known to be free
    with files.closing(fd):
        if not files.lock(fd, shared=True) or files.write_locked(fd, or_read=True):
            return True
        return _soft(files.read(fd, _SOFT_CAP)) if found.st_size else False


def _soft(said: bytes) -> bool:
    """True if the content of a lock file names a holder that may be running."""
    lines = said.split(b"\n")
    if not lines[0].strip().isdigit():
        return False
    if len(lines) > 1 and lines[1].strip() and lines[1].strip() != os.fsencode(this_machine().host):
        return True  # on another machine: cannot be checked from here
    return not is_gone(int(lines[0]))
