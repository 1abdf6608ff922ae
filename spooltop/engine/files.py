"""File operations of the engine and of the operators, all in one object.

A test can thus end the process at the k-th operation, or make it fail with any error, without any change to other code. All names
are relative to a directory descriptor; no operation follows a symbolic link in the last component. Errors are the subclasses of
``OSError`` that Python raises: ``FileNotFoundError`` and ``FileExistsError`` are lost races.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import NamedTuple

from msgspec import Struct

from spooltop.model import Clock

from . import syscalls
from .host import ORDERED, file_system, lacks_journal

READ_CAP = 1 << 20
"""Maximum number of bytes read from a small file of spooltop's own (presence, metadata)."""

UNSUPPORTED = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})
"""Errors of ``renameat2(2)`` if the file system does not support its flags."""

_SMALL = 16384
"""Bytes that may be read from anything that has a size; a larger file is first checked to be a regular file."""
_LISTED = 512
"""Number of names in each chunk of a listing."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_INT, _LONG = struct.Struct("i"), struct.Struct("l")
_GET_FLAGS, _SET_FLAGS = 2 << 30 | _LONG.size << 16 | 0x6601, 1 << 30 | _LONG.size << 16 | 0x6602
"""FS_IOC_GETFLAGS and FS_IOC_SETFLAGS of ioctl_iflags(2), whose argument is an ``int`` in spite of their size."""
_SPREADS = 0x00020000
"""FS_TOPDIR_FL of ioctl_iflags(2)."""
_REOPEN = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


# Locks of open files: flock(2), write locks of open file descriptions, and ``filelock`` for what is done rarely.

_LOCK = fcntl.LOCK_EX | fcntl.LOCK_NB
_flock = fcntl.flock

_STRUCT_FLOCK = struct.Struct("hhqqi0q")
"""``struct flock`` of Linux with 64-bit offsets (fcntl(2)): type, whence, start, length (0: the whole file), pid, padding."""
_SETLK: int | None = getattr(fcntl, "F_OFD_SETLK", None) if sys.platform == "linux" else None
_SETLKW: int = getattr(fcntl, "F_OFD_SETLKW", 0)
_GETLK: int = getattr(fcntl, "F_OFD_GETLK", 0)
OFD_LOCKS = _SETLK is not None
"""True if the system supports locks of open file descriptions (Linux 3.15 and later)."""
_WRITE_LOCK = _STRUCT_FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
_READ_LOCK = _STRUCT_FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)


class Files:
    """The real file operations. Thread-safe."""

    def __init__(self) -> None:
        self._no_renameat2: set[tuple[int, int]] = set()

    # Descriptors

    def open_dir(self, name: str, dir_fd: int | None = None, *, follow: bool = False) -> int:
        """Opens a directory and returns its descriptor. ``follow`` is for a path given by a person, never for names below it."""
        return os.open(name, _DIRECTORY | (0 if follow else os.O_NOFOLLOW), dir_fd=dir_fd)

    def create(self, name: str, dir_fd: int, mode: int = 0o666) -> int:
        """Creates a file, open for reading and writing, ``mode & ~umask``. ``FileExistsError`` if the name is taken."""
        return os.open(name, _CREATE, mode, dir_fd=dir_fd)

    def open_read(self, name: str, dir_fd: int | None, *, follow: bool = False) -> int:
        """Opens for reading without waiting on a FIFO or a device. ``open_regular`` checks that it is a regular file.
        ``follow`` is for a path given by a person."""
        return os.open(name, _READ & ~os.O_NOFOLLOW if follow else _READ, dir_fd=dir_fd)

    def open_lasting(self, name: str, dir_fd: int, *, append: bool = False, mode: int = 0o666) -> int:
        """Opens a lock file or a log; creates it if it is missing, and never truncates or removes it."""
        while True:
            try:  # without O_CREAT, which a sticky directory refuses for another user's file (fs.protected_regular, proc(5))
                return os.open(name, _REOPEN | (os.O_APPEND if append else 0), dir_fd=dir_fd)
            except FileNotFoundError:
                try:
                    return os.open(name, _REOPEN | os.O_CREAT | os.O_EXCL | (os.O_APPEND if append else 0), mode, dir_fd=dir_fd)
                except FileExistsError:
                    continue  # somebody else made it meanwhile

    def reopen(self, name: str, dir_fd: int) -> int:
        """Opens an existing lock file for reading and writing; ``FileNotFoundError`` if there is none."""
        return os.open(name, _REOPEN, dir_fd=dir_fd)

    close = staticmethod(os.close)

    @contextmanager
    def closing(self, fd: int) -> Iterator[int]:
        """Closes the descriptor ``fd``, which is the value of the ``with`` statement, at the end of the block."""
        try:
            yield fd
        finally:
            self.close(fd)

    def close_all(self, fds: Iterable[int]) -> None:
        """Closes descriptors; one that fails to close keeps no other from being closed. Raises the first error then."""
        failed: OSError | None = None
        for fd in fds:
            try:
                self.close(fd)
            except OSError as error:
                failed = failed or error
        if failed is not None:
            raise failed

    # Locks

    def lock(self, fd: int, *, shared: bool = False, wait: bool = False) -> bool:
        """Calls ``flock(2)``. False if another descriptor holds the lock (only without ``wait``)."""
        how = _LOCK if not (shared or wait) else (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
        try:
            _flock(fd, how)
        except BlockingIOError:
            return False
        return True

    def lock_coarse(self, fd: int, *, wait: bool = False) -> bool:
        """Takes the lock of ``filelock`` on an open file, for what is done rarely: repair, mutes, the demo. False if somebody
        else holds it (only without ``wait``).

        On the descriptor, not by a path: ``FileLock`` resolves the directory of its path, ``/proc/self/fd/N`` as well, and
        makes it where it is missing, so that a directory that is swapped meanwhile would lead it out of the spool. Locks that are
        taken for each message stay with ``lock``: the library takes 40 ms to load and waits by asking every 50 ms, where flock(2)
        wakes the next one at once.
        """
        from filelock import lock_descriptor

        return lock_descriptor(fd, blocking=wait)

    def lock_write(self, fd: int, *, wait: bool = False) -> bool:
        """Takes a write lock of the open file description on the whole file, which needs write access: a reader can neither take
        nor forge it. False if another descriptor holds a lock (only without ``wait``). Uses ``flock(2)`` if the system has no
        such locks."""
        if _SETLK is None:
            return self.lock(fd, wait=wait)
        try:
            fcntl.fcntl(fd, _SETLKW if wait else _SETLK, _WRITE_LOCK)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
        return True

    def write_locked(self, fd: int, *, or_read: bool = False) -> bool | None:
        """True if another descriptor holds a write lock, with ``or_read`` any lock of fcntl(2); takes no lock. ``fd`` must have
        been opened just before: through an older descriptor an NFS server does not see the lock of its client. None if the
        system does not support the query."""
        if _SETLK is None:
            return None
        answer = fcntl.fcntl(fd, _GETLK, _WRITE_LOCK if or_read else _READ_LOCK)
        return bool(_STRUCT_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)

    def lock_within(self, fd: int, timeout: float | None, *, write: bool = False, tick: Clock = time.monotonic) -> bool:
        """Locks ``fd`` exclusively, in ``timeout`` seconds at most (None: waits for ever); False if that was not enough. Takes a
        ``flock`` or, with ``write``, a lock that a user who may only read cannot take."""
        take: Callable[..., bool] = self.lock_write if write else self.lock
        if timeout is None:
            return take(fd, wait=True)
        # Neither call knows a timeout, and a signal for one is the program's and not ours.
        end, pause = tick() + timeout, 0.001
        while not take(fd):
            left = end - tick()
            if left <= 0:
                return False
            time.sleep(min(left, pause))
            pause = min(pause * 2, 0.005)  # longer ones would starve beside a loop that takes it again at once
        return True

    # Contents

    write = staticmethod(os.write)
    """Makes a single ``write(2)`` call, which may write less than was given."""

    def write_all(self, fd: int, data: bytes) -> None:
        """Writes all of ``data``, in as many writes as necessary."""
        if (written := self.write(fd, data)) == len(data):
            return
        rest = memoryview(data)[written:]
        while rest:
            if not (written := self.write(fd, rest)):
                raise OSError(errno.EIO, "nothing was written, and no error told")  # asked again it could go on for ever
            rest = rest[written:]

    def read(self, fd: int, limit: int = READ_CAP) -> bytes:
        """Reads up to ``limit`` bytes from the current position of the descriptor."""
        parts: list[bytes] = []
        while limit > 0 and (part := os.read(fd, min(limit, 1 << 20))):
            parts.append(part)
            limit -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def content(self, fd: int) -> bytes:
        """Reads all of a regular file at its present length. ``OSError`` (EINVAL, ESPIPE, EISDIR) if it is not a regular file.

        The size comes from ``lseek(2)``, which is faster than ``fstat`` and fails on a pipe or a socket.
        """
        size = os.lseek(fd, 0, os.SEEK_END)
        if (size == 0 or size > _SMALL) and not stat.S_ISREG(self.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        data = os.pread(fd, size, 0)
        if len(data) == size:
            return data
        # A short read is not the end of the file: it also occurs before a bad block, and the next read shows which.
        parts, at = [data], len(data)
        while at < size and (part := os.pread(fd, size - at, at)):
            parts.append(part)
            at += len(part)
        return b"".join(parts)

    pwrite = staticmethod(os.pwrite)

    truncate = staticmethod(os.ftruncate)

    # Syncs. One that failed is never tried again and trusted: the kernel forgets the error with the first report.

    sync = staticmethod(os.fsync)

    sync_dir = staticmethod(os.fsync)

    def ordered(self, fd: int) -> bool:
        """True if a sync of one directory makes all earlier changes of names durable, including those in other directories."""
        return file_system(fd) in ORDERED

    reuses_inodes_late = staticmethod(lacks_journal)
    """True if creating a file takes longer the more files were deleted lately in the same block group: on an ext4 without a
    journal."""

    sync_fs = staticmethod(syscalls.syncfs)
    """Calls ``syncfs(2)``, which syncs everything on the file system of ``fd``. Reports write errors from Linux 5.8 on."""

    # Looking

    def stat(self, name: str, dir_fd: int) -> os.stat_result:
        return os.lstat(name, dir_fd=dir_fd)

    fstat = staticmethod(os.fstat)

    def status(self, name: str, dir_fd: int) -> os.stat_result | None:
        """Returns the status of a name, which is not followed; None if there is none. Raises any other ``OSError``."""
        try:
            return self.stat(name, dir_fd)
        except FileNotFoundError:
            return None

    def is_inode(self, name: str, dir_fd: int, inode: int | None, *, unseen: bool | None = None) -> bool:
        """True if ``name`` is the file with this inode (None: any file), False if it is another file or is gone. If the system
        does not say, returns ``unseen``, or raises the ``OSError`` if that is None."""
        try:
            found = self.stat(name, dir_fd)
        except FileNotFoundError:
            return False
        except OSError:
            if unseen is None:
                raise
            return unseen
        return inode is None or found.st_ino == inode

    def is_linked(self, fd: int) -> bool:
        """False if an open file or directory was removed, and has no name any more."""
        try:
            return self.fstat(fd).st_nlink > 0
        except OSError as error:
            if error.errno == errno.ESTALE:  # removed by another client of an NFS server
                return False
            raise

    def list(self, dir_fd: int) -> list[str]:
        """Lists all names of a directory, in no order."""
        with _opened_again(dir_fd) as fd:
            return os.listdir(fd)

    def scan(self, dir_fd: int) -> Iterator[str]:
        """Yields the names one by one, without holding all of them."""
        with _opened_again(dir_fd) as fd, os.scandir(fd) as entries:
            for entry in entries:
                yield entry.name

    def inodes(self, dir_fd: int) -> Generator[tuple[str, int], None, None]:
        """Yields the names one by one, each with the inode that the directory contains, without a ``stat``."""
        with _opened_again(dir_fd) as fd, os.scandir(fd) as entries:
            for entry in entries:
                yield entry.name, entry.inode()

    def regular(self, dir_fd: int) -> Iterator[Sequence[str]]:
        """Yields the names of regular files, some hundreds at a time; the file type comes with the listing, without a
        ``stat``."""
        with _opened_again(dir_fd) as fd, os.scandir(fd) as entries:
            while found := list(islice(entries, _LISTED)):
                yield [entry.name for entry in found if entry.is_file(follow_symlinks=False)]

    # Changing names

    def move(
        self,
        name: str,
        dir_fd: int,
        to: str,
        to_fd: int,
        inode: int | None = None,
        fresh: bool = False,
        unique: bool = False,
    ) -> None:
        """Moves without ever replacing: ``renameat2(RENAME_NOREPLACE)``.

        ``FileNotFoundError``: the name is gone, the race is lost. ``FileExistsError``: ``to`` is taken; nothing has changed.
        ``inode`` is that of the file, if the caller knows it: it reveals a server that did the move and yet reports an error (NFS
        after a lost answer). ``fresh`` says that the name ``to`` was just made from random bits, so that a file found there is
        this one. ``unique`` also says that nobody else can create that name. If the file system does not support the call (EINVAL
        on NFS and some FUSE), the move is made by link → sync target → unlink → sync source, which leaves two names of one file
        after an interruption, never none. A unique target is always reached by ``rename``, which cannot replace anything there.
        """
        try:
            if unique:
                self.rename(name, dir_fd, to, to_fd)
                return
            if not self._no_renameat2 or (dir_fd, to_fd) not in self._no_renameat2:
                try:
                    self.rename_noreplace(name, dir_fd, to, to_fd)
                    return
                except OSError as error:
                    if error.errno not in UNSUPPORTED:
                        raise
            self._link_over(name, dir_fd, to, to_fd)
            self._no_renameat2.add((dir_fd, to_fd))  # only now: EINVAL can also be a real error, and then the fallback fails too
        except OSError:
            if (inode is None and not fresh and not unique) or not self.has_moved(name, dir_fd, to, to_fd, inode):
                raise

    rename_noreplace = staticmethod(syscalls.rename_noreplace)
    """Calls ``renameat2(2)`` with RENAME_NOREPLACE; EINVAL if the file system does not support it."""

    swap = staticmethod(syscalls.rename_exchange)
    """Swaps two names with ``renameat2(2)`` and RENAME_EXCHANGE: neither name is ever missing. ``FileNotFoundError`` if one does
    not exist, EINVAL if the file system does not support the call."""

    def rename(self, name: str, dir_fd: int, to: str, to_fd: int) -> None:
        """Calls ``rename(2)``, which replaces: only for a ``to`` that nobody else can use (the name of a claim)."""
        os.rename(name, to, src_dir_fd=dir_fd, dst_dir_fd=to_fd)

    def link(self, name: str, dir_fd: int, to: str, to_fd: int) -> None:
        os.link(name, to, src_dir_fd=dir_fd, dst_dir_fd=to_fd, follow_symlinks=False)

    def symlink(self, text: str, name: str, dir_fd: int) -> None:
        os.symlink(text, name, dir_fd=dir_fd)

    def _link_over(self, name: str, dir_fd: int, to: str, to_fd: int) -> None:
        try:
            self.link(name, dir_fd, to, to_fd)
        except FileExistsError:
            # One that was cut off between link and unlink is finished; anything else under that name stays.
            if not os.path.samestat(self.stat(name, dir_fd), self.stat(to, to_fd)):
                raise
        self.sync_dir(to_fd)  # before the unlink: on btrfs the next sync of the source alone would lose the file
        self.unlink(name, dir_fd)
        self.sync_dir(dir_fd)

    def has_moved(self, name: str, dir_fd: int, to: str, to_fd: int, inode: int | None) -> bool:
        """True if a move that reported an error was done all the same. ``inode`` None: ``to`` can be no other file."""
        try:
            if not self.is_inode(to, to_fd, inode):
                return False
            self.stat(name, dir_fd)
        except FileNotFoundError:
            return True
        except OSError:
            return False  # the first error is the one to report
        return False

    def replace(self, name: str, to: str, dir_fd: int) -> None:
        """Calls ``rename(2)`` over an existing file: publishes a new version of a file that always has the same name (a cursor
        file)."""
        os.replace(name, to, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)

    def keep_times(self, name: str, dir_fd: int, like: os.stat_result) -> None:
        """Gives a file the times of ``like``, so that it has the age of the file that it replaces."""
        os.utime(name, ns=(like.st_atime_ns, like.st_mtime_ns), dir_fd=dir_fd, follow_symlinks=False)

    def set_mtime(self, fd: int, mtime: float) -> None:
        """Sets the time of the last change of an open file (epoch seconds)."""
        os.utime(fd, (mtime, mtime))

    def touch(self, name: str, dir_fd: int) -> None:
        """Gives a file the time of now, as a lock that is its second name has it."""
        os.utime(name, dir_fd=dir_fd, follow_symlinks=False)

    def poke(self, name: str, dir_fd: int) -> None:
        """Writes a byte into a FIFO to wake its reader. Never waits; ENXIO if nobody reads it, EINVAL if it is no FIFO."""
        fd = os.open(name, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY, dir_fd=dir_fd)
        try:
            if not stat.S_ISFIFO(os.fstat(fd).st_mode):
                raise OSError(errno.EINVAL, "not a FIFO", name)
            os.write(fd, b"\0")
        finally:
            os.close(fd)

    def unlink(self, name: str, dir_fd: int) -> None:
        os.unlink(name, dir_fd=dir_fd)

    def remove(self, name: str, dir_fd: int) -> bool:
        """Removes a name; False if it was gone already. Raises any other ``OSError``."""
        try:
            self.unlink(name, dir_fd)
        except FileNotFoundError:
            return False
        return True

    def mkdir(self, name: str, dir_fd: int, mode: int = 0o777) -> None:
        os.mkdir(name, mode, dir_fd=dir_fd)

    def rmdir(self, name: str, dir_fd: int) -> None:
        os.rmdir(name, dir_fd=dir_fd)

    def spread_directories(self, fd: int) -> None:
        """Has ext4 spread the directories that will be made in the directory ``fd`` over its block groups, if that is possible
        (``chattr +T``). Without it they are made near each other."""
        flags = bytearray(_LONG.size)
        try:
            fcntl.ioctl(fd, _GET_FLAGS, flags)
            if not (now := _INT.unpack_from(flags)[0]) & _SPREADS:
                _INT.pack_into(flags, 0, now | _SPREADS)
                fcntl.ioctl(fd, _SET_FLAGS, bytes(flags))
        except OSError:
            return  # somebody else's directory, or a file system without such flags

    # Owner and mode

    def copy_owner(self, fd: int, like: os.stat_result, mode: int | None = None) -> None:
        """Gives an open file or directory the owner, group and mode of ``like``, or ``mode``, so that nobody is locked out.

        A file gets the read and write bits of the directory if ``like`` is one. If this user may not change the owner, only the
        group is changed; if that is refused too, the group of the file gets no more rights than others have. A file with a second
        name is never given to another owner: anyone who may write the directory may have linked it there for that purpose.
        """
        now = os.fstat(fd)
        if stat.S_ISREG(now.st_mode) and now.st_nlink > 1:
            return
        if (now.st_uid, now.st_gid) != (like.st_uid, like.st_gid):
            try:
                os.fchown(fd, like.st_uid, like.st_gid)
            except PermissionError:
                try:
                    os.fchown(fd, -1, like.st_gid)
                except PermissionError:
                    if mode is None and not stat.S_ISDIR(like.st_mode):
                        return  # somebody else's file, replaced by an unprivileged user: that is theirs to allow
                    mode = mode_like(like, stat.S_ISDIR(now.st_mode)) if mode is None else mode
                    mode &= ~stat.S_ISGID & ~(~mode << 3 & 0o070)
        mode = mode_like(like, stat.S_ISDIR(now.st_mode)) if mode is None else mode
        if stat.S_IMODE(now.st_mode) != mode or stat.S_ISDIR(now.st_mode):
            try:
                os.fchmod(fd, mode)
            except PermissionError:
                return  # no longer ours to change


@contextmanager
def _opened_again(dir_fd: int) -> Iterator[int]:
    # An open file of its own: copies of a descriptor share the place in the directory, and two scans would mix.
    fd = os.open(".", _DIRECTORY, dir_fd=dir_fd)
    try:
        yield fd
    finally:
        os.close(fd)


REAL_FILES = Files()
"""Default for callers that pass no ``Files``."""


def mode_like(like: os.stat_result, directory: bool) -> int:
    """Returns the mode of a new file or directory that is created next to ``like`` or replaces it."""
    mode = stat.S_IMODE(like.st_mode)
    if directory or not stat.S_ISDIR(like.st_mode):
        return mode
    return mode & 0o666


# Reading files that somebody else may have put there. Who may write a directory can place a symbolic link, a FIFO or a device
# under any name in it. So no link is followed, nothing is waited for, only regular files are read, and only as many bytes as
# the caller expects.

IRREGULAR = frozenset({errno.EINVAL, errno.ELOOP, errno.ENXIO, errno.ESPIPE, errno.EISDIR})
"""Errors of opening and reading anything other than a regular file: ``NotRegular`` (EINVAL), a symbolic link (ELOOP), a socket
(ENXIO), a pipe (ESPIPE), a directory (EISDIR)."""


class NotRegular(OSError):
    """EINVAL: the name belongs to something other than a regular file. ``status`` is its status."""

    def __init__(self, name: str, status: os.stat_result) -> None:
        super().__init__(errno.EINVAL, "not a regular file", name)
        self.status = status


class Content(NamedTuple):
    """The bytes that were read, and the status of the file when it was opened."""

    data: bytes
    status: os.stat_result


def why_mistrusted(found: os.stat_result, uid: int) -> str:
    """Says why ``uid`` does not trust a file or folder; empty where it does. A user's own group may write it, as the umask of
    many systems lets it; for root no other group may."""
    if found.st_uid not in (0, uid):
        return f"it belongs to user {found.st_uid}, neither to you nor to root"
    if found.st_mode & stat.S_IWOTH or (not uid and found.st_mode & stat.S_IWGRP and found.st_gid):
        return "others than its owner may write it"
    return ""


def open_regular(
    name: str, dir_fd: int | None = None, *, files: Files = REAL_FILES, follow: bool = False
) -> tuple[int, os.stat_result]:
    """Opens a regular file for reading and returns its descriptor and status. ``follow``: a symbolic link is followed, for paths
    given by a person.

    Raises ``OSError`` as open(2) does, ``NotRegular`` for anything else that can be opened.
    """
    fd = files.open_read(name, dir_fd, follow=follow)
    try:
        status = files.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise NotRegular(name, status)
    except BaseException:
        files.close(fd)
        raise
    return fd, status


def read_small(
    name: str,
    dir_fd: int | None = None,
    *,
    files: Files = REAL_FILES,
    limit: int = READ_CAP,
    whole: bool = False,
    follow: bool = False,
) -> Content:
    """Reads up to ``limit`` bytes from the beginning of a regular file. ``whole``: raises ``OSError`` (EFBIG) for a longer file.

    Raises ``OSError`` as ``open_regular`` and read(2) do.
    """
    fd, status = open_regular(name, dir_fd, files=files, follow=follow)
    with files.closing(fd):
        data = files.read(fd, limit + whole)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"larger than {limit} bytes", name)
    return Content(data, status)


class GrowingFiles(Struct):
    """Reads files of lines on from where it stopped before, and a file that was replaced or truncated from its start; of a file
    that it meets first the last ``at_first`` bytes, and no more than ``at_most`` at a time."""

    at_first: int
    at_most: int
    _read: dict[str, tuple[int, int]] = {}

    def new_lines(
        self, path: str, name: str, dir_fd: int | None = None, *, follow: bool = False
    ) -> tuple[list[bytes], bool, float]:
        """Returns the new whole lines of the file ``name``, which is known as ``path``; True if they go on from those before;
        and the time of its last change. Raises ``OSError`` as ``open_regular`` does."""
        fd, found = open_regular(name, dir_fd, follow=follow)
        with REAL_FILES.closing(fd):
            inode, offset = self._read.get(path, (0, 0))
            goes_on = inode == found.st_ino and offset <= found.st_size
            start = offset if goes_on else max(0, found.st_size - (self.at_most if inode else self.at_first))
            data = os.pread(fd, self.at_most, start)
        end = data.rfind(b"\n") + 1 or (len(data) if len(data) == self.at_most else 0)  # a line without an end is passed over
        self._read[path] = found.st_ino, start + end
        return data[:end].split(b"\n")[not goes_on and start > 0 : -1], goes_on, found.st_mtime  # the first may be cut off

