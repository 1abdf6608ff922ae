"""The end and the return of the dashboard: signals, a terminal that was closed, the lines printed on leaving."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
import termios
from collections.abc import Callable, Sequence
from selectors import DefaultSelector, SelectorKey

from spooltop.model import PAST, Action, Outcome, Result, printable


def catch_signals(leave: Callable[[int], object]) -> None:
    """Calls ``leave`` with 128 + the number on SIGTERM and SIGHUP, so that the terminal is restored."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, leave, 128 + number)


def require_descriptors(count: int = 8) -> None:
    """Raises ``OSError`` (EMFILE) where ``count`` descriptors cannot be had: the error of an event loop would not be understood.
    """
    had: list[int] = []
    try:
        while len(had) < count:
            had.append(os.dup(2))
    finally:
        for fd in had:
            os.close(fd)


def terminal_gone(fd: int = 2) -> bool:
    """True where the terminal was closed: SIGHUP does not always arrive."""
    try:
        termios.tcgetattr(fd)
        os.ttyname(fd)
    except (OSError, termios.error):
        return True
    return False


def silence_output() -> None:
    """Sends all further output nowhere: on a terminal that does not read, the first write would block."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(null, stream)
    os.close(null)


def shell(words: Sequence[str]) -> str:
    """Quotes words for a shell."""
    return printable(shlex.join(words))


_PAST = {**PAST, Action.UNDO: "undid", Action.UNLOCK: "removed stale"}


def goodbye(results: Sequence[Result]) -> list[str]:
    """The lines printed on leaving: one per operation, with the command that undoes it."""
    lines = []
    for result in results:
        words = f"{_PAST[result.action]} {result.count(Outcome.DONE):,}"
        for outcome in (Outcome.SKIPPED, Outcome.FAILED):
            if count := result.count(outcome):
                words += f", {outcome} {count:,}"
        if result.untried:
            words += f", not reached {result.untried:,}"
        undo = f"; undo: {shell(result.undo)}" if result.undo else ""
        lines.append(f"{printable(result.operation)}: {words}{undo}")
    return lines


LONG = 0.01
"""Seconds for which the thread that draws may go on while others wait: most of what a key takes."""
SHORT = 0.001
"""Seconds for which another thread may (Python's default: 0.005)."""


class _LongTurns(DefaultSelector):
    """Sets the length of a turn: the interpreter has one for all threads. Whoever waits for the interpreter applies it, so it is
    short from when the loop may have to wait."""

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        sys.setswitchinterval(SHORT)
        try:
            return super().select(timeout)
        finally:
            sys.setswitchinterval(LONG)


def event_loop() -> asyncio.AbstractEventLoop:
    """Makes the event loop of the dashboard."""
    return asyncio.SelectorEventLoop(_LongTurns())
