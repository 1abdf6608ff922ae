"""Watches who writes the cursor files, by fanotify(7). Its events carry the pid even of a writer that has exited since.

Root only (CAP_SYS_ADMIN), Linux 5.17 or newer. A published file is identified by its file handle (name_to_handle_at(2)), so
that a writer is named for exactly the content that was read, or not at all.
"""

from __future__ import annotations

import errno
import os
import select
import struct
import threading
from collections import OrderedDict
from collections.abc import Callable

from spooltop.engine.system import syscalls
from spooltop.errors import Refused
from spooltop.model.look.locks import LockHolder
from spooltop.model.text import escape

from .files import Handle

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
_ROUNDS = 16
"""Buffers that are read at once; faster events are left to the next time."""
_KEPT = 256
_FOLDERS = 8


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


class WriterWatch:
    """Watches the folders passed to ``follow``. ``describe`` gives what is known about a running process.

    A thread of its own reads the events, so that a writer is described while it runs; so does ``writer``. Raises ``Refused``
    where the kernel gives no such events.
    """

    def __init__(self, describe: Callable[[int], LockHolder]) -> None:
        self._describe = describe
        self._writers: OrderedDict[Handle, LockHolder | None] = OrderedDict()
        self._names: set[str] = set()
        self._folders: set[tuple[int, int]] = set()
        self._lock = threading.Lock()
        try:
            self._fd = syscalls.fanotify_init(_INIT)
        except OSError as error:
            raise Refused(f"who-writes: {_why(error.errno or 0)}", advice=_WITHOUT) from None
        self._end, self._ending = os.pipe()
        self._thread = threading.Thread(target=self._listen, name="spooltop-writers", daemon=True)
        self._thread.start()

    def follow(self, folder: int, name: str | None = None) -> None:
        """Watches this open folder: the file ``name``, or every ``*.json``. Raises ``OSError`` where its file system gives no
        events."""
        with self._lock:
            if name is not None:
                self._names.add(name)
            found = os.fstat(folder)
            if (found.st_dev, found.st_ino) in self._folders:
                return
            if len(self._folders) >= _FOLDERS:  # folders that were replaced again and again: those that are left come anew
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

    def close(self) -> None:
        """Ends the thread. May be called twice."""
        if self._fd < 0:
            return
        os.close(self._ending)
        self._thread.join()
        os.close(self._end)
        os.close(self._fd)
        self._fd = -1

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
