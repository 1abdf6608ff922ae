"""Waiting for a claim: in threads, in event loops, and until somebody calls ``wake``."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

from spooltop.errors import Unreadable
from spooltop.model.vocabulary import Box

from ..arguments import check_seconds
from ..closed import AfterClose
from ..dirs import SpoolDirs
from ..system.forks import iterated_by
from .claim import Claim
from .consumer import Consumer
from .waiting import ArrivalWatch

__all__ = ["ClaimWaiter"]


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
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            events = watch.events
            found = self._consumer.take(keep)  # after the watch began: what came before it is seen here
            if found is not None or watch.wakes != wakes:
                return found
            left = float("inf") if deadline is None else deadline - time.monotonic()
            if left <= 0:
                self.check_boxes()
                return None
            due = self.due_in()
            watch.wait(left if due is None else min(left, due), events)
            self.check_boxes()

    def iterate(self, timeout: float | None, keep: object) -> AsyncIterator[Claim]:
        """Yields claims in an event loop; ends if none came for ``timeout`` seconds (None: never), or after ``wake``."""
        from .aio import aclaims  # loads asyncio: only for those who use it

        check_seconds("timeout", timeout)
        forks, pid = self._consumer.forks, os.getpid()

        def take() -> Claim | None:
            if self._consumer.forks != forks:
                raise iterated_by(pid, self._dirs.path)
            return self._consumer.take(keep)

        return aclaims(self, take, timeout)

    def new_watch(self) -> ArrivalWatch:
        """Begins a watch of ``new`` for one iterator; it ends when nothing refers to it any more."""
        watch = ArrivalWatch(self._dirs.box(Box.NEW))
        self._own.add(watch)
        return watch

    def due_in(self) -> float | None:
        """Returns the seconds until a delayed message may be claimed, None if there is none; if the spool is paused, those until
        it is checked again."""
        paused = self._consumer.pause.due_in()
        if paused is not None:
            return paused
        due = self._consumer.backlog.due()
        return None if due is None else max(0.0, due - self._clock())

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
