"""Waiting for a name to appear in a directory: inotify(7), and bounded polling if inotify does not work.

An event is only a reason to check again. Network file systems send none for changes by other machines, and an event can be lost,
so no wait is longer than ``LONGEST``.
"""

from __future__ import annotations

import os
import select
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, cast

from spooltop.errors import Unreadable
from spooltop.model.vocabulary import Box

from ..arguments import AfterClose, check_seconds
from ..dirs import SpoolDirs
from ..system.host import iterated_by
from ..system.syscalls import inotify_add_watch, inotify_init
from .consumer import Claim, Consumer

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


def _end_of(timeout: float | None) -> float:
    return float("inf") if timeout is None else time.monotonic() + timeout


# Waiting for a claim: in threads, in event loops, and until somebody calls ``wake``.

class ClaimWaiter:
    """Waits until ``consumer`` gets a claim. Threads share one watch of ``new``; every asynchronous iterator has its own.

    ``keep`` is an object that must live as long as the claim. After ``close`` every method but ``wake`` raises ``Closed``, also
    in threads that wait.
    """

    def __init__(self, dirs: SpoolDirs, consumer: Consumer, clock: Callable[[], float]) -> None:
        self._dirs = dirs
        self._consumer = consumer
        self._clock = clock
        self._shared: ArrivalWatch | None = None
        self._sharing = threading.Lock()
        self._own: weakref.WeakSet[ArrivalWatch] = weakref.WeakSet()

    def wait(self, timeout: float | None, keep: object) -> Claim | None:
        """Waits up to ``timeout`` seconds (None: for ever) for a claim. None if none came, or if ``wake`` was called."""
        check_seconds("timeout", timeout)
        with self._sharing:
            watch = self._shared
            if watch is None:
                watch = self._shared = ArrivalWatch(self._dirs.box(Box.NEW))
        wakes = watch.wakes
        ends = _end_of(timeout)
        while True:
            events = watch.events
            found = self._consumer.take(keep)  # after the watch began: what came before it is seen here
            if found is not None or watch.wakes != wakes:
                return found
            left = ends - time.monotonic()
            if left <= 0:
                self.check_boxes()
                return None
            watch.wait(min(left, self.due_in()), events)
            self.check_boxes()

    def iterate(self, timeout: float | None, keep: object) -> AsyncIterator[Claim]:
        """Yields claims in an event loop; ends if none came for ``timeout`` seconds (None: never), or after ``wake``."""
        check_seconds("timeout", timeout)
        forks, pid = self._consumer.forks, os.getpid()

        def take() -> Claim | None:
            if self._consumer.forks != forks:
                raise iterated_by(pid, self._dirs.path)
            return self._consumer.take(keep)

        return self._claims_in_loop(take, timeout)

    async def _claims_in_loop(self, take: Callable[[], Claim | None], timeout: float | None) -> AsyncIterator[Claim]:
        # A generator that is never iterated holds nothing: its watch begins at the first step, and is freed with the generator.
        watch = ArrivalWatch(self._dirs.box(Box.NEW))
        self._own.add(watch)
        ends = _end_of(timeout)
        wakes = watch.wakes
        while True:
            claim = take()
            if claim is not None:
                yield claim
                del claim  # one that the caller has dropped is not kept alive here
                ends = _end_of(timeout)
                continue
            left = ends - time.monotonic()
            if left <= 0 or watch.wakes != wakes:
                return
            await watch.wait_in_loop(min(left, self.due_in()))
            self.check_boxes()

    def due_in(self) -> float:
        """Returns the seconds until a delayed message may be claimed, infinity if there is none; if the spool is paused, those
        until it is checked again."""
        paused = self._consumer.pause_due_in()
        if paused is not None:
            return paused
        due = self._consumer.backlog.due()
        return float("inf") if due is None else max(0.0, due - self._clock())

    def check_boxes(self) -> None:
        """Raises ``Unreadable`` if a box was replaced by another directory."""
        if swapped := self._dirs.swapped():
            what = f"{swapped[0]} is now another directory or gone"
            raise Unreadable(what, path=self._dirs.path, advice="open the spool again")

    def wake(self) -> None:
        """Ends all waits now. Safe in a signal handler and in any thread."""
        for watch in (self._shared, *list(self._own)):
            if watch is not None:
                watch.wake()

    def close(self, gone: AfterClose) -> None:
        """Puts ``gone`` in place of the parts that are closed, and ends all waits."""
        self._dirs = self._consumer = cast("Any", gone)
        self.wake()
        with self._sharing:
            self._shared = None

    def forked(self) -> None:
        """Forgets the watch in a forked child: the descriptors of the parent would wake both."""
        self._sharing = threading.Lock()  # a thread of the parent may hold it
        if self._shared is not None:
            self._shared.close()
            self._shared = None
