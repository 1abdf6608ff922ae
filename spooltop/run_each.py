"""Calls a function for each of several things where a call may hang for ever, as on a server that is gone."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

__all__ = ["run_each"]

T = TypeVar("T")
R = TypeVar("R")


def run_each(things: Sequence[T], call: Callable[[T], R], patience: float, *, at_once: bool = False) -> list[R | None]:
    """Returns the result of ``call`` for each, None where it did not return within ``patience`` seconds. ``call`` must not raise.

    One thread makes all calls, one after the other. A call that hangs keeps that thread, and another one goes on with the rest.
    With ``at_once``, for calls that wait, each has a thread of its own.
    """
    results: list[R | None] = [None] * len(things)
    left = deque(range(len(things)))
    begun: list[int] = []

    def run() -> None:
        while left:
            try:
                place = left.popleft()
            except IndexError:
                return  # another thread took the last one
            begun.append(place)
            results[place] = call(things[place])

    def start() -> threading.Thread:
        thread = threading.Thread(target=run, name="run each", daemon=True)
        thread.start()
        return thread

    if at_once:
        end = time.monotonic() + patience
        for thread in [start() for _ in things]:
            thread.join(max(0.0, end - time.monotonic()))
        return list(results)
    while left:
        thread, before = start(), -1
        while thread.is_alive() and len(begun) != before:
            before = len(begun)
            thread.join(patience)
    return list(results)
