"""Signals of a worker: receiving them while it waits, and sending them to its commands."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["signal_group", "signal_name", "signals_handled", "wait_for_wakeup"]


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
def signals_handled(stop: Callable[[], None], wake: Callable[[], object], wakeup_fd: int) -> Iterator[None]:
    """Lets SIGTERM and SIGINT call ``stop``; these and the end of a child call ``wake`` and write to ``wakeup_fd``.

    ``signal.set_wakeup_fd`` writes to ``wakeup_fd`` at once. A Python handler runs only between two steps of the interpreter:
    without the write, the end of a child just before the wait begins would be noticed only when the wait is over, an hour later.
    """

    def handle(number: int, frame: FrameType | None) -> None:
        if number != signal.SIGCHLD:
            stop()
        wake()

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)}
    pulled = signal.set_wakeup_fd(wakeup_fd, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(pulled)
        for number, handler in before.items():
            signal.signal(number, handler)
