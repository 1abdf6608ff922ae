"""Operations that ``bench`` measures, as a worker process does them: with files, with locks, with the engine.

A task prepares a batch, which is not timed, and then does one timed step after the other.
"""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import time
from array import array
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from msgspec import Struct, field

from spooltop.engine import Spool
from spooltop.engine.system.syscalls import end_with_parent, rename_noreplace

from ..watching import Latencies

PAYLOAD = 1024
"""Bytes of a file or a message."""
BATCH = 200
"""Number of files that a task has at a time, twice that while it moves them."""
CONTENDERS = 4
_POLL = 0.001
"""Seconds between two tries of a lock that cannot be waited for."""
_BACKLOG = 1000
"""Number of waiting messages from which writers wait."""
_EVERY = 64
_MOST = 2_000_000
"""Number of steps after which a run ends, so that their times fit into memory."""
_DATA = b"x" * PAYLOAD
_FLOCK = struct.Struct("hhqqi0q")
_TAKE = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
_FREE = _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0)


class Answer(Struct, frozen=True):
    """Measurements of one worker in one run."""

    seconds: float
    times: Latencies
    delivered: Latencies


class Measured(Struct):
    """Times of all steps in nanoseconds, and the seconds that they took together. ``delivered`` are the times from the put of a
    message to its claim."""

    seconds: float = 0.0
    times: array[int] = field(default_factory=lambda: array("Q"))
    delivered: array[int] = field(default_factory=lambda: array("Q"))


def _timed(prepare: Callable[[], None], step: Callable[[int], None], until: int) -> Measured:
    """Does steps in batches until ``until`` (ns of the monotonic clock), and later by the time that the first batch takes to
    prepare: on a slow file system that may be all there is."""
    found = Measured()
    clock, times = time.monotonic_ns, found.times
    began = clock()
    prepare()
    until += clock() - began
    while not times or (clock() < until and len(times) < _MOST):
        if times:
            prepare()
        began = clock()
        for number in range(BATCH):
            before = clock()
            if before >= until and times:
                break
            step(number)
            times.append(clock() - before)
        found.seconds += (clock() - began) / 1e9
    return found


class _Files:
    """Two directories, and the files in them, of which there is never more than a batch."""

    def __init__(self, folder: str) -> None:
        self.names = [f"{number:016}.bench" for number in range(BATCH)]
        self.fds = []
        for name in ("a", "b"):
            path = os.path.join(folder, name)
            with suppress(FileExistsError):
                os.mkdir(path)
            self.fds.append(os.open(path, os.O_RDONLY | os.O_DIRECTORY))

    def none(self) -> None:
        for fd in self.fds:
            for name in os.listdir(fd):
                os.unlink(name, dir_fd=fd)

    def all(self) -> None:
        """Makes all files in the first directory that are not there."""
        there = set(os.listdir(self.fds[0]))
        for number, name in enumerate(self.names):
            if name not in there:
                self.write(number)

    def swap(self) -> None:
        """Makes the directory with the files the first one."""
        if os.listdir(self.fds[1]):
            self.fds.reverse()
            for name in os.listdir(self.fds[1]):
                os.unlink(name, dir_fd=self.fds[1])  # the last batch was cut off
        self.all()

    def write(self, number: int) -> None:
        self._written(number, sync=False)

    def write_sync(self, number: int) -> None:
        self._written(number, sync=True)

    def write_durably(self, number: int) -> None:
        """Does what a durable put has to: write, sync, rename, sync the directory."""
        self._written(number, sync=True)
        self.rename(number)
        os.fsync(self.fds[1])

    def rename(self, number: int) -> None:
        rename_noreplace(self.names[number], self.fds[0], self.names[number], self.fds[1])

    def replace(self, number: int) -> None:
        os.rename(self.names[number], self.names[number], src_dir_fd=self.fds[0], dst_dir_fd=self.fds[1])

    def read(self, number: int) -> None:
        fd = os.open(self.names[number], os.O_RDONLY, dir_fd=self.fds[0])
        os.read(fd, PAYLOAD)
        os.close(fd)

    def unlink(self, number: int) -> None:
        os.unlink(self.names[number], dir_fd=self.fds[0])

    def _written(self, number: int, *, sync: bool) -> None:
        fd = os.open(self.names[number], os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=self.fds[0])
        os.write(fd, _DATA)
        if sync:
            os.fsync(fd)
        os.close(fd)


FILES: dict[str, tuple[str, str]] = {
    "write": ("none", "write"), "write, fsync": ("none", "write_sync"),
    "write, fsync, rename, fsync dir": ("none", "write_durably"), "rename": ("swap", "replace"),
    "rename, RENAME_NOREPLACE": ("swap", "rename"), "read (cached)": ("all", "read"), "unlink": ("all", "unlink"),
}  # fmt: skip
"""Operations with files: how each batch is prepared, and the step."""


def run_files(name: str, folder: str, until: int) -> Measured:
    files = _Files(folder)
    prepare, step = FILES[name]
    return _timed(getattr(files, prepare), getattr(files, step), until)


class _Counter:
    """A number in a file that is read and written in two steps. Without a lock, updates are lost."""

    def __init__(self, folder: str) -> None:
        self.fd = os.open(os.path.join(folder, "counter"), os.O_RDWR | os.O_CREAT, 0o600)

    def add(self) -> None:
        value = int.from_bytes(os.pread(self.fd, 8, 0), "little")
        os.pwrite(self.fd, (value + 1).to_bytes(8, "little"), 0)


def _descriptor(folder: str) -> int:
    return os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT, 0o600)


def _flock(folder: str) -> tuple[Callable[[], object], Callable[[], object]]:
    fd = _descriptor(folder)
    return lambda: fcntl.flock(fd, fcntl.LOCK_EX), lambda: fcntl.flock(fd, fcntl.LOCK_UN)


def _fcntl(folder: str) -> tuple[Callable[[], object], Callable[[], object]]:
    fd = _descriptor(folder)
    return lambda: fcntl.lockf(fd, fcntl.LOCK_EX), lambda: fcntl.lockf(fd, fcntl.LOCK_UN)


def _ofd(folder: str) -> tuple[Callable[[], object], Callable[[], object]]:
    fd = _descriptor(folder)
    wait, free = getattr(fcntl, "F_OFD_SETLKW", 0), getattr(fcntl, "F_OFD_SETLK", 0)
    return lambda: fcntl.fcntl(fd, wait, _TAKE), lambda: fcntl.fcntl(fd, free, _FREE)


def _filelock(folder: str) -> tuple[Callable[[], object], Callable[[], object]]:
    from filelock import FileLock

    lock = FileLock(os.path.join(folder, "lock"), fallback_to_soft=False)
    return lock.acquire, lock.release


def _mkdir(folder: str) -> tuple[Callable[[], object], Callable[[], object]]:
    path = os.path.join(folder, "lock.d")
    return lambda: _again_and_again(lambda: os.mkdir(path)), lambda: os.rmdir(path)


def _exclusive(folder: str) -> tuple[Callable[[], object], Callable[[], object]]:
    path = os.path.join(folder, "lock.excl")
    how = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    return lambda: _again_and_again(lambda: os.close(os.open(path, how, 0o600))), lambda: os.unlink(path)


def _again_and_again(take: Callable[[], object]) -> None:
    while True:
        try:
            take()
        except FileExistsError:
            time.sleep(_POLL)
        else:
            return


LOCKS: dict[str, Callable[[str], tuple[Callable[[], object], Callable[[], object]]]] = {
    "flock(2)": _flock, "fcntl(2), POSIX": _fcntl, "fcntl(2), OFD": _ofd, "filelock": _filelock, "mkdir(2)": _mkdir,
    "open(2), O_EXCL": _exclusive,
}  # fmt: skip
"""Locks by name. Each gives what takes it, waiting if necessary, and what releases it."""


def run_lock(name: str, folder: str, until: int, *, counted: bool) -> Measured:
    """Takes and releases a lock again and again. ``counted``: holding it, adds to a counter that all share."""
    take, release = LOCKS[name](folder)
    if not counted:

        def step(number: int) -> None:
            take()
            release()

        return _timed(lambda: None, step, until)
    counter = _Counter(folder)

    def exclusive(number: int) -> None:
        take()
        try:
            counter.add()
        finally:
            release()

    return _timed(lambda: None, exclusive, until)


def run_writer(folder: str, until: int, *, durable: bool) -> Measured:
    """Puts messages, and waits while too many of them wait. Each begins with the moment of its put."""
    found = Measured()
    clock = time.monotonic_ns
    with Spool(folder, durable=durable) as spool:
        began = clock()
        while (before := clock()) < until and len(found.times) < _MOST:
            spool.put(before.to_bytes(8, "little") + _DATA[8:])
            found.times.append(clock() - before)
            while len(found.times) % _EVERY == 0 and clock() < until and spool.depth() > _BACKLOG:
                time.sleep(_POLL)
        found.seconds = (clock() - began) / 1e9
    return found


def run_reader(folder: str, until: int, *, durable: bool) -> Measured:
    """Claims and acks messages."""
    found = Measured()
    clock = time.monotonic_ns
    with Spool(folder, durable=durable) as spool:
        began = clock()
        while (before := clock()) < until and len(found.times) < _MOST:
            claim = spool.claim(timeout=0)
            if claim is None:
                claim = spool.claim(timeout=max(0.0, min(0.05, (until - clock()) / 1e9)))
                if claim is None:
                    continue
                before = clock()  # the wait for a message is no work
            found.delivered.append(clock() - int.from_bytes(claim.data[:8], "little"))
            claim.ack()
            found.times.append(clock() - before)
        found.seconds = (clock() - began) / 1e9
    return found


# The worker process.

def work(pipe: Connection, parent: int) -> None:
    """Does the jobs that arrive on ``pipe``: for each it sends ``ready``, receives the moment to begin (ns of the monotonic
    clock), and sends an ``Answer``, or in words why there is none. Ends with its parent."""
    end_with_parent(signal.SIGKILL)
    if os.getppid() != parent:
        return  # it ended before the kernel was asked
    import filelock  # noqa: F401  loaded before anything is timed

    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        pipe.send("ready")
        begin = pipe.recv()
        try:
            time.sleep(max(0.0, (begin - time.monotonic_ns()) / 1e9))
            found = _done(job, begin + int(job["seconds"] * 1e9))
            pipe.send(Answer(found.seconds, Latencies.of(found.times), Latencies.of(found.delivered)))
        except Exception as error:  # noqa: BLE001  the parent reports it, with the name of the run
            pipe.send(f"{type(error).__name__}: {error}")


def _done(job: Mapping[str, Any], until: int) -> Measured:
    task, folder = job["task"], job["folder"]
    if task == "files":
        return run_files(job["name"], folder, until)
    if task == "lock":
        return run_lock(job["name"], folder, until, counted=job["counted"])
    return (run_writer if task == "writer" else run_reader)(folder, until, durable=job["durable"])
