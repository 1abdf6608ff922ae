"""Waiting for a name to appear in a directory: inotify(7), and bounded polling if inotify does not work.

An event is only a reason to check again. Network file systems send none for changes by other machines, and an event can be lost,
so no wait is longer than ``LONGEST``.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Iterable

from ..system.syscalls import inotify_add_watch, inotify_init

LONGEST = 2.0
"""Longest single wait, in seconds, with inotify."""
_POLLED = 0.1
"""Longest single wait, in seconds, without inotify."""

_IN_CREATE, _IN_MOVED_TO, _IN_ONLYDIR = 0x100, 0x80, 0x01000000


class ArrivalWatch:
    """Wakes up when a name appears in a directory, or when ``wake`` is called. ``live`` is False if inotify is not available.

    Several threads may wait: one of them polls and wakes all the others. The descriptors are closed by ``close``, or when no
    thread refers to the watch any more.
    """

    _woken = _waker = -1
    _inotify: int | None = None

    def __init__(self, dir_fd: int) -> None:
        self._woken, self._waker = nonblocking_pipe()  # not an eventfd(2), which only Linux has
        self._poll = select.poll()
        self._poll.register(self._woken, select.POLLIN)
        self._inotify = _inotify(dir_fd)
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
