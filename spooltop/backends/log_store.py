"""Stores of logs: the place of the logs of a target, who may have written them, and how they are read back.

The logs of a spool lie in ``.spooltop`` beside the boxes; but when root works on a spool that belongs to somebody else, below
``state_dir``, where the owner of the spool cannot write. The logs in the spool itself are untrusted input to root then. The
logs of cursor files, tickets and lock files alone lie below ``/var/lib/spooltop`` for root, else in the user's own state
directory.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext, suppress
from functools import partial
from os import stat_result
from typing import Protocol

from msgspec import Struct

from spooltop.engine.atomic import discard, drafts_of, drop_drafts, make_file, publish_new
from spooltop.engine.files import UNSUPPORTED, Files
from spooltop.engine.names import encode_value
from spooltop.engine.syscalls import fallocate
from spooltop.model import AuditFailed, AuditFull, has_scheme

# Names of the logs and of operations, and the file operations that they need beyond those of messages. They are methods of the
# same object as the others, so that a test that ends the process at the k-th operation, or lets it fail, covers them too.

STATE_DIR = "/var/lib/spooltop"
"""Root's own directory, for the logs of other users' spools."""


JOURNAL = "journal.jsonl"
"""The name of every journal of messages."""

OPERATION = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,63}\Z")
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


def plain_file(files: Files, fd: int, dir_fd: int, name: str, *, mend: bool) -> os.stat_result:
    """The status of the open file ``name``. Raises ``OSError`` for what is no regular file with one name: whoever may write the
    directory can put something else there, a link to a file of ours, a FIFO. A draft that ``make_file``, cut off between link and
    unlink, has left as its second name is passed over, or removed to ``mend`` it."""
    found = drop_drafts(files, fd, dir_fd, name) if mend else files.fstat(fd)
    if not drafts_of(files, found, dir_fd, name) and (not stat.S_ISREG(found.st_mode) or found.st_nlink != 1):
        raise OSError(errno.EINVAL, "is not a regular file; look who put it there", name)
    return found


def open_path(files: Files, path: str) -> int:
    """Opens the directory ``path``. It is made where it is missing, as are its parents, each closed to other users."""
    try:
        return files.open_dir(path, follow=True)
    except FileNotFoundError:
        above, name = os.path.split(path)
    opened = -1
    try:
        with files.closing(open_path(files, above)) as parent:
            with suppress(FileExistsError):  # made meanwhile
                files.mkdir(name, parent, 0o700)
                files.sync_dir(parent)
            opened = files.open_dir(name, parent)
    except OSError:
        if opened >= 0:
            files.close(opened)
        raise
    return opened


OpenFolders = list[tuple[str, int]]
"""Open directories: the path of each as it is shown, and a descriptor."""


@contextmanager
def with_above(path: str, files: Files, *, above: bool) -> Iterator[OpenFolders]:
    """Opens a directory and, with ``above``, its parent where that is open to this user, as (path, descriptor)."""
    with ExitStack() as stack:
        opened = [(path, stack.enter_context(files.closing(files.open_dir(path, follow=True))))]
        parent = os.path.dirname(path)
        if above and parent != path:
            with suppress(PermissionError):  # closed to us: what lies there is not shown either
                opened.append((parent, stack.enter_context(files.closing(files.open_dir(parent, follow=True)))))
        yield opened


# The parts of a log: its file is set apart when it has become large, and a new one begins. ``journal.jsonl`` is the newest
# part; ``journal.000001.jsonl`` was the first. A part begins with the intents that had no result yet, so that whoever looks for
# interrupted steps reads the two newest files only. Each step of a rotation leaves a log that can be read and continued: the
# next part is made under its number, and then swapped with the newest. There is no lock that a writer waits for. A line that
# was written to a file which is no longer the newest is written again (``append_line``): of two lines about one step the
# first counts.

MOST_PARTS = 32
"""Parts that are kept besides the newest, 1 GiB. Older ones go, also where something in them could be undone."""
_UNLOCKABLE = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


def parts_of(files: LogFiles, dir_fd: int, name: str) -> list[str]:
    """The parts of the log ``name`` besides the newest, the oldest first. Raises ``OSError``."""
    stem, _, ending = name.rpartition(".")
    part = re.compile(rf"{re.escape(stem)}\.([0-9]{{6,12}})\.{re.escape(ending)}")
    found = [(int(match[1]), other) for other in files.list(dir_fd) if (match := part.fullmatch(other)) is not None]
    return [other for _, other in sorted(found)]


NextPart = Callable[[], bytes]
"""Makes the lines that a new part begins with."""


def rotate(files: LogFiles, dir_fd: int, name: str, fd: int, like: stat_result, following: NextPart) -> bool:
    """Begins a new part of the log ``name``, which is open as ``fd`` for writing. False where that is not possible: another
    process is doing it, there is no room or no permission, or locks are not supported."""
    try:
        if not files.lock_write(fd):
            return False
        inode = files.fstat(fd).st_ino
        if not files.is_inode(name, dir_fd, inode):
            return True  # done meanwhile
        older = parts_of(files, dir_fd, name)
        stem, _, ending = name.rpartition(".")
        number = int(older[-1].split(".")[-2]) + 1 if older else 1
        part = f"{stem}.{number:06}.{ending}"
        carried = following()
        if not publish_new(files, dir_fd, part, carried, like):
            return False
        with files.closing(files.open_lasting(part, dir_fd, append=True, mode=0o600)) as opened:
            try:
                files.reserve(opened, len(carried), RESERVED)
            except OSError as error:
                if error.errno in FULL:  # elsewhere there may be no such call
                    discard(files, part, dir_fd)
                    return False
        try:
            files.swap(part, dir_fd, name, dir_fd)
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                if not files.is_inode(part, dir_fd, inode, unseen=True):  # else a server has done it all the same
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
    for old in older[: max(0, len(older) + 1 - MOST_PARTS)]:
        # Another process was quicker; or the file is another user's in a sticky directory, who will remove it.
        with suppress(FileNotFoundError, PermissionError):
            files.unlink(old, dir_fd)
    return True


# Reads the lines of a log from its end, a block at a time, however large it is.

_BLOCK = 1 << 20
_LONGEST = 64 << 20
"""Bytes of a line; what is longer is none of ours, and nothing before it is read."""


class LogLines(Struct):
    """The lines of the log ``name`` in an open directory, newest first, without their newlines; empty ones are left out.
    ``folder`` opens it, as None if there is no such directory; ``path`` is its path. ``latest``: only the newest so many parts
    are read. ``trusted``: nobody else may write the log.

    Once all is read that is wanted, ``torn`` tells that the newest line was cut off (it is left out then), and ``unread`` how
    many bytes before the others are not read, because there are more than ``files.read_at_most``. Raises ``OSError`` while it is
    read.
    """

    _files: LogFiles
    _folder: Callable[[], AbstractContextManager[int | None]]
    _name: str
    _latest: int | None
    path: str
    trusted: bool
    torn: bool = False
    unread: int = 0

    def __iter__(self) -> Generator[bytes, None, None]:
        left, self.torn, self.unread = self._files.read_at_most, False, 0
        with self._folder() as folder, closing(self._opened(folder)) as opened:
            for name, fd, size in opened:
                if self.unread:
                    self.unread += size
                    continue
                start = self.unread = max(0, size - left)
                left -= size - start
                with closing(self._backwards(fd, start, size)) as lines:
                    last = next(lines, b"")
                    if name == self._name:
                        self.torn = bool(last)
                    elif last:
                        yield last  # cut off before the next part began: a bad line
                    yield from filter(None, lines)

    def _opened(self, folder: int | None) -> Generator[tuple[str, int, int], None, None]:
        """Opens the files of the log one by one, the newest first: name, descriptor, size."""
        files = self._files
        names = [self._name]
        while names and folder is not None:
            name = names.pop(0)
            try:
                fd = files.open_read(name, folder)
            except FileNotFoundError:
                if name == self._name:
                    names = self._older(folder, None)
                continue  # a part was dropped meanwhile
            try:
                found = plain_file(files, fd, folder, name, mend=False)
                if name == self._name:
                    names = self._older(folder, found.st_ino)
                yield name, fd, found.st_size
            finally:
                files.close(fd)

    def _older(self, folder: int, newest: int | None) -> list[str]:
        """The parts before the file with the inode ``newest``, which may have become a part itself since it was opened. The
        newest comes first."""
        parts = parts_of(self._files, folder, self._name)[::-1]
        for place, part in enumerate(parts):
            if newest is not None and self._files.is_inode(part, folder, newest):
                parts = parts[place + 1 :]
                break
        return parts if self._latest is None else parts[: self._latest - 1]

    def _backwards(self, fd: int, start: int, end: int) -> Generator[bytes, None, None]:
        """Yields what is between the newlines from byte ``start`` to ``end`` of a file, the last first, which is empty where the
        file ends with a newline. A line that begins before ``start`` is left out."""
        parts: list[bytes] = []
        length = 0
        while end > start:
            begin = max(start, end - _BLOCK)
            block = self._files.read_at(fd, end - begin, begin)
            end, until = begin, len(block)
            while (newline := block.rfind(b"\n", 0, until)) >= 0:
                parts.append(block[newline + 1 : until])
                yield parts[0] if len(parts) == 1 else b"".join(reversed(parts))
                parts, length, until = [], 0, newline
            parts.append(block[:until])
            length += until
            if length > _LONGEST:
                start = end
        self.unread = start
        if not start:
            yield b"".join(reversed(parts))


# The append-only log file: one object a line, with room kept for a full disk.

def append_line(
    files: LogFiles, dir_fd: int, name: str, line: bytes, like: os.stat_result, *, sync: bool = True,
    following: NextPart | None = None,
) -> None:  # fmt: skip
    """Appends ``line``, which ends with a newline, to the log ``name`` in the directory ``dir_fd`` by one write(2); an empty line
    only syncs. It is synced when this returns, unless ``sync`` is off and a later line will be. After an error a part of it may
    be in the file, which takes owner, group and mode of ``like`` when made. A log that has become large continues in the part
    ``following``; without one in the same file. Raises ``OSError``."""
    while True:
        try:
            files.stat(name, dir_fd)
        except FileNotFoundError:
            make_file(files, dir_fd, name, like)
        with files.closing(files.open_lasting(name, dir_fd, append=True, mode=0o600)) as fd:
            found = plain_file(files, fd, dir_fd, name, mend=True)
            size = found.st_size
            rotated = following and size >= files.rotate_at and rotate(files, dir_fd, name, fd, like, following)
            if not rotated:
                if found.st_blocks * 512 < size + len(line) + RESERVED // 2:
                    with suppress(OSError):  # no such call here, or a full disk: the write itself says what there is to say
                        files.reserve(fd, size, len(line) + RESERVED)
                cut_off = line and size and files.read_at(fd, 1, size - 1) != b"\n"
                text = b"\n" + line if cut_off else line  # so that what was cut off stays one bad line, not two
                if text and files.write(fd, text) != len(text):
                    raise OSError(errno.ENOSPC, "the line was cut off", name)
                if sync:
                    files.sync(fd)
        if not rotated and files.is_inode(name, dir_fd, found.st_ino):
            return
        following = None  # it continues in another file, in which the line has to be written


class LogPlace(Protocol):
    """An open directory that keeps logs in a directory of spooltop's own."""

    @property
    def path(self) -> str: ...

    @property
    def owner_model(self) -> os.stat_result:
        """Owner, group and mode of new files."""
        ...

    def private_dir(self, *, create: bool = False) -> int | None:
        """Opens the directory of spooltop's own; None if it is missing and ``create`` is False. Raises ``OSError``."""
        ...


class LogStore(Struct):
    """The logs of the target at ``path`` as one user keeps them. Each has a file name, such as ``journal.jsonl``. ``opening``
    opens the directory that has them, for each call. A target without one, and a queue of somebody else on which root works, has
    them in a directory of its own below ``state_dir``."""

    path: str
    files: LogFiles
    state_dir: str | None
    opening: Callable[[], AbstractContextManager[LogPlace | None]] = nullcontext

    @classmethod
    def beside(cls, dirs: LogPlace, files: LogFiles, state_dir: str = STATE_DIR) -> LogStore:
        """The logs of an open queue."""
        return cls(dirs.path, files, state_dir, lambda: nullcontext(dirs))

    def append(self, name: str, line: bytes, *, sync: bool = True, following: NextPart | None = None) -> None:
        """Appends ``line``, which ends with a newline; an empty line only syncs. The line is synced when this returns, unless
        ``sync`` is off. ``following`` as for ``append_line``. Raises ``AuditFailed``."""
        path, of_queue = self.path, False
        try:
            with self.opening() as dirs:
                own, of_queue = _own(dirs), dirs is not None
                path = self._path_of(own)
                with self._folder(own, create=True) as folder:
                    assert folder is not None  # create=True makes it or raises
                    like = self.files.fstat(folder) if own is None else own.owner_model
                    append_line(self.files, folder, name, line, like, sync=sync, following=following)
        except OSError as error:
            # Else it is another disk: no change of the queue frees it.
            kind = AuditFull if of_queue and error.errno in FULL else AuditFailed
            advice = "nothing is changed without it; free space or fix its permissions"
            raise kind(f"{name} cannot be written: {error.strerror or error}", advice, path=path) from error

    def read(self, name: str, *, latest: int | None = None) -> Iterator[LogLines]:
        """Yields the logs called ``name``, the user's own first, each to be read before the next; only the ``latest`` parts of
        each. Raises ``OSError`` where the directory cannot be opened."""
        with self.opening() as dirs:
            own = _own(dirs)
            for place in (own,) if own is dirs else (own, dirs):
                if place is not None or self.state_dir is not None:
                    yield LogLines(self.files, partial(self._folder, place), name, latest, self._path_of(place), place is own)

    def _path_of(self, place: LogPlace | None) -> str:
        if place is not None:
            return self.path
        if self.state_dir is None:
            raise AuditFailed("there is no place for the journal", "set XDG_STATE_HOME or HOME")
        return state_of(self.state_dir, self.path)

    @contextmanager
    def _folder(self, place: LogPlace | None, *, create: bool = False) -> Iterator[int | None]:
        """Opens the directory of the logs in ``place``, None: below ``state_dir``. None if there is none. Raises ``OSError``."""
        if place is not None:
            yield place.private_dir(create=create)
            return
        path, fd = self._path_of(None), None
        try:
            fd = open_path(self.files, path) if create else self.files.open_dir(path, follow=True)
        except FileNotFoundError:
            if create:
                raise
        if fd is None:
            yield None
            return
        with self.files.closing(fd):
            found = self.files.fstat(fd)
            if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise OSError(errno.EPERM, "others may write its directory", path)
            yield fd


def _own(dirs: LogPlace | None) -> LogPlace | None:
    """The place of this user's own logs: the queue, or None where its owner could forge them."""
    return None if dirs is None or (os.geteuid() == 0 and dirs.owner_model.st_uid != 0) else dirs
