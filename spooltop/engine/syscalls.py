"""System calls that Python does not offer, through the C library; the only module that uses ctypes.

Each raises ``OSError`` with the errno of the call, ENOSYS if this C library has no such function. Names are as
``os.fsencode`` takes them and are relative to a directory descriptor.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import ENOSYS

from spooltop.errors import Refused, SpoolFull, SpooltopError

# System errors in the words of the user.

_ADVICE = {
    errno.EIO: "look at the kernel's log (dmesg): the disk or its server fails; try again when it is mended",
    errno.EMFILE: "raise the limit of open files (ulimit -n), or open less",
    errno.ENFILE: "raise the limit of open files of the machine (sysctl fs.file-max)",
    errno.ESTALE: "the server has another directory there now: open it again",
    errno.ENOENT: "somebody took it away: look whether the directory is all there",
    errno.ENOSPC: "free some on this file system",
    errno.EDQUOT: "free some on this file system",
    errno.EROFS: "mount it for writing",
}


def advice(error: OSError) -> str:
    """Advice for a system error about which nothing more is known."""
    return _ADVICE.get(error.errno or 0, "nothing else was changed; try again")


@contextmanager
def translating(path: str, doing: str) -> Iterator[None]:
    """Converts an ``OSError`` raised in the block to a ``SpooltopError``, as ``translate`` does."""
    try:
        yield
    except OSError as error:
        raise translate(error, path, doing) from error


def translate(error: OSError, path: str, doing: str) -> SpooltopError:
    """The error to raise for ``error`` while ``doing`` ("put", "claim"): ``SpoolFull``, ``Refused``, or the plain
    ``SpooltopError``, each with what to do."""
    kind, what, hint = SpooltopError, os.strerror(error.errno) if error.errno else str(error), advice(error)
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            kind, what = SpoolFull, "quota exceeded" if error.errno == errno.EDQUOT else "no space or no inodes left"
            hint += ": acks go on meanwhile" if doing in ("put", "claim") else ""
        case errno.EROFS:
            kind = Refused
        case errno.EACCES | errno.EPERM:
            kind, hint = Refused, _as_owner(path)
        case errno.EXDEV:
            what, hint = "the boxes are on different file systems", "mount the spool as a whole"
    return kind(f"{doing}: {what}", hint, path=path)


def _as_owner(path: str) -> str:
    """Advice for a user who may not write something in the spool."""
    import pwd  # only for somebody who may not write
    import shlex

    try:
        uid = os.stat(os.path.join(path, "new")).st_uid
    except OSError:
        try:
            uid = os.stat(path).st_uid
        except OSError:
            return "run it as its owner: sudo -u OWNER …"
    if uid == os.geteuid():
        root = shlex.quote(path)
        return f"you own it, but not all that is in it: sudo chown -R --reference={root}/new {root}/.spooltop"
    try:
        owner = pwd.getpwuid(uid).pw_name
    except KeyError:
        owner = f"'#{uid}'"
    return f"run it as its owner: sudo -u {owner} …"


_libc = ctypes.CDLL(None, use_errno=True)

_RENAME_NOREPLACE, _RENAME_EXCHANGE = 1, 2
# Keeping errno for Python costs a call half as much again, so the quick one goes first and only what it refuses is asked again.
_quick_renameat2 = getattr(ctypes.CDLL(None), "renameat2", None)

_TIME_ERROR, _STA_UNSYNC = 5, 0x40
_FALLOC_FL_KEEP_SIZE = 1
_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15
_AT_FDCWD, _AT_EMPTY_PATH, _AT_STATX_DONT_SYNC = -100, 0x1000, 0x4000
_STATX_INO = 0x100
_Statx = ctypes.c_char * 256
_STATX_FILE = struct.Struct("32xQ96xII")
"""Inode, and major and minor of the device, in ``struct statx``."""
_HANDLE_MAX = 128
"""MAX_HANDLE_SZ of name_to_handle_at(2)."""
_HANDLE_HEAD = 2 * ctypes.sizeof(ctypes.c_int)
"""Bytes of ``struct file_handle`` before the handle: its size and its type."""

HAS_INOTIFY = hasattr(_libc, "inotify_init1")
"""True if this system has inotify(7)."""
HAS_RENAMEAT2 = _quick_renameat2 is not None
"""True if this C library has renameat2(2)."""


def _call(function: str, *arguments: object, names: tuple[str | None, ...] = ()) -> int:
    """Calls a function of the C library that returns a negative number for an error. ``names``: the files that the error is
    about."""
    call = getattr(_libc, function, None)
    result: int = -1 if call is None else call(*arguments)
    if result < 0:
        code = ENOSYS if call is None else ctypes.get_errno()
        raise OSError(code, os.strerror(code), *names)
    return result


def rename_noreplace(name: str, dir_fd: int, to: str, to_fd: int) -> None:
    """``renameat2(2)`` with RENAME_NOREPLACE; EINVAL if the file system has no such thing."""
    old = name.encode() if name.isascii() else os.fsencode(name)
    new = old if to is name else to.encode() if to.isascii() else os.fsencode(to)
    if _quick_renameat2 is None or _quick_renameat2(dir_fd, old, to_fd, new, _RENAME_NOREPLACE) != 0:
        _call("renameat2", dir_fd, old, to_fd, new, _RENAME_NOREPLACE, names=(name, None, to))


def rename_exchange(name: str, dir_fd: int, to: str, to_fd: int) -> None:
    """``renameat2(2)`` with RENAME_EXCHANGE; EINVAL if the file system has no such thing."""
    _call("renameat2", dir_fd, os.fsencode(name), to_fd, os.fsencode(to), _RENAME_EXCHANGE, names=(name, None, to))


def syncfs(fd: int) -> None:
    """``syncfs(2)``: everything on the file system of ``fd``. Reports write errors from Linux 5.8 on."""
    _call("syncfs", fd)


def fallocate(fd: int, offset: int, length: int) -> None:
    """``fallocate(2)`` of ``length`` bytes from ``offset`` on; the size of the file stays as it is."""
    _call("fallocate", fd, _FALLOC_FL_KEEP_SIZE, ctypes.c_int64(offset), ctypes.c_int64(length))


def cached_file_id(path: str) -> tuple[int, int]:
    """``statx(2)`` with AT_STATX_DONT_SYNC: device and inode of the file at ``path``, as the kernel has them. Where
    the server of a file system does not answer and stat(2) waits for ever, this does not wait."""
    found = _Statx()
    _call("statx", _AT_FDCWD, os.fsencode(path), _AT_STATX_DONT_SYNC, _STATX_INO, found, names=(path,))
    inode, major, minor = _STATX_FILE.unpack_from(found)
    return os.makedev(major, minor), inode


def inotify_init() -> int:
    """``inotify_init1(2)``: a descriptor that does not block and is closed on exec."""
    if not HAS_INOTIFY:
        raise OSError(ENOSYS, "this system has no inotify")
    return _call("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)


def inotify_add_watch(fd: int, path: str, mask: int) -> int:
    """``inotify_add_watch(2)``: the watch descriptor for ``path``."""
    return _call("inotify_add_watch", fd, os.fsencode(path), mask, names=(path,))


def fanotify_init(flags: int) -> int:
    """``fanotify_init(2)``: a descriptor whose event files would be opened for reading."""
    return _call("fanotify_init", flags, os.O_RDONLY)


def fanotify_mark(fd: int, flags: int, mask: int, folder: int) -> None:
    """``fanotify_mark(2)`` of the open directory ``folder``."""
    _call("fanotify_mark", fd, flags, ctypes.c_uint64(mask), folder, None)


def file_handle(fd: int) -> tuple[int, bytes]:
    """``name_to_handle_at(2)`` of an open file: the type of its handle and the handle. EOPNOTSUPP if its file system has
    none."""
    buffer = ctypes.create_string_buffer(_HANDLE_HEAD + _HANDLE_MAX)
    head = (ctypes.c_int * 2).from_buffer(buffer)
    head[0] = _HANDLE_MAX
    mount = ctypes.c_int()
    _call("name_to_handle_at", fd, b"", buffer, ctypes.byref(mount), _AT_EMPTY_PATH)
    return head[1], buffer.raw[_HANDLE_HEAD : _HANDLE_HEAD + head[0]]


class _Timex(ctypes.Structure):
    """The beginning of ``struct timex``, adjtimex(2), and room for its rest."""

    _fields_ = (
        ("modes", ctypes.c_uint), ("offset", ctypes.c_long), ("freq", ctypes.c_long), ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long), ("status", ctypes.c_int), ("rest", ctypes.c_char * 256),
    )  # fmt: skip


def clock_state() -> tuple[bool, float]:
    """``adjtimex(2)``, which changes nothing here: whether the clock is synchronised, and its largest possible error in
    seconds."""
    state = _Timex()
    code = _call("adjtimex", ctypes.byref(state))
    return code != _TIME_ERROR and not state.status & _STA_UNSYNC, state.maxerror / 1e6


def end_with_parent(number: int, parent: int) -> bool:
    """``prctl(2)`` PR_SET_PDEATHSIG: the kernel sends the signal ``number`` to this process when its parent, the process
    ``parent``, ends. False if that ended before the kernel was asked: then no signal comes. Does nothing if there is no such
    call."""
    _prctl(_PR_SET_PDEATHSIG, number)
    return os.getppid() == parent


def set_process_name(name: bytes) -> None:
    """``prctl(2)`` PR_SET_NAME: the first 15 bytes are what ``comm`` of proc(5) gives. Does nothing if there is no such
    call."""
    _prctl(_PR_SET_NAME, name[:15])


def _prctl(option: int, argument: int | bytes) -> None:
    with suppress(OSError):
        _call("prctl", option, argument)


def overwrite_memory(start: int, data: bytes) -> None:
    """Writes ``data`` over the memory of this process from the address ``start`` on."""
    ctypes.memmove(start, data, len(data))
