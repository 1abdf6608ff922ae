"""The cursor files of a spool: one for all sources, or one for each source. A file is read again only when it changed.

A file may be large or hostile, so there is a budget: 64 MB of memory and 1 s for each look. A file over 4 MB is not read, and at
most 4 MB of the versions written between two looks are parsed; ``parsing`` bounds what is kept of each. ``CursorSource`` counts
what is left out (``left_out``, ``cut``, ``unread``).
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import select
import stat
import struct
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct, ValidationError, convert

from spooltop.backends.access import why_closed
from spooltop.backends.directory.scan import FolderNames
from spooltop.backends.directory.storage import System, folder_in, opened_below
from spooltop.backends.directory.watcher import in_order, listening, watch_fd
from spooltop.backends.log_store import OpenFolders
from spooltop.engine import syscalls
from spooltop.engine.cursors import FILE_MAX, JOURNAL, JOURNAL_MAX, LOCK
from spooltop.engine.files import REAL_FILES, GrowingFiles, open_regular
from spooltop.model import Clock, Frozen, Json, LockHolder, Refused, escape, json_object
from spooltop.stop_event import StopEvent

from .model import CursorSource, CursorWrite

# Parses the content of cursor files, which may be large or hostile, and keeps as much as a budget of memory allows. A file
# whose values would take over 48 MB is not parsed. At most 2,000 sources of a shared file are kept; a section over 4 kB keeps
# its short fields only.

_IN_MEMORY = 48 << 20
_SOURCES_AT_MOST = 2_000
_NAME_AT_MOST = 512
SECTION_AT_MOST = 4 << 10
_SMALL = 64 << 10
"""Bytes of a file up to which every section may be kept as it is."""
_FIELD = 256
_FIELDS_AT_MOST = 8
"""The number of fields that are kept of a section that is too large; names and values have at most ``_FIELD`` characters."""
_BEGUN = ("true", "false", "null", "-", ".", "e+", "e-", "E+", "E-")


def parse_value(data: bytes) -> tuple[Json, str]:
    """Parses a file that belongs to one source: the value, and why it does not parse ("")."""
    if not data.strip():
        return None, "it is empty"
    # An upper estimate of the bytes that the values take.
    weights = ((b"{", 184), (b"[", 64), (b",", 40), (b'"', 32))
    if len(data) > _SMALL and 3 * len(data) + sum(data.count(sign) * size for sign, size in weights) > _IN_MEMORY:
        return None, f"its values would take over {_IN_MEMORY >> 20} MB of memory, not read"
    try:
        return json.loads(data), ""
    except json.JSONDecodeError as problem:
        return None, "it is cut off" if _cut_off(problem) else f"not JSON at byte {problem.pos}"
    except (ValueError, RecursionError):
        return None, "not JSON"


def within_budget(sections: dict[str, Json], size: int) -> tuple[dict[str, Json], int, frozenset[str]]:
    """The sections of a file of ``size`` bytes that are kept, how many sources are left out, and those whose value was cut."""
    kept: dict[str, Json] = {}
    cut = set()
    for name, value in sections.items():
        if len(name) > _NAME_AT_MOST:
            continue
        if len(kept) == _SOURCES_AT_MOST:
            break
        kept[name] = value
        if size > _SMALL and len(json.dumps(value)) > SECTION_AT_MOST:
            kept[name] = _shortened(value)
            cut.add(name)
    return kept, len(sections) - len(kept), frozenset(cut)


def _shortened(value: Json) -> Json:
    """The short fields of an object, its cursor among them. For any other value only its length and a hash, since any
    part of it may be secret."""
    fields = value.items() if isinstance(value, dict) else ()
    plain = ((name, item) for name, item in fields if not isinstance(item, list | dict))
    brief = ((name, item) for name, item in plain if max(len(name), len(json.dumps(item))) <= _FIELD)
    short: dict[str, Json] = dict(itertools.islice(brief, _FIELDS_AT_MOST))
    if short:
        return short
    from hashlib import blake2b  # loads OpenSSL: only for large sections

    text = json.dumps(value)
    return f"({len(text):,} characters, {blake2b(text.encode(), digest_size=6).hexdigest()})"



def _cut_off(problem: json.JSONDecodeError) -> bool:
    """True if the text is wrong only because it ends: within a string, a word or a number, or where more is expected."""
    rest = problem.doc[problem.pos :].rstrip()
    if problem.msg.startswith("Unterminated string"):
        return True
    if problem.msg.startswith("Invalid \\u"):
        return len(rest) <= len("uXXX")
    return problem.msg != "Extra data" and (not rest or any(word.startswith(rest) for word in _BEGUN))


# Versions of a cursor file: each content that was read, with what identifies it.

Handle = tuple[int, bytes]
"""Identifies a file on its file system, also after its inode number was used again: (type, bytes)."""
Content: TypeAlias = tuple[tuple[int, int, int], str, int]
"""The state of a file, the error of reading it and the hash of its bytes."""


class Version(Frozen):
    """A content of a cursor file, or why it could not be read. ``at`` is when it was read, in epoch seconds. ``unread`` is how
    many writes between the version before and this one were not read. By ``handle`` a ``WriterWatch`` knows it."""

    at: float
    state: tuple[int, int, int] = (0, 0, 0)
    """Inode, time of the last change in ns, size."""
    mtime: float = 0.0
    data: bytes = b""
    error: str = ""
    handle: Handle | None = None
    unread: int | None = 0

    @property
    def content(self) -> Content:
        """Equal for two versions with the same content."""
        return self.state, self.error, hash(self.data)



def read_version(name: str, folder: int, at: float, *, handles: bool) -> Version | None:
    """Reads the file now; None if there is none to be seen. ``handles``: the version gets its handle."""
    data, error, handle = b"", "", None
    try:
        own, found = open_regular(name, folder)
    except OSError as problem:
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            return None
        error = f"you may not read it ({problem.strerror})" if stat.S_ISREG(found.st_mode) else "not a plain file"
    else:
        with REAL_FILES.closing(own):
            try:
                data = REAL_FILES.read(own, FILE_MAX + 1)
            except OSError as problem:
                return Version(at, error=str(problem.strerror))
            if len(data) > FILE_MAX:
                data, error = b"", f"over {FILE_MAX >> 20} MB, not read"
            handle = handle_of(own) if handles else None
    return Version(at, _state(found), found.st_mtime, data, error, handle)


def _state(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_ino, found.st_mtime_ns, found.st_size


def handle_of(fd: int) -> Handle | None:
    """The handle of an open file, None if its file system has none."""
    try:
        return syscalls.file_handle(fd)
    except OSError:
        return None


# The engine's journal beside the cursors, ``.cursors.journal``, read from the end of the look before.

REMEMBERED = 3600.0
"""Seconds before the first look from which writes count."""


class _Line(Struct):
    """A line about a write, as ``engine.cursors.note`` makes it."""

    time: Annotated[float, Meta(ge=0, lt=1e15)]
    file: str
    source: str
    pid: Annotated[int, Meta(gt=0, lt=1 << 31)]
    old: Any
    new: Any
    command: str | None = None
    cut: None = None


class CursorJournal:
    """The journals in some folders. Each write is reported once."""

    def __init__(self) -> None:
        self._files = GrowingFiles(2 * JOURNAL_MAX, 2 * JOURNAL_MAX)
        self._newest: dict[str, float] = {}

    def since(self, path: str, fd: int, now: float) -> dict[str, list[CursorWrite]]:
        """The writes by file name since the look before (at the first: of the last hour), in the folder ``path``, open as
        ``fd``. Leaves out lines of another form: whoever may write beside the cursors may have written them."""
        writes: dict[str, list[CursorWrite]] = {}
        known = newest = self._newest.get(path, now - REMEMBERED)
        try:
            lines, on, _ = self._files.new_lines(path, JOURNAL, fd)
        except OSError:
            return writes  # nobody here writes through the engine, it is closed to us, or the file system fails
        for record in map(json_object, lines):
            try:
                line = convert(record, _Line)
            except (ValidationError, UnicodeError):
                continue
            if on or line.time > known:  # a rotation keeps lines that were reported already
                writer = LockHolder(line.pid, line.command, since=line.time)
                writes.setdefault(line.file, []).append(CursorWrite(line.time, line.source, line.old, line.new, writer))
                newest = max(newest, min(line.time, now))
        self._newest[path] = newest
        return writes


# Opens the folders of cursor files, and says if this user may change a cursor in them.

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@contextmanager
def named_folders(named: Iterable[str]) -> Iterator[OpenFolders]:
    """Opens each folder in ``named`` and the folder of each file in it, as (path, descriptor). Leaves out what cannot be
    opened."""
    opened: dict[str, int] = {}
    with ExitStack() as closed_last:
        for path in map(os.path.abspath, named):
            for folder in (path, os.path.dirname(path)):
                with suppress(OSError):  # a file, or nothing: the folder it lies in is tried
                    if folder not in opened:
                        opened[folder] = closed_last.enter_context(REAL_FILES.closing(os.open(folder, _FOLDER)))
                    break
        yield list(opened.items())


def cursor_rights(sources: tuple[CursorSource, ...], folders: OpenFolders) -> str | None:
    """Returns the reason why this user can set no cursor of ``sources``, None if one can be set."""
    if not sources:
        return "there is no cursor file here"
    reasons = [blocked_by(one, folders) for one in sources]
    return None if None in reasons else reasons[0]


def blocked_by(one: CursorSource, folders: OpenFolders) -> str | None:
    """Returns the reason why this user cannot set a cursor in this file, or None. The file is replaced, so the user needs the
    rights of the directory; without those of the file itself, its owner would be locked out of the new file."""
    name = os.path.basename(one.path)
    try:
        with folder_of(one.path, folders) as folder:
            if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                return f"{escape(one.path)} is not a regular file"
            own = why_closed(folder, name, escape(name), "cursors", one.path, mode=os.R_OK | os.W_OK)
            return own or why_closed(folder, ".", "its directory", "cursors", one.path)
    except OSError as error:
        return f"{escape(one.path)} cannot be seen: {error.strerror}"


def folder_of(path: str, folders: OpenFolders) -> AbstractContextManager[int]:
    """Opens the directory of a cursor file from the open ``folders`` without following a link. Raises ``OSError``."""
    found = folder_in(path, folders)
    if found is None:
        raise FileNotFoundError(errno.ENOENT, "not below this target", path)
    return opened_below(*found)


# Watches cursor files between two looks: each version is read at once, in the thread that receives the event, and where the
# kernel tells it, who wrote it. inotify(7) sends an event for each file that is moved into place, and never merges two of them.
# So the number of versions that were replaced before they could be read is known: a version says how many writes before it were
# not read.

_FILES_AT_MOST = 256
_TEMP_AT_MOST = 16
_SHARED = "cursors.json"
TEMP_BEGINS = ("cursors.json.", "cursors.tmp", "cursors.json~")
"""Beginnings of the temporary names of its writers."""

_UNTAKEN = 16 << 20
"""Bytes of versions that wait for a look. Versions beyond that are counted and not read."""
_ROUNDS = 16
"""Buffers that are read at once; faster events are left to the next time."""
_NAMES_AT_MOST = 16
_FOLDERS_AT_MOST = 64
_READ = 1 << 18
_FOREIGN = 500
"""Events a second about other files from which on events are collected for ``_GATHER`` seconds."""
_QUIET = 20
"""Milliseconds without a write after which a look is due."""
_AT_LATEST = 0.2
"""Seconds after the first of many writes after which a look is due in any case."""
_GATHER = 0.05


class _Listener(ABC):
    """Reads the events of a descriptor in a thread of its own, from ``_begin`` until ``close``."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._stop = StopEvent()
        self._fd = -1

    def close(self) -> None:
        """Ends the thread. May be called twice."""
        if self._fd >= 0:
            self._stop.set()
            self._thread.join()
            os.close(self._fd)
            self._fd = -1
        self._stop.release()

    def _begin(self, opening: Callable[[], int]) -> None:
        """Starts with the descriptor that ``opening`` returns. Raises ``OSError``."""
        self._readable = select.poll()
        try:
            self._readable.register(self._stop, select.POLLIN)
            self._fd = opening()
        except OSError:
            self._stop.release()
            raise
        self._readable.register(self._fd, select.POLLIN)
        self._thread = threading.Thread(target=self._listen, name=self._name, daemon=True)
        self._thread.start()

    def _received(self, patience: int | None = None) -> bool:
        """Waits for events, at most so many milliseconds, and reads them; False where none came."""
        if not self._readable.poll(patience):
            return False
        with self._lock:
            self._drain()
        return True

    @abstractmethod
    def _listen(self) -> None:
        """Reads events until ``_stop`` is set."""
        ...

    @abstractmethod
    def _drain(self) -> None:
        """Reads the events that there are."""
        ...


class _File(Struct):
    last: Content | None = None
    """The content that was read last."""
    reported: bool = True
    """False if the content was read before its event arrived."""
    untaken: list[Version] = []
    unread: int = 0
    """Writes since then that were not read."""


class _Folder(Struct):
    """A watched folder; ``fd`` is its own descriptor. ``whole``: every ``*.json`` is read, and not only those of ``files``."""

    watch: int
    fd: int
    whole: bool = False
    shared: set[str] = set()
    files: dict[str, _File] = {}

    def reads(self, name: str) -> bool:
        other = self.whole and name.endswith(".json") and name[0] != "." and len(self.files) < _FILES_AT_MOST
        return other or name in self.files


class CursorWatcher(_Listener):
    """Watches the folders passed to ``follow``, as far as the kernel allows (inotify(7)). ``changed`` is set soon after a
    watched file was written, or another ``*.json`` appeared. There is one thread, from the first folder on until ``close``.
    ``handles``: versions get their handles."""

    def __init__(self, changed: threading.Event, *, clock: Clock, handles: bool) -> None:
        super().__init__("spooltop-cursors")
        self._changed = changed
        self._clock = clock
        self._handles = handles
        self._folders: dict[tuple[int, int], _Folder] = {}
        self._watches: dict[int, _Folder] = {}
        self._untaken = 0
        self._foreign = 0
        self._event_seen = False

    def follow(self, folder: int, *, whole: bool = False) -> set[str]:
        """Watches this open folder from now on; ``whole``: reads every ``*.json`` in it. If no inotify watches are left, only
        looks find changes.

        Returns the names of temporary files that contain nothing of their writer, so that all writers share them; those that
        were made there since it was followed."""
        with self._lock:
            self._drain()  # first: it tells of a folder that is gone, whose number may be that of another one now
            tracked = self._follow(folder)
            if tracked is None:
                return set()
            tracked.whole = tracked.whole or whole
            return tracked.shared.copy()

    def take(self, folder: int, name: str) -> list[Version] | None:
        """The versions of this file since the last call, oldest first; the last one is the present content. Empty if nothing
        was written since, or there is no such file; None if the folder is not watched."""
        with self._lock:
            self._drain()
            tracked = self._follow(folder)
            if tracked is None:
                return None
            file = tracked.files.get(name) or _File()
            if len(tracked.files) < _FILES_AT_MOST:
                tracked.files[name] = file
            try:
                same = file.last is not None and file.last[0] == _state(os.stat(name, dir_fd=tracked.fd, follow_symlinks=False))
            except OSError:
                same = False
            if not same:  # written before its event arrived, or without any event: in place, by a file that is still open
                self._read(tracked, name, file, 0)
                file.reported = False
            self._drain()
            versions, file.untaken = file.untaken, []
            self._untaken -= sum(len(one.data) for one in versions)
            return versions

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
                self._begin(listening)
            for other, old in list(self._folders.items()):
                if len(self._folders) >= _FOLDERS_AT_MOST or os.fstat(old.fd).st_nlink == 0:
                    self._forget(other)
            own = os.open(".", _FOLDER, dir_fd=folder)
        except OSError:
            return None  # no instances or descriptors are left, or there is no inotify
        try:
            watch = watch_fd(self._fd, own)
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
        second, since = time.monotonic(), 0.0
        while not self._stop.is_set():
            ready = self._received(_QUIET if self._event_seen else None)
            now = time.monotonic()
            if not self._event_seen:
                since = now
            elif not ready or now - since > _AT_LATEST:
                self._event_seen = False
                self._changed.set()  # not before: a look would take the processor from the reading of what comes next
                since = now
            if now - second > 1.0:
                second, self._foreign = now, 0
            elif self._foreign > _FOREIGN:
                self._stop.wait(_GATHER)

    def _drain(self) -> None:
        """Reads the queue, and the files that were written."""
        if self._fd < 0:
            return
        for _ in range(_ROUNDS):
            try:
                data = os.read(self._fd, _READ)
            except BlockingIOError:
                return
            written = Counter[tuple[int, str]]()
            for event in in_order(data):
                if event.lost:
                    for file in [file for one in self._folders.values() for file in one.files.values()]:
                        file.unread += 1  # at least: the kernel's queue was full
                    self._event_seen = True
                folder = self._watches.get(event.watch)
                if folder is None or not event.name:
                    continue
                if (event.made or event.closed) and folder.reads(event.name):
                    written[event.watch, event.name] += event.moved  # 0: it was written in place
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
                self._event_seen = True
                file = self._watches[watch].files.setdefault(name, _File())
                if self._untaken < _UNTAKEN:
                    self._read(self._watches[watch], name, file, writes)
                else:
                    file.unread += writes

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
                file.untaken[-1] = file.untaken[-1].replace(unread=(file.untaken[-1].unread or 0) + unread)
            else:
                file.unread += unread
            return
        file.untaken.append(version.replace(unread=file.unread + max(0, writes - 1)))
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
    """Watches the folder ``path`` and those passed to ``follow``. ``describe`` gives what is known about a running process.

    A thread of its own reads the events until ``close``: a writer is described while it runs, the queue never fills with events
    of other files, and those who read the versions need not wait. Raises ``Refused`` where the kernel gives no such events.
    """

    def __init__(self, path: str, describe: Callable[[int], LockHolder]) -> None:
        super().__init__("spooltop-writers")
        self._describe = describe
        self._writers: OrderedDict[Handle, LockHolder | None] = OrderedDict()
        self._names: set[str] = set()
        self._folders: set[tuple[int, int]] = set()
        try:
            self._begin(partial(syscalls.fanotify_init, _INIT))
        except OSError as error:
            raise Refused(f"who-writes: {_why(error.errno or 0)}", _WITHOUT) from None
        try:
            with REAL_FILES.closing(os.open(path, _FOLDER)) as folder:
                self.follow(folder)
        except OSError as error:
            self.close()
            why = f"its file system does not tell who writes ({error.strerror})"
            raise Refused(f"who-writes: {why}", _WITHOUT, path=escape(path)) from None

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
                syscalls.fanotify_mark(self._fd, _MARK_FLUSH, 0, folder)
                self._folders.clear()
            wanted = _MODIFY | _MOVED_TO | _ON_CHILD
            syscalls.fanotify_mark(self._fd, _MARK_ADD | _MARK_ONLYDIR, wanted, folder)
            self._folders.add((found.st_dev, found.st_ino))

    def writer(self, handle: Handle | None) -> LockHolder | None:
        """The process that published the file with this handle (``handle_of``), None if that was not seen."""
        with self._lock:
            self._drain()  # what was published before it was opened is in the queue by now
            return None if handle is None else self._writers.get(handle)

    def _listen(self) -> None:
        while not self._stop.is_set():
            self._received()

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


# The cursor files of a target, as one look finds them.

Holders = Callable[[os.stat_result, int], tuple[LockHolder, ...]]
"""Gives the holders of a lock on the file with this status, or on the lock beside it in this open folder."""


class CursorFiles(Struct, dict=True):
    """The cursor files in some folders. A file that has not changed is not read again.

    ``named``: cursor files, or folders of them, in place of those in the folders looked at. ``watcher`` watches them between two
    looks. ``whole``: every source and section is kept in full, for a caller that looks once."""

    _world: System
    writers: WriterWatch | None = None
    named: Sequence[str] = ()
    watcher: CursorWatcher | None = None
    whole: bool = False
    _known: dict[str, tuple[Content, CursorSource]] = {}
    """Each file as it was last seen, and its content."""
    _seen: set[str] = set()

    def __post_init__(self) -> None:
        self.named = [os.path.abspath(path) for path in self.named]
        self._journal = CursorJournal()
        self._temp_files = FolderNames(lambda name: name != _SHARED and name.startswith(TEMP_BEGINS), _TEMP_AT_MOST)

    def look(self, folders: OpenFolders, holders: Holders) -> tuple[CursorSource, ...]:
        """Looks at the cursor files in ``folders``, (path as shown, descriptor) of the spool and of its parent; the first one
        that has cursors is taken."""
        if not self.named:
            return next((found for path, fd in folders if (found := tuple(self._in(path, fd, holders)))), ())
        with named_folders(self.named) as opened:
            return tuple(one for path in self.named for one in self._of_name(path, dict(opened), holders))

    def _of_name(self, path: str, opened: dict[str, int], holders: Holders) -> Iterator[CursorSource]:
        if path in opened:
            yield from self._in(path, opened[path], holders)
            return
        above, name = os.path.split(path)
        shared = os.path.basename(above) != "cursors" or not name.endswith(".json")
        if above in opened:
            for one in self._read(above, opened[above], [name], holders, shared=shared, named=name):
                self._seen.add(path)
                yield one
        if path not in self._seen:  # it never existed: what was named is shown all the same
            yield CursorSource(path, shared, None, "there is no such file")

    def _in(self, path: str, fd: int, holders: Holders) -> Iterator[CursorSource]:
        yield from self._read(path, fd, [_SHARED], holders, shared=True)
        with suppress(OSError), opened_below(fd, "cursors") as folder:  # usually there is no such folder
            if self.watcher is not None:
                self.watcher.follow(folder, whole=True)
            names = sorted(name for name in os.listdir(folder) if name.endswith(".json") and not name.startswith("."))
            yield from self._read(os.path.join(path, "cursors"), folder, names[:_FILES_AT_MOST], holders, shared=False)

    def _read(
        self, folder: str, fd: int, names: Sequence[str], holders: Holders, *, shared: bool, named: str | None = None
    ) -> Iterator[CursorSource]:
        """Reads those of the files ``names`` that exist in ``folder``, open as ``fd``, with their temporary files, their lock and
        their journal. ``shared``: by several sources. ``named``: a file that is not called ``*.json``, maybe."""
        if self.writers is not None:
            with suppress(OSError):  # its file system reports no writers
                self.writers.follow(fd, named)
        writes = self._journal.since(folder, fd, self._world.clock())  # first: what it has was published before
        for name in names:
            one = self._file(os.path.join(folder, name), name, fd, holders, shared=shared)
            if one is None:
                continue
            temp_files: set[str] = set()
            if shared and name == _SHARED:  # those that lie beside the file or were reported
                reported = self.watcher.follow(fd) if self.watcher is not None else ()
                temp_files = {*self._temp_files.of(folder, fd), *reported}
            yield one.replace(
                temp_files=tuple(sorted(temp_files)), lock_there=_is_lock_there(fd), journal=tuple(writes.get(name, ()))
            )

    def _file(self, path: str, name: str, fd: int, holders: Holders, *, shared: bool) -> CursorSource | None:
        versions = self.watcher.take(fd, name) if self.watcher is not None else None
        try:
            found = os.stat(name, dir_fd=fd, follow_symlinks=False)
        except FileNotFoundError:
            self._known.pop(path, None)
            return None
        except OSError as problem:
            return CursorSource(path, shared, None, str(problem.strerror))
        known = self._known.get(path)
        if versions and known is not None and versions[0].content == known[0]:
            del versions[0]  # a new watch of the folder begins with what is there
        if not versions:
            if known is not None and (versions is not None or known[0][0] == _state(found)):
                return known[1].replace(lock_holders=holders(found, fd))
            now = read_version(name, fd, self._world.clock(), handles=self.writers is not None)
            if now is None:
                return None
            versions = [now.replace(unread=0 if versions is not None else None)]
        read = deque([self._parsed(path, versions[-1], shared=shared).replace(lock_holders=holders(found, fd))])
        left = FILE_MAX
        for version in reversed(versions[:-1]):
            left -= len(version.data)
            one = None if left < 0 else self._parsed(path, version, shared=shared)
            if one is not None and one.sections is not None:
                read.appendleft(one)
            else:  # what could not be read as a whole is one more write that stands between its neighbours
                read[0] = read[0].replace(unread=(read[0].unread or 0) + (version.unread or 0) + 1)
        newest = read.pop()
        self._known[path] = versions[-1].content, newest
        return newest.replace(earlier=tuple(read))

    def _parsed(self, path: str, version: Version, *, shared: bool) -> CursorSource:
        """Returns a version with its sections, or with the reason why there are none."""
        value, error = (None, version.error) if version.error else parse_value(version.data)
        if shared and not error and not isinstance(value, dict):
            error = "not an object: one section for each source is expected"
        sections: Any = None if error else value if shared else {os.path.basename(path).removesuffix(".json"): value}
        writer = None if self.writers is None else self.writers.writer(version.handle)
        left_out, cut = 0, frozenset[str]()
        if sections is not None and not self.whole:
            sections, left_out, cut = within_budget(sections, len(version.data))
        return CursorSource(
            path, shared, sections, error, version.mtime, version.state, writer=writer, unread=version.unread,
            read_at=version.at, left_out=left_out, cut=cut,
        )  # fmt: skip


def _is_lock_there(fd: int) -> bool | None:
    """True if the folder has the lock of the cursors, None if that is not visible."""
    try:
        return stat.S_ISREG(os.stat(LOCK, dir_fd=fd, follow_symlinks=False).st_mode)
    except OSError as problem:
        return False if isinstance(problem, FileNotFoundError) else None
