"""The names that wait in a directory, and waiting for one to appear: inotify(7), and bounded polling if that does not work.

An event is only a reason to check again. Network file systems send none for changes by other machines, and an event can be lost,
so no wait is longer than ``LONGEST``.
"""

from __future__ import annotations

import os
import select
import stat
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from heapq import heappop, heappush
from itertools import chain

from msgspec import Struct

from spooltop.model import Clock

from .files import Files
from .names import MAX_NEW, claimable, enqueued_us, not_before
from .syscalls import inotify_add_watch, inotify_init

LONGEST = 2.0
"""Longest single wait, in seconds, with inotify."""
_POLLED = 0.1
"""Longest single wait, in seconds, without inotify."""

_IN_CREATE, _IN_MOVED_TO, _IN_ONLYDIR = 0x100, 0x80, 0x01000000


class ArrivalWatch:
    """Wakes up when a name appears in a directory, if one is given, or when ``wake`` is called. ``live``: there is inotify.

    Several threads may wait: one of them polls and wakes all the others. The descriptors are closed by ``close``, or when no
    thread refers to the watch any more.
    """

    _woken = _waker = -1
    _inotify: int | None = None

    def __init__(self, dir_fd: int | None) -> None:
        self._woken, self._waker = nonblocking_pipe()  # not an eventfd(2), which only Linux has
        self._poll = select.poll()
        self._poll.register(self._woken, select.POLLIN)
        self._inotify = None if dir_fd is None else _inotify(dir_fd)
        self.live = self._inotify is not None
        if self._inotify is not None:
            self._poll.register(self._inotify, select.POLLIN)
        self.wakes = 0
        """Number of calls of ``wake``."""
        self.events = 0
        """Number of waits that ended because something may have appeared."""
        self._turn = threading.Condition(threading.Lock())
        self._polled = False

    def wait(self, timeout: float, seen: int | None = None) -> None:
        """Returns when something may have appeared, and after ``timeout`` seconds (or the longest wait) at the latest. Returns at
        once if ``events`` has changed from ``seen``: another thread has received an event since the caller's last check."""
        seconds = min(timeout, self.longest)
        with self._turn:
            seen = self.events if seen is None else seen
            end = time.monotonic() + seconds
            while self._polled and self.events == seen and seconds > 0:
                self._turn.wait(seconds)
                seconds = end - time.monotonic()
            if self.events != seen or seconds <= 0:
                return
            self._polled = True
        found = []
        try:
            found = [fd for fd, _ in self._poll.poll(max(1, int(seconds * 1000 + 0.999)))]
            self._read(found)
        finally:
            with self._turn:
                self._polled = False
                self.events += bool(found)
                self._turn.notify_all()

    async def wait_in_loop(self, timeout: float) -> None:
        """Does the same for an event loop: no thread waits."""
        import asyncio  # who gets here has it loaded

        loop, something = asyncio.get_running_loop(), asyncio.Event()
        fds = self.fds
        for fd in fds:
            loop.add_reader(fd, something.set)
        try:
            await asyncio.wait_for(something.wait(), max(0.0, min(timeout, self.longest)))
        except TimeoutError:
            return
        finally:
            for fd in fds:
                loop.remove_reader(fd)
            self._read(fds)

    @property
    def longest(self) -> float:
        """Longest single wait, in seconds."""
        return LONGEST if self.live else _POLLED

    @property
    def fds(self) -> tuple[int, ...]:
        """Descriptors that become readable when there is a reason to check again, for callers that wait by other means."""
        return tuple(fd for fd in (self._woken, self._inotify) if fd is not None and fd >= 0)

    def _read(self, fds: Iterable[int]) -> None:
        for fd in fds:
            with suppress(BlockingIOError):  # another thread was quicker, or there was nothing
                os.read(fd, 65536)

    def wake(self) -> None:
        """Ends waits at once. Safe in a signal handler, in any thread, and after ``close``."""
        self.wakes += 1
        with suppress(OSError):  # full: whoever waits is woken in any case; or it was closed
            os.write(self._waker, b"!")

    def close(self) -> None:
        fds, waker, self._woken, self._waker, self._inotify = self.fds, self._waker, -1, -1, None
        for fd in (*fds, *((waker,) if waker >= 0 else ())):
            os.close(fd)

    __del__ = close


def nonblocking_pipe() -> tuple[int, int]:
    """Creates a pipe whose ends, the one to read and the one to write, never block."""
    ends = os.pipe()
    for fd in ends:
        os.set_blocking(fd, False)
    return ends


def _inotify(dir_fd: int) -> int | None:
    try:
        fd = inotify_init()
    except OSError:
        return None  # no instances left (/proc/sys/fs/inotify/max_user_instances)
    try:  # by the open descriptor: the path may lead elsewhere by now
        inotify_add_watch(fd, f"/proc/self/fd/{dir_fd}/.", _IN_CREATE | _IN_MOVED_TO | _IN_ONLYDIR)
    except OSError:
        os.close(fd)
        return None
    return fd


# Messages waiting in ``new``, oldest first, without a listing per message. A listing keeps the oldest names. The directory is
# listed again when none is left, or when the listing has aged and the directory has changed. A name is ordered by the time in it,
# else by its mtime, so that foreign names that sort first or last by chance neither starve others nor are starved. So its key is
# the name itself where that begins with the time, else ``<time>/<name>``.

LIMIT = 200_000
"""Maximum number of names that are kept; about 25 MB."""
_FUTURE = 1_000_000
"""µs by which a time in a name may be ahead of the clock and still be believed."""
_SETTLED_NS = 1_000_000_000
"""An mtime younger than this at the listing proves nothing: another change may leave the same one."""
_BEHIND_ALL = "~"
"""Sorts after every key: they begin with digits."""


class Backlog(Struct):
    """Names waiting in ``_new``. Not thread-safe. ``_clock`` returns epoch seconds."""

    _new: int
    _files: Files
    _clock: Clock
    limit: int = LIMIT
    # Keys: those of the listing, the oldest last; a heap of what came back since; a heap of those that wait for their time.
    _sorted: list[str] = []
    _heap: list[str] = []
    _later: list[tuple[int, str]] = []
    _delays: dict[str, int] = {}
    _listed_at: float | None = None
    _fresh_until: float = 0.0
    _seen: int | None = None

    def pop(self) -> str | None:
        """Removes the oldest name that may be claimed now from the backlog and returns it; None if there is none."""
        if self._later or not (self._sorted or self._heap) or time.monotonic() >= self._fresh_until:
            self._fill()
        keys, heap = self._sorted, self._heap
        if heap and not (keys and keys[-1] < heap[0]):
            return heappop(heap)[17:]
        return keys.pop().rpartition("/")[2] if keys else None

    def add(self, name: str) -> None:
        """Adds a name that has just been put into ``new``, or back into it."""
        now = int(self._clock() * 1e6)
        if (entry := self._entry(name, now, {})) is not None:
            until, key = entry
            if until > now:
                heappush(self._later, entry)
            else:
                heappush(self._heap, key)

    def delay(self, name: str, until: int) -> None:
        """Holds a name back in this process until ``until``, µs since the epoch: foreign names cannot carry it themselves."""
        if len(self._delays) >= 4096:
            now = int(self._clock() * 1e6)
            self._delays = {name: until for name, until in self._delays.items() if until > now}
        self._delays[name] = until

    def due(self) -> float:
        """Epoch seconds at which the next delayed name may be claimed; infinity if there are none."""
        return self._later[0][0] / 1e6 if self._later else float("inf")

    def clear(self) -> None:
        """Forgets the listing."""
        self._sorted.clear()
        self._heap.clear()
        self._later.clear()
        self._listed_at = None
        self._fresh_until = 0.0
        self._seen = None

    def _fill(self) -> None:
        if self._later:
            now = int(self._clock() * 1e6)
            while self._later and self._later[0][0] <= now:
                heappush(self._heap, heappop(self._later)[1])
        if self._listed_at is not None:
            if (self._sorted or self._heap) and time.monotonic() < self._fresh_until:
                return
            if self._seen is not None and self._files.fstat(self._new).st_mtime_ns == self._seen:
                return
        self._list()

    def _list(self) -> None:
        started = time.monotonic()
        before = self._files.fstat(self._new).st_mtime_ns
        now = int(self._clock() * 1e6)
        settled = time.time_ns() - before > _SETTLED_NS
        kept = chain(self._sorted, self._heap, (key for _, key in self._later))
        known = {key[17:]: int(key[:16]) for key in kept if key[16] == "/"}
        self._heap, self._later = [], []
        self._sorted.clear()  # before the listing: both at once would take twice the memory
        keys: list[str] = []
        delays, most = self._delays, self.limit + max(1, self.limit // 4)
        whole, cut, future = True, _BEHIND_ALL, f"{now + _FUTURE:016d}"
        for found in self._files.regular(self._new):
            for name in found:
                key = name
                if (
                    name[16:18] != ".P" or name >= future or not name[:16].isdecimal() or ",t=" in name
                    or len(name) > MAX_NEW or not name.isascii() or (delays and name in delays)
                ):  # fmt: skip
                    if name[0] == "." or not claimable(name) or (entry := self._entry(name, now, known)) is None:
                        continue
                    until, key = entry
                    if until > now:
                        self._later.append(entry)
                        continue
                if key < cut:  # else it is younger than all that are kept
                    keys.append(key)
            if len(keys) >= most:
                keys.sort()
                cut = keys[self.limit]
                del keys[self.limit :]
            if len(self._later) >= most:
                self._later.sort()
                del self._later[self.limit :]
                whole = False
        keys.sort(reverse=True)
        self._sorted = keys
        self._later.sort()  # a sorted list is a heap
        self._seen = before if settled and whole and cut == _BEHIND_ALL else None
        self._fresh_until = started + max(1.0, 20 * (time.monotonic() - started))
        self._listed_at = started

    def _entry(self, name: str, now: int, known: Mapping[str, int]) -> tuple[int, str] | None:
        """Returns when the message may be claimed (µs) and its key; None if it is gone or not a regular file. ``known`` are the
        times of names that were listed before."""
        us = enqueued_us(name)
        if us is None or us > now + _FUTURE:
            us = known.get(name)
        if us is None:
            found = self._files.status(name, self._new)
            if found is None or not stat.S_ISREG(found.st_mode):
                return None
            # Never later than when it was first seen: a time in the future would keep it last for ever.
            us = max(0, min(found.st_mtime_ns // 1000, now))
        return not_before(name) or self._delays.get(name, 0), f"{us:016d}/{name}"
