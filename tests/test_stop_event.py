"""An event that a thread awaits together with descriptors."""

from __future__ import annotations

import os
import select
import threading
from contextlib import suppress

from spooltop.stop_event import StopEvent


def readable(event: StopEvent, seconds: float = 0.0) -> bool:
    return bool(select.select((event,), (), (), seconds)[0])


def test_a_thread_that_waits_wakes_when_it_is_set_and_not_after_it_was_cleared() -> None:
    event, woken = StopEvent(), threading.Event()
    waiting = threading.Thread(target=lambda: readable(event, 60.0) and woken.set())
    assert not readable(event)
    waiting.start()
    event.set()
    waiting.join(20)
    event.set()
    assert woken.is_set() and event.is_set() and readable(event)
    event.clear()
    assert not event.is_set() and not readable(event)
    event.set()  # before anybody waits
    assert readable(event)
    event.release()


def test_its_descriptors_are_closed() -> None:
    def ends(pipe: int) -> int:
        """The number of descriptors of this process that are ends of this pipe."""
        found = 0
        for fd in os.listdir("/proc/self/fd"):
            with suppress(FileNotFoundError):  # the one of the listing itself
                found += os.readlink(f"/proc/self/fd/{fd}") == f"pipe:[{pipe}]"
        return found

    event = StopEvent()
    pipe = os.fstat(event.fileno()).st_ino
    assert ends(pipe) == 2
    event.set()
    assert ends(pipe) == 1
    event.clear()
    assert ends(pipe) == 0
    event.release()
