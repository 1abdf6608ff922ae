"""A directory of its own for trials, measurements and the demo, removed at the end; and the trials.

For trials it is hidden in ``tmp`` of the target: its name begins with a dot, so that neither consumers nor looks take it for a
message. An exclusive lock (flock(2)) on the directory itself lasts as long as its process and the children that it forked. A
directory of this user whose lock is free was left behind by a process that was killed, and is removed by the next one.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import select
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress

from spooltop.engine.system.file_locks import OFD_LOCKS
from spooltop.engine.system.files import UNSUPPORTED, Files
from spooltop.engine.system.host import flock_holders
from spooltop.engine.system.syscalls import inotify_add_watch, inotify_init
from spooltop.model.closing import Closing
from spooltop.model.target import Trial

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


def left_behind(parent: str, prefix: str = PREFIX) -> list[str]:
    """Returns the names of the directories of this user in ``parent`` whose processes are gone, as far as the kernel's table of
    locks shows. Changes nothing and takes no lock."""
    return _dead(parent, prefix, remove=False)


def sweep(parent: str, prefix: str = PREFIX) -> list[str]:
    """Removes the directories of this user that killed processes left in ``parent``; returns their names."""
    return _dead(parent, prefix, remove=True)


def _dead(parent: str, prefix: str, *, remove: bool) -> list[str]:
    made_here = re.compile(re.escape(prefix) + "[0-9]+-[0-9a-f]{12}")
    try:
        fd = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        return sorted(name for name in os.listdir(fd) if made_here.fullmatch(name) and _is_dead(name, fd, remove=remove))
    finally:
        os.close(fd)


def _is_dead(name: str, parent: int, *, remove: bool) -> bool:
    try:
        fd = os.open(name, _DIRECTORY, dir_fd=parent)
    except OSError:
        return False  # no directory, somebody else's, or removed meanwhile
    try:
        if os.fstat(fd).st_uid != os.geteuid():
            return False
        if not remove:
            return not flock_holders(fd)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove_tree(name, parent)
        return True
    except OSError:
        return False  # its process lives, or there are no locks here, or it is not ours to remove
    finally:
        os.close(fd)


def remove_tree(name: str, parent: int) -> None:
    """Removes a directory and everything in it without following links. What is gone already is no error."""
    try:
        fd = os.open(name, _DIRECTORY, dir_fd=parent)
    except FileNotFoundError:
        return
    try:
        for entry in os.listdir(fd):
            try:
                if stat.S_ISDIR(os.stat(entry, dir_fd=fd, follow_symlinks=False).st_mode):
                    remove_tree(entry, fd)
                else:
                    os.unlink(entry, dir_fd=fd)
            except FileNotFoundError:
                continue
    finally:
        os.close(fd)
    with suppress(FileNotFoundError):
        os.rmdir(name, dir_fd=parent)


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


def _write(files: Files, folder: int) -> None:
    fd = files.create("file", folder, 0o600)
    try:
        files.write_all(fd, b"x" * 1024)
        files.sync(fd)
    finally:
        files.close(fd)


def _sync_dir(files: Files, folder: int) -> None:
    files.sync_dir(folder)


def _rename(files: Files, folder: int) -> None:
    """Moves a file into another directory and back, without a word about what it replaces."""
    _make(files, "moved", folder, b"1")
    files.mkdir("other", folder, 0o700)
    with closing(_Dir(files, "other", folder)) as other:
        files.rename("moved", folder, "moved", other.fd)
        files.rename("moved", other.fd, "moved", folder)


def _noreplace(files: Files, folder: int) -> None:
    _make(files, "from", folder, b"new")
    _make(files, "taken", folder, b"old")
    try:
        files.rename_noreplace("from", folder, "taken", folder)
    except FileExistsError:
        files.rename_noreplace("from", folder, "free", folder)
        return
    raise OSError(errno.EIO, "it replaced a file that it must not replace")


def _link(files: Files, folder: int) -> None:
    _make(files, "one", folder, b"1")
    _make(files, "two", folder, b"2")
    files.link("one", folder, "three", folder)
    try:
        files.link("one", folder, "two", folder)
    except FileExistsError:
        return
    raise OSError(errno.EIO, "it replaced a file that it must not replace")


def _lock(kind: str) -> Callable[[Files, int], None]:
    def run(files: Files, folder: int) -> None:
        fd = files.open_lasting("lock", folder, mode=0o600)
        try:
            if not (files.lock(fd) if kind == "flock" else files.lock_write(fd)):
                raise OSError(errno.EIO, "a new lock is taken already")
            _expect(kind, folder, "excluded", "another process got the same lock")
        finally:
            files.close(fd)
        with _process(kind, folder) as other:
            said = _answer(other)
            if said != "got it":
                raise OSError(errno.EIO, f"another process cannot take a lock that was released: {said}")
            fd = files.reopen("lock", folder)
            try:
                if files.lock(fd) if kind == "flock" else files.lock_write(fd):
                    raise OSError(errno.EIO, "a lock that another process holds was taken")
                other.kill()
                other.wait()
                if not (files.lock(fd) if kind == "flock" else files.lock_write(fd)):
                    raise OSError(errno.EIO, "the lock of a process that was killed is not released")
            finally:
                files.close(fd)

    return run


def _expect(kind: str, folder: int, wanted: str, else_: str) -> None:
    with _process(kind, folder) as other:
        said = _answer(other)
        other.kill()
    if said != wanted:
        raise OSError(errno.EIO, else_ if said == "got it" else said)


def _process(kind: str, folder: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _OTHER_PROCESS, str(folder), kind], pass_fds=(folder,), stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip


def _answer(other: subprocess.Popen[str]) -> str:
    assert other.stdout is not None
    ready, _, _ = select.select([other.stdout], [], [], _PATIENCE)
    if not ready:
        other.kill()
        return f"no answer within {_PATIENCE:g}s"
    return other.stdout.readline().strip() or "the other process ended without a word"


def _events(files: Files, folder: int) -> None:
    fd = inotify_init()
    try:
        inotify_add_watch(fd, f"/proc/self/fd/{folder}/.", _IN_CREATE)
        _make(files, "seen", folder, b"")
        if not select.select([fd], [], [], 1.0)[0]:
            raise OSError(errno.EIO, "a file was made, and no event came within 1s")
    finally:
        os.close(fd)


def _time(files: Files, folder: int) -> None:
    """Compares the clock of the file system, which may be that of a server, with that of this machine."""
    before = time.time()
    fd = files.create("timed", folder, 0o600)
    try:
        files.write_all(fd, b"x")
        off = files.fstat(fd).st_mtime - before
    finally:
        files.close(fd)
    if not -1.0 < off < 1.0 + time.time() - before:
        raise OSError(errno.EIO, f"a file that is made now is dated {abs(off):.1f}s {'ahead' if off > 0 else 'back'}")


TRIALS: Mapping[str, Callable[[Files, int], None]] = {
    "write": _write, "sync-dir": _sync_dir, "rename": _rename, "noreplace": _noreplace, "link": _link,
    "locks-flock": _lock("flock"), **({"locks-ofd": _lock("ofd")} if OFD_LOCKS else {}), "events": _events, "time": _time,
}  # fmt: skip


def try_all(parent: str, files: Files | None = None) -> Mapping[str, Trial]:
    """Runs all trials in a directory of its own in ``parent``, each in an empty folder, and returns what came of each. Raises
    ``OSError`` if that directory cannot be made."""
    files = files or Files()
    sweep(parent)
    found = {}
    with ScratchDir(parent) as scratch:
        for name, run in TRIALS.items():
            found[name] = _tried(run, name, files, scratch.fd)
    return found


def _tried(run: Callable[[Files, int], None], name: str, files: Files, above: int) -> Trial:
    try:
        files.mkdir(name, above, 0o700)
        with closing(_Dir(files, name, above)) as folder:
            began = time.monotonic()
            run(files, folder.fd)
            return Trial(seconds=time.monotonic() - began)
    except OSError as error:
        unsupported = error.errno in UNSUPPORTED and name in ("noreplace", "link")
        return Trial("unsupported" if unsupported else error.strerror or str(error))


class _Dir:
    """An open directory."""

    def __init__(self, files: Files, name: str, above: int) -> None:
        self.fd = files.open_dir(name, above)
        self._files = files

    def close(self) -> None:
        self._files.close(self.fd)


def _make(files: Files, name: str, folder: int, data: bytes) -> None:
    fd = files.create(name, folder, 0o600)
    try:
        files.write_all(fd, data)
    finally:
        files.close(fd)
