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
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import Any

from .names import MAX_NEW, claimable, enqueued_us, not_before
from .system.files import Files, status_of
from .system.syscalls import inotify_add_watch, inotify_init

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
            try:
                os.read(fd, 65536)
            except BlockingIOError:
                continue  # another thread was quicker, or there was nothing

    def wake(self) -> None:
        """Ends waits at once. Safe in a signal handler and in any thread."""
        self.wakes += 1
        try:
            os.write(self._waker, b"!")
        except BlockingIOError:
            return  # full: whoever waits is woken in any case

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


# Messages waiting in ``new``, oldest first, without a listing per message.
# A listing fills a heap with the oldest names. The directory is listed again when the heap is empty, or when the listing has aged
# and the directory has changed. A name is ordered by the time in it, else by its mtime, so that foreign names that sort first or
# last by chance neither starve others nor are starved.

LIMIT = 200_000
"""Maximum number of names that are kept; about 25 MB; half as many for names that do not begin with a time."""
_FUTURE = 1_000_000
"""µs by which a time in a name may be ahead of the clock and still be believed."""
_SETTLED_NS = 1_000_000_000
"""An mtime younger than this at the listing proves nothing: another change may leave the same one."""


class Backlog:
    """Names waiting in ``new``. Not thread-safe. ``clock`` returns epoch seconds."""

    def __init__(self, new: int, files: Files, clock: Callable[[], float], *, limit: int = LIMIT) -> None:
        self._new = new
        self._files = files
        self._clock = clock
        self._limit = limit
        # Names that begin with a time sort as they are, the oldest last; the heap is for the others and for what comes back.
        self._sorted: list[str] = []
        self._heap: list[tuple[int, str]] = []
        self._later: list[tuple[int, int, str]] = []
        self._times: dict[str, int] = {}
        self._delays: dict[str, int] = {}
        self._listed_at: float | None = None
        self._fresh_until = 0.0
        self._seen: int | None = None
        self.listings = 0
        """Number of times the directory was listed."""

    def pop(self) -> str | None:
        """Removes the oldest name that may be claimed now from the backlog and returns it; None if there is none."""
        names, heap = self._sorted, self._heap
        if self._later or not (names or heap) or time.monotonic() >= self._fresh_until:
            self._fill()
            names, heap = self._sorted, self._heap
        if not heap:
            return names.pop() if names else None
        if names and (int(names[-1][:16]), names[-1]) < heap[0]:
            return names.pop()
        return heappop(heap)[1]

    def add(self, name: str) -> None:
        """Adds a name that has just been put into ``new``, or back into it."""
        self._place(name, int(self._clock() * 1e6))

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
                _, us, name = heappop(self._later)
                heappush(self._heap, (us, name))
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
        known, self._times = self._times, {}
        self._heap, self._later = [], []
        self._sorted.clear()  # before the listing: both at once would take twice the memory
        names: list[str] = []
        delays, most = self._delays, self._limit + max(1, self._limit // 4)
        whole = True
        future = cut = f"{now + _FUTURE:016d}"
        for found in self._files.regular(self._new):
            for name in found:
                if name[16:18] == ".P" and name < future and name[:16].isdecimal() and ",t=" not in name:
                    if name >= cut:
                        continue  # younger than all that are kept
                    if len(name) <= MAX_NEW and name.isascii() and not (delays and name in delays):
                        names.append(name)
                        continue
                if name[0] == "." or not claimable(name):
                    continue
                if name in known:
                    self._times[name] = known[name]
                self._place(name, now, list.append)
            if len(names) >= most:
                names.sort()
                cut = names[self._limit]
                del names[self._limit :]
            if len(self._heap) >= most // 2 + 1:  # each takes more than twice the memory, with its time beside it
                self._heap.sort()
                del self._heap[self._limit // 2 + 1 :]
                self._times = {name: self._times[name] for _, name in self._heap if name in self._times}
                cut = min(cut, f"{max(self._heap[-1][0], 0):016d}")
            if len(self._later) >= most:
                self._later.sort()
                del self._later[self._limit :]
                whole = False
        if cut != future:  # what was left out is younger than what is kept, of either sort
            names = [name for name in names if name < cut]
            self._heap = [(us, name) for us, name in self._heap if us <= int(cut[:16])]
        names.sort(reverse=True)
        self._sorted = names
        self._heap.sort()  # a sorted list is a heap
        self._later.sort()
        self._seen = before if settled and whole and cut == future else None
        self._fresh_until = started + max(1.0, 20 * (time.monotonic() - started))
        self._listed_at = started
        self.listings += 1

    def _place(self, name: str, now: int, put: Callable[[list[Any], Any], None] = heappush) -> None:
        us = enqueued_us(name)
        if us is None or us > now + _FUTURE:
            us = self._by_mtime(name, now)
            if us is None:
                return
        until = not_before(name) or self._delays.get(name, 0)
        if until > now:
            put(self._later, (until, us, name))
        else:
            put(self._heap, (us, name))

    def _by_mtime(self, name: str, now: int) -> int | None:
        us = self._times.get(name)
        if us is None:
            found = status_of(self._files, name, self._new)
            if found is None or not stat.S_ISREG(found.st_mode):
                return None
            # Never later than when it was first seen: a time in the future would keep it last for ever.
            us = self._times[name] = min(found.st_mtime_ns // 1000, now)
        return us
