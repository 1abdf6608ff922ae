"""Locks of open files: flock(2), write locks of open file descriptions, and ``filelock`` for what is done rarely."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys

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


class FileLocks:
    """The real locks, on descriptors. Thread-safe."""

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
