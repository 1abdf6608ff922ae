"""Watches cursor files between two looks: each version is read at once, in the thread that receives the event, and where the
kernel tells it, who wrote it.

inotify(7) sends an event for each file that is moved into place, and never merges two of them. So the number of versions that
were replaced before they could be read is known: a version says how many writes before it were not read.
"""

from __future__ import annotations

import errno
import os
import select
import struct
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from msgspec import Struct, field
from msgspec.structs import replace

from spooltop.engine.system import syscalls
from spooltop.errors import Refused
from spooltop.model.look.locks import LockHolder
from spooltop.model.text import escape

from ..events.inotify import in_order, listening, watch_fd
from .files import TEMP_BEGINS, Handle, Version, read_version

_UNTAKEN = 16 << 20
"""Bytes of versions that wait for a look. Versions beyond that are counted and not read."""
_ROUNDS = 16
"""Buffers that are read at once; faster events are left to the next time."""
_NAMES_AT_MOST = 16
_FOLDERS_AT_MOST = 64
_FILES_AT_MOST = 256
_READ = 1 << 18
_FOREIGN = 500
"""Events a second about other files from which on events are collected for ``_GATHER`` ms."""
_QUIET = 20
"""Milliseconds without a write after which a look is due."""
_AT_LATEST = 0.2
"""Seconds after the first of many writes after which a look is due in any case."""
_GATHER = 50
"""Milliseconds for which events are collected."""


class _Listener:
    """Something with a thread that reads the events of a descriptor, from ``_begin`` until ``close``."""

    def __init__(self, name: str) -> None:
        self._lock = threading.Lock()
        self._fd = self._end = self._ending = -1
        self._name = name

    def close(self) -> None:
        """Ends the thread. May be called twice."""
        if self._fd < 0:
            return
        os.close(self._ending)
        self._thread.join()
        os.close(self._end)
        os.close(self._fd)
        self._fd = -1

    def _begin(self, fd: int) -> None:
        """Raises ``OSError``; the descriptor is closed then."""
        try:
            self._end, self._ending = os.pipe()
        except OSError:
            os.close(fd)
            raise
        self._fd = fd
        self._thread = threading.Thread(target=self._listen, name=self._name, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        """Reads events until nobody has ``_ending`` open any more."""
        raise NotImplementedError


class _File(Struct):
    last: tuple[tuple[int, int, int], str, int] | None = None
    """State, error and hash of what was read last."""
    reported: bool = True
    """False if the content was read before its event arrived."""
    untaken: list[Version] = field(default_factory=list)
    unread: int = 0
    """Writes since then that were not read."""


class _Folder(Struct):
    """A watched folder; ``fd`` is its own descriptor. ``names``: files to read, None for every ``*.json``."""

    watch: int
    fd: int
    names: set[str] | None = field(default_factory=set)
    shared: set[str] = field(default_factory=set)
    files: dict[str, _File] = field(default_factory=dict)

    def reads(self, name: str) -> bool:
        if self.names is not None:
            return name in self.names
        return name.endswith(".json") and name[0] != "." and (name in self.files or len(self.files) < _FILES_AT_MOST)


class CursorWatcher(_Listener):
    """Watches the folders passed to ``follow``, as far as the kernel allows (inotify(7)). ``changed`` is set soon after a
    watched file was written, or another ``*.json`` appeared. There is one thread, from the first folder on until ``close``.
    ``handles``: versions have the handle by which ``WriterWatch`` identifies them."""

    def __init__(self, changed: threading.Event, *, clock: Callable[[], float], handles: bool) -> None:
        super().__init__("spooltop-cursors")
        self._changed = changed
        self._clock = clock
        self._handles = handles
        self._folders: dict[tuple[int, int], _Folder] = {}
        self._watches: dict[int, _Folder] = {}
        self._untaken = 0
        self._foreign = 0
        self._event_seen = False

    def follow(self, folder: int) -> None:
        """Reads every ``*.json`` of this open folder from now on. If no inotify watches are left, only looks find changes."""
        with self._lock:
            self._drain()  # first: it tells of a folder that is gone, whose number may be that of another one now
            tracked = self._follow(folder)
            if tracked is not None:
                tracked.names = None

    def take(self, folder: int, name: str) -> list[Version] | None:
        """The versions of this file since the last call, oldest first; the last one is the present content. Empty if nothing
        was written since, or there is no such file; None if the folder is not watched."""
        with self._lock:
            self._drain()
            tracked = self._follow(folder)
            if tracked is None:
                return None
            if tracked.names is not None:
                tracked.names.add(name)
            file = tracked.files.get(name) or _File()
            if len(tracked.files) < _FILES_AT_MOST:
                tracked.files[name] = file
            self._read_if_changed(tracked, name, file)
            self._drain()
            versions, file.untaken = file.untaken, []
            self._untaken -= sum(len(one.data) for one in versions)
            return versions

    def shared_names(self, folder: int) -> tuple[str, ...]:
        """The names of temporary files that contain nothing of their writer, so that all writers share them; those that were
        made in this open folder since the last call or since it was followed; sorted."""
        with self._lock:
            self._drain()
            tracked = self._follow(folder)
            return tuple(sorted(tracked.shared)) if tracked is not None else ()

    def close(self) -> None:
        super().close()
        for key in list(self._folders):
            self._forget(key)

    def _follow(self, folder: int) -> _Folder | None:
        try:
            found = os.fstat(folder)
            key = (found.st_dev, found.st_ino)
            if (known := self._folders.pop(key, None)) is not None:
                self._folders[key] = known  # the one that was asked about last is the last to be forgotten
                return known
            if self._fd < 0:
                self._begin(listening())
            for other, old in list(self._folders.items()):
                if len(self._folders) >= _FOLDERS_AT_MOST or os.fstat(old.fd).st_nlink == 0:
                    self._forget(other)
            own = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
        except OSError:
            return None  # no instances or descriptors are left, or there is no inotify
        try:
            watch = watch_fd(self._fd, own, contents=True)
        except OSError:
            os.close(own)
            return None  # no watches are left
        self._folders[key] = self._watches[watch] = _Folder(watch, own)
        return self._folders[key]

    def _forget(self, key: tuple[int, int]) -> None:
        folder = self._folders.pop(key)
        self._watches.pop(folder.watch, None)
        self._untaken -= sum(len(one.data) for file in folder.files.values() for one in file.untaken)
        os.close(folder.fd)

    def _listen(self) -> None:
        both, ending = select.poll(), select.poll()
        both.register(self._fd, select.POLLIN)
        both.register(self._end, select.POLLIN)
        ending.register(self._end, select.POLLIN)
        second, since = time.monotonic(), 0.0
        while True:
            ready = both.poll(_QUIET if self._event_seen else None)
            if any(one == self._end for one, _ in ready):
                return
            if ready:
                with self._lock:
                    self._drain()
            now = time.monotonic()
            if not self._event_seen:
                since = now
            elif not ready or now - since > _AT_LATEST:
                self._event_seen = False
                self._changed.set()  # not before: a look would take the processor from the reading of what comes next
                since = now
            if now - second > 1.0:
                second, self._foreign = now, 0
            elif self._foreign > _FOREIGN and ending.poll(_GATHER):
                return

    def _drain(self) -> None:
        """Reads the queue, and the files that were written."""
        if self._fd < 0:
            return
        for _ in range(_ROUNDS):
            try:
                data = os.read(self._fd, _READ)
            except BlockingIOError:
                return
            written: dict[tuple[int, str], int] = {}
            for event in in_order(data):
                if event.lost:
                    for file in [file for one in self._folders.values() for file in one.files.values()]:
                        file.unread += 1  # at least: the kernel's queue was full
                    self._event_seen = True
                folder = self._watches.get(event.watch)
                if folder is None or not event.name:
                    continue
                if (event.made or event.closed) and folder.reads(event.name):
                    key = (event.watch, event.name)
                    written[key] = written.get(key, 0) + event.moved
                    continue
                self._foreign += 1
                if event.made and event.name.endswith(".json"):
                    self._event_seen = True
                if (
                    event.made and event.name.startswith(TEMP_BEGINS) and len(folder.shared) < _NAMES_AT_MOST
                    and not any(map(str.isdigit, event.name))
                ):  # fmt: skip
                    folder.shared.add(event.name)
            for (watch, name), writes in written.items():
                self._written(self._watches[watch], name, writes)

    def _written(self, folder: _Folder, name: str, writes: int) -> None:
        """Counts the files that were moved to this name (0: it was written in place), and reads the last of them if it still
        exists."""
        self._event_seen = True
        file = folder.files.setdefault(name, _File())
        if self._untaken >= _UNTAKEN:
            file.unread += writes
            return
        self._read(folder, name, file, writes)

    def _read_if_changed(self, folder: _Folder, name: str, file: _File) -> None:
        """Reads a file that was written before its event arrived, or without any event: in place, by a file that is still open.
        """
        try:
            found = os.stat(name, dir_fd=folder.fd, follow_symlinks=False)
        except FileNotFoundError:
            file.last = None
            return
        except OSError:
            found = None
        if found is None or file.last is None or file.last[0] != (found.st_ino, found.st_mtime_ns, found.st_size):
            self._read(folder, name, file, 0)
            file.reported = False

    def _read(self, folder: _Folder, name: str, file: _File, writes: int) -> None:
        """Reads the present content after ``writes`` events. If it is the same as before, the events belong to it or to what
        it replaced: any file that an event reports may have been replaced since."""
        version = read_version(name, folder.fd, self._clock(), handles=self._handles)
        if version is None:
            file.unread += writes
            file.last = None
            return
        last = version.content
        if last == file.last:
            unread = writes if file.reported else max(0, writes - 1)
            file.reported = file.reported or writes > 0
            if file.untaken:
                file.untaken[-1] = replace(file.untaken[-1], unread=(file.untaken[-1].unread or 0) + unread)
            else:
                file.unread += unread
            return
        file.untaken.append(replace(version, unread=file.unread + max(0, writes - 1)))
        file.last, file.reported, file.unread = last, True, 0
        self._untaken += len(version.data)


# Watches who writes the cursor files, by fanotify(7). Its events carry the pid even of a writer that has exited since. Root only
# (CAP_SYS_ADMIN), Linux 5.17 or newer. A published file is identified by its file handle (name_to_handle_at(2)), so that a writer
# is named for exactly the content that was read, or not at all.

_CLOEXEC, _NONBLOCK, _UNLIMITED_MARKS = 0x1, 0x2, 0x20
_REPORT_FID, _REPORT_DIR_FID, _REPORT_NAME, _REPORT_TARGET_FID = 0x200, 0x400, 0x800, 0x1000
_INIT = _CLOEXEC | _NONBLOCK | _UNLIMITED_MARKS | _REPORT_FID | _REPORT_DIR_FID | _REPORT_NAME | _REPORT_TARGET_FID
_MARK_ADD, _MARK_ONLYDIR, _MARK_FLUSH = 0x1, 0x8, 0x80
_MODIFY, _MOVED_TO, _OVERFLOW, _ON_CHILD = 0x2, 0x80, 0x4000, 0x0800_0000
_INFO_FID, _INFO_DFID_NAME = 1, 2
_EVENT = struct.Struct("=IBBHQii")
_INFO = struct.Struct("=BBH")
_FILE_HANDLE = struct.Struct("=Ii")
_FSID = 8
_BUFFER = 64 << 10
_KEPT = 256
_MARKED_AT_MOST = 8
"""Folders that are marked at a time."""


def parse_events(data: bytes) -> list[tuple[int, int, str, Handle | None]]:
    """The (mask, pid, name, handle of the file) of each event in a fanotify buffer; a lost queue has mask ``FAN_Q_OVERFLOW``."""
    found = []
    at = 0
    while at + _EVENT.size <= len(data):
        length, _, _, head, mask, _, pid = _EVENT.unpack_from(data, at)
        if length < _EVENT.size or at + length > len(data):
            break
        name, handle = "", None
        info = at + head
        while info + _INFO.size <= at + length:
            kind, _, size = _INFO.unpack_from(data, info)
            if size < _INFO.size + _FSID + _FILE_HANDLE.size or info + size > at + length:
                break
            place = info + _INFO.size + _FSID
            many, handle_type = _FILE_HANDLE.unpack_from(data, place)
            place += _FILE_HANDLE.size
            if kind == _INFO_FID:
                handle = (handle_type, data[place : place + many])
            elif kind == _INFO_DFID_NAME:
                name = os.fsdecode(data[place + many : info + size].split(b"\0", 1)[0])
            info += size
        found.append((mask, pid, name, handle))
        at += length
    return found


class WriterWatch(_Listener):
    """Watches the folders passed to ``follow``. ``describe`` gives what is known about a running process.

    A thread of its own reads the events, so that a writer is described while it runs; so does ``writer``. Raises ``Refused``
    where the kernel gives no such events.
    """

    def __init__(self, describe: Callable[[int], LockHolder]) -> None:
        self._describe = describe
        self._writers: OrderedDict[Handle, LockHolder | None] = OrderedDict()
        self._names: set[str] = set()
        self._folders: set[tuple[int, int]] = set()
        super().__init__("spooltop-writers")
        try:
            self._begin(syscalls.fanotify_init(_INIT))
        except OSError as error:
            raise Refused(f"who-writes: {_why(error.errno or 0)}", advice=_WITHOUT) from None

    def follow(self, folder: int, name: str | None = None) -> None:
        """Watches this open folder: the file ``name``, or every ``*.json``. Raises ``OSError`` where its file system gives no
        events."""
        with self._lock:
            if name is not None:
                self._names.add(name)
            found = os.fstat(folder)
            if (found.st_dev, found.st_ino) in self._folders:
                return
            if len(self._folders) >= _MARKED_AT_MOST:  # folders that were replaced again and again: those that are left come anew
                self._mark(_MARK_FLUSH, 0, folder)
                self._folders.clear()
            self._mark(_MARK_ADD | _MARK_ONLYDIR, _MODIFY | _MOVED_TO | _ON_CHILD, folder)
            self._folders.add((found.st_dev, found.st_ino))

    def follow_path(self, path: str) -> None:
        """As ``follow``, by path. Raises ``Refused``."""
        try:
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                self.follow(folder)
            finally:
                os.close(folder)
        except OSError as error:
            why = f"its file system does not tell who writes ({error.strerror})"
            raise Refused(f"who-writes: {why}", path=escape(path), advice=_WITHOUT) from None

    def writer(self, handle: Handle | None) -> LockHolder | None:
        """The process that published the file with this handle (``handle_of``), None if that was not seen."""
        with self._lock:
            self._drain()  # what was published before it was opened is in the queue by now
            return None if handle is None else self._writers.get(handle)

    def _mark(self, flags: int, mask: int, folder: int) -> None:
        syscalls.fanotify_mark(self._fd, flags, mask, folder)

    def _listen(self) -> None:
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        poll.register(self._end, select.POLLIN)
        while not any(fd == self._end for fd, _ in poll.poll()):
            with self._lock:
                self._drain()

    def _drain(self) -> None:
        """Reads the queue. If two processes wrote into one file between two reads, it is not known which came last: equal
        events are merged in the queue."""
        touched: dict[Handle, int] = {}
        for _ in range(_ROUNDS):
            try:
                data = os.read(self._fd, _BUFFER)
            except BlockingIOError:
                return
            for mask, pid, name, handle in parse_events(data):
                if mask & _OVERFLOW:
                    self._writers.clear()
                    continue
                if handle is None or not (name in self._names or name.endswith(".json")):
                    continue
                moved = bool(mask & _MOVED_TO)
                sure = pid > 0 and (moved or touched.get(handle, pid) == pid)
                if not moved:
                    touched[handle] = pid
                self._writers.pop(handle, None)
                self._writers[handle] = self._describe(pid) if sure else None
                while len(self._writers) > _KEPT:
                    self._writers.popitem(last=False)


_WITHOUT = "without it the writer is not seen; CursorFile.advance tells it in its journal"


def _why(number: int) -> str:
    if number == errno.EPERM:
        return "only root hears from the kernel who writes (CAP_SYS_ADMIN)"
    if number in (errno.EINVAL, errno.ENOSYS):
        return "this kernel does not tell who writes (fanotify with file handles, Linux 5.17)"
    return f"the kernel refuses fanotify: {os.strerror(number)}"
