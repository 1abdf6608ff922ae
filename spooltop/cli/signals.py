"""The signals of a worker: how they are heard while it waits, and sent to its commands."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["signal_group", "signal_name", "signals_heard", "wait_for_bell"]


def wait_for_bell(bell: int, timeout: float) -> None:
    """Until the bell rings, or ``timeout`` seconds went by."""
    if select.select([bell], [], [], timeout)[0]:
        os.read(bell, 4096)


def signal_group(pid: int, number: int) -> None:
    """To all of a process group, as far as it is still there."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return  # all of it has ended


def signal_name(number: int) -> str:
    """``SIGKILL``."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@contextmanager
def signals_heard(stop: Callable[[], None], wake: Callable[[], object], rope: int) -> Iterator[None]:
    """SIGTERM and SIGINT call ``stop``; these and the end of a child call ``wake`` and write to ``rope``.

    To the rope at once, by ``signal.set_wakeup_fd``: a handler runs between two steps of Python only, and a child that ends just
    before the wait begins would be heard of when the wait is over, an hour later.
    """

    def handle(number: int, frame: FrameType | None) -> None:
        if number != signal.SIGCHLD:
            stop()
        wake()

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)}
    pulled = signal.set_wakeup_fd(rope, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(pulled)
        for number, handler in before.items():
            signal.signal(number, handler)
