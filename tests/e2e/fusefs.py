"""A directory seen through FUSE, read only, by a program that keeps no times: a directory never gets another mtime there, no
event is sent, and while the program is stopped nobody who looks gets an answer. After SIGUSR1 it takes what it is asked and
never answers: no signal ends such a request, not even SIGKILL. It ends with COMMAND, after SIGUSR1 only by a signal.

    python -m tests.e2e.fusefs [--silent | --silent-lists] DIRECTORY MOUNTPOINT COMMAND…

mounts it (``--silent``: it never answers at all, ``--silent-lists``: no list of a directory), which needs a mount namespace of
one's own, and becomes COMMAND; a child serves. Source of the words: fuse(4), linux/fuse.h of the protocol 7.31.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import stat
import struct
import sys
from collections.abc import Callable, Container
from pathlib import Path

_IN, _OUT = struct.Struct("IIQQIIII"), struct.Struct("IiQ")
_LOOKUP, _GETATTR, _OPEN, _READ, _STATFS, _INIT, _OPENDIR, _READDIR = 1, 3, 14, 15, 17, 26, 27, 28
_DONE = (18, 25, 29, 34)
"""RELEASE, FLUSH, RELEASEDIR, ACCESS: answered with nothing."""
_SILENT = (2, 36, 42)
"""FORGET, INTERRUPT, BATCH_FORGET: never answered."""
_ROOT = 1
_PR_SET_PDEATHSIG = 1


class Served:
    """The directory ``backing`` as nodes with numbers."""

    def __init__(self, backing: Path) -> None:
        self._paths = {_ROOT: backing}
        self._numbers = {backing: _ROOT}
        self._answers: dict[int, Callable[[Path, bytes], bytes]] = {
            _INIT: self._init, _LOOKUP: self._lookup, _GETATTR: self._getattr, _OPEN: self._open, _OPENDIR: self._open,
            _READ: self._read, _READDIR: self._readdir, _STATFS: self._statfs,
        }  # fmt: skip

    def answer(self, opcode: int, node: int, body: bytes) -> tuple[int, bytes]:
        """(error, words) for one request."""
        if opcode in _DONE:
            return 0, b""
        try:
            return 0, self._answers[opcode](self._paths[node or _ROOT], body)
        except KeyError:
            return -errno.ENOSYS, b""
        except OSError as problem:
            return -(problem.errno or errno.EIO), b""

    def _number(self, path: Path) -> int:
        if path not in self._numbers:
            self._numbers[path] = len(self._numbers) + 1
            self._paths[self._numbers[path]] = path
        return self._numbers[path]

    def _attributes(self, path: Path) -> bytes:
        found = path.lstat()
        shared = (found.st_mode, found.st_nlink, found.st_uid, found.st_gid, 0, 4096, 0)
        return struct.pack("6Q10I", self._number(path), found.st_size, 1, 1, 1, 1, 0, 0, 0, *shared)

    def _init(self, path: Path, body: bytes) -> bytes:
        return struct.pack("IIIIHHII32x", 7, 31, 0, 0, 1, 1, 4096, 1)

    def _lookup(self, path: Path, body: bytes) -> bytes:
        child = path / os.fsdecode(body.rstrip(b"\0"))
        attributes = self._attributes(child)
        return struct.pack("4QII", self._number(child), 0, 0, 0, 0, 0) + attributes

    def _getattr(self, path: Path, body: bytes) -> bytes:
        return struct.pack("QII", 0, 0, 0) + self._attributes(path)

    def _open(self, path: Path, body: bytes) -> bytes:
        return struct.pack("QII", 0, 0, 0)

    def _read(self, path: Path, body: bytes) -> bytes:
        _, offset, size = struct.unpack_from("QQI", body)
        return path.read_bytes()[offset : offset + size]

    def _readdir(self, path: Path, body: bytes) -> bytes:
        _, offset, size = struct.unpack_from("QQI", body)
        entries = b""
        for at, child in enumerate(sorted(path.iterdir())):
            name = os.fsencode(child.name)
            entry = struct.pack("QQII", self._number(child), at + 1, len(name), stat.S_IFMT(child.lstat().st_mode) >> 12) + name
            entry += bytes(-len(entry) % 8)
            if at >= offset and len(entries) + len(entry) <= size:
                entries += entry
        return entries

    def _statfs(self, path: Path, body: bytes) -> bytes:
        return struct.pack("5Q4I24x", 1 << 20, 1 << 19, 1 << 19, 1 << 20, 1 << 19, 4096, 255, 4096, 0)


_NEVER = {"--silent": range(4096), "--silent-lists": (_OPENDIR, _READDIR)}


def serve(fd: int, backing: Path, silent: list[int], never: Container[int] = ()) -> None:
    """Answers until it is unmounted, or there is something in ``silent``. Requests with an opcode of ``never`` are taken and
    never answered, but the first of all."""
    served = Served(backing)
    while True:
        try:
            request = os.read(fd, 1 << 17)
        except OSError:
            return  # ENODEV: unmounted, nobody asks any more
        while silent:
            signal.pause()
        _, opcode, unique, node, *_ = _IN.unpack_from(request)
        if opcode not in _SILENT and (opcode == _INIT or opcode not in never):
            error, words = served.answer(opcode, node, request[_IN.size :])
            os.write(fd, _OUT.pack(_OUT.size + len(words), error, unique) + words)


def main(*words: str) -> None:
    never = _NEVER.get(words[0], ())
    backing, mountpoint, *command = words[1:] if never else words
    fd = os.open("/dev/fuse", os.O_RDWR)
    words = f"fd={fd},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"fusefs", os.fsencode(mountpoint), b"fuse", 0, words) != 0:
        raise OSError(ctypes.get_errno(), "mount")
    silent: list[int] = []

    def be_silent(number: int, frame: object) -> None:
        silent.append(number)
        libc.prctl(_PR_SET_PDEATHSIG, 0)

    signal.signal(signal.SIGUSR1, be_silent)
    if os.fork() == 0:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)  # its own mount namespace lives as long as it does
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a ctrl+c is for who looks; a real server is not of his terminal
        os.closerange(0, 3)
        serve(fd, Path(backing), silent, never)
        os._exit(0)
    os.close(fd)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
