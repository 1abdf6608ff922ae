"""Delivery of a message: it is completed in ``tmp`` or a staging directory, committed by a single move to ``new``, and then
synced.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import BinaryIO, TypeAlias
from weakref import WeakSet

from spooltop.errors import PutUnknown, Refused, SpooltopError, Unreadable
from spooltop.model.vocabulary import Box

from ..atomic import discard
from ..dirs import STAGE, SpoolDirs
from ..names import parse
from ..system.files import UNSUPPORTED, is_inode

# Staging directories: ``.spooltop/stage/<folder>/``. Files in them are drafts like those in ``tmp``. An ext4 without a journal
# passes over each inode that was freed within the last minutes, one by one, at every create in the same block group. A spool
# through which much goes frees as many inodes as it takes, and with all drafts in ``tmp`` a put soon costs ten times as much.
# The directory decides in which block group the inode of a new file is looked for. So a producer that puts many messages takes
# one staging directory after the other, which ext4 spreads over its block groups. They are made when they are first needed,
# shared by all producers, and never removed. Elsewhere a draft is in ``tmp``, as are the first ones of each process.

_FOLDERS = 256
"""Number of staging directories. Measured: with 64 the inodes freed in a minute cost half of the speed again."""
_EACH = 256
"""Number of drafts after which a producer goes on to the next directory. The first use of a block group may have to read from the
disk; the inodes that are freed while a producer stays cost more the longer it does."""
_IN_TMP = 32
"""Number of drafts in ``tmp`` after which a producer takes a staging directory."""
_OPEN_AT_MOST = 32
"""Number of directories that drafts of one producer may be in at a time: a large group commit has many drafts."""


class DraftDir:
    """An open directory for drafts; ``left`` is the number of drafts until the next directory. A staging directory is closed when
    nothing refers to this object any more."""

    __slots__ = ("__weakref__", "_close", "fd", "left")

    def __init__(self, fd: int, left: float, close: Callable[[int], None] | None = None) -> None:
        self.fd = fd
        self.left = left
        self._close = close

    def __del__(self) -> None:
        if self._close is not None:
            try:
                self._close(self.fd)
            except OSError:
                return  # a directory is only read: a close that reports an error loses nothing, and here nobody hears of it


class Staging:
    """Chooses the directory for each draft of one process, on the spool of ``dirs``. Thread-safe: at worst two threads open the
    next directory each."""

    def __init__(self, dirs: SpoolDirs) -> None:
        self._dirs = dirs
        self._tmp = dirs.box(Box.TMP)
        self.current = DraftDir(self._tmp, _IN_TMP)
        """The directory for the next draft, unless it has none left."""
        self._opened: WeakSet[DraftDir] = WeakSet()
        self._wanted: bool | None = None
        self._number = int.from_bytes(os.urandom(2))  # not the same for all producers

    def use_tmp(self) -> DraftDir:
        """Goes back to ``tmp`` for a while: a staging directory was removed, or may not be written any more."""
        self.current = DraftDir(self._tmp, _IN_TMP)
        return self.current

    def next(self, current: DraftDir) -> DraftDir:
        """Returns the directory for the next draft, when ``current`` has none left."""
        if self._wanted is None:
            self._wanted = self._dirs.files.reuses_inodes_late(self._tmp)
        if not self._wanted:
            current.left = float("inf")
        elif len(self._opened) >= _OPEN_AT_MOST:
            current.left = _EACH
        else:
            try:
                self.current = current = self._open()
            except (OSError, SpooltopError):
                return self.use_tmp()  # a put needs no staging directory
        return current

    def _open(self) -> DraftDir:
        dirs, files = self._dirs, self._dirs.files
        above = dirs.own_dir(STAGE)
        self._number = (self._number + 1) % _FOLDERS
        name = f"{self._number:02x}"
        try:
            fd = files.open_dir(name, above)
        except FileNotFoundError:
            files.spread_directories(above)
            dirs.make_dir(name, above, durable=False)
            fd = files.open_dir(name, above)
        opened = DraftDir(fd, _EACH - 1, files.close)
        self._opened.add(opened)
        return opened


Data: TypeAlias = "bytes | bytearray | memoryview | BinaryIO"

_CHUNK = 1 << 20


class TmpWriter:
    """Writes the drafts of one producer process. System errors are raised as ``OSError``. ``folder`` is the directory of a draft,
    ``tmp`` unless it is given: what must be found again by its name is never in a staging directory."""

    def __init__(self, dirs: SpoolDirs) -> None:
        self._files = dirs.files
        self._path = dirs.path
        self._tmp, self._new = dirs.box(Box.TMP), dirs.box(Box.NEW)
        self._staging = Staging(dirs)
        self._like = like = dirs.owner_model
        # What this process makes belongs to another than the spool does, and is given to its owner.
        self._gives_away = like.st_uid != os.geteuid() or (like.st_gid != os.getegid() and not like.st_mode & stat.S_ISGID)

    def write_fresh(self, name: str, data: Data, sync: bool) -> DraftDir:
        """Writes the complete file under a name that was made of random bits just now. Returns the directory that it is in,
        which stays open as long as the caller keeps it."""
        drafts = self._staging.current
        drafts.left -= 1
        if drafts.left < 0:
            drafts = self._staging.next(drafts)
        try:
            self.write(name, data, sync, True, drafts.fd)
        except (FileNotFoundError, PermissionError):
            if drafts.fd == self._tmp:
                raise
            drafts = self._staging.use_tmp()
            self.write(name, data, sync, True, drafts.fd)
        return drafts

    def write(self, name: str, data: Data, sync: bool, fresh: bool, folder: int | None = None) -> int | None:
        """Writes the complete file, locked while it is written. Leaves nothing behind after an error.

        Returns its inode; None if the name is ``fresh``, made of random bits just now, which identifies the file just as well.
        """
        files = self._files
        fd = files.create(name, self._tmp if folder is None else folder)
        try:
            try:
                files.lock_write(fd)
                if self._gives_away:
                    files.copy_owner(fd, self._like, self._like.st_mode & 0o664)
                if type(data) is bytes:
                    files.write_all(fd, data)
                elif isinstance(data, (bytes, bytearray, memoryview)):
                    files.write_all(fd, bytes(data))
                else:
                    while chunk := _part(data):
                        if not isinstance(chunk, bytes):
                            raise TypeError("a message is bytes or a binary file, and this file gives text")
                        files.write_all(fd, chunk)
                if sync:
                    files.sync(fd)
                inode = None if fresh else files.fstat(fd).st_ino
            finally:
                files.close(fd)
        except BaseException:
            self.discard(name, folder)
            raise
        return inode

    def deliver(self, name: str, inode: int | None, *, keep: bool, folder: int | None = None) -> None:
        """Moves the file to ``new`` without replacing anything. Raises ``PutUnknown`` if the move reported an error and yet may
        have been done, ``FileNotFoundError`` if the file is gone. After any other error the file is removed, unless it is to be
        kept and its name is not taken in ``new`` either."""
        try:
            source = self._tmp if folder is None else folder
            self._files.move(name, source, name, self._new, inode, inode is None)
        except FileNotFoundError:
            raise
        except OSError as error:
            taken = isinstance(error, FileExistsError)
            # Where it is not known to be absent it may have arrived.
            if not taken and is_inode(self._files, name, self._new, inode, unseen=True):
                raise PutUnknown(
                    f"the move to new reported an error: {error.strerror}", id=parse(name, claimed=False).id, path=self._path
                ) from error
            if taken or not keep:
                self.discard(name, folder)
            raise

    def swap_in(self, draft: str, data: Data, name: str, folder: int, *, durable: bool) -> None:
        """Puts ``data`` in place of the content of ``name`` in the directory ``folder``, in one step. The file keeps its times.
        The new content is first written to the file ``draft`` in ``tmp``.

        Raises ``Unreadable`` if it is not a regular file, ``Refused`` if the file system cannot swap two files.
        """
        files = self._files
        old = files.stat(name, folder)
        if not stat.S_ISREG(old.st_mode):
            raise not_regular(self._path)
        inode = self.write(draft, data, durable, False)
        try:
            files.keep_times(draft, self._tmp, old)
            files.swap(draft, self._tmp, name, folder)
        except OSError as error:
            # A server may have done it and yet report an error.
            if not is_inode(files, name, folder, inode, unseen=False):
                self.discard(draft)
                if error.errno in UNSUPPORTED:
                    what = "release: this file system cannot swap two files in one step, which changed content needs"
                    advice = "put the new content as a message, then ack this one"
                    raise Refused(what, path=self._path, advice=advice) from error
                raise
        if durable:
            files.sync_dir(folder)  # first: cut off in between, the old content is in tmp, where nothing is delivered
            files.sync_dir(self._tmp)
        self.discard(draft)  # the old content

    def sync_names(self) -> None:
        """Makes the names in ``tmp`` durable before a record of one is. On a file system that does not order changes of
        directories (btrfs), a power failure could otherwise leave only the record, and a retry would take the message for
        delivered."""
        if not self._files.ordered(self._tmp):
            self._files.sync_dir(self._tmp)

    def settle(self, id: str, *, emptied: bool = False) -> None:
        """Syncs ``new``; raises ``PutUnknown`` if that fails. ``emptied`` also syncs ``tmp`` where the order of changes is not
        kept (btrfs): a file that came back in ``tmp`` after power loss would be delivered again by the next put."""
        try:
            self._files.sync_dir(self._new)
            if emptied and not self._files.ordered(self._new):
                self._files.sync_dir(self._tmp)
        except OSError as error:
            raise PutUnknown(f"the sync of new failed: {error.strerror}", id=id, path=self._path) from error

    def discard(self, name: str, folder: int | None = None) -> None:
        """Removes a draft, as far as that is possible. If it stays, nothing there is taken for a message."""
        discard(self._files, name, self._tmp if folder is None else folder)


class SourceFailed(Exception):
    """The file with the content of a message could not be read. It is not the spool's file, so the error is raised as it is."""

    def __init__(self, error: OSError) -> None:
        self.error = error


def _part(data: BinaryIO) -> bytes:
    try:
        return data.read(_CHUNK)
    except OSError as error:
        raise SourceFailed(error) from None


def not_regular(path: str) -> Unreadable:
    """Builds the error for a message of the spool ``path`` that is not a regular file."""
    return Unreadable("not a regular file", path=path, advice="reject it, and look who put it there")


def check_data(data: object) -> None:
    """Raises ``TypeError`` unless the value is ``Data``."""
    if type(data) is not bytes and not isinstance(data, (bytes, bytearray, memoryview)) and not hasattr(data, "read"):
        hint = ": encode it, as in data.encode()" if isinstance(data, str) else ""
        raise TypeError(f"data: a message is bytes or a binary file, not {type(data).__name__}{hint}")
