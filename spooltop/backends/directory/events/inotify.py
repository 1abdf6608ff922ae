"""Change events straight from the kernel, inotify(7): read in bulk, without a thread of another library or an object an event.

It reads ``new``, ``cur`` and the folders of cursor files, where watchfiles is not enough. The kernel tells each change in its
order; watchfiles gathers them in a set: of 89 cursor updates that a stale copy overwrote it gave 16, this reader 88. The kernel
also says when it lost some (IN_Q_OVERFLOW) and when a directory went away (IN_IGNORED), and its names are bytes, whatever is in
them; watchfiles says neither, and ends at a name that is not UTF-8. Everything else is watched by ``folder_watch``.
"""

from __future__ import annotations

import errno
import os
import re
import select
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from msgspec import Struct, field

from spooltop.engine.system.syscalls import inotify_add_watch, inotify_init
from spooltop.stop_event import StopEvent

_CLOSE_WRITE, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x8, 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF, _UNMOUNT, _OVERFLOW, _IGNORED = 0x400, 0x800, 0x2000, 0x4000, 0x8000
_ONLYDIR, _DONT_FOLLOW = 0x0100_0000, 0x0200_0000
_ADDED, _GONE = _CREATE | _MOVED_TO, _DELETE | _MOVED_FROM
_NAMED = _ADDED | _GONE
_WANTED = _ADDED | _GONE | _DELETE_SELF | _MOVE_SELF | _ONLYDIR | _DONT_FOLLOW
_ENDED = _DELETE_SELF | _MOVE_SELF | _UNMOUNT | _IGNORED

_HEAD = struct.Struct("iIII")
"""wd, mask, cookie, length of the name with its NULs."""
_PADDING = r"\0+" if sys.byteorder == "little" else r"\0+?(?=\0{3}[^\0\xff]|\xff{4}|\Z)"
"""Matches up to the next wd. There are few: 1 to 254, or -1."""
_EVENT = re.compile(rf"(.{{8}}).{{4}}(?:\0{{4}}|.{{4}}(?:\.[^\0]*|([^\0]+)){_PADDING})", re.DOTALL)
"""Captures wd and mask, and the name unless it begins with a dot."""
_Kind = tuple[set[str], Counter[str], set[str] | None, set[str]]
"""Names with events of one kind; how often they come again; for additions the deleted names, else None; names that are there at
the end."""
_ENCODING = sys.getfilesystemencoding()
_READ = 1 << 18
_GATHER = 0.1
"""Seconds from one read to the next where much happens: what comes first is reported at once."""
_HURRY = 0.02
"""The same where the kernel's queue (16,384 events by default) would else fill up between two reads."""
_MANY = 5_000
_BACKLOG = 100_000
"""Events of one read after nobody had read for a while: all of them, or what is left would count as having just happened."""
_BEAT = 1.0
"""Seconds of silence after which it is known that this process was scheduled."""


class Events(Struct):
    """Events from one read: names by directory (as it was given). ``lost``: the kernel's queue overflowed. ``ended``: a directory
    was removed, moved or unmounted."""

    added: dict[str, set[str]] = field(default_factory=dict)
    deleted: dict[str, set[str]] = field(default_factory=dict)
    back: dict[str, set[str]] | None = None
    """Names that were both added and deleted and whose last event was the addition. None: the order is unknown."""
    repeats: dict[str, Counter[str]] = field(default_factory=dict)
    """Number of times each name was added again after its first addition: a foreign consumer gives a message back under the same
    name every time."""
    gone_again: dict[str, Counter[str]] = field(default_factory=dict)
    """Number of times each name was deleted again after its first deletion."""
    count: int = 0
    lost: bool = False
    ended: bool = False
    late: float = 0.0
    """Seconds for which nobody had read before: what is reported may have happened that long ago."""


class Event(NamedTuple):
    """Single event. ``moved``: a file was moved to this name; ``closed``: it was closed after it was open for writing; ``made``:
    the name is new, which includes moved files."""

    watch: int
    name: str
    moved: bool
    closed: bool
    made: bool
    lost: bool
    ended: bool


def inotify_source(
    paths: Iterable[str], stop: StopEvent, monotonic: Callable[[], float] = time.monotonic
) -> Iterator[Events]:
    """Yields the events in the directories ``paths`` until ``stop`` is set; at the start and after each second without any it
    yields ``Events`` that are empty. Raises ``OSError`` where a directory cannot be watched, with the limit that was reached."""
    fd = listening()
    try:
        folders = {_watch(fd, path): path for path in paths}
        readable = select.poll()
        readable.register(fd, select.POLLIN)
        readable.register(stop, select.POLLIN)
        read_at = monotonic()
        yield Events()
        while not stop.is_set():
            if not readable.poll(_BEAT * 1_000):
                read_at = monotonic()
                yield Events()
                continue
            now = monotonic()
            events, read_at = Events(late=now - read_at), now
            most = _BACKLOG if events.late > _BEAT else 2 * _MANY
            while data := _read(fd):
                parsed(data, folders, events)
                if len(data) < _READ // 2 or events.count > most:
                    break  # what is left or comes meanwhile is of the next read
            yield events
            stop.wait(_HURRY if events.count > _MANY else _GATHER)
    finally:
        os.close(fd)


def parsed(data: bytes, folders: dict[int, str], into: Events) -> None:
    """Adds the events in ``data``, as inotify(7) lays them out, to ``into``. Dot files are no messages: they are only counted."""
    if into.back is None:
        into.back = {}
    for path in folders.values():
        for names_by_path in (into.added, into.deleted, into.back):
            names_by_path.setdefault(path, set())
    found = _EVENT.findall(str(data, "latin-1"))
    kinds = _Kinds(folders, into)
    for head, name in found:
        if (kind := kinds[head]) is None or not name:
            continue
        if not name.isascii():
            name = str(name.encode("latin-1"), _ENCODING, "surrogateescape")
        names, again, deleted, back = kind
        if name in names:
            again[name] += 1
        else:
            names.add(name)
        if deleted is None:
            if back:
                back.discard(name)
        elif name in deleted:
            back.add(name)
    into.count += len(found)


class _Kinds(dict[str, _Kind | None]):
    """Kinds of events by the watch and the mask in front of each. None: events that name nothing in ``folders``; ``into`` tells
    what they mean."""

    def __init__(self, folders: dict[int, str], into: Events) -> None:
        self._folders = folders
        self._into = into

    def __missing__(self, head: str) -> _Kind | None:
        watch, mask = struct.unpack("iI", head.encode("latin-1"))
        into, path = self._into, self._folders.get(watch)
        kind: _Kind | None = None
        if path is None or into.back is None or not mask & _NAMED:
            into.lost |= bool(mask & _OVERFLOW)
            into.ended |= bool(mask & _ENDED)
        elif mask & _ADDED:
            kind = into.added[path], into.repeats.setdefault(path, Counter()), into.deleted[path], into.back[path]
        else:
            kind = into.deleted[path], into.gone_again.setdefault(path, Counter()), None, into.back[path]
        self[head] = kind
        return kind


def in_order(data: bytes) -> Iterator[Event]:
    """Each event in ``data`` by itself, in the order in which it happened."""
    at = 0
    while at < len(data):
        watch, mask, _, length = _HEAD.unpack_from(data, at)
        name = data[at + _HEAD.size : at + _HEAD.size + length].split(b"\0", 1)[0]
        at += _HEAD.size + length
        yield Event(
            watch, str(name, _ENCODING, "surrogateescape"), bool(mask & _MOVED_TO), bool(mask & _CLOSE_WRITE),
            bool(mask & _ADDED), bool(mask & _OVERFLOW), bool(mask & _ENDED),
        )  # fmt: skip


def listening() -> int:
    """A descriptor to read events from, which does not block. Raises ``OSError``."""
    try:
        return inotify_init()
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
        raise OSError(errno.EMFILE, "inotify instances are used up (fs.inotify.max_user_instances)") from None


def watch_fd(fd: int, folder: int, *, contents: bool = False) -> int:
    """Listens in an open folder; the number that its events have. ``contents``: also to files that are closed after writing.
    Raises ``OSError``."""
    path = f"/proc/self/fd/{folder}/."  # by the descriptor: the path may lead elsewhere by now
    return _watch(fd, path, _WANTED | _CLOSE_WRITE if contents else _WANTED)


def _watch(fd: int, path: str, mask: int = _WANTED) -> int:
    try:
        return inotify_add_watch(fd, path, mask)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise OSError(errno.ENOSPC, "the limit of inotify watches is reached (fs.inotify.max_user_watches)", path) from None


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, _READ)
    except BlockingIOError:
        return b""
