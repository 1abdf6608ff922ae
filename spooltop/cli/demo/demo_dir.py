"""The directory of a demo, and the removal of directories that killed demos left behind.

The directory of a demo contains a marker file that is locked (``flock``) as long as any process of the demo is running. A
directory that contains the marker, belongs to this user and whose lock is free was left behind by a demo that was killed.
"""

from __future__ import annotations

import glob
import os
import shutil
import stat
import tempfile
from urllib.parse import quote

from msgspec import Struct

from spooltop.backends.journal.log_store import STATE_DIR, state_of
from spooltop.engine import Spool
from spooltop.engine.system.files import REAL_FILES, open_regular
from spooltop.engine.system.host import flock_holders
from spooltop.errors import NotASpool, Refused
from spooltop.model.text import escape

PREFIX = "spooltop-demo-"
MARKER = ".spooltop-demo"
STREAM, WORKING = "memex", "workers"
"""The stream of a demo on a server, and the group whose messages are worked on."""
_TEXT = b"the directory of a spooltop demo; the next demo removes it\n"


class DemoDir(Struct, frozen=True):
    """``spool`` is the path of the spool; ``base`` the directory that goes with the demo (None: the spool is kept), ``lock`` the
    locked marker in it."""

    spool: str
    base: str | None = None
    lock: int = -1

    def close(self) -> None:
        """Removes the directory that was made for the demo."""
        if self.base is None:
            return
        try:
            parent = os.open(os.path.dirname(self.base), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                _remove(os.path.basename(self.base), parent)
            finally:
                os.close(parent)
            remove_logs(self.base)
        finally:
            os.close(self.lock)


def make(parent: str | None = None) -> DemoDir:
    """Makes a new directory below ``parent`` (by default the directory for temporary files) with an empty spool in it."""
    made = make_empty(parent)
    Spool.create(made.spool, durable=False).close()
    return made


def make_empty(parent: str | None = None) -> DemoDir:
    """Makes a new directory, as ``make``; the caller makes the spool in it."""
    base = tempfile.mkdtemp(prefix=PREFIX, dir=parent)
    draft = os.path.join(base, f"{MARKER}.draft")
    lock = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    REAL_FILES.lock_coarse(lock)
    os.write(lock, _TEXT)
    os.rename(draft, os.path.join(base, MARKER))  # from now on it is a demo's, and locked
    return DemoDir(os.path.join(base, "memex"), base, lock)


def socket_in(base: str) -> str:
    """Returns the path of the server's socket in the directory of a demo."""
    return os.path.join(base, "redis.sock")


def stream_address(base: str) -> str:
    """Returns the address of the group whose messages are worked on."""
    return f"unix://{quote(socket_in(base))}#{STREAM}/{WORKING}"


def keep(path: str) -> DemoDir:
    """Makes a spool at ``path`` that is kept. Raises ``Refused`` if the path exists, ``NotASpool`` if its parent is missing."""
    full = os.path.abspath(path)
    try:
        os.mkdir(full)
    except FileExistsError:
        if not os.path.isdir(full) or os.listdir(full):
            raise Refused("demo: the directory exists already", path=path, advice="name a new or an empty directory") from None
    except FileNotFoundError:
        advice = f"first: mkdir -p {escape(os.path.dirname(full))}"
        raise NotASpool("demo: its parent directory does not exist", path=path, advice=advice) from None
    Spool.create(full, durable=False).close()
    return DemoDir(full)


def sweep(parent: str | None = None) -> list[str]:
    """Removes the directories that killed demos of this user left in ``parent``. Returns the removed names."""
    above = parent or tempfile.gettempdir()
    try:
        folder = os.open(above, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return []  # the directory may be writable but not listable: its content is unknown
    try:
        return [name for name in os.listdir(folder) if name.startswith(PREFIX) and _swept(name, above, folder)]
    finally:
        os.close(folder)


def left_behind() -> list[str]:
    """Returns the directories that killed demos of this user left behind, as far as the kernel's table of locks shows. Changes
    nothing."""
    above = tempfile.gettempdir()
    found = []
    for path in glob.glob(os.path.join(glob.escape(above), f"{PREFIX}*", MARKER)):  # noqa: PTH207  the paths are strings
        try:
            lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue  # gone meanwhile, or somebody else's
        try:
            if os.fstat(lock).st_uid == os.geteuid() and not flock_holders(lock):
                found.append(os.path.dirname(path))
        finally:
            os.close(lock)
    return sorted(found)


def _swept(name: str, above: str, parent: int) -> bool:
    directory = lock = -1
    try:
        directory = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        lock, marker = open_regular(MARKER, directory)
        mine = {os.fstat(directory).st_uid, marker.st_uid} == {os.geteuid()}
        if not mine or os.read(lock, len(_TEXT) + 1) != _TEXT or not REAL_FILES.lock_coarse(lock):
            return False
        _remove(name, parent)
        remove_logs(os.path.join(above, name))
    except OSError:
        return False  # not a demo's, one that lives, or not ours to remove: it stays
    finally:
        for fd in (directory, lock):
            if fd >= 0:
                os.close(fd)
    return True


def remove_logs(base: str) -> None:
    """Removes what root's operations on the stream of a demo wrote elsewhere: everybody else's logs are in the directory."""
    if os.geteuid() == 0:
        shutil.rmtree(state_of(STATE_DIR, stream_address(base)), ignore_errors=True)


def _remove(name: str, parent: int) -> None:
    """Removes a directory without following links (``shutil.rmtree`` uses descriptors). The marker is removed last: after an
    interruption, the next sweep finds the directory again."""
    directory = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        for entry in os.listdir(directory):
            if entry == MARKER:
                continue
            if stat.S_ISDIR(os.stat(entry, dir_fd=directory, follow_symlinks=False).st_mode):
                shutil.rmtree(entry, dir_fd=directory)
            else:
                os.unlink(entry, dir_fd=directory)
        try:
            os.unlink(MARKER, dir_fd=directory)
        except FileNotFoundError:
            pass  # it was cut off just here, the last time
    finally:
        os.close(directory)
    os.rmdir(name, dir_fd=parent)
