"""A directory of its own for trials, measurements and the demo, removed at the end; and the trials.

For trials it is hidden in ``tmp`` of the target: its name begins with a dot, so that neither consumers nor looks take it for a
message. An exclusive lock (flock(2)) on the directory itself lasts as long as its process and the children that it forked. A
directory of this user whose lock is free was left behind by a process that was killed, and is removed by the next one.
"""

from __future__ import annotations

import fcntl
import os
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial

from spooltop.engine.files import OFD_LOCKS, REAL_FILES, UNSUPPORTED, Files
from spooltop.engine.host import flock_holders
from spooltop.engine.syscalls import inotify_add_watch, inotify_init
from spooltop.model import Closing, Trial

PREFIX = ".spooltop-trial-"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_TRIES = 8


def trial_parent(path: str) -> str:
    """Returns the directory for trials on the target ``path``: its ``tmp``, where it has one, else itself."""
    tmp = os.path.join(path, "tmp")
    return tmp if os.path.isdir(tmp) and not os.path.islink(tmp) else path


class ScratchDir(Closing):
    """A directory of its own below ``parent``, from the start until ``close``; its name begins with ``prefix``. ``path`` leads to
    it, ``fd`` is it. Raises ``OSError`` if it cannot be made."""

    def __init__(self, parent: str, prefix: str = PREFIX) -> None:
        self._parent = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.fd = -1
        try:
            self.name = self._make(prefix)
        except BaseException:
            self.close()
            raise
        self.path = os.path.join(parent, self.name)

    def _make(self, prefix: str) -> str:
        for attempt in range(_TRIES):
            name = f"{prefix}{os.getpid()}-{os.urandom(6).hex()}"
            os.mkdir(name, 0o700, dir_fd=self._parent)
            try:
                self.fd = os.open(name, _DIRECTORY, dir_fd=self._parent)
                with suppress(OSError):  # a file system without locks: then nobody sweeps either
                    fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(self.fd).st_nlink:
                    return name
                os.close(self.fd)  # a sweep took it before it was locked
                self.fd = -1
            except BaseException as error:
                with suppress(OSError):
                    os.rmdir(name, dir_fd=self._parent)
                if not isinstance(error, FileNotFoundError) or attempt == _TRIES - 1:
                    raise
        raise FileNotFoundError(2, "it is removed as soon as it is made", prefix)

    def close(self) -> None:
        """Removes the directory with everything in it. A second call does nothing."""
        if self.fd >= 0:
            remove_tree(self.name, self._parent)
            os.close(self.fd)
            self.fd = -1
        if self._parent >= 0:
            os.close(self._parent)
            self._parent = -1


def left_behind(parent: str, prefix: str = PREFIX, *, remove: bool = False) -> list[str]:
    """Returns the names of the directories of this user in ``parent`` whose processes are gone, as far as the kernel's table of
    locks shows. Changes nothing and takes no lock, unless ``remove``: then it removes those whose lock is free."""
    made_here = re.compile(re.escape(prefix) + "[0-9]+-[0-9a-f]{12}")
    try:
        above = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return []
    with REAL_FILES.closing(above) as fd:
        return sorted(name for name in os.listdir(fd) if made_here.fullmatch(name) and _is_dead(name, fd, remove=remove))


sweep = partial(left_behind, remove=True)
"""Removes the directories of this user that killed processes left in ``parent``; returns their names."""


def _is_dead(name: str, parent: int, *, remove: bool) -> bool:
    try:
        with REAL_FILES.closing(os.open(name, _DIRECTORY, dir_fd=parent)) as fd:
            if os.fstat(fd).st_uid != os.geteuid():
                return False
            if not remove:
                return not flock_holders(fd)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_tree(name, parent)
            return True
    except OSError:
        return False  # its process lives, or it is no directory, removed meanwhile, not ours, or there are no locks here


def remove_tree(name: str, parent: int) -> None:
    """Removes a directory and everything in it without following links. What is gone already is no error."""
    with suppress(FileNotFoundError):
        while os.lstat(name, dir_fd=parent):
            with suppress(FileNotFoundError):  # something in it is gone: then the rest
                shutil.rmtree(name, dir_fd=parent)


# Tries in a directory of its own what the guarantees rest on: files, syncs, moves, links, locks, events. Each trial is short,
# and one that fails ends no other. A ``Trial`` says in words what failed.

_OTHER_PROCESS = """
import fcntl, os, struct, sys
folder, kind = int(sys.argv[1]), sys.argv[2]
fd = os.open("lock", os.O_RDWR, dir_fd=folder)
try:
    if kind == "flock":
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    else:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack("hhqqi0q", fcntl.F_WRLCK, 0, 0, 0, 0))
except OSError as error:
    print("excluded" if error.errno in (11, 13) else os.strerror(error.errno), flush=True)
else:
    print("got it", flush=True)
    sys.stdin.read()
"""
"""A process that tries to take a lock, says whether it got it, and keeps it until it is killed."""
_PATIENCE = 20.0
_IN_CREATE = 0x100


def _rename(files: Files, folder: int) -> None:
    """Moves a file into another directory and back, without a word about what it replaces."""
    _make(files, "moved", folder)
    with _new_dir(files, "other", folder) as other:
        files.rename("moved", folder, "moved", other)
        files.rename("moved", other, "moved", folder)


def _never_replaces(move: Callable[[str, int, str, int], None], files: Files, folder: int) -> None:
    """Makes a name with ``move`` that is free, and then one that is taken."""
    for name in ("one", "two", "three"):
        _make(files, name, folder)
    move("one", folder, "four", folder)
    try:
        move("three", folder, "two", folder)
    except FileExistsError:
        return
    raise OSError("it replaced a file that it must not replace")


def _lock(kind: str, files: Files, folder: int) -> None:
    take = files.lock if kind == "flock" else files.lock_write
    with files.closing(files.open_lasting("lock", folder, mode=0o600)) as fd:
        if not take(fd):
            raise OSError("a new lock is taken already")
        with _other_process(kind, folder) as (_, said):
            if said != "excluded":
                raise OSError("another process got the same lock" if said == "got it" else said)
    with _other_process(kind, folder) as (other, said):
        if said != "got it":
            raise OSError(f"another process cannot take a lock that was released: {said}")
        with files.closing(files.reopen("lock", folder)) as fd:
            if take(fd):
                raise OSError("a lock that another process holds was taken")
            other.kill()
            other.wait()
            if not take(fd):
                raise OSError("the lock of a process that was killed is not released")


@contextmanager
def _other_process(kind: str, folder: int) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Has another process try to take the lock, and kills it at the end. Yields it with its answer."""
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _OTHER_PROCESS, str(folder), kind], pass_fds=(folder,), stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as other:  # fmt: skip
        try:
            assert other.stdout is not None
            if select.select([other.stdout], [], [], _PATIENCE)[0]:
                yield other, other.stdout.readline().strip() or "the other process ended without a word"
            else:
                yield other, f"no answer within {_PATIENCE:g}s"
        finally:
            other.kill()


def _events(files: Files, folder: int) -> None:
    with REAL_FILES.closing(inotify_init()) as fd:
        inotify_add_watch(fd, f"/proc/self/fd/{folder}/.", _IN_CREATE)
        _make(files, "seen", folder)
        if not select.select([fd], [], [], 1.0)[0]:
            raise OSError("a file was made, and no event came within 1s")


def _time(files: Files, folder: int) -> None:
    """Compares the clock of the file system, which may be that of a server, with that of this machine."""
    before = time.time()
    off = _make(files, "timed", folder) - before
    if not -1.0 < off < 1.0 + time.time() - before:
        raise OSError(f"a file that is made now is dated {abs(off):.1f}s {'ahead' if off > 0 else 'back'}")


TRIALS: Mapping[str, Callable[[Files, int], object]] = {
    "write": lambda files, folder: _make(files, "file", folder, b"x" * 1024, sync=True),
    "sync-dir": lambda files, folder: files.sync_dir(folder),
    "rename": _rename,
    "noreplace": lambda files, folder: _never_replaces(files.rename_noreplace, files, folder),
    "link": lambda files, folder: _never_replaces(files.link, files, folder),
    "locks-flock": partial(_lock, "flock"),
    **({"locks-ofd": partial(_lock, "ofd")} if OFD_LOCKS else {}),
    "events": _events,
    "time": _time,
}


def try_all(parent: str, files: Files | None = None) -> Mapping[str, Trial]:
    """Runs all trials in a directory of its own in ``parent``, each in an empty folder, and returns what came of each. Raises
    ``OSError`` if that directory cannot be made."""
    sweep(parent)
    files = files or Files()
    trials: dict[str, Trial] = {}
    with ScratchDir(parent) as scratch:
        for name, run in TRIALS.items():
            try:
                with _new_dir(files, name, scratch.fd) as folder:
                    began = time.monotonic()
                    run(files, folder)
                    trials[name] = Trial(seconds=time.monotonic() - began)
            except OSError as error:
                unsupported = error.errno in UNSUPPORTED and name in ("noreplace", "link")
                trials[name] = Trial("unsupported" if unsupported else error.strerror or str(error))
    return trials


@contextmanager
def _new_dir(files: Files, name: str, above: int) -> Iterator[int]:
    """Makes a directory, and opens it meanwhile."""
    files.mkdir(name, above, 0o700)
    with files.closing(files.open_dir(name, above)) as fd:
        yield fd


def _make(files: Files, name: str, folder: int, data: bytes = b"x", *, sync: bool = False) -> float:
    """Makes a file. Returns the time that the file system gave it."""
    with files.closing(files.create(name, folder, 0o600)) as fd:
        files.write_all(fd, data)
        if sync:
            files.sync(fd)
        return files.fstat(fd).st_mtime
