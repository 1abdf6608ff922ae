"""Change events straight from the kernel, inotify(7): read in bulk, without a thread of another library or an object an event.

It reads ``new``, ``cur`` and the folders of cursor files, where watchfiles is not enough. The kernel tells each change in its
order; watchfiles gathers them in a set: of 89 cursor updates that a stale copy overwrote it gave 16, this reader 88. The kernel
also says when it lost some (IN_Q_OVERFLOW) and when a directory went away (IN_IGNORED), and its names are bytes, whatever is in
them; watchfiles says neither, and ends at a name that is not UTF-8. Everything else is watched by watchfiles.
"""

from __future__ import annotations

import errno
import os
import select
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
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
    """Change events that were read together: by box how often each name was added and deleted, unordered. A foreign consumer
    gives a message back under the same name every time. ``lost``: the kernel's queue overflowed. ``ended``: a directory was
    removed, moved or unmounted."""

    added: dict[str, Counter[str]] = field(default_factory=dict)
    deleted: dict[str, Counter[str]] = field(default_factory=dict)
    back: dict[str, set[str]] | None = None
    """Names that were both added and deleted and whose last event was the addition. None: the order is unknown."""
    count: int = 0
    lost: bool = False
    ended: bool = False
    late: float = 0.0
    """Seconds for which nobody had read before: what is reported may have happened that long ago."""
    at: float = 0.0
    """The time of about all of it, epoch seconds."""

    def back_in(self, box: str) -> Set[str]:
        """Returns the names in ``back`` of a box; none where that is not known."""
        return frozenset() if self.back is None else self.back.get(box, set())

    def of(self, box: str) -> tuple[Counter[str], Counter[str]]:
        """Returns what was added to a box and deleted from it."""
        return self.added.get(box, Counter()), self.deleted.get(box, Counter())


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
    boxes: Mapping[str, str], stop: StopEvent, monotonic: Callable[[], float] = time.monotonic
) -> Iterator[Events]:
    """Yields the events in the directories ``boxes``, path → name of the box, until ``stop`` is set; at the start and after each
    second without any it yields ``Events`` that are empty. Raises ``OSError`` where a directory cannot be watched, with the limit
    that was reached."""
    fd = listening()
    try:
        watched = {_watch(fd, path): box for path, box in boxes.items()}
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
                parsed(data, watched, events)
                if len(data) < _READ // 2 or events.count > most:
                    break  # what is left or comes meanwhile is of the next read
            yield events
            stop.wait(_HURRY if events.count > _MANY else _GATHER)
    finally:
        os.close(fd)


def parsed(data: bytes, watched: Mapping[int, str], into: Events) -> None:
    """Adds the events in ``data``, as inotify(7) lays them out, to ``into``. ``watched`` are the boxes by the numbers of their
    watches. Dot files are no messages: they are only counted."""
    if into.back is None:
        into.back = {}
    for box in watched.values():
        into.added.setdefault(box, Counter())
        into.deleted.setdefault(box, Counter())
        into.back.setdefault(box, set())
    for watch, mask, raw in _split(data):
        into.count += 1
        where = watched.get(watch)
        if where is None or not mask & _NAMED:
            into.lost |= bool(mask & _OVERFLOW)
            into.ended |= bool(mask & _ENDED)
        elif raw and raw[:1] != b".":
            name = os.fsdecode(raw)
            if not mask & _ADDED:
                into.deleted[where][name] += 1
                into.back[where].discard(name)
                continue
            into.added[where][name] += 1
            if name in into.deleted[where]:
                into.back[where].add(name)


def in_order(data: bytes) -> Iterator[Event]:
    """Each event in ``data`` by itself, in the order in which it happened."""
    for watch, mask, name in _split(data):
        yield Event(
            watch, os.fsdecode(name), bool(mask & _MOVED_TO), bool(mask & _CLOSE_WRITE), bool(mask & _ADDED),
            bool(mask & _OVERFLOW), bool(mask & _ENDED),
        )  # fmt: skip


def _split(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yields the watch, the mask and the name of each event."""
    at = 0
    while at < len(data):
        watch, mask, _, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size + length
        yield watch, mask, data[at - length : at].rstrip(b"\0")


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
