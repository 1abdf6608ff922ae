"""Progress on one line of the terminal, for whatever takes longer than a second.

It is written to standard error, and only if that is a terminal: what a command prints is the same with and without it. The first
line comes after a second, then at most ten a second, and the line is gone before anything else is printed. It has no colour. The
cursor stays at its beginning: so it can be erased whole, even after a narrower window has wrapped it.
"""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from spooltop.model.units import cells, count, duration, rate
from spooltop.model.vocabulary import Closing, Row

from .terminal import Terminal

FIRST_AFTER = 1.0
EVERY = 0.1
_RATE_OVER = 5.0
"""Seconds over which the rate is taken: what comes next resembles what was last."""
_BAR = 20
_COUNTED = re.compile(r"([0-9,]+) of ([0-9,]+) (.+)")


class ProgressLine(Closing):
    """A line such as ``requeue ███░░░ 12,300 of 40,000 · 3,100/s · 9s left · Ctrl-C stops between two items``. ``hint`` is its
    end. With ``shown`` False it is never shown: where each item has a line of its own on the same terminal."""

    def __init__(
        self, terminal: Terminal, what: str, *, total: int | None = None, hint: str = "", shown: bool = True,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._terminal = terminal
        self._what = what
        self._total = total
        self._hint = hint
        self._monotonic = monotonic
        self._shown = shown and terminal.shows_progress
        self._began = monotonic()
        self._next = self._began + FIRST_AFTER
        self._painted = False
        self._steps = deque([(self._began, 0)])

    def due(self) -> bool:
        """True if it is time to paint the line: called often, and answered fast."""
        return self._shown and self._monotonic() >= self._next

    def _paint(self, parts: Sequence[str]) -> None:
        self._next = self._monotonic() + EVERY
        self._painted = True
        self._terminal.status(_fitted([*parts, self._hint], self._terminal.error_width))

    def advance(self, done: int, total: int | None = None, words: str = "") -> None:
        """``done`` of ``total`` items are done; ``words`` say what happens to them."""
        if not self.due():
            return
        now = self._monotonic()
        if done < self._steps[-1][1]:
            self._steps = deque([(now, done)])  # the next part of the work, which counts anew
        self._steps.append((now, done))
        while len(self._steps) > 2 and now - self._steps[1][0] > _RATE_OVER:
            self._steps.popleft()
        began, before = self._steps[0]
        speed = (done - before) / (now - began) if now > began else None
        self._total = total if total is not None else self._total
        width, ascii = self._terminal.error_width, self._terminal.ascii
        self._paint(progress_parts(self._what, done, self._total, speed, words=words, ascii=ascii, width=width))

    def tell(self, words: str) -> None:
        """Shows progress that comes in words: ``230,000 of 300,000 claims judged``. Other words are shown as they are."""
        if not self.due():
            return
        if found := _COUNTED.fullmatch(words):
            self.advance(int(found[1].replace(",", "")), int(found[2].replace(",", "")), found[3])
        else:
            self._paint([self._what, words])

    def share(self, share: float, words: str) -> None:
        """``share`` (0 to 1) of the work is done; ``words`` say what is being done."""
        if self.due():
            left = (self._monotonic() - self._began) * (1 - share) / share if share > 0 else None
            self._paint([f"{self._what} {_bar(share, self._terminal.ascii)} {share:.0%}", words, _left(left)])

    def advanced(self, share: float, rows: Sequence[Row], count: int) -> None:
        """Shows the progress of a list that is made, as ``model.backend.ListProgress``."""
        self.share(share, "")

    def close(self) -> None:
        """Erases the line. It may be painted again."""
        if self._painted:
            self._painted = False
            self._terminal.status("")


def progress_parts(
    what: str, done: int, total: int | None, speed: float | None, *, words: str, ascii: bool, width: int
) -> list[str]:  # fmt: skip
    """Parts of the line; the bar only where it fits into ``width`` cells.

    >>> progress_parts("hold", 500, 2000, 100.0, words="", ascii=True, width=80)
    ['hold [#####---------------] 500 of 2,000', '100/s', '15s left']
    """
    known = total if total is not None and total >= done > 0 else None
    counted = f"{count(done)} of {count(known)}" if known else count(done)
    counted += f" {words}" if words else ""
    barred = f"{what} {_bar(done / known, ascii)} {counted}" if known else ""
    head = barred if barred and cells(barred) < width else f"{what} {counted}"
    return [head, rate(speed) if speed else "", _left((known - done) / speed if known and speed else None)]


def _left(seconds: float | None) -> str:
    return "" if seconds is None else f"{duration(max(1.0, seconds))} left"


def _bar(share: float, ascii: bool) -> str:
    full = int(_BAR * share)
    return f"[{'#' * full}{'-' * (_BAR - full)}]" if ascii else f"{'█' * full}{'░' * (_BAR - full)}"


def _fitted(parts: Sequence[str], width: int) -> str:
    """Joins the parts, without what does not fit into ``width`` cells: first the hint goes, then the rest from its end."""
    kept = [part for part in parts if part]
    while len(kept) > 1 and cells(" · ".join(kept)) >= width:
        kept.pop()
    return " · ".join(kept)


@contextmanager
def while_waiting(terminal: Terminal, what: str, step: Callable[[], str] = str) -> Iterator[None]:
    """Shows ``what`` is waited for, its current ``step`` and for how long, while one call takes its time."""
    if not terminal.shows_progress:
        yield
        return
    ended = threading.Event()
    began = time.monotonic()

    def show() -> None:
        pause = FIRST_AFTER
        while not ended.wait(pause):
            pause = 5 * EVERY
            terminal.status(_fitted([what, step(), duration(time.monotonic() - began)], terminal.error_width))
        if pause != FIRST_AFTER:
            terminal.status("")

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
