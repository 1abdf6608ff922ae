"""Signals: of a worker, which receives them while it waits and sends them to its commands, and of what has to clean up."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


def wait_for_wakeup(pipe: int, timeout: float) -> None:
    """Waits until the pipe ``pipe`` is readable, at most ``timeout`` seconds."""
    if select.select([pipe], [], [], timeout)[0]:
        os.read(pipe, 4096)


def signal_group(pid: int, number: int) -> None:
    """Sends a signal to all processes of a process group that still exist."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return  # all of it has ended


def signal_name(number: int) -> str:
    """Returns the name of a signal: ``SIGKILL``."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@contextmanager
def signals_to(handler: Callable[[int], None], *numbers: int, once: bool = False) -> Iterator[None]:
    """Lets the signals ``numbers`` call ``handler``; with ``once`` only the first of each. In a thread nothing changes: only the
    main thread receives signals."""
    before: dict[int, Any] = {}

    def handle(number: int, frame: FrameType | None) -> None:
        if once:
            signal.signal(number, before[number])
        handler(number)

    try:
        for number in numbers:
            before[number] = signal.getsignal(number)
            signal.signal(number, handle)
    except ValueError:
        before = {}  # only the main thread may set them
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


@contextmanager
def signals_handled(stop: Callable[[], None], wake: Callable[[], object], wakeup_fd: int) -> Iterator[None]:
    """Lets SIGTERM and SIGINT call ``stop``; these and the end of a child call ``wake`` and write to ``wakeup_fd``.

    ``signal.set_wakeup_fd`` writes to ``wakeup_fd`` at once. A Python handler runs only between two steps of the interpreter:
    without the write, the end of a child just before the wait begins would be noticed only when the wait is over, an hour later.
    """

    def handle(number: int) -> None:
        if number != signal.SIGCHLD:
            stop()
        wake()

    with signals_to(handle, signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
        pulled = signal.set_wakeup_fd(wakeup_fd, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(pulled)


@contextmanager
def interrupted_by_signals() -> Iterator[list[int]]:
    """Lets SIGINT, SIGTERM and SIGHUP raise ``KeyboardInterrupt`` once, so that everything is cleaned up; the next ones are
    ignored until that is done."""
    received: list[int] = []
    which = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def stop(number: int) -> None:
        received.append(number)
        for one in which:
            signal.signal(one, signal.SIG_IGN)
        raise KeyboardInterrupt

    with signals_to(stop, *which):
        yield received
